"""Fork: a new conversation that continues another one of its owner from a batch of the past, without copying it.

One transaction puts the fork's first batch, a row at the origin, and the reservation of the fork's first number; a copy of
the origin's segment is stored before. The origin does not change. Source: docs/concepts/forks.md.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from msgspec.structs import replace

from stepline.delivery.effect import project, publish
from stepline.errors import BusyError, InputError, LimitError, NotFoundError
from stepline.events.derive import render_title
from stepline.ingress.admit import pending, settle_request
from stepline.log.bindings import Ports
from stepline.log.fence import DELETED, check_owner
from stepline.log.journal import Draft, Journal, fork_of, lane_of, origin_lane
from stepline.log.owned_tail import owned_tail
from stepline.log.timeline_cache import History, copy_segment
from stepline.log.transition import epoch_ms, forked
from stepline.loop.close import fork_end, hand_back_all
from stepline.model.base import Value
from stepline.model.batch import Batch, forked_from
from stepline.model.entry import TITLE_CHARS, Decided, Entry, Forked, Inbound, Titled
from stepline.model.ids import Lane, utc
from stepline.rendering.turn_facts import Turn

ORIGINS_MAX: Final = 16
"""The most logs that a reader of a fork goes through, after its own."""
SUFFIX: Final = " (fork)"
PointKind: TypeAlias = Literal["batch", "turn", "round", "message"]


class ForkPoint(Value):
    """The place in the origin at which a fork begins: after a batch, turn, round or message, or `before` it.

    `at` is the number of the batch, also of the one that decided a round, or the id of the turn or the message.
    """

    kind: PointKind
    at: str
    before: bool = False


def fork_conversation(
    ports: Ports, lane: Lane, point: ForkPoint, *, user: str, conversation: str, title: str = ""
) -> Batch:
    """Fork a conversation at a point under a new name; return the fork's first batch, also if it exists already.

    Raises:
        NotFoundError: the origin is absent or foreign, or `conversation_deleted`; `fork_point_not_found`.
        InputError: `fork_beyond_end`; `conversation_exists`, the name is taken; `import_unfinished`.
        LimitError: `fork_too_deep`, the origin is a fork of a fork … of ORIGINS_MAX conversations.
        BusyError: the lane is contended; the client sends again.
    """
    origin = Journal(ports, lane, "fork")
    tail = owned_tail(origin, user)
    n = find_point(origin, tail, point)
    journal = Journal(ports, replace(lane, conversation=conversation), "fork")
    begin = origin.get(n)
    if begin is None:
        raise NotFoundError("the conversation was deleted", code=DELETED)
    source = lane_of(ports.log, lane, n)
    begin = replace(begin, state=replace(begin.state, importing=0))  # the origin's import has ended
    batch = _put(journal, origin, source, begin, user=user, title=title)
    publish(ports, journal.lane, batch)
    project(ports, journal.lane, batch)
    return batch


def _put(journal: Journal, origin: Journal, source: Lane, begin: Batch, *, user: str, title: str) -> Batch:
    """Put the first batch of a fork after `begin`, or return it if an earlier try did."""
    ports, draft = journal.ports, None

    def plan(found: Batch) -> Draft | Batch | None:
        if found.n and found is not begin:
            return _existing(journal, found, source, begin.n, user)
        return draft if found.n else None

    for _ in range(ports.policy.append_tries):
        there = ports.log.tail(journal.lane, consistent=True)
        if there is None and draft is None:
            _check_depth(ports, source)
            draft = _draft(journal, origin, source, begin, title or _title(ports, origin.lane))
        batch = journal.commit(plan, tail=there or begin)
        if batch is not None:  # else nothing is there, and the first put never arrived
            return batch
    raise BusyError("the fork is contended", tries=ports.policy.append_tries)


def find_point(journal: Journal, tail: Batch, point: ForkPoint) -> int:
    """Return the number of the last batch of the origin that a fork has.

    Raises NotFoundError `fork_point_not_found`, InputError `fork_beyond_end`.
    """
    n = _find(journal, tail, point)
    if n > tail.n:
        raise InputError(f"the conversation ends at {tail.n} and has no batch {n}", code="fork_beyond_end")
    if n < 1:
        raise _not_found(point)
    return n


def _find(journal: Journal, tail: Batch, point: ForkPoint) -> int:
    if point.kind == "batch":
        return _number(point) - point.before
    if point.kind == "message":
        return _admitted(journal, point) - point.before
    timeline = History().load(journal, segment=tail.state.segment, consistent=True)
    if point.kind == "turn":
        turn = next((one for one in timeline.history if one.id == point.at), None)
        if turn is None:
            raise _not_found(point)
        return min(turn.opened, *turn.prompts) - 1 if point.before else turn.closed or tail.n
    return _round(journal, timeline.history, tail, point)


def _round(journal: Journal, turns: list[Turn], tail: Batch, point: ForkPoint) -> int:
    """Return the newest batch that a round had seen, or the last one before what the next round decided."""
    n = _number(point)
    batch = journal.get(n) if n <= tail.n else None
    if batch is None or not _decides(batch):
        raise _not_found(point)
    if point.before:
        return batch.state.rendered
    turn = next(one for one in turns if one.id == batch.state.turn)
    later = journal.since(n, upto=turn.closed or tail.n, consistent=True)
    following = next((one for one in later if _decides(one)), None)
    return following.state.rendered if following else turn.closed or tail.n


def _admitted(journal: Journal, point: ForkPoint) -> int:
    for batch in journal.since(0, consistent=True):
        for entry in batch.entries:
            if isinstance(entry, Inbound) and entry.message_id == point.at:
                return batch.n
    raise _not_found(point)


def _decides(batch: Batch) -> bool:
    return any(isinstance(entry, Decided) for entry in batch.entries)


def _number(point: ForkPoint) -> int:
    if not (point.at.isascii() and point.at.isdigit() and len(point.at) <= 12):
        raise _not_found(point)
    return int(point.at)


def _not_found(point: ForkPoint) -> NotFoundError:
    where = "nothing before" if point.before else "no"
    return NotFoundError(
        f"the conversation has {where} {point.kind} {point.at[:80]}", code="fork_point_not_found"
    )


def _check_depth(ports: Ports, source: Lane) -> None:
    lane, depth = source, 1
    while (first := fork_of(ports.log, lane)) is not None:
        lane, depth = origin_lane(lane, first), depth + 1
    if depth > ORIGINS_MAX:
        raise LimitError(
            f"a fork goes through at most {ORIGINS_MAX} conversations",
            code="fork_too_deep",
            limit=ORIGINS_MAX,
        )


def _existing(journal: Journal, tail: Batch, source: Lane, n: int, user: str) -> Batch:
    """Return the first batch of the fork that an earlier try of this request put. Raises InputError."""
    first = journal.get(tail.state.forked) if tail.state.forked else None
    entry = forked_from(first) if first else None
    if first is None or entry is None or (entry.origin, entry.n) != (source.conversation, n):
        raise InputError("a conversation of this name exists", code="conversation_exists")
    check_owner(tail, user)
    return first


def _draft(journal: Journal, origin: Journal, source: Lane, begin: Batch, title: str) -> Draft:
    """Plan the fork's first batch: it ends the open turn, and hands back the messages that no turn has processed."""
    state, at = begin.state, utc(journal.ports.clock.now())
    entries: list[Entry] = [Forked(origin=source.conversation, n=begin.n, at=at)]
    if state.status == "open":
        suffix = origin.since(state.rendered, upto=begin.n, consistent=True)
        entries += hand_back_all(suffix, state)
        if asked := pending(origin, state):
            entries.append(settle_request(asked, state, "withdrawn", message_id="", at=at))
        entries += fork_end(suffix, state, at)
    entries.append(Titled(title=title, at=at))
    segment = copy_segment(journal.ports, source, journal.lane, state.segment)
    following = forked(state, begin.n + 1, segment=segment, begun_ms=epoch_ms(at))
    return Draft(entries=tuple(entries), state=following)


def _title(ports: Ports, lane: Lane) -> str:
    row = ports.log.listing(lane)
    return f"{render_title(row.title if row else '')[: TITLE_CHARS - len(SUFFIX)]}{SUFFIX}".strip()
