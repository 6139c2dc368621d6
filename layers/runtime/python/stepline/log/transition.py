"""Every legal change of a lane's state: pure functions of the previous state and the new batch's number.

    idle ──opened──▶ decide ──decided──▶ act ──resulted──▶ decide …
                       │  ▲               └──resulted──▶ close, if the round answers
                       │  └── rejected, deferred, interrupted, declined
                       └──decided, declined──▶ close ──closed──▶ idle, or opened again

    decide, act ──steered──▶ decide, for a bounded number of rounds, or close

    act ──parked──▶ no execution ──answered──▶ act
    opened, answered ──queued──▶ no execution ──begun──▶ decide, act

`epoch` changes with `opened`, `taken_over`, `answered` and `begun` only; `claim` changes with every transition that begins a new
stream. `count_entries` adds the entries of a batch to the turn's tally.
Source: docs/concepts/log.md.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final, TypeAlias

from msgspec.structs import replace

from stepline.model.batch import Cursor, State
from stepline.model.entry import (
    ApprovalAnswered,
    Begun,
    Compacted,
    Compacting,
    Contributed,
    Decided,
    Entry,
    Inbound,
    Opened,
    Reopened,
    Resulted,
    Titled,
)
from stepline.model.usage import ModelCall, Tally, Usage
from stepline.rendering.result import is_offered

READ: Final = "react.read"
"""The tool whose results show existing files."""


def opened(state: State, n: int, turn: str) -> State:
    """Open a turn in batch n: a new epoch, a new claim, nothing rendered beyond this batch."""
    idle = closed(state)
    return replace(
        idle, status="open", turn=turn, opened=n, epoch=n, claim=n, rendered=n, turns=idle.turns + 1
    )


def reopened(state: State, n: int, attempt: int) -> State:
    """Pass the round to a later attempt, which streams under its own claim."""
    return replace(state, claim=n, attempt=attempt)


def waiting(state: State, n: int, until_ms: int) -> State:
    """Pause the round until a time; the next attempt streams under its own claim."""
    return replace(state, claim=n, attempt=0, waits=state.waits + 1, until_ms=until_ms)


def decided(
    state: State, n: int, *, rendered: int, actions: int, executes: int = 0, ends: bool = False
) -> State:
    """Record an accepted decision: its actions are next, or the close if it has none. `ends`: it has the answer."""
    cursor = Cursor(iteration=state.cursor.iteration, phase="act" if actions else "close")
    return replace(
        state,
        cursor=cursor,
        rendered=rendered,
        decided=n,
        actions=actions,
        executes=executes,
        running="",
        round_retries=0,
        ends=ends,
    )


def rejected(state: State, n: int, *, rendered: int) -> State:
    """Record a decision that breaks the protocol: the next round corrects it."""
    return replace(
        next_round(state, n),
        rendered=rendered,
        decided=n,
        actions=0,
        executes=0,
        ends=False,
        round_retries=state.round_retries + 1,
        turn_retries=state.turn_retries + 1,
    )


def declined(state: State, n: int, *, rendered: int, fallback: bool) -> State:
    """Record that the model declined: the close is next, or a round of the fallback, also after the last one.

    It counts as a round, but not as a retry, and not as one of the rounds that a steer allows.
    """
    counted = replace(state, declined=state.declined + 1)
    if not fallback:
        return decided(counted, n, rendered=rendered, actions=0, ends=True)
    return replace(interrupted(counted, n, rendered=rendered), finalize=state.finalize)


def interrupted(state: State, n: int, *, rendered: int) -> State:
    """Record a decision that a steer cut off: it counts as a round, but not as a retry."""
    return replace(next_round(state, n), rendered=rendered, decided=n, actions=0, executes=0)


def steered(state: State, steer: int, *, finalize: int) -> State:
    """Apply the steer of batch `steer`: `finalize` rounds are left, or, if that is 0, the close is next."""
    heeded = replace(state, steered=steer, finalize=finalize)
    if finalize:
        return heeded
    cursor = Cursor(iteration=state.cursor.iteration, phase="close")
    return replace(heeded, cursor=cursor, running="", executes=0)


def started(state: State, n: int, call: str) -> State:
    """Record that the action `call` is about to run, and fence off all other attempts."""
    return replace(state, claim=n, running=call)


def hooked(state: State, n: int, entry: Contributed) -> State:
    """Record the end of a hook; the close is next if the turn could not be prepared."""
    state = replace(state, running="")
    if entry.hook == "before_round":
        return replace(state, primed=entry.iteration + 1)
    cursor = Cursor(iteration=state.cursor.iteration, phase="close")
    return replace(state, prepared=n, cursor=cursor if entry.status == "error" else state.cursor)


def spent(state: State, calls: Iterable[ModelCall]) -> State:
    """Add the tokens and the cost of model calls to those of the conversation."""
    made = tuple(calls)
    if not made:
        return state
    return replace(
        state,
        input_tokens=state.input_tokens + sum(call.usage.prompt_tokens for call in made),
        output_tokens=state.output_tokens + sum(call.usage.output_tokens for call in made),
        spent_nanos=state.spent_nanos + sum(call.nanos for call in made),
    )


def stored(state: State, entries: Iterable[Entry]) -> State:
    """Add the sizes of the files in entries: attachments, and the files of the open turn's tools and programs."""
    added = 0
    for entry in entries:
        if isinstance(entry, Inbound):
            added += sum(file.size_bytes for file in entry.attachments)
        elif isinstance(entry, Resulted) and entry.tool_id != READ:
            made = {block.body.key: block.body.size_bytes for block in entry.blocks if block.body}
            added += sum(size for key, size in made.items() if f"/{state.turn}/" in key)
    return replace(state, stored_bytes=state.stored_bytes + added) if added else state


