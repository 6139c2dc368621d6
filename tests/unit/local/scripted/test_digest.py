"""The scripted model in the layout `journal`: it reads the digest like a timeline, and stages what it wants to see."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from stepline.local.scripted.policy import LAST_ROUND
from stepline.model.entry import Closed, Decided, Resulted
from stepline.model.file.attachment import Attachment, attachment_key
from tests.support.conversation import LANE
from tests.support.files import PNG, picture
from tests.support.script import look_closely
from tests.unit.local.scripted.scripted_conversation import ScriptedConversation

SKILL = "public.research"
LOOK = look_closely("chart.png", "sales.csv", skills=(SKILL,))


class JournalChat(ScriptedConversation):
    """A conversation with the scripted model whose rounds read the journal."""

    def __init__(self, *said: str, **settings: Any) -> None:
        super().__init__(*said, AI_REACT_CONTEXT_LAYOUT="journal", **settings)

    def picture(self) -> Attachment:
        data = picture()
        sha256 = hashlib.sha256(data).hexdigest()
        self.ports.artifacts.put(attachment_key(LANE, sha256), data, mime=PNG)
        return Attachment(filename="chart.png", mime=PNG, size_bytes=len(data), sha256=sha256)

    def show(self, text: str) -> str:
        """Send a picture with a message; return the answer."""
        self.hear(text=text, attachments=(self.picture(),))
        self.run()
        answer: str = self.entries(Closed)[-1].answer
        return answer

    def text_of(self, name: str) -> str:
        """Return the newest file of a name that a call wrote."""
        blocks = [block for result in self.entries(Resulted) for block in result.blocks]
        block = next(block for block in reversed(blocks) if block.path.endswith(f"/{name}"))
        return block.text or self.ports.artifacts.get(block.body.key).decode()


def test_a_picture_a_table_and_a_skill_are_staged_and_seen_in_one_round_and_the_last_one_answers():
    chat = JournalChat(AI_REACT_MAX_ITERATIONS="3")
    chat.show("Write a CSV of sales over two months to sales.csv.")
    answer = chat.say(LOOK)
    plan, seen, answered = chat.entries(Decided)[-3:]
    assert [path.rpartition("/")[2] for path in plan.show_artifacts] == ["chart.png", "sales.csv"]
    assert (plan.show_skills, seen.show_artifacts) == ((SKILL,), ())
    text = chat.text_of("seen.md")
    assert "chart.png: attached" in text
    assert "sales.csv: date,region,units,amount" in text
    assert f"sk:{SKILL}: ## Skill: " in text
    assert answered.iteration == 2
    assert "outputs/seen.md" in answer


def test_without_a_staged_content_there_is_nothing_to_see():
    chat = JournalChat()
    chat.say(look_closely("none.png"))
    text = chat.text_of("seen.md")
    assert "none.png: not shown: not_found" in text
    assert "attached" not in text


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (
            "Make a plan with three steps, write it to a file with the word tulip in it and read it back.",
            "tulip",
        ),
        ("Search for prompt caching and tell me what you find.", "prompt caching"),
        ("Write a file note.md with grey herons and read it back.", "grey herons"),
        ("Compute the monthly totals of sales.csv and draw a chart.", "I see no file"),
        ("What did I say before?", "Hello there"),
        ("Hello there.", "I have no rule for `Hello there.`"),
    ],
)
def test_requests_of_a_timeline_are_understood_in_a_journal(request_: str, said: str):
    assert said in JournalChat("Hello there.").say(request_)


def test_a_program_finds_the_table_of_an_earlier_turn():
    chat = JournalChat("Write a CSV of sales over two months to sales.csv.")
    answer = chat.say("Compute the monthly totals of sales.csv and draw a chart.")
    assert "| 2026-01 | 12.50 |" in answer


def test_a_followup_is_answered_in_the_same_turn():
    chat = JournalChat()
    answer = chat.say("Hello there.", "Write a file lake.md with the word reed in it.")
    assert "lake.md" in answer


def test_in_the_last_round_it_stops():
    chat = JournalChat(AI_REACT_MAX_ITERATIONS="2")
    answer = chat.say(
        "Make a plan with three steps, write it to a file with the word tulip in it and read it back."
    )
    assert LAST_ROUND in answer


def test_in_the_layout_timeline_the_same_request_shows_nothing_in_full():
    chat = ScriptedConversation()
    chat.say(look_closely("none.png"))
    assert [entry.show_artifacts for entry in chat.entries(Decided)] == [()] * 3
