"""Several actions in one round, searching and citing, and mistakes on request."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import structs

from stepline.context.announce import render_pool
from stepline.local.scripted.policy import answer_prompt, answer_view
from stepline.local.scripted.prompt import Prompt, PromptBlock
from stepline.local.scripted.reading import parse_view
from stepline.local.scripted.slip import BAD_PREFIX, UNESCAPED
from stepline.model.block import Produced
from stepline.model.decision import Action, Notice
from stepline.model.entry import Resulted
from stepline.model.source import Source
from stepline.protocol.parser.channel import read_channels
from stepline.protocol.parser.transcript import Transcript
from tests.unit.timeline.words import render_decision, render_result

from .desk import AT, Desk

TOGETHER = (
    "Write a file lake.md with the word <reed-7> in it, read older.md and make two plans with three steps each, "
    "all in one round."
)
HITS = [
    {
        "sid": 4,
        "title": "Prompt caching",
        "url": "https://example.com/a",
        "text": "A prefix is kept. It costs.",
    },
    {"sid": 7, "title": "Cheap rounds", "url": "https://example.com/b", "text": "Only the end changes"},
]


class Table(Desk):
    """A desk whose rounds may hold several decisions; of a search, `hits` come back."""

    def __init__(self, *said: str, several: bool = True) -> None:
        super().__init__()
        self.hits: list[dict[str, Any]] = HITS
        self.several = several
        self.tools = (*self.tools, "web_tools.web_search")
        for text in said:
            self.say(text)

    def read(self) -> Transcript:
        view = parse_view(self.prompt())
        return read_channels(answer_view(view, self.tools, several=self.several))

    def decide(self) -> list[dict[str, Any]]:
        """Return the decisions of the next round, in order."""
        bodies = self.read().bodies("ReactDecisionOutV2")
        return [json.loads(body.strip().removeprefix("```json").removesuffix("```")) for body in bodies]

    def settle(self, decisions: list[dict[str, Any]], *notices: Notice) -> None:
        """Run the calls of a round, whose other decisions were refused with these notices."""
        calls = [decision["tool_call"] for decision in decisions]
        actions = tuple(
            Action(
                call_id=f"tc_{self.turns}{self.rounds:05d}{n:06d}",
                tool_id=call["tool_id"],
                params=call["params"],
            )
            for n, call in enumerate(calls)
        )
        decided = self._decided(actions=actions, notices=notices)
        self.text += render_decision(decided, self.turn, attempt=0, unseen=())
        for n, action in enumerate(actions):
            result = Resulted(
                call_id=action.call_id,
                tool_id=action.tool_id,
                iteration=self.rounds,
                status="ok",
                at=AT,
                blocks=self._effect(action.tool_id, action.params, action.call_id),
            )
            self.text += render_result(result, self.turn, last=n + 1 == len(actions))
        self.calls += calls
        self.rounds += 1

    def finish(self) -> str:
        """Run all rounds to the end; return the answer."""
        for _ in range(8):
            decisions = self.decide()
            if decisions[-1]["action"] == "complete":
                return str(decisions[-1]["final_answer"])
            self.settle(decisions)
        raise AssertionError("the model did not come to an end")

    def _effect(self, tool: str, params: dict[str, Any], call_id: str) -> tuple[Produced, ...]:
        if tool != "web_tools.web_search":
            return super()._effect(tool, params, call_id)
        return (self._block(f"tc:{self.turn}.{call_id}.result", json.dumps({"results": self.hits})),)


def tools_of(decisions: list[dict[str, Any]]) -> list[str]:
    return [decision["tool_call"]["tool_id"] for decision in decisions]


@pytest.fixture
def table() -> Table:
    """A table at whose first turn a file was written."""
    made = Table("write a file older.md with grey herons")
    made.finish()
    return made


def test_what_is_asked_for_in_one_round_comes_in_one_round_in_the_order_of_the_words(table: Table) -> None:
    first = table.turn
    table.say(TOGETHER)
    decisions = table.decide()
    assert tools_of(decisions) == ["react.write", "react.read", "react.plan", "react.plan"]
    write, read, plan, other = (decision["tool_call"]["params"] for decision in decisions)
    assert (write["path"], "reed-7" in write["content"]) == ("lake.md", True)
    assert read == {"paths": [f"fi:{first}.outputs/older.md"]}
    assert [len(plan["steps"]), len(other["steps"])] == [3, 3]
    assert plan["steps"] != other["steps"]
    answer = table.finish()
    assert "grey herons" in answer
    assert "lake.md" in answer
    assert all(step in answer for step in (*plan["steps"], *other["steps"]))
    assert len(table.calls) == 5


@pytest.mark.parametrize(
    ("words", "tools"),
    [
        (
            "Make a plan with three steps, write it to a file with the word tea in it and read an older file in one round",
            ["react.plan", "react.write", "react.read"],
        ),
        (
            "Read older.md and then write a file b.md with the word tea in it, in one round",
            ["react.read", "react.write"],
        ),
        (
            "Search for herons and read older.md in a single response.",
            ["web_tools.web_search", "react.read"],
        ),
        (
            "Write a file b.md with the word tea in it and run this program, in one round:\n```python\n1\n```",
            ["react.write", "exec_tools.execute_code_python"],
        ),
    ],
)
def test_the_words_choose_what_goes_together(table: Table, words: str, tools: list[str]) -> None:
    table.say(words)
    assert tools_of(table.decide()) == tools


def test_what_needs_a_result_of_the_same_round_waits_for_it() -> None:
    table = Table("Search for herons, write what you find to a file h.md and read it back, in one round.")
    decisions = table.decide()
    assert tools_of(decisions) == ["web_tools.web_search"]
    table.settle(decisions)
    assert tools_of(table.decide()) == ["react.write"]


def test_a_program_stands_behind_its_own_decision(table: Table) -> None:
    table.say(
        "Run this program in one round and write a file b.md with the word tea in it:\n```python\nprint(1)\n```"
    )
    order = [(one.channel, one.raw) for one in table.read().instances]
    channels = [channel for channel, _ in order]
    assert channels == ["thinking", "ReactDecisionOutV2", "code", "ReactDecisionOutV2"]
    assert order[2] == ("code", "print(1)")


def test_plans_stand_beside_the_answer_if_nothing_else_is_open() -> None:
    table = Table("Make two plans with two steps each, in one round.")
    plan, other, answer = table.decide()
    assert tools_of([plan, other]) == ["react.plan", "react.plan"]
    assert answer["action"] == "complete"
    for step in (*plan["tool_call"]["params"]["steps"], *other["tool_call"]["params"]["steps"]):
        assert step in answer["final_answer"]
    assert table.read().bodies("summary")


def test_where_one_action_is_allowed_it_sends_one(table: Table) -> None:
    table.several = False
    table.say(TOGETHER)
    assert tools_of(table.decide()) == ["react.write"]
    assert "grey herons" in table.finish()


def test_who_insists_gets_several_even_so(table: Table) -> None:
    table.several = False
    table.say(f"{TOGETHER} Even if you may not.")
    assert len(table.decide()) == 4


def test_what_was_refused_in_a_round_of_several_is_done_alone(table: Table) -> None:
    table.say("Read older.md and then write a file b.md with the word tea in it, in one round.")
    read, write = table.decide()
    refusal = Notice(code="multi_action_bundle_strategy_incompatible", message="Action 2 was not run.")
    table.settle([read], refusal)
    assert table.decide() == [write]
    assert "b.md" in table.finish()


def test_after_a_violation_it_goes_one_by_one(table: Table) -> None:
    table.say(TOGETHER)
    table.violate()
    assert tools_of(table.decide()) == ["react.write"]


def test_an_older_file_that_does_not_exist_is_said_so() -> None:
    assert "no file of an earlier turn" in Table("Read an older file in one round.").finish()


def test_it_searches_and_cites_what_came_back() -> None:
    table = Table("Search for prompt caching and tell me what you find.")
    answer = table.finish()
    assert table.calls[0]["tool_id"] == "web_tools.web_search"
    assert table.calls[0]["params"]["queries"] == ["prompt caching"]
    assert "“A prefix is kept.” [[S:4]]" in answer
    assert "“Only the end changes” [[S:7]]" in answer
    assert "[[S:4,7]]" in answer


def test_what_it_finds_can_be_written_with_its_sources() -> None:
    table = Table("Search for prompt caching and write what you find to a file cache.md")
    table.finish()
    search, write = table.calls
    assert search["params"]["queries"] == ["prompt caching"]
    assert (write["params"]["path"], "[[S:4]]" in write["params"]["content"]) == ("cache.md", True)


def test_a_search_without_a_result_cites_nothing() -> None:
    table = Table("Look up unicorns.")
    table.hits = []
    answer = table.finish()
    assert "found nothing" in answer
    assert "[[S:" not in answer


def test_who_cannot_search_says_so() -> None:
    table = Table("Search for prompt caching.")
    table.tools = ("react.read",)
    assert "Searching is not available" in table.finish()


def test_the_pool_of_sources_is_no_part_of_what_was_said() -> None:
    table = Table("What is a heron?")
    pool = render_pool({1: Source(sid=1, title="Herons", url="https://example.com", text="A bird.")})
    prompt = table.prompt().replace("\n╔══ ANNOUNCE", f"\n{pool}\n╔══ ANNOUNCE")
    assert "example.com" in prompt
    assert parse_view(prompt) == parse_view(table.prompt())


def test_it_breaks_the_protocol_once_if_asked_to() -> None:
    table = Table("Break the protocol and write a file a.md with one")
    assert table.read().preamble == BAD_PREFIX.strip()
    table.violate()
    assert table.read().preamble == ""
    assert "a.md" in table.finish()


def test_it_forgets_to_escape_quotes_if_asked_to() -> None:
    table = Table("Tell me a word and forget to escape the quotes.")
    (body,) = table.read().bodies("ReactDecisionOutV2")
    assert UNESCAPED in body
    with pytest.raises(ValueError, match="delimiter"):
        table.decide()


def test_the_instructions_say_whether_several_actions_are_allowed() -> None:
    table = Table(TOGETHER)
    block = PromptBlock(identity="x", text="", tokens=2)
    prompt = Prompt(
        model="m",
        max_tokens=100,
        stream=False,
        blocks=(block,),
        system="ReactDecisionOutV2. One action a round.",
        messages=(("user", table.prompt()),),
    )
    one = read_channels(answer_prompt(prompt))
    assert len(one.bodies("ReactDecisionOutV2")) == 1
    several = structs.replace(prompt, system="ReactDecisionOutV2. Several actions a round are allowed.")
    assert len(read_channels(answer_prompt(several)).bodies("ReactDecisionOutV2")) == 4