def resulted(state: State, n: int) -> State:
    """Record an action's result: the next action, or after the last one the next round or the close.

    The close is next if the round answers.
    """
    iteration, following = state.cursor.iteration, state.cursor.action + 1
    if following < state.actions:
        cursor = Cursor(iteration=iteration, phase="act", action=following)
        return replace(state, cursor=cursor, running="")
    if state.ends:
        return replace(state, cursor=Cursor(iteration=iteration, phase="close"), running="")
    return next_round(state, n)


def next_round(state: State, n: int) -> State:
    """Go to the next decision; batch n is the claim of its first attempt."""
    cursor = Cursor(iteration=state.cursor.iteration + 1)
    finalize = max(0, state.finalize - 1)
    return replace(
        state,
        cursor=cursor,
        claim=n,
        attempt=0,
        running="",
        ends=False,
        finalize=finalize,
        waits=0,
        until_ms=0,
    )


def taken_over(state: State, n: int) -> State:
    """Give the turn a new epoch; its position and the running action stay."""
    return replace(state, epoch=n, claim=n, attempt=0, takeovers=state.takeovers + 1)


def parked(state: State, n: int) -> State:
    """Park the turn until a person answers, without an execution; batch n asks, and the position stays."""
    return replace(state, parked=n)


def answered(state: State, n: int) -> State:
    """Give a parked turn an execution again: a new epoch at the same position, which does not count as a take-over."""
    return replace(state, epoch=n, claim=n, attempt=0, parked=0)


def queued(state: State, n: int) -> State:
    """Queue the turn that batch n opens, or resumes, until the stage has an execution for it."""
    return replace(state, queued=n)


def begun(state: State, n: int) -> State:
    """Give a queued turn an execution: a new epoch at the same position."""
    return replace(state, epoch=n, claim=n, attempt=0, queued=0)


def closed(state: State) -> State:
    """Set the lane idle; the fields of the conversation stay."""
    return State(
        owner=state.owner,
        prev=state.prev,
        input_tokens=state.input_tokens,
        output_tokens=state.output_tokens,
        segment=state.segment,
        titled=state.titled,
        bundle=state.bundle,
        turns=state.turns,
        begun_ms=state.begun_ms,
        spent_nanos=state.spent_nanos,
        stored_bytes=state.stored_bytes,
        deleted=state.deleted,
        unremembered=state.unremembered,
        importing=state.importing,
        forked=state.forked,
        branch_of=state.branch_of,
    )


def unremembered(state: State, n: int) -> State:
    """Record that batch n ended a turn that the memory index does not have yet; earlier ones may be missing, too."""
    return replace(state, unremembered=state.unremembered or n)


