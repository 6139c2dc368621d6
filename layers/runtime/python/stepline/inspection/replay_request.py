"""Replays of single rounds, as the API starts and shows them: the same request once more, with one thing changed.

The function that makes one appends nothing to the log and runs no tool. Its result is a row that is kept for an hour.
Source: docs/concepts/time-travel.md#one-round.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal

from stepline.errors import InputError, LimitError, NotFoundError
from stepline.inspection.model_reply import Reply, show_decision
from stepline.inspection.rounds import WholeValue
from stepline.inspection.sent_request import find_decision
from stepline.log.journal import Journal
from stepline.model.ids import utc
from stepline.ports.round_replay import (
    REPLAY_TTL_S,
    ReplayCall,
    ReplayWish,
    RoundReplay,
    RoundReplays,
    StartReplay,
)

REPLAYS_MAX: Final = 3
"""The replays of one round that are kept; the oldest ones go."""
SYSTEM_MAX_BYTES: Final = 128 * 1024
"""The longest system part of a replay, in UTF-8: a row has at most 400 KB."""
START_S: Final = 120
"""How long a replay may wait for its function."""
REPLAY_LOST: Final = "replay_lost"
"""The code of a replay that was not over in time: its function was not called, or was killed."""


@dataclass(frozen=True, kw_only=True)
class ReplayPorts:
    """The ports of replays in addition to the loop's; `models` are those that the deployment names, the default first."""

    replays: RoundReplays
    start: StartReplay
    models: Sequence[str] = ()


class ReplayView(WholeValue):
    """A replay. `text` is the model's text so far; an ended one has the `reply`, a failed one a `code` and a sentence.

    `equal` is false if this release renders the recorded request differently. `usd` is None if the price of the model is
    not known, `first_ms` the time from the request to the first text, in milliseconds.
    """

    replay: str
    decided_n: int
    model: str
    effort: str
    system: str
    state: Literal["running", "ended", "failed"]
    asked_at: str
    ended_at: str
    text: str
    reply: Reply | None
    equal: bool
    usd: float | None
    first_ms: int | None
    code: str
    message: str


class ReplayList(WholeValue):
    """The replays of a round that are kept, oldest first, and the `models` that another one may ask."""

    items: tuple[ReplayView, ...]
    models: tuple[str, ...]


def start_replay(desk: ReplayPorts, journal: Journal, user: str, wish: ReplayWish, *, key: str = "") -> str:
    """Start a replay of a round of the user's conversation; return its id.

    The same wish under the same idempotency `key` is one replay. Raises NotFoundError `round_not_found`; InputError:
    `unknown_model`, `idempotency_key_reused`; LimitError `limit_exceeded`, the system part is too long; DependencyError.
    """
    lane, now = journal.lane, journal.ports.clock.now()
    if len(wish.system.encode("utf-8", "surrogatepass")) > SYSTEM_MAX_BYTES:
        raise LimitError(f"a system part has at most {SYSTEM_MAX_BYTES} bytes", limit=SYSTEM_MAX_BYTES)
    if wish.model and wish.model not in desk.models:
        raise InputError("this deployment names no such model", code="unknown_model")
    bundle = _bundle_of(journal, wish.decided_n)
    fresh = RoundReplay(
        id=_name(wish.decided_n, journal, user, key),
        wish=wish,
        asked_at=utc(now),
        until=utc(now + timedelta(seconds=START_S)),
        expires_at=int(now.timestamp()) + REPLAY_TTL_S,
    )
    if not desk.replays.add(lane, user, fresh):
        known = desk.replays.get(lane, user, fresh.id)
        if known is not None and known.wish != wish:
            raise InputError("this key was used for another replay", code="idempotency_key_reused")
    others = [one for one in desk.replays.of_round(lane, user, wish.decided_n) if one.id != fresh.id]
    for old in others[: 1 - REPLAYS_MAX]:
        desk.replays.drop(lane, user, old.id)
    # Also for a known one: the first request may have ended before the call. The function makes each replay once.
    desk.start(ReplayCall(lane=lane, user=user, replay=fresh.id, bundle=bundle))
    return fresh.id


def _bundle_of(journal: Journal, n: int) -> str:
    """Return the bundle of a batch that decides a round. Raises NotFoundError `round_not_found`."""
    decided = journal.get(n)
    if decided is None:
        raise NotFoundError(f"this conversation has no batch {n}", code="round_not_found")
    find_decision(decided)
    return decided.state.bundle


def _name(n: int, journal: Journal, user: str, key: str) -> str:
    if not key:
        return f"{n}-{secrets.token_hex(16)}"
    digest = hashlib.sha256(chr(0).join((journal.lane.key(), user, key)).encode()).hexdigest()
    return f"{n}-{digest[:32]}"


def read_replay(desk: ReplayPorts, journal: Journal, user: str, replay_id: str) -> ReplayView:
    """Return a replay of the user's conversation. Raises NotFoundError `replay_not_found`, DependencyError."""
    found = desk.replays.get(journal.lane, user, replay_id)
    if found is None:
        raise NotFoundError("there is no such replay; each is kept for an hour", code="replay_not_found")
    return show_replay(found, journal.ports.clock.now())


def list_replays(desk: ReplayPorts, journal: Journal, user: str, decided_n: int) -> ReplayList:
    """Return the kept replays of a round. Raises DependencyError."""
    found, now = desk.replays.of_round(journal.lane, user, decided_n), journal.ports.clock.now()
    return ReplayList(items=tuple(show_replay(one, now) for one in found), models=tuple(desk.models))


def show_replay(replay: RoundReplay, now: datetime) -> ReplayView:
    """Return a replay as its client sees it at a time; one that is not over in time has failed."""
    over = replay.state in ("ended", "failed")
    lost = not over and now >= datetime.fromisoformat(replay.until)
    decided = replay.decided
    return ReplayView(
        replay=replay.id,
        decided_n=replay.wish.decided_n,
        model=replay.wish.model,
        effort=replay.wish.effort,
        system=replay.wish.system,
        state="failed" if lost or replay.state == "failed" else "ended" if over else "running",
        asked_at=replay.asked_at,
        ended_at=replay.until if lost else replay.ended_at,
        text=replay.text,
        reply=show_decision(decided, ended_at=replay.ended_at) if decided else None,
        equal=replay.equal,
        usd=replay.usd,
        first_ms=replay.first_ms,
        code=REPLAY_LOST if lost else replay.code,
        message="The replay was not over in time." if lost else replay.message,
    )
