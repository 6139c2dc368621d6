"""Recorded turns run again: equal in every request and decision, and different where something was changed."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from msgspec import structs

from stepline.adapters.memory.artifacts import MemoryArtifacts
from stepline.adapters.memory.model import MemoryProvider, Say
from stepline.context import announce
from stepline.errors import DecisionError, InputError, NotFoundError
from stepline.model.entry import Decided
from stepline.model.ids import Lane
from stepline.protocol.decision import read
from stepline.protocol.parser import channel_parser
from stepline.replay.load_record import load_record
from stepline.replay.recorded_turn import find_turns
from stepline.replay.replay_turn import make_replay_agent, replay_turns
from stepline.replay.turn_report import TurnReport
from stepline.settings import Settings
from stepline.tools.context import ToolContext, ToolOutput
from tests.support.budget import budget
from tests.support.conversation import LANE, Conversation, tool
from tests.support.generation import answered, called, said
from tests.support.recorded_talk import KINDS, replayer, talks

PAY, LOOK = "bank.pay", "bank.look"


def replayed(conversation: Conversation, *turns: str, **choices: Any) -> list[TurnReport]:
    artifacts = conversation.ports.artifacts
    batches = load_record(conversation.log, artifacts, LANE)
    return [*replay_turns(find_turns(LANE, batches, turns), replayer(conversation, **choices), artifacts)]


def different(reports: list[TurnReport]) -> list[str]:
    return [report.where for report in reports if report.outcome != "equal"]


def talk(*script: str) -> Conversation:
    conversation = Conversation(*(script or (called("react.read", {"paths": ["fi:x"]}), answered("Done."))))
    conversation.send("what is new?")
    conversation.run()
    return conversation


@pytest.mark.parametrize("seed", range(budget(1, 12)))
def test_turns_of_every_kind_replay_equal_in_requests_and_decisions(seed: int) -> None:
    drawn = talks(Random(seed))
    for _ in KINDS:
        assert different(replayed(next(drawn))) == []


def test_a_replay_leaves_its_record_as_it_is() -> None:
    conversation = talk()
    log, objects = conversation.batches(), dict(conversation.ports.artifacts.objects)  # type: ignore[attr-defined]  # the memory twin
    (report,) = replayed(conversation)
    assert (conversation.batches(), conversation.ports.artifacts.objects) == (log, objects)  # type: ignore[attr-defined]  # as above
    assert (report.asked, report.recorded) == (0, report.replayed)


def test_a_changed_prompt_names_the_turn_the_round_and_the_text() -> None:
    conversation = talk()
    conversation.agent = replace(conversation.agent, system=f"{conversation.agent.system} Be brief.")
    (report,) = replayed(conversation)
    assert report.outcome == "diverged"
    assert report.where.startswith(
        f"{report.turn_id}, round 0: another request, first in system at character "
    )


def test_another_text_of_a_rule_diverges_in_the_round_that_shows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    conversation = talk()
    whole = announce.announce
    monkeypatch.setattr(
        "stepline.loop.stream_generation.announce", lambda *args: whole(*args).replace("1", "2")
    )
    (report,) = replayed(conversation)
    assert "round 0: another request, first in announce" in report.where


def test_a_changed_parser_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    conversation = talk()
    bodies = channel_parser.Transcript.bodies
    monkeypatch.setattr(
        channel_parser.Transcript, "bodies", lambda self, name: tuple(one[:-1] for one in bodies(self, name))
    )
    assert different(replayed(conversation)) != []


def test_a_changed_renderer_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    conversation = talk()
    monkeypatch.setattr("stepline.ports.model.Part.raw", property(lambda self: self.text.strip().encode()))
    assert different(replayed(conversation)) != []


def test_a_changed_validator_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    conversation = talk()

    def refuse(*_: object) -> None:
        raise DecisionError("no call is valid", code="bad_params")

    monkeypatch.setattr(read, "check_call", refuse)
    (report,) = replayed(conversation)
    assert report.outcome == "diverged"
    assert "accepted" in report.rounds[0].differs


def test_a_model_is_asked_about_every_decision_and_both_answers_are_shown() -> None:
    conversation = talk(answered("One."))
    model = MemoryProvider(Say(text=answered("Two.")))
    (report,) = replayed(conversation, model=model, asks_always=True)
    assert (report.outcome, report.asked) == ("differs", 1)
    assert (report.answer_recorded, report.answer_replayed) == ("One.", "Two.")
    assert report.where == f"{report.turn_id}, round 0: another answer"


def banking(ran: list[str]) -> Conversation:
    conversation = Conversation(called(PAY), answered("Paid."))

    def note(tool_id: str) -> Any:
        def run(context: ToolContext) -> ToolOutput:
            ran.append(tool_id)
            return ToolOutput(blocks=(context.result(tool_id, "ran"),))

        return run

    conversation.use(tool(PAY, "once", note(PAY)), tool(LOOK, "pure", note(LOOK)))
    conversation.send("pay")
    conversation.run()
    ran.clear()
    return conversation


@pytest.mark.parametrize(
    ("asked", "runs_tools", "runs"),
    [(PAY, True, []), (LOOK, False, []), (LOOK, True, [LOOK])],
)
def test_a_call_that_the_record_lacks_runs_only_by_choice_and_never_with_the_effect_once(
    asked: str, *, runs_tools: bool, runs: list[str]
) -> None:
    ran: list[str] = []
    conversation = banking(ran)
    first = called(PAY) if asked == LOOK else called(PAY, {})
    script = [first, called(asked), answered("Done.")]
    model = MemoryProvider(*[Say(text=text) for text in script])
    (report,) = replayed(conversation, model=model, asks_always=True, runs_tools=runs_tools)
    assert ran == runs
    assert report.answer_replayed == "Done."


def test_a_generation_that_was_corrected_replays_from_its_own_text() -> None:
    mended = said('{"action": "complete", "final_answer": "It is "that" one."}')
    conversation = talk(mended)
    (decision,) = conversation.entries(Decided)
    assert (decision.generation, bool(decision.notices)) == (mended, True)
    assert different(replayed(conversation)) == []


def test_a_generation_without_corrections_is_not_stored_again() -> None:
    assert [decision.generation for decision in talk().entries(Decided)] == ["", ""]


def code_of(call: Any, *args: Any) -> str:
    with pytest.raises((InputError, NotFoundError)) as caught:
        call(*args)
    return caught.value.reason


def test_turns_that_cannot_be_replayed_are_refused_with_a_code() -> None:
    conversation = talk()
    batches = conversation.batches()
    assert code_of(find_turns, LANE, batches, ["turn_none"]) == "turn_not_found"
    assert code_of(find_turns, LANE, batches, ["2"]) == "turn_not_found"
    assert code_of(find_turns, LANE, batches[:-1], ["1"]) == "turn_open"
    old = [structs.replace(batch, entries=tuple(map(without_facts, batch.entries))) for batch in batches]
    assert code_of(find_turns, LANE, old, ["1"]) == "turn_not_recorded"
    assert code_of(find_turns, LANE, old) == "turn_not_recorded"


def without_facts(entry: Any) -> Any:
    return structs.replace(entry, sent=None) if isinstance(entry, Decided) else entry


def test_a_record_whose_text_is_gone_names_its_batch() -> None:
    conversation = Conversation(answered("A long answer. " * 4_000))
    conversation.send("say it all")
    conversation.run()
    assert code_of(load_record, conversation.log, MemoryArtifacts(), LANE) == "record_incomplete"


def test_a_log_without_its_first_batches_and_one_that_does_not_exist_are_refused() -> None:
    conversation = talk()
    artifacts = conversation.ports.artifacts
    assert code_of(load_record, conversation.log, artifacts, replace_name("c-none")) == "not_found"
    conversation.log.batches[LANE.key()][0] = None
    assert code_of(load_record, conversation.log, artifacts, LANE) == "record_incomplete"


def replace_name(conversation: str) -> Lane:
    return structs.replace(LANE, conversation=conversation)


def test_a_prompt_whose_text_is_gone_is_named_with_its_round() -> None:
    conversation = talk()
    conversation.agent = replace(conversation.agent, system="Another.")
    turns = find_turns(LANE, conversation.batches())
    with pytest.raises(InputError, match="round 0, batch 2: a text of the record is gone") as caught:
        list(replay_turns(turns, replayer(conversation), MemoryArtifacts()))
    assert caught.value.reason == "record_incomplete"


def test_a_bundle_that_is_gone_is_refused_before_anything_runs() -> None:
    settings = Settings.from_env({"STEPLINE_BUNDLE": "bundles.gone"})
    assert code_of(make_replay_agent, settings) == "bundle_not_found"
