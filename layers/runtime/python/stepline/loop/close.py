"""Close: the exit gate and the turn's one end.

Whatever reactive event the model has not seen keeps the turn open while rounds are left, and otherwise opens
the next turn in the very batch that closes this one: an event is rendered, promoted or dropped, never lost.
Source: docs/concepts/log.md#close.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from stepline.delivery.effect import project, publish, redo
from stepline.log.bindings import Ports
from stepline.log.fence import ended, onward, owns, standing
from stepline.log.journal import Draft, Journal
from stepline.log.transition import closed, epoch_ms, next_round, opened, titled
from stepline.loop.finalize import STOPPED
from stepline.loop.settlement import Settlement, settle_events, stop_of
from stepline.metrics import TURNS_CLOSED, TURNS_FAILED
from stepline.model.batch import Batch, State
from stepline.model.entry import (
    Closed,
    Compacted,
    Compacting,
    Decided,
    Deferred,
    Entry,
    Opened,
    Steered,
    Titled,
)
from stepline.model.ids import Lane, turn_id, utc
from stepline.model.step import Step
from stepline.model.usage import Tally
from stepline.timeline.compacted import give_up
from stepline.timeline.working_summary import parse_title

logger = logging.getLogger(__name__)

ERRORS = {
    "ContextLimit": "context_limit",
    "ModelRefused": "model_refused",
    "ModelOverloaded": "model_overloaded",
    "ModelRateLimited": "model_rate_limited",
    "States.Timeout": "step_timeout",
}
"""Names that reach the state machine's Catch → the code a client sees; everything else is `step_failed`."""

MESSAGES = {
    "context_limit": "The conversation no longer fits into the model's context window.",
    "model_refused": "The model's provider refused the request.",
    "model_overloaded": "The model's provider is overloaded. Please send the message again.",
    "model_rate_limited": "The model's provider limits our rate. Please send the message again later.",
    "step_timeout": "A step of the turn took too long.",
    "execution_lost": "The turn was interrupted too often and has been given up. Please send the message again.",
    "step_failed": "The turn failed. Please send the message again.",
}


def close(ports: Ports, step: Step) -> Step:
    """End the turn, or defer its end; return the step that follows."""
    code = ERRORS.get(str(step.error.get("Error")), "step_failed") if step.error is not None else ""
    return close_turn(ports, step, code=code)


def close_turn(ports: Ports, step: Step, *, code: str) -> Step:
    """The same with the error `code`, if there is one: then only turn and epoch need to be this step's own."""
    lane = step.lane()
    journal = Journal(ports, lane, "close")

    def plan(tail: Batch) -> Draft | Step:
        state = tail.state
        if not owns(state, step):
            return ended(step, "stop")
        if not code and standing(state, step, "close") == "beyond":
            return onward(step, state)
        suffix = journal.since(state.rendered, upto=tail.n, consistent=True)
        stop, settled = stop_of(suffix, state), settle_events(suffix, state)
        if settled.holding and not code and _round_left(ports, state):
            return _defer(suffix, tail, state)
        decision = None if code and not stop else _decision(suffix, state)
        closing = _closed(decision, ports, state, code, stop)
        before = [*_unended(suffix, closing), *_named(decision, state, closing)]
        return _end(ports, lane, tail, closing, before=before, settled=settled)

    batch = journal.commit(plan)
    if isinstance(batch, Step):
        return _settled(ports, lane, batch, journal) if batch.route == "stop" else batch
    if any(isinstance(entry, Deferred) for entry in batch.entries):
        publish(ports, lane, batch)
        return onward(step, batch.state)
    failed = any(isinstance(entry, Closed) and entry.outcome == "error" for entry in batch.entries)
    ports.meter.count(TURNS_FAILED if failed else TURNS_CLOSED)
    logger.info("turn closed", extra={"turn_id": step.turn, "code": code})
    follow_closing(ports, lane, batch)
    return ended(step, "done")


def _round_left(ports: Ports, state: State) -> bool:
    return state.cursor.iteration + 1 < ports.policy.max_iterations + state.credits


def _defer(suffix: Sequence[Batch], tail: Batch, state: State) -> Draft:
    decision = _decision(suffix, state)
    entry = Deferred(
        turn=state.turn,
        iteration=state.cursor.iteration,
        answer=decision.answer if decision else "",
        **_cited(decision),
    )
    return Draft(entries=(entry,), state=next_round(state, tail.n + 1))


