"""Rules taken back, one at a time: what the code would be without each, and the promise that then breaks."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import pytest
from msgspec.structs import replace

from stepline.adapters.memory.log import MemoryLog
from stepline.delivery.effect import publish
from stepline.errors import SteplineError
from stepline.events.derive import newest_event
from stepline.log import journal
from stepline.log import timeline_cache as segment
from stepline.log.journal import Draft
from stepline.loop import close, decide, sweep
from stepline.loop import stream_generation as sample
from stepline.loop.hooks import run_hook
from stepline.loop.programs import serve_call
from stepline.loop.tracing import traced_call
from stepline.model.batch import Batch
from stepline.model.ids import Lane
from stepline.ports.log import Put
from stepline.timeline.fold import Timeline
from tests.contract.fault.simulation import Simulation

from . import driver, scenario
from .driver import Scenario


@dataclass(frozen=True, kw_only=True)
class Ablation:
    """A rule. Without it, `breaks` is seen when something goes wrong at a boundary `at` of the scenario."""

    rule: str
    breaks: str
    at: str
    scenario: Scenario
    patch: Callable[[pytest.MonkeyPatch], None] = lambda _: None
    simulation: Callable[[Simulation], None] = lambda _: None


class NoMessageRows(MemoryLog):
    """Admits every message, as if it came for the first time."""

    def put(self, lane: Lane, batch: Batch, *, message_id: str = "", **fields: Any) -> Put:
        return super().put(lane, batch, **fields)


def _publish_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Send a batch to the listeners, and then put it."""
    put = journal.Journal._put

    def publish_first(self: journal.Journal, tail: Batch, draft: Draft) -> tuple[Put, Batch]:
        state = replace(draft.state, prev=newest_event(tail))
        at = self.ports.clock.now().isoformat()
        publish(
            self.ports,
            self.lane,
            Batch(n=tail.n + 1, by=self.by, at=at, entries=draft.entries, state=state),
        )
        return put(self, tail, draft)

    monkeypatch.setattr(journal.Journal, "_put", publish_first)


def _name_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Name a segment, and put it when the batch that names it is stored."""
    owed: list[tuple[Any, Lane, Timeline]] = []

    def promise(ports: Any, lane: Lane, timeline: Timeline) -> int:
        if not segment._is_long(timeline, ports.policy):
            return timeline.state.segment
        owed.append((ports, lane, timeline))
        return timeline.n

    def then_put(ports: Any, lane: Lane, batch: Batch) -> None:
        while owed:
            segment.seal(*owed.pop())
        publish(ports, lane, batch)

    monkeypatch.setattr(decide, "seal", promise)
    monkeypatch.setattr(decide, "publish", then_put)


def _speak_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget at a failed call that text was streamed."""
    listen = sample.listen

    def forgetful(*given: Any, **named: Any) -> Any:
        try:
            return listen(*given, **named)
        except SteplineError as error:
            error.context.pop("shown_chars", None)
            raise

    monkeypatch.setattr(sample, "listen", forgetful)


def _never_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "sweep", lambda _: {})


def _clear_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clear the mark of an open lane, and save its project then."""
    after, save = close._after, close.save_workspace

    def late(ports: Any, lane: Lane, batch: Batch) -> None:
        after(ports, lane, batch)
        save(ports, lane, batch)

    monkeypatch.setattr(close, "save_workspace", lambda *_: None)
    monkeypatch.setattr(close, "_after", late)


def _forget_hooks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take no notice of a hook that is running."""
    start = run_hook._start

    def careless(attempt: Any, timeline: Timeline, name: Any) -> Any:
        return start(attempt, dataclasses.replace(timeline, state=replace(timeline.state, running="")), name)

    monkeypatch.setattr(run_hook, "_start", careless)


def _leave_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Go on for a dead attempt without what it has used."""
    monkeypatch.setattr(journal.Journal, "take_over", lambda *_: None)
    monkeypatch.setattr(journal.Journal, "take_over_all", lambda *_, **__: None)


def _forget_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    """Record calls without a look at those that the log has."""
    monkeypatch.setattr(journal.Journal, "_without_recorded", lambda _, calls, __: calls)


def _never_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve_call, "_claim", lambda *_: None)


def _once_as_pure(simulation: Simulation) -> None:
    simulation.once = "pure"


def _without_rows(simulation: Simulation) -> None:
    simulation.log = NoMessageRows()
    simulation.__post_init__()


def _settle_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settle a turn where its end is put, and nowhere else."""
    monkeypatch.setattr(close, "_settled", lambda _ports, _lane, step, _journal: step)
    monkeypatch.setattr(sweep, "follow_closing", lambda *_: None)


ABLATIONS: Final = (
    Ablation(
        rule="every process that meets the end of a turn settles it",
        breaks="a hold of no round",
        at="accounts.post in Close",
        scenario=scenario.BUDGET,
        patch=_settle_once,
    ),
    Ablation(
        rule="log first, effect after",
        breaks="desk heard what the log does not say",
        at="log.put in Act",
        scenario=scenario.WORK,
        patch=_publish_first,
    ),
    Ablation(
        rule="what may happen once is started on record",
        breaks="an effect twice, unmarked",
        at="tool.strike",
        scenario=scenario.WORK,
        simulation=_once_as_pure,
    ),
    Ablation(
        rule="each attempt at a call has a lane of its own for its reports",
        breaks="desk missed, repeated or mixed reports",
        at="tool.report",
        scenario=scenario.REPORTING,
        patch=lambda monkeypatch: monkeypatch.setattr(traced_call, "report_lane", lambda *_: "report.0.0"),
    ),
    Ablation(
        rule="a program's call that may happen once is claimed",
        breaks="a program's model call made twice",
        at="artifacts.put in Execute",
        scenario=scenario.PROGRAM_ASKS,
        patch=_never_claim,
    ),
    Ablation(
        rule="a hook that has begun is not run again",
        breaks="a hook that ran twice",
        at="hook.",
        scenario=scenario.HOOKED,
        patch=_forget_hooks,
    ),
    Ablation(
        rule="a message has a row of its own",
        breaks="a message admitted twice",
        at="publisher.post in desk message:event",
        scenario=scenario.WORK,
        simulation=_without_rows,
    ),
    Ablation(
        rule="a body is put before it is named",
        breaks="a segment that is named and not there",
        at="artifacts.put in Decide",
        scenario=scenario.WORK,
        patch=_name_first,
    ),
    Ablation(
        rule="a round that streamed text asks again under another claim",
        breaks="desk shows a text that was not decided",
        at="model.piece",
        scenario=scenario.UNHEARD,
        patch=_speak_twice,
    ),
    Ablation(
        rule="a lane is marked open until every effect of its end is done",
        breaks="a turn is not in the history",
        at="artifacts.put in Close",
        scenario=scenario.KEPT,
        patch=_clear_first,
    ),
    Ablation(
        rule="the next attempt records the usage of a dead one",
        breaks="a noted call that no batch has",
        at="log.put in Decide",
        scenario=scenario.WORK,
        patch=_leave_calls,
    ),
    Ablation(
        rule="a call that the log has is not recorded again",
        breaks="a model call recorded twice",
        at="log.put in Decide",
        scenario=scenario.WORK,
        patch=_forget_ids,
    ),
    Ablation(
        rule="the sweeper looks after open lanes",
        breaks="UnsettledError",
        at="log.put in Act",
        scenario=scenario.WORK,
        patch=_never_sweep,
    ),
)
