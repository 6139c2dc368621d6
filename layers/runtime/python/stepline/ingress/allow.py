"""Limits at ingress: check whether a message may open or join a turn before it enters the log.

A steer and a stop are always admitted, because they end work. A refused message leaves no trace in the log.
Source: docs/concepts/tenants.md.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from typing import Final

from stepline.delivery.allowance import (
    HELD_S,
    Allowance,
    find_excess,
    least_round,
    read_allowance,
    read_used,
    turns_within,
)
from stepline.delivery.settle_account import hold_storage
from stepline.errors import LimitError
from stepline.log.bindings import Ports
from stepline.log.journal import Draft
from stepline.model.entry import ApprovalAnswered, Inbound, Opened
from stepline.model.ids import Lane
from stepline.model.tenancy.charge import NOTHING
from stepline.model.tenancy.limits import Excess, Scope, Used, limit_sentence
from stepline.model.tenancy.request_rates import RequestKind
from stepline.model.tenancy.storage_hold import WantedHold
from stepline.ports.channel import Principal
from stepline.ports.log import Slot, Slots

MINUTE_S: Final = 60
STEERS: Final = 10
"""Steers are counted like messages, but up to this multiple of the limit, so that no client floods a log with them."""
BUSY_S: Final = 15
"""How long to wait for another turn to end."""


def check_rate(ports: Ports, principal: Principal, *, steers: bool = False) -> Allowance:
    """Count one message of a user, and return the user's allowance; refused and repeated messages count, too.

    Raises:
        LimitError: `rate_limited`, with the time to retry in its sentence and in `retry_after_s`.
        DependencyError: the table does not answer.
    """
    allowance = read_allowance(ports, principal.tenant, principal.project, principal.user)
    minute, passed_s = divmod(int(ports.clock.now().timestamp()), MINUTE_S)
    for scope, limits in allowance.pairs():
        limit = (limits.messages_per_minute or 0) * (STEERS if steers else 1)
        if limit and ports.rate.count(scope, minute) > limit:
            whose = {"user": "You", "project": "All users of this project", "tenant": "All users here"}
            raise LimitError(
                f"{whose[scope.kind]} may send {limit} messages a minute"
                f"{'' if scope.kind == 'user' else ' together'}. Please send this one again in {MINUTE_S - passed_s} s.",
                code="rate_limited",
                retry_after_s=MINUTE_S - passed_s,
            )
    return allowance


def check_request(ports: Ports, principal: Principal, kind: RequestKind) -> None:
    """Count a request that sends no message. Raises LimitError `rate_limited`, as above; DependencyError."""
    minute, passed_s = divmod(int(ports.clock.now().timestamp()), MINUTE_S)
    whose = principal.tenant, principal.project, principal.user
    for scope, limit in ports.policy.rates.of(*whose, kind):
        if ports.rate.tally(scope, minute, kind) > limit:
            raise LimitError(
                f"{'You' if scope.kind == 'user' else 'All users here together'} may ask for {limit} {kind} a minute."
                f" Please try again in {MINUTE_S - passed_s} s.",
                code="rate_limited",
                retry_after_s=MINUTE_S - passed_s,
            )


def claim_storage(ports: Ports, lane: Lane, allowance: Allowance, wanted: WantedHold) -> bool:
    """Hold the storage of an expected file; return False if storage is not limited and nothing is held.

    Raises LimitError `limit_storage`, DependencyError.
    """
    if all(limits.storage_bytes is None for limits in allowance.limits):
        return False
    if not hold_storage(ports, lane, allowance.scopes, allowance.limits, wanted):
        excess = find_excess(ports, allowance, size_bytes=wanted.size_bytes)
        if excess is None or excess.code != "limit_storage":  # room has become free since
            excess = Excess(code="limit_storage", kind="user", window="held", retry_after_s=HELD_S)
        raise _limit_error(excess)
    return True


def check_admission(
    ports: Ports, allowance: Allowance, draft: Draft, *, uploaded_bytes: int = 0
) -> Mapping[Scope, Used]:
    """Refuse a draft that opens or joins a turn beyond a budget, or adds files beyond the storage.

    `uploaded_bytes` of its files are counted already. A new turn needs the minimum hold of its first round. Return the
    usage of the accounts, as far as it was read.

    Raises LimitError `stopped`, `limit_tokens`, `limit_usd`, `limit_storage`; DependencyError.
    """
    events = [entry for entry in draft.entries if isinstance(entry, Inbound)]
    if any(event.steers for event in events):
        return {}
    check_stopped(allowance)
    works = draft.state.status == "open"
    size_bytes = sum(file.size_bytes for event in events for file in event.attachments) - uploaded_bytes
    if not (works or size_bytes):
        return {}
    used, need = read_used(ports, allowance), least_round(ports) if _opens(draft) else NOTHING
    excess = find_excess(ports, allowance, need=need, size_bytes=size_bytes, used=used)
    if excess is not None and (works or excess.code == "limit_storage"):
        raise _limit_error(excess)
    return used


def _opens(draft: Draft) -> bool:
    return any(isinstance(entry, Opened) for entry in draft.entries)


def _bound(
    ports: Ports, allowance: Allowance, used: Mapping[Scope, Used]
) -> Iterator[tuple[Scope, int, Excess]]:
    """Yield the accounts whose concurrent turns are bounded, with the number and the limit that sets it."""
    for scope, limits in allowance.pairs():
        bounds = []
        if (most := limits.turns_at_once) is not None:
            bounds.append((most, Excess(code="limit_turns", kind=scope.kind, retry_after_s=BUSY_S)))
        if scope in used and (room := turns_within(scope, limits, used[scope], least_round(ports))):
            bounds.append(room)
        if bounds:
            yield (scope, *min(bounds, key=lambda bound: bound[0]))


def claim_slots(
    ports: Ports, lane: Lane, allowance: Allowance, draft: Draft, used: Mapping[Scope, Used]
) -> Slots | None:
    """Return the slots that the turn of a draft takes with its open mark; None if concurrent turns are not bounded.

    They are bounded by a separate limit, and for a new turn also by a budget that, after the amount `used`, has room
    for only a few. A turn that continues after an answer takes slots, too, beyond the limit if necessary. Raises
    LimitError `limit_turns`, `limit_tokens`, `limit_usd`.
    """
    opens = _opens(draft)
    limited = list(_bound(ports, allowance, used if opens else {}))
    if not limited or not (opens or any(isinstance(entry, ApprovalAnswered) for entry in draft.entries)):
        return None
    held = ports.log.held_slots(lane)
    taken: list[Slot] = []
    for scope, limit, excess in limited:
        if any(slot.scope == scope for slot in held):
            continue
        there = ports.log.taken_slots(scope)
        if opens and len(there) >= limit:
            if ports.log.held_slots(lane) != held:  # a turn of this lane has opened or ended meanwhile
                return claim_slots(ports, lane, allowance, draft, used)
            raise _limit_error(excess)
        free = [index for index in range(max(limit, len(there) + 1)) if index not in there]
        taken.append(Slot(scope=scope, index=secrets.choice(free)))
    return Slots(held=held, taken=tuple(taken))


def _limit_error(excess: Excess, reason: str = "") -> LimitError:
    """Return the error that reports a limit to a client."""
    sentence = limit_sentence(excess.code, excess.names)
    return LimitError(
        f"{sentence} ({reason})" if reason else sentence, code=excess.code, retry_after_s=excess.retry_after_s
    )


def check_budget(ports: Ports, allowance: Allowance) -> None:
    """Refuse work while it is stopped, or once a budget is used up; stored files need none.

    Raises LimitError `stopped`, `limit_tokens`, `limit_usd`; DependencyError.
    """
    check_stopped(allowance)
    excess = find_excess(ports, allowance)
    if excess is not None and excess.code != "limit_storage":
        raise _limit_error(excess)


def check_stopped(allowance: Allowance) -> None:
    """Refuse work while it is stopped. Raises LimitError `stopped`."""
    found = allowance.stopped()
    if found is not None:
        raise _limit_error(*found)
