"""Close: the exit gate and the single end of a turn.

A reactive event that the model has not seen keeps the turn open while rounds are left, and otherwise opens
the next turn in the same batch that closes this one: an event is rendered, promoted or dropped, never lost.
Source: docs/concepts/log.md#close.

The settlement decides that for each unseen event at the turn's end. Source: docs/reference/live-events.md.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from stepline.delivery.effect import feeds_memory, project, publish, redo, remember, save_workspace
from stepline.delivery.settle_account import settle_account
from stepline.delivery.stage_queue import free_mark
from stepline.errors import HOOK_FAILED, retry_after_of
from stepline.log.bindings import Policy, Ports
from stepline.log.fence import compare_step, ended, onward, owns, stops_when_deleted
from stepline.log.journal import Draft, Journal
from stepline.log.spill import hydrate
from stepline.log.transition import closed, epoch_ms, next_round, opened, titled, unremembered
from stepline.loop.steer import STOPPED
from stepline.loop.tracing.traced_step import traced
from stepline.loop.tracing.turn_span import trace_turn
from stepline.metrics import TURNS_CLOSED, TURNS_FAILED
from stepline.model.batch import Batch, State
from stepline.model.entry import (
    TURN_PARTS,
    Closed,
    Compacted,
    Compacting,
    Contributed,
    Decided,
    Deferred,
    Dropped,
    Entry,
    Inbound,
    Opened,
    Started,
    SteeredEntry,
    Titled,
)
from stepline.model.ids import Lane, turn_id, utc
from stepline.model.step import Step
from stepline.model.tenancy.limits import LIMIT_CODES, limit_sentence
from stepline.model.usage import ModelCall, Tally, Usage, sum_calls, sum_usages
from stepline.model.wire.live_event import DropReason
from stepline.rendering.status_answer import CAUSES
from stepline.timeline.compacted import give_up
from stepline.timeline.working_summary import parse_title

logger = logging.getLogger(__name__)

ERRORS = {
    "ContextLimit": "context_limit",
    "ModelRefused": "model_refused",
    "ModelOverloaded": "model_overloaded",
    "ModelRateLimited": "model_rate_limited",
    "ModelUnreachable": "model_unreachable",
    "ModelTimeout": "model_timeout",
    "ModelStreamBroken": "model_stream_broken",
    "States.Timeout": "step_timeout",
    **{code: code for code in LIMIT_CODES},
}
"""Error names that reach the state machine's Catch → client error codes; all others are `step_failed`."""

DECLINED: Final = "model_declined"
"""The code of a turn whose round the model declined, and so did its fallback, if there is one."""

MESSAGES = {
    HOOK_FAILED: "The turn could not be prepared. Please send the message again.",
    DECLINED: "The model declined to answer this. Please put it in other words, or begin a new conversation.",
    "context_limit": "The conversation no longer fits into the model's context window.",
    "model_refused": "The model's provider refused the request.",
    "model_overloaded": "The model's provider is overloaded. Please send the message again.",
    "model_rate_limited": "The model's provider limits our rate. Please send the message again later.",
    "model_unreachable": "The model's service cannot be reached. Please send the message again later; "
    "if it stays so, its address in the settings or the network is wrong.",
    "model_timeout": "The model did not answer in time. Please send the message again later.",
    "model_stream_broken": "The model's answer broke off, or was none, each time it was asked. Please send the message "
    "again; if it stays so, the address in the settings is another service's, or a proxy cuts answers off.",
    "model_protocol": "The model never answered in the form that the agent needs. Please send the message again; "
    "if it stays so, another model is needed.",
    "model_token_limit": "The model reached its output limit each time before it had decided anything. Please ask for "
    "less at a time; if it stays so, the limit is too small for this model.",
    "step_timeout": "A step of the turn took too long.",
    "execution_lost": "The turn was interrupted too often and has been given up. Please send the message again.",
    "step_failed": "The turn failed. Please send the message again.",
    **{code: limit_sentence(code) for code in LIMIT_CODES},
}


FORKED: Final = "forked"
"""The reason of a turn that a fork has from its origin, and ends."""
LIMITS: Final = frozenset({"max_tokens", "model_context_window_exceeded"})
"""Stop reasons of a provider: the generation's end is missing."""
KEPT: Final = "answer_kept_from_stream"
CUT_SHORT: Final = "The answer is incomplete: the model reached its output limit."


@traced
@stops_when_deleted
def close(ports: Ports, step: Step) -> Step:
    """End the turn, or defer its end; return the step that follows."""
    if step.error is not None:
        code = ERRORS.get(str(step.error.get("Error")), "step_failed")
    else:  # an execution of an older state machine, without the state that waits, arrives here instead
        code = "model_rate_limited" if step.route == "wait" else ""
    return close_turn(ports, step, code=code)


