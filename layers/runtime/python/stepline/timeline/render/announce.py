"""ANNOUNCE: what is true right now. Rendered anew for every request, behind the last cache mark, never stored.

Every token here is paid in full in every round, so a quiet announce stays below 300 of them.
Source: docs/concepts/context.md#announce.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final, Protocol

from stepline.model.base import Value
from stepline.model.ids import utc
from stepline.model.plan import Plan
from stepline.timeline.fold import Timeline
from stepline.timeline.plan import render_steps
from stepline.timeline.render.entry import RESULT_PREVIEW_CHARS
from stepline.timeline.render.quote import INDENT, inline
from stepline.timeline.turn import Event

CELLS: Final = 10
PLANS_SHOWN: Final = 4
EVENTS_SHOWN: Final = 4
EVENT_CHARS: Final = 120


class Caps(Protocol):
    """How much of one path a read shows."""

    @property
    def max_chars(self) -> int: ...

    @property
    def max_tokens(self) -> int: ...

    @property
    def max_bytes(self) -> int: ...


class Budget(Value):
    """The rounds of a turn: `iteration` counts from 0; reactive events brought `credits` beside `max_iterations`.

    `reserved` says that this round is the last one and kept for an answer.
    """

    iteration: int
    max_iterations: int
    credits: int = 0
    elapsed_s: float = 0.0
    reserved: bool = False


def announce(
    timeline: Timeline, *, now: datetime, iteration: int, max_iterations: int, caps: Caps, last_round: bool
) -> str:
    """Return the announce of a round of the current turn; `max_iterations` are the rounds without credits."""
    turn = timeline.current
    since = datetime.fromisoformat(turn.started_at) if turn else now
    budget = Budget(
        iteration=iteration,
        max_iterations=max_iterations,
        credits=timeline.state.credits,
        elapsed_s=(now - since).total_seconds(),
        reserved=last_round,
    )
    return render_announce(
        budget=budget, now=now, caps=caps, plans=timeline.plans, events=timeline.events_since(0)
    )


def render_announce(
    *,
    budget: Budget,
    now: datetime,
    caps: Caps,
    plans: Mapping[str, Plan],
    events: Sequence[Event] = (),
    timezone: str = "UTC",
) -> str:
    """Return the announce: budget, caps, time, open plans and the events of this turn, in this order."""
    sections = [
        _budget(budget),
        _caps(caps),
        _time(now, timezone),
        _plans(plans),
        _events(events),
    ]
    return "\n".join(section for section in sections if section) + "\n"


def _budget(budget: Budget) -> str:
    most = max(1, budget.max_iterations + budget.credits)
    at = min(max(budget.iteration + 1, 1), most)
    split = f" ({budget.max_iterations} + {budget.credits} reactive bonus)" if budget.credits else ""
    filled = round(at / most * CELLS)
    bar = "█" * filled + "░" * (CELLS - filled)
    last = "\nLAST ROUND: only complete or exit is accepted." if budget.reserved else ""
    return (
        f"╔══ ANNOUNCE — Iteration {at}/{most}{split} ══╗{last}\n"
        f"[BUDGET]\niterations  {bar} {most - at} remaining\n"
        f"time_elapsed_in_turn  {render_elapsed(budget.elapsed_s)}"
    )


def _caps(caps: Caps) -> str:
    read = f"{caps.max_chars} characters, {caps.max_tokens} tokens, {caps.max_bytes} bytes"
    return f"[CONTEXT CAPS] per read: {read}; preview of a tool result: {RESULT_PREVIEW_CHARS} characters"


def _time(now: datetime, timezone: str) -> str:
    stamp = utc(now)
    return (
        f"[AUTHORITATIVE TEMPORAL CONTEXT (GROUND TRUTH)]\nuser_timezone: {inline(timezone)}\n"
        f"current_utc_timestamp: {stamp}\ncurrent_utc_date: {stamp[:10]}\n"
        "Read relative dates (today, last week) from here."
    )


def render_elapsed(seconds: float) -> str:
    """Return a duration as `42s`, `2m15s` or `1h05m`."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02}s"
    return f"{whole // 3600}h{whole // 60 % 60:02}m"


def shown_plans(plans: Iterable[Plan]) -> list[Plan]:
    """Return the open plans to show, the one that changed last at the end; the current one is always among them."""
    found = sorted((plan for plan in plans if plan.is_open()), key=lambda plan: (plan.last_ts, plan.plan_id))
    current = [plan for plan in found[:-PLANS_SHOWN] if plan.current]
    return [*current, *found[-(PLANS_SHOWN - len(current)) :]]


def _plans(plans: Mapping[str, Plan]) -> str:
    shown = shown_plans(plans.values())
    if not shown:
        return "[OPEN PLANS]\n- plans: none"
    rows = [f"[OPEN PLANS]\n- plans: {len(shown)} visible"]
    for plan in shown:
        steps = render_steps(plan).replace("\n", f"\n{INDENT}{INDENT}")
        rows.append(
            f"{INDENT}• plan_id={plan.plan_id}{' (current)' if plan.current else ''}"
            f" snapshot_ref=ar:plan.latest:{plan.plan_id}\n"
            f"{INDENT}{INDENT}created {plan.created_ts} in {plan.origin_turn_id}, "
            f"updated {plan.last_ts} in {plan.last_turn_id}\n"
            f"{INDENT}{INDENT}{steps}"
        )
    return "\n".join(rows)


def _events(events: Sequence[Event]) -> str:
    if not events:
        return ""
    shown = events[-EVENTS_SHOWN:]
    many = (
        f"{len(events)} total" if len(shown) == len(events) else f"showing last {len(shown)} of {len(events)}"
    )
    rows = [f"[LIVE TURN EVENTS]\n- events: {many}"]
    rows += [
        f"{INDENT}• {event.inbound.event} seq={event.n} explicit=True\n{INDENT}{INDENT}text={_clip(event)}"
        for event in shown
    ]
    return "\n".join(rows)


def _clip(event: Event) -> str:
    text = inline(event.inbound.text)
    if not text:
        return "(empty stop control)"
    return text if len(text) <= EVENT_CHARS else f"{text[: EVENT_CHARS - 1]}…"
