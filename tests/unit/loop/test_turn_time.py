"""The time of a turn: each of its parts is measured, and their sum is the turn's time."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from itertools import cycle
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from stepline.adapters.memory.model import Fail
from stepline.errors import ModelOverloaded
from stepline.events.derive import derive
from stepline.log.transition import count_entries, epoch_ms
from stepline.loop.close import times_of
from stepline.model.entry import TURN_PARTS, Closed, Compacted, Compacting, Contributed
from stepline.model.ids import utc
from stepline.model.program.execution import Run
from stepline.model.step import Step
from stepline.model.usage import Tally
from stepline.ports.executor import Job
from stepline.programs.outcome import split_time
from stepline.tools.context import ToolContext, ToolOutput
from tests.support.conversation import Conversation, tool
from tests.support.generation import answered, called, coded

PARTS = (*TURN_PARTS, "between_ms")
NAPS = "naps.take"


class Slow(Conversation):
    """A conversation whose program takes 9 s to start, 3 s to run and 2 s to collect."""

    def __init__(self, *script: Any, reports: bool = True, **policy: Any) -> None:
        super().__init__(*script, **policy)

        def run(_job: Job) -> Run:
            self.clock.pause(9)
            began_at = utc(self.clock.now())
            self.clock.pause(3)
            self.clock.pause(2)
            return Run(returncode=0, seconds=3.0, began_at=began_at if reports else "")

        self.programs(run)
        self.send("what is new?")

    def shown(self, kind: str) -> list[dict[str, Any]]:
        batches = self.batches()
        return [dict(event.data) for batch in batches for event in derive(batch) if event.type == kind]

    def parts(self) -> dict[str, int]:
        """Return the parts of the turn that have any time, and the whole."""
        (shown,) = self.shown("chat.turn.summary")
        assert sum(shown.get(name, 0) for name in PARTS) == shown["elapsed_ms"]
        return {name: shown[name] for name in (*PARTS, "elapsed_ms") if shown.get(name)}


def test_a_program_reports_how_long_it_was_started_ran_and_was_collected() -> None:
    conversation = Slow(coded("print(1)", "a.csv"), answered("Done."))
    conversation.run()
    (ended,) = [one for one in conversation.shown("code_exec.status") if one["status"] in ("done", "error")]
    assert dict(ended["timings"]) == {"start": 9_000, "exec": 3_000, "collect": 2_000}
    assert conversation.parts() == {
        "starting_ms": 9_000,
        "tools_ms": 3_000,
        "collecting_ms": 2_000,
        "elapsed_ms": 14_000,
    }


def test_a_backend_that_does_not_report_when_a_program_began_loses_no_time() -> None:
    conversation = Slow(coded("print(1)", "a.csv"), answered("Done."), reports=False)
    conversation.run()
    assert conversation.parts() == {"tools_ms": 3_000, "collecting_ms": 11_000, "elapsed_ms": 14_000}


def test_waits_for_the_provider_and_the_time_between_steps_have_their_own_parts() -> None:
    busy = [Fail(error=ModelOverloaded("later", retry_after_s=60.0))] * 3
    conversation = Slow(*busy, called(NAPS, {}), answered("Done."))

    def nap(_: ToolContext) -> ToolOutput:
        conversation.clock.pause(4)
        return ToolOutput(blocks=())

    conversation.use(tool(NAPS, "repeat", nap))
    step = conversation.decide()
    while step.route == "wait":
        conversation.clock.pause(step.wait_s)
        step = conversation.decide(step)
    conversation.clock.pause(1.5)
    conversation.act()
    conversation.clock.pause(0.5)
    conversation.decide()
    conversation.close()
    assert conversation.parts() == {
        "tools_ms": 4_000,
        "waiting_ms": 60_000,
        "between_ms": 2_000,
        "elapsed_ms": 66_000,
    }


def test_a_summary_and_a_hook_are_counted_once_from_their_beginning_to_their_end() -> None:
    at = "2026-01-01T00:00:{:02}.000Z".format
    shown: dict[str, Any] = {"turn": "turn_1", "trigger": "forced", "before_tokens": 9, "max_tokens": 9}
    begun = Compacting(id="c1", at=at(10), scope="history", **shown)
    ended = Compacted(id="c1", at=at(17), scope="history", status="completed", **shown)
    hook = Contributed(turn="turn_1", at=at(20), blocks=(), hook="before_round", iteration=1)
    later = replace(hook, hook="post_run_hook")
    tally = Tally(opened_ms=1)
    for entry, n in ((begun, 10), (ended, 18), (ended, 19), (hook, 25), (later, 30)):
        tally = count_entries(tally, (entry,), at(n))
    assert tally == Tally(opened_ms=1, preparing_ms=8_000 + 5_000)


@given(st.integers(-(10**6), 10**6), st.integers(0, 10**6), st.floats(0, 2_000))
def test_the_parts_of_a_programs_time_add_up_over_two_clocks(
    began_ms: int, total_ms: int, seconds: float
) -> None:
    parts = split_time(began_ms, total_ms, seconds)
    assert (sum(parts), min(parts) >= 0) == (total_ms, True)


@given(st.lists(st.integers(0, 60_000), min_size=1, max_size=9))
def test_every_turn_is_as_long_as_its_parts(pauses_ms: list[int]) -> None:
    pauses = cycle(pauses_ms)

    class Dawdling(Slow):
        """Each of its states begins late."""

        @property
        def states(self) -> dict[str, Callable[[Step], Step]]:
            self.clock.pause(next(pauses) / 1000)
            return super().states

    busy = [Fail(error=ModelOverloaded("busy"))] * 3
    conversation = Dawdling(*busy, coded("print(1)", "a.csv"), answered("Done."))
    conversation.run()
    assert conversation.parts()["elapsed_ms"] >= 14_000


@given(st.integers(0, 10**5), st.lists(st.integers(0, 10**5), min_size=6, max_size=6))
def test_parts_that_clocks_made_too_long_are_cut_to_the_turn_s_time(
    elapsed_ms: int, parts: list[int]
) -> None:
    opened_ms = epoch_ms("2026-01-01T00:00:00.000Z")
    now = utc(datetime.fromtimestamp((opened_ms + elapsed_ms) / 1000, tz=UTC))
    shown: dict[str, Any] = dict(zip(TURN_PARTS, parts, strict=True))
    times = times_of(Tally(opened_ms=opened_ms, **shown), now)
    closing = Closed(turn="turn_1", outcome="completed", reason="complete", at=now, **times)
    assert sum(times[name] for name in TURN_PARTS) + closing.between_ms == closing.elapsed_ms == elapsed_ms
    assert min(times.values()) >= 0
