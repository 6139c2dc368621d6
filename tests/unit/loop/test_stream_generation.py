"""One generation from the model's stream to the relay: the events of lanes, and the early end of a call."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from stepline.adapters.memory.model import Fail, MemoryModelClient, Say
from stepline.errors import ModelOverloaded, ModelStreamBroken, SteplineError
from stepline.log.journal import Journal
from stepline.loop.attempt import Attempt
from stepline.loop.stream_generation import Heard, listen
from stepline.model.ids import call_id
from stepline.model.source import Citation
from stepline.model.wire.event import CONTROL_LANE, DeltaFrame
from stepline.ports.model import ModelRequest, Part
from stepline.protocol.decision.fanout import FanoutRule
from stepline.protocol.decision.round_rules import RoundRules
from stepline.protocol.stream.lane import LaneClosed, LaneOpened
from tests.support.conversation import LANE, Conversation, of
from tests.support.generation import PROGRAM, answered, called, coded, said, start_tag

WRITE = called("react.write", {"path": "outputs/a.md", "channel": "canvas", "content": "A file."}, notes="n")
SECOND = said({"action": "complete", "final_answer": "Never shown."}, thinking="And").partition("\n")[2]


class HeardGeneration:
    """A round of a conversation, with a listener at the relay."""

    def __init__(self, *script: Any, **rules: Any) -> None:
        self.conversation = Conversation()
        self.conversation.programs(lambda _job: pytest.fail("nothing runs here"))
        self.conversation.send("go")
        self.inbox = self.conversation.listen()
        self.model = MemoryModelClient(*script)
        self.rules = rules

    def listen(self) -> Heard:
        step, agent = self.conversation.now(), self.conversation.agent
        known: dict[str, Any] = {
            "tools": agent.tools,
            "allowed": agent.callable_ids,
            "call_id": lambda index: call_id(step.turn, 0, index),
            "turn": step.turn,
        }
        rules = RoundRules(**{**known, **self.rules})
        request = ModelRequest(role="r", system=(Part(text="s"),), content=(), max_tokens=20_000)
        conversation = self.conversation
        attempt = Attempt(
            ports=conversation.ports,
            agent=agent,
            history=conversation.history,
            journal=Journal(conversation.ports, LANE, "listen"),
            step=step,
            model=self.model,
            claim=1,
        )
        return listen(attempt, request, rules, began=conversation.ports.clock.now())

    def pushed(self) -> list[tuple[str, str]]:
        """Return the sent pieces of the stream, lane and text, in order."""
        return [(frame.lane, frame.text) for frame in of(DeltaFrame, self.inbox)]

    def texts(self) -> dict[str, str]:
        found: dict[str, str] = {}
        for lane, text in self.pushed():
            found[lane] = found.get(lane, "") + text
        found.pop(CONTROL_LANE, None)
        return found

    def announced(self) -> list[LaneOpened | LaneClosed]:
        lines = "".join(text for lane, text in self.pushed() if lane == CONTROL_LANE).splitlines()
        return [msgspec.json.decode(line, type=LaneOpened | LaneClosed) for line in lines]

    def ends(self) -> dict[str, str]:
        return {event.lane: event.aborted for event in self.announced() if isinstance(event, LaneClosed)}

    def check(self) -> None:
        """Assert that every lane was announced before its text, and its end with its length."""
        texts, events = self.texts(), self.announced()
        opened = [event.lane for event in events if isinstance(event, LaneOpened)]
        closed = {event.lane: event.chars for event in events if isinstance(event, LaneClosed)}
        assert sorted(opened) == sorted(closed) == sorted(texts)
        assert closed == {lane: len(text) for lane, text in texts.items()}
        known: set[str] = set()
        for lane, text in self.pushed():
            if lane == CONTROL_LANE:
                event = msgspec.json.decode(text, type=LaneOpened | LaneClosed)
                known.add(event.lane)
            else:
                assert lane in known


@pytest.mark.parametrize("piece_chars", [1, 8, 10_000])
def test_every_lane_is_announced_before_its_text_and_closed_with_its_length(piece_chars: int) -> None:
    generation = HeardGeneration(Say(text=coded("print(1)", "a.csv", notes="sum"), piece_chars=piece_chars))
    heard = generation.listen()
    generation.check()
    assert list(generation.texts()) == [
        "thinking.0",
        "exec.0.status",
        "notes.0",
        "exec.0.objective",
        "exec.0.contract",
        "code.0",
    ]
    assert (heard.stopped, heard.answer, heard.completion.stop_reason) == ("", "", "end_turn")


def test_the_streamed_answer_equals_the_written_one() -> None:
    source = Citation(sid=1, title="One", url="https://example.com/1")
    generation = HeardGeneration(answered("See [[S:1]]."), sources={1: source})
    assert generation.listen().answer == "See [[S:1]]."
    assert generation.texts()["answer.0"] == 'See [One](https://example.com/1 "S:1").'


@pytest.mark.parametrize("error", [ModelOverloaded("busy"), ModelStreamBroken("gone", code="stream_cut")])
def test_every_lane_is_closed_before_a_model_failure_is_raised(
    error: SteplineError,
) -> None:
    for after in range(0, len(WRITE), 7):
        generation = HeardGeneration(
            *[Fail(error=error, text=WRITE, after_chars=after)] * (1 if after else 3)
        )
        with pytest.raises(type(error)) as caught:
            generation.listen()
        assert caught.value.reason == error.reason
        generation.check()
        assert set(generation.ends().values()) <= {"", "provider_error"}


def test_a_program_cut_by_a_failure_is_reported_as_failed() -> None:
    text = coded("print(1)", "a.csv")
    generation = HeardGeneration(
        Fail(error=ModelStreamBroken("gone", code="stream_cut"), text=text, after_chars=text.index("(1)"))
    )
    with pytest.raises(ModelStreamBroken):
        generation.listen()
    assert generation.ends()["code.0"] == "provider_error"
    assert "generation_provider_error" in generation.texts()["exec.0.status.1"]


@pytest.mark.parametrize("piece_chars", [1, 8, 400])
def test_a_second_decision_in_a_single_action_round_ends_the_call(piece_chars: int) -> None:
    text = WRITE + SECOND + "never read " * 1_000
    generation = HeardGeneration(Say(text=text, piece_chars=piece_chars))
    heard = generation.listen()
    generation.check()
    assert heard.stopped == "multi_action_bundle_too_many_actions"
    assert heard.answer == ""
    assert set(generation.texts()) == {"thinking.0", "notes.0", "canvas.0"}
    assert set(generation.ends().values()) == {""}
    assert heard.completion.aborted
    assert len(heard.completion.text) < len(text) - 5_000
    assert heard.completion.usage.estimated


def test_a_second_decision_runs_if_several_are_allowed() -> None:
    generation = HeardGeneration(WRITE + WRITE.partition("\n")[2], fanout=FanoutRule(mode="safe_fanout"))
    assert generation.listen().stopped == ""
    assert set(generation.texts()) == {"thinking.0", "notes.0", "canvas.0", "notes.1", "canvas.1"}


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (("Well, " + start_tag("thinking")), "decision_preamble_before_first_channel"),
        (SECOND, "decision_first_channel_not_thinking"),
    ],
)
@pytest.mark.parametrize("piece_chars", [1, 8, 10_000])
def test_a_generation_that_does_not_begin_with_its_thinking_is_ended_and_nothing_of_it_is_shown(
    text: str, code: str, piece_chars: int
) -> None:
    generation = HeardGeneration(Say(text=text + answered("Never shown.") * 50, piece_chars=piece_chars))
    heard = generation.listen()
    assert heard.stopped == code
    assert generation.pushed() == []
    assert heard.transcript.raw.startswith(text[: min(piece_chars, len(text))])
    if piece_chars < len(text):
        assert heard.completion.aborted


def test_a_tolerant_round_reads_on() -> None:
    generation = HeardGeneration("Well, " + answered("Shown."), strict=False)
    assert generation.listen().stopped == ""
    assert generation.texts()["answer.0"] == "Shown."


def test_text_in_flight_when_the_call_ends_is_not_read() -> None:
    class Late(MemoryModelClient):
        """Its connection still delivers pieces after the abort."""

        def stream(self, request: ModelRequest) -> Any:
            running = super().stream(request)
            running.abort = lambda: None  # type: ignore[method-assign]  # as if it were too late
            return running

    generation = HeardGeneration()
    generation.model = Late(WRITE + SECOND + answered("Never.") * 3)
    heard = generation.listen()
    assert "Never." not in heard.transcript.raw
    assert len(heard.completion.text) > len(heard.transcript.raw)


def test_the_program_tool_is_the_one_of_the_agent() -> None:
    generation = HeardGeneration(coded("x", "a.csv"))
    assert PROGRAM in generation.conversation.agent.tools
    allowed = replace(generation.conversation.agent).callable_ids - {PROGRAM}
    generation.rules["allowed"] = allowed
    generation.listen()
    assert set(generation.texts()) == {"thinking.0"}


@pytest.mark.parametrize("piece_chars", [8, 10_000])
def test_text_held_back_of_a_violating_generation_is_not_shown(piece_chars: int) -> None:
    text = (start_tag("code") + "x\n") + answered("Never shown.")  # the code is cut where the thinking begins
    generation = HeardGeneration(Say(text=text, piece_chars=piece_chars))
    heard = generation.listen()
    assert (heard.stopped, heard.answer) == ("decision_first_channel_not_thinking", "")
    assert generation.pushed() == []


def test_a_failure_after_a_whole_answer_costs_only_the_rest() -> None:
    text = answered("All is well.") + (start_tag("summary") + "Goal")
    whole = text.rindex("}")
    error = ModelStreamBroken("gone", code="stream_cut")
    for after in range(whole - 20, len(text) + 1):
        generation = HeardGeneration(Fail(error=error, text=text, after_chars=after))
        if after <= whole:
            with pytest.raises(ModelStreamBroken):
                generation.listen()
            continue
        heard = generation.listen()
        generation.check()
        assert (heard.answer, heard.completion.stop_reason) == ("All is well.", "cut")
        assert generation.ends()["answer.0"] == ""


def test_a_failure_after_an_action_is_a_failure() -> None:
    generation = HeardGeneration(Fail(error=ModelOverloaded("busy"), text=WRITE, after_chars=len(WRITE)))
    with pytest.raises(ModelOverloaded):
        generation.listen()