def _closed(decision: Decided | None, ports: Ports, state: State, code: str, stop: Steered | None) -> Closed:
    """Return the turn's end: by a stop, by the decision that it stands at, or by the error that ended it."""
    now = utc(ports.clock.now())
    # A turn that a release opened which did not count is not counted from its middle.
    tally = state.tally if state.tally.opened_ms else Tally()
    closing = Closed(
        turn=state.turn,
        outcome="error",
        reason="error",
        at=now,
        usage=tally.usage if tally.rounds else None,
        rounds=tally.rounds,
        files=tally.files,
        elapsed_ms=max(0, epoch_ms(now) - tally.opened_ms) if tally.opened_ms else 0,
        model_ms=tally.model_ms,
        tools_ms=tally.tools_ms,
    )
    if stop is not None:
        return _stopped(closing, decision if stop.phase == "decision" else None)
    if decision is None:
        code = code or "step_failed"
        return replace(closing, code=code, message=MESSAGES[code])
    return replace(
        closing,
        outcome="completed",
        reason=_reason(decision, state),
        started_at=decision.started_at,
        answer=decision.answer,
        followups=decision.followups,
        **_cited(decision),
        model=decision.model,
    )


def _stopped(closing: Closed, cut: Decided | None) -> Closed:
    """Return the end of a turn that was stopped; of the decision that the stop cut off, what was shown stays."""
    ended = replace(closing, outcome="completed", reason="stop", message=STOPPED, answer=STOPPED)
    if cut is None or not cut.answer:
        return ended
    return replace(ended, started_at=cut.started_at, answer=cut.answer, **_cited(cut), model=cut.model)


def _reason(decision: Decided, state: State) -> str:
    if decision.ended == "max_iterations":
        return decision.ended
    return "steer" if state.finalize else decision.action


def _cited(decision: Decided | None) -> dict[str, Any]:
    """Return what a decision's answer cites, of what it cites anywhere, as an end of it stores that."""
    if decision is None or not (decision.citations or decision.unresolved):
        return {}
    from stepline.protocol.citation.stream import cite  # noqa: PLC0415 - 10 ms that most turns need not spend

    return cite({row.sid: row for row in decision.citations}, (decision.answer,), pooled=True)._asdict()


def _named(decision: Decided | None, state: State, closing: Closed) -> list[Entry]:
    """Return the title that the turn's summary gives a conversation that has none."""
    title = parse_title(decision.summary) if decision and not state.titled else ""
    return [Titled(title=title, at=closing.at, turn=closing.turn)] if title else []


def _unended(suffix: Sequence[Batch], closing: Closed) -> list[Entry]:
    """Return the end of a compaction that the turn began and does not live to end: whoever heard of it waits for that."""
    begun: dict[str, Compacting] = {}
    for entry in (entry for batch in suffix for entry in batch.entries):
        if isinstance(entry, Compacting):
            begun[entry.id] = entry
        elif isinstance(entry, Compacted):
            begun.pop(entry.id, None)
    return [
        give_up(entry, closing.at, status="error", reason="turn_ended")
        for entry in begun.values()
        if entry.turn == closing.turn
    ]


def _end(
    ports: Ports,
    lane: Lane,
    tail: Batch,
    closing: Closed,
    *,
    before: Sequence[Entry],
    settled: Settlement,
) -> Draft:
    """Return the closing batch; `before` is what the turn says ahead of its end."""
    n = tail.n + 1
    entries: list[Entry] = [*before, closing, *settled.dropped]
    state = closed(tail.state)
    if any(isinstance(entry, Titled) for entry in before):
        state = titled(state, n)
    if settled.promoted:
        now = ports.clock.now()
        turn = turn_id(now, f"{lane.key()}/{n}")
        entries.append(Opened(turn=turn, at=utc(now), prompts=settled.promoted))
        state = opened(state, n, turn)
    return Draft(entries=tuple(entries), state=state)


def _decision(suffix: Sequence[Batch], state: State) -> Decided | None:
    """Return the decision that the turn stands at: it came after what the model saw, so it was read with that."""
    decided = (batch for batch in suffix if batch.n == state.decided)
    return next((e for batch in decided for e in batch.entries if isinstance(e, Decided)), None)


def _settled(ports: Ports, lane: Lane, step: Step, journal: Journal) -> Step:
    """Find the batch that closed this step's turn, if it is the retry of a close that got through, and redo."""
    for batch in journal.since(step.epoch, consistent=True):
        if any(isinstance(entry, Closed) and entry.turn == step.turn for entry in batch.entries):
            follow_closing(ports, lane, batch)
            return ended(step, "done")
    return step


def follow_closing(ports: Ports, lane: Lane, batch: Batch) -> None:
    """Do what a closing batch asks for beside the log, perhaps again."""
    publish(ports, lane, batch)
    _after(ports, lane, batch)


def _after(ports: Ports, lane: Lane, batch: Batch) -> None:
    redo(ports, lane, batch)
    project(ports, lane, batch)
    if batch.state.status == "idle":
        ports.log.clear_open(lane, batch.n)