def close_turn(ports: Ports, step: Step, *, code: str) -> Step:
    """End the turn, with the error `code` if there is one; return the step that follows.

    With a code, only turn and epoch must match this step's.
    """
    lane = step.lane()
    journal = Journal(ports, lane, "close")

    def plan(tail: Batch) -> Draft | Step:
        state = tail.state
        rules = ports.of(state.bundle)
        if not owns(state, step):
            return ended(step, "stop")
        if not code and compare_step(state, step, "close") == "beyond":
            return onward(step, state)
        batches = ports.log.since(lane, min(state.opened, state.rendered), upto=tail.n, consistent=True)
        journal.take_over_all(tail, state.opened, batches, but=_claims_afterwards(batches))
        suffix = [hydrate(ports.artifacts, batch) for batch in batches if batch.n > state.rendered]
        stop, settled = stop_of(suffix, state), settle_events(suffix, state)
        decision = _decision(suffix, state)
        failed = code or _hook_failed(suffix, state)
        failed = failed or (DECLINED if decision is not None and decision.declined else "")
        if settled.holding and not failed and _round_left(rules, state):
            return _defer(suffix, tail, state)
        decision = None if failed and not stop else decision
        bill = bill_of(batches, journal.unrecorded(tail), state)
        closing = _closed(decision, ports, state, code=failed, stop=stop, bill=bill)
        if closing.code and step.error is not None:
            cause = str(step.error.get("Cause", ""))
            closing = replace(closing, retry_after_s=retry_after_of(cause))
            if closing.code == step.error.get("Error"):
                closing = replace(closing, message=limit_sentence(closing.code, cause))
        before = [*_unended(suffix, closing), *_named(decision, state, closing)]
        return _end(rules, lane, tail, closing, before=before, settled=settled)

    batch = journal.commit(plan)
    if isinstance(batch, Step):
        return _settled(ports, lane, batch, journal) if batch.route == "stop" else batch
    if any(isinstance(entry, Deferred) for entry in batch.entries):
        publish(ports, lane, batch)
        return onward(step, batch.state)
    end = next(entry for entry in batch.entries if isinstance(entry, Closed))
    failed = end.outcome == "error" and end.code not in LIMIT_CODES
    ports.meter.count(TURNS_FAILED if failed else TURNS_CLOSED)
    logger.info("turn closed", extra={"turn_id": step.turn, "code": end.code})
    follow_closing(ports, lane, batch)
    return ended(step, "done")


def _hook_failed(suffix: Sequence[Batch], state: State) -> str:
    """Return the error code of a turn that its bundle could not prepare; "" for any other turn."""
    ends = (e for b in suffix if b.n == state.prepared for e in b.entries if isinstance(e, Contributed))
    return HOOK_FAILED if any(entry.status == "error" for entry in ends) else ""


def _round_left(ports: Ports, state: State) -> bool:
    return state.cursor.iteration + 1 < ports.policy.max_iterations + state.credits


def fork_end(suffix: Sequence[Batch], state: State, at: str) -> list[Entry]:
    """Return the end of the turn that is open where a fork begins, with its answer if that was decided.

    What the turn used is the origin's.
    """
    closing = Closed(turn=state.turn, outcome="completed", reason=FORKED, at=at)
    decision = _decision(suffix, state) if state.cursor.phase == "close" else None
    if decision is not None:
        closing = replace(
            closing,
            started_at=decision.started_at,
            answer=decision.answer,
            value=decision.value,
            followups=decision.followups,
            **_cited(decision),
            model=decision.model,
        )
    return [*_unended(suffix, closing), closing]


def _defer(suffix: Sequence[Batch], tail: Batch, state: State) -> Draft:
    decision = _decision(suffix, state)
    entry = Deferred(
        turn=state.turn,
        iteration=state.cursor.iteration,
        answer=decision.answer if decision else "",
        **_cited(decision),
    )
    return Draft(entries=(entry,), state=next_round(state, tail.n + 1))


def bill_of(batches: Iterable[Batch], unrecorded: Iterable[ModelCall], state: State) -> tuple[ModelCall, ...]:
    """Return the lines of the open turn's bill, from its batches and from the calls that its end will record.

    A batch that ends the hook of the previous turn belongs to that turn.
    """
    own = (
        call
        for batch in batches
        if batch.n > state.opened and not any(map(is_afterwards, batch.entries))
        for call in batch.calls
    )
    return sum_calls([*own, *unrecorded])


def _claims_afterwards(batches: Iterable[Batch]) -> frozenset[int]:
    """Return the claims of the previous turn's `post_run_hook`: it may still run, and its end records its calls."""
    entries = ((batch.n, entry) for batch in batches for entry in batch.entries)
    return frozenset(
        n for n, entry in entries if isinstance(entry, Started) and entry.call_id.startswith("post_run_hook")
    )


