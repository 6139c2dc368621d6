"""bundles/docs on the stage, beside its default bundle: a question is answered from a page, and the citation resolves."""

from __future__ import annotations

import json

import pytest

from bundles.docs import WORKFLOW
from tests.e2e.order import events
from tests.e2e.stage import answer_of
from tests.unit.docs.source import DOCS

pytestmark = pytest.mark.emulator

ASKED = "What does the cost page say about idle cost?"
PATH = "ks:docs/reference/cost.md"


def test_a_question_is_answered_with_a_citation_that_resolves(scripted, conversation):
    lines = scripted.send(ASKED, conversation, "--bundle", "docs")
    assert f'({PATH} "S:' in answer_of(lines)
    (citations,) = events(lines, "chat.citations")
    (cited,) = citations["data"]["items"]
    assert (cited["path"], cited["url"]) == (PATH, "")
    lines = scripted.send(f"Read {cited['path']}", conversation)
    assert "What it costs" in answer_of(lines)
    assert WORKFLOW.knowledge.read(PATH)["text"] == (DOCS / "reference/cost.md").read_text()
    assert {batch["state"]["bundle"] for batch in scripted.log(conversation)} == {"docs"}


def test_a_person_sees_the_path_under_the_answer(scripted, conversation):
    words = (
        "send",
        ASKED,
        "--bundle",
        "docs",
        "--conversation",
        conversation,
        "--new",
        "--user",
        scripted.user,
    )
    (line,) = [line for line in scripted.command(*words).stdout.splitlines() if line.startswith("[")]
    assert line.endswith(f" What it costs — {PATH}")


def test_the_first_message_chooses_and_a_later_one_cannot(scripted, conversation):
    assert "ks:" not in answer_of(scripted.send("Hello.", conversation))
    for name, code in {"docs": "another_bundle", "unheard-of": "another_bundle"}.items():
        done = scripted.command(
            *(
                "send",
                ASKED,
                "--bundle",
                name,
                "--conversation",
                conversation,
                "--user",
                scripted.user,
                "--json",
            ),
            check=False,
        )
        assert (done.returncode, json.loads(done.stderr)["code"]) == (1, code)
    done = scripted.command("send", ASKED, "--bundle", "unheard-of", "--json", check=False)
    assert (done.returncode, json.loads(done.stderr)["code"]) == (1, "unknown_bundle")
    assert len(scripted.entries(conversation, "in")) == 1