def forked(state: State, n: int, *, segment: int, begun_ms: int, branch_of: str = "") -> State:
    """Begin a fork in batch n, idle and with a title, at the state of its origin; it has spent and stored nothing yet."""
    return replace(
        closed(state),
        forked=n,
        branch_of=branch_of,
        titled=n,
        segment=segment,
        begun_ms=begun_ms,
        input_tokens=0,
        output_tokens=0,
        spent_nanos=0,
        stored_bytes=0,
        unremembered=0,
        importing=0,
    )


def deleted(state: State, n: int) -> State:
    """End the conversation for good in batch n: nothing is open, nothing is kept, and nothing follows."""
    return replace(closed(state), deleted=n, stored_bytes=0, unremembered=0, importing=0)


def titled(state: State, n: int) -> State:
    """Give the conversation its own title; the turn's position stays."""
    return replace(state, titled=n)


def count_entries(tally: Tally, entries: Iterable[Entry], at: str) -> Tally:
    """Return the tally after a batch with these entries, put at `at`. Pure."""
    for entry in entries:
        match entry:
            case Decided():
                tally = replace(
                    tally,
                    usage=add_usage(tally.usage, entry.cost),
                    rounds=tally.rounds + 1,
                    model_ms=tally.model_ms + _between_ms(entry.started_at, at),
                )
            case Resulted():
                tally = replace(
                    tally,
                    files=tally.files + sum(map(is_offered, entry.blocks)),
                    tools_ms=tally.tools_ms + entry.duration_ms,
                    starting_ms=tally.starting_ms + entry.starting_ms,
                    collecting_ms=tally.collecting_ms + entry.collecting_ms,
                    usage=add_usage(tally.usage, entry.usage) if entry.usage else tally.usage,
                )
            case Contributed(hook="post_run_hook"):
                pass  # its turn has ended
            case Titled() | Compacting() | Compacted() | Reopened() | Contributed():
                tally = _count_beside(tally, entry, at)
            case Opened():
                tally = replace(tally, opened_ms=epoch_ms(entry.at))
            case ApprovalAnswered():  # the time of a person does not count
                tally = replace(tally, opened_ms=tally.opened_ms + _between_ms(entry.requested_at, at))
            case Begun():  # nor does that in the queue
                tally = replace(tally, opened_ms=tally.opened_ms + entry.waited_ms)
            case _:
                pass
    return tally


Beside: TypeAlias = Titled | Compacting | Compacted | Reopened | Contributed


def _count_beside(tally: Tally, entry: Beside, at: str) -> Tally:
    """Count entries that are neither decisions nor actions: a title, a summary, a hook, a wait for the provider."""
    if not isinstance(entry, Compacting) and entry.usage is not None:
        tally = replace(tally, usage=add_usage(tally.usage, entry.usage))
    began_ms = 0
    match entry:
        case Compacting():
            return replace(tally, summary_from_ms=epoch_ms(entry.at))
        case Reopened(until=until):
            return replace(tally, waiting_ms=tally.waiting_ms + _between_ms(at, until)) if until else tally
        case Compacted():
            began_ms, tally = tally.summary_from_ms, replace(tally, summary_from_ms=0)
        case Titled(usage=Usage()) | Contributed(hook=str(), status="ok" | "error"):
            began_ms = epoch_ms(entry.at)
        case _:
            pass
    took_ms = max(0, epoch_ms(at) - began_ms) if began_ms else 0
    return replace(tally, preparing_ms=tally.preparing_ms + took_ms)


def add_usage(one: Usage, other: Usage) -> Usage:
    """Return the sum of the usage of two calls."""
    return Usage(
        input_tokens=one.input_tokens + other.input_tokens,
        cache_read_tokens=one.cache_read_tokens + other.cache_read_tokens,
        cache_write_5m_tokens=one.cache_write_5m_tokens + other.cache_write_5m_tokens,
        cache_write_1h_tokens=one.cache_write_1h_tokens + other.cache_write_1h_tokens,
        output_tokens=one.output_tokens + other.output_tokens,
        estimated=one.estimated or other.estimated,
    )


def _between_ms(start: str, end: str) -> int:
    return max(0, epoch_ms(end) - epoch_ms(start)) if start else 0


def epoch_ms(at: str) -> int:
    """Return a time of the log in milliseconds since the Unix epoch."""
    return round(datetime.fromisoformat(at).timestamp() * 1000)