def is_afterwards(entry: Entry) -> bool:
    """Return True for the end of a `post_run_hook`, which belongs to the turn that it names."""
    return isinstance(entry, Contributed) and entry.hook == "post_run_hook"


def _used(tally: Tally, bill: Sequence[ModelCall]) -> Usage | None:
    """Return the tokens of a turn; the tally has more if an earlier release, which kept no calls, began the turn."""
    if not tally.opened_ms:
        return None
    used = sum_usages([Usage(), *(call.usage for call in bill)])
    used = used if used.prompt_tokens >= tally.usage.prompt_tokens else tally.usage
    return used if tally.rounds or used.prompt_tokens else None


def _closed(
    decision: Decided | None,
    ports: Ports,
    state: State,
    *,
    code: str,
    stop: SteeredEntry | None,
    bill: tuple[ModelCall, ...],
) -> Closed:
    """Return the turn's end: by a stop, by its current decision, or by the error that ended it."""
    now = utc(ports.clock.now())
    # A turn that was opened by a release without a tally does not get a partial one.
    tally = state.tally if state.tally.opened_ms else Tally()
    closing = Closed(
        turn=state.turn,
        outcome="error",
        reason="error",
        at=now,
        usage=_used(tally, bill),
        bill=bill,
        rounds=tally.rounds,
        files=tally.files,
        **times_of(tally, now),
    )
    if stop is not None:
        return _stopped(closing, decision if stop.phase == "decision" else None)
    if decision is None or (decision.ended == "violations" and not decision.answer):
        code = code or _failure(decision)
        return replace(closing, code=code, message=MESSAGES[code])
    reason = _reason(decision, state)
    return replace(
        closing,
        outcome="completed",
        reason=reason,
        message=CUT_SHORT if reason == "token_limit" else "",
        started_at=decision.started_at,
        answer=decision.answer,
        value=decision.value,
        followups=decision.followups,
        **_cited(decision),
        model=decision.model,
    )


def times_of(tally: Tally, now: str) -> dict[str, Any]:
    """Return the turn's time and its parts; their sum never exceeds the whole, even if clocks differ."""
    elapsed_ms = max(0, epoch_ms(now) - tally.opened_ms) if tally.opened_ms else 0
    times, left_ms = {"elapsed_ms": elapsed_ms}, elapsed_ms
    for name in TURN_PARTS:
        times[name] = min(getattr(tally, name), left_ms)
        left_ms -= times[name]
    return times


def _stopped(closing: Closed, cut: Decided | None) -> Closed:
    """Return the end of a stopped turn, with the part of the answer that was shown before the stop."""
    ended = replace(closing, outcome="completed", reason="stop", message=STOPPED, answer=STOPPED)
    if cut is None or not cut.answer:
        return ended
    return replace(ended, started_at=cut.started_at, answer=cut.answer, **_cited(cut), model=cut.model)


def _failure(decision: Decided | None) -> str:
    """Return the code of a turn without an answer and without an error."""
    if decision is None:
        return "step_failed"
    return "model_token_limit" if decision.stop_reason in LIMITS else "model_protocol"


def _reason(decision: Decided, state: State) -> str:
    if decision.ended in CAUSES:
        return decision.ended
    if state.finalize:
        return "steer"
    kept = decision.raw or any(notice.code == KEPT for notice in decision.notices)
    return "token_limit" if kept and decision.stop_reason in LIMITS else decision.action


def _cited(decision: Decided | None) -> dict[str, Any]:
    """Return the citations of a decision's answer, in the fields of a turn's end."""
    if decision is None or not (decision.citations or decision.unresolved):
        return {}
    from stepline.protocol.citation.citation_stream import cite  # noqa: PLC0415 - 10 ms that most turns need not spend

    return cite({row.sid: row for row in decision.citations}, (decision.answer,), pooled=True)._asdict()


def _named(decision: Decided | None, state: State, closing: Closed) -> list[Entry]:
    """Return the title that the turn's summary gives an untitled conversation."""
    title = parse_title(decision.summary) if decision and not state.titled else ""
    return [Titled(title=title, at=closing.at, turn=closing.turn)] if title else []


def _unended(suffix: Sequence[Batch], closing: Closed) -> list[Entry]:
    """Return the end of each compaction that the turn began and did not end, because clients wait for it."""
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
    """Return the draft of the closing batch; `before` are the entries ahead of the turn's end."""
    n = tail.n + 1
    entries: list[Entry] = [*before, closing, *settled.dropped]
    state = unremembered(closed(tail.state), n) if feeds_memory(ports) else closed(tail.state)
    if any(isinstance(entry, Titled) for entry in before):
        state = titled(state, n)
    if settled.promoted:
        now = ports.clock.now()
        turn = turn_id(now, f"{lane.key()}/{n}")
        entries.append(open_turn(ports.policy, turn, utc(now), settled.promoted))
        state = opened(state, n, turn)
    return Draft(entries=tuple(entries), state=state)


def open_turn(policy: Policy, turn: str, at: str, prompts: tuple[int, ...]) -> Opened:
    """Return the entry that opens a turn, with its limits."""
    limits = {"rounds": policy.max_iterations, "max_tokens": policy.context.budget}
    return Opened(turn=turn, at=at, prompts=prompts, **limits)


def _decision(suffix: Sequence[Batch], state: State) -> Decided | None:
    """Return the turn's current decision, if it was made after the last rendered batch."""
    decided = (batch for batch in suffix if batch.n == state.decided)
    return next((e for batch in decided for e in batch.entries if isinstance(e, Decided)), None)


def _settled(ports: Ports, lane: Lane, step: Step, journal: Journal) -> Step:
    """Find the batch that closed this step's turn when a successful close is retried, and redo its effects."""
    for batch in journal.since(step.epoch, consistent=True):
        if any(isinstance(entry, Closed) and entry.turn == step.turn for entry in batch.entries):
            follow_closing(ports, lane, batch)
            return ended(step, "done")
    return step


def follow_closing(ports: Ports, lane: Lane, batch: Batch) -> None:
    """Carry out the effects of a closing batch, perhaps again."""
    publish(ports, lane, batch)
    _after(ports, lane, batch)
    trace_turn(ports, lane, batch)


def _after(ports: Ports, lane: Lane, batch: Batch) -> None:
    redo(ports, lane, batch)
    project(ports, lane, batch)
    save_workspace(ports, lane, batch)
    remember(ports, lane, batch)
    settle_account(ports, lane, batch)
    if batch.state.status == "idle":
        free_mark(ports, lane, batch.n)


class Settlement(NamedTuple):
    """The outcome for events that the model has not seen: `promoted` ones open the next turn.

    `dropped` ones are returned to their senders. `holding`: one of them keeps the turn open while it has rounds left.
    """

    holding: bool
    promoted: tuple[int, ...]
    dropped: tuple[Dropped, ...]


def settle_events(suffix: Sequence[Batch], state: State) -> Settlement:
    """Settle the events after the last rendered batch by the table of live events.

    A stop among them, heeded or not, settles the events before it, and none of them holds the turn open.
    """
    entries = [(batch.n, entry) for batch in suffix if batch.n > state.rendered for entry in batch.entries]
    unseen = [(n, entry) for n, entry in entries if isinstance(entry, Inbound)]
    stop = max((n for n, event in unseen if event.rule.then == "close"), default=0)
    heeded = {entry.n: entry.finalize for _, entry in entries if isinstance(entry, SteeredEntry)}
    newest_text = max((n for n, finalize in heeded.items() if finalize), default=0)
    promoted, handed, holding = [], [], False
    for n, event in unseen:
        if n in heeded or (event.steers and n <= newest_text):
            continue  # the turn heeded it, or a later one that includes it
        rule = event.rule
        holding = holding or (rule.holds and not stop)
        fate = rule.stopped if n < stop else rule.unseen
        reason: DropReason = "stopped" if n < stop else "turn_closed"
        if fate == "promoted":
            promoted.append(n)
        elif fate == "dropped":
            handed.append(hand_back(n, event, reason))
    return Settlement(holding=holding, promoted=tuple(promoted), dropped=tuple(handed))


def stop_of(suffix: Sequence[Batch], state: State) -> SteeredEntry | None:
    """Return the stop that ended the turn, if there is one."""
    entries = (entry for batch in suffix for entry in batch.entries)
    heeded = (
        e for e in entries if isinstance(e, SteeredEntry) and e.n == state.steered and e.turn == state.turn
    )
    return next((entry for entry in heeded if not entry.finalize), None)


def hand_back_all(suffix: Sequence[Batch], state: State) -> list[Dropped]:
    """Return a record for each message that the open turn and its successors would have processed, but now will not."""
    settled = settle_events(suffix, state)
    waiting = [
        hand_back(batch.n, entry, "turn_closed")
        for batch in suffix
        if batch.n in settled.promoted
        for entry in batch.entries
        if isinstance(entry, Inbound)
    ]
    return sorted([*settled.dropped, *waiting], key=lambda dropped: dropped.n)


def hand_back(n: int, event: Inbound, reason: DropReason) -> Dropped:
    """Return the record that the event of batch `n` was dropped, so that its sender can send it again."""
    return Dropped(n=n, reason=reason, message_id=event.message_id, event=event.event)
