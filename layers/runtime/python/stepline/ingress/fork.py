"""Fork: a new conversation that continues another one of its owner from a batch of the past, without copying it.

One transaction puts the fork's first batch, a row at the origin, and the reservation of the fork's first number; a copy of
the origin's segment is stored before. The origin does not change. Source: docs/concepts/forks.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from msgspec.structs import replace

from stepline.delivery.effect import project, publish
from stepline.errors import BusyError, InputError, LimitError, NotFoundError
from stepline.events.derive import render_title
from stepline.ingress.admit import pending, settle_request
from stepline.inspection.made_calls import fit_calls, made_calls
from stepline.log.bindings import Ports
from stepline.log.fence import DELETED, check_owner
from stepline.log.fork_tree import root_lane
from stepline.log.journal import Draft, Journal, fork_of, lane_of, origin_lane
from stepline.log.owned_tail import owned_tail
from stepline.log.timeline_cache import History, copy_segment
from stepline.log.transition import epoch_ms, forked
from stepline.loop.close import fork_end, hand_back_all
from stepline.model.base import Value
from stepline.model.batch import EMPTY, Batch, State, forked_from
from stepline.model.entry import TITLE_CHARS, Decided, Entry, Forked, Inbound, Owner, Titled
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


@dataclass(frozen=True, kw_only=True)
class _Start:
    """The start of a fork: its origin, the last batch that it has from there, and its own first entry.

    `last` is the origin's newest batch. `untitled`: the origin has no title yet, and the model will name the fork.
    """

    origin: Journal
    begin: Batch
    last: int
    first: Forked
    untitled: bool


def fork_conversation(
    ports: Ports,
    lane: Lane,
    point: ForkPoint,
    *,
    user: str,
    conversation: str,
    title: str = "",
    branch: bool = False,
) -> Batch:
    """Fork a conversation at a point under a new name; return the fork's first batch, also if it exists already.

    A branch belongs to the tree of the conversation, has its title, and may begin before its first batch.

    Raises:
        NotFoundError: the origin is absent or foreign, or `conversation_deleted`; `fork_point_not_found`.
        InputError: `fork_beyond_end`; `conversation_exists`, the name is taken; `import_unfinished`.
        LimitError: `fork_too_deep`, the origin is a fork of a fork … of ORIGINS_MAX conversations.
        BusyError: the lane is contended; the client sends again.
    """
    origin = Journal(ports, lane, "fork")
    tail = owned_tail(origin, user)
    n = find_point(origin, tail, point, branch=branch)
    start = _Start(
        origin=origin,
        begin=_begin(origin, tail, n),
        last=tail.n,
        first=_first(ports, lane, tail.state, n, branch=branch),
        untitled=branch and not tail.state.titled,
    )
    journal = Journal(ports, replace(lane, conversation=conversation), "fork")
    try:
        batch = _put(journal, start, user=user, title=title)
    except NotFoundError as error:
        if error.reason == DELETED and ports.erasure and ports.erasure.tombstone(journal.lane):
            raise _exists() from error
        raise
    publish(ports, journal.lane, batch)
    project(ports, journal.lane, batch)
    return batch


def _begin(origin: Journal, tail: Batch, n: int) -> Batch:
    """Return the last batch that a fork has from its origin; without any, the empty one with the owner and the bundle."""
    if not n:
        return replace(EMPTY, state=State(owner=tail.state.owner, bundle=tail.state.bundle))
    begin = origin.get(n)
    if begin is None:
        raise _deleted()
    return replace(begin, state=replace(begin.state, importing=0))  # the origin's import has ended


def _first(ports: Ports, lane: Lane, state: State, n: int, *, branch: bool) -> Forked:
    """Return the entry with which a fork begins.

    The conversation in which a branch is made counts it, also if the batch is one of an origin: so they have one root,
    end together, and the branch finds the files of the message that it edits.
    """
    source, at = lane_of(ports.log, lane, n), utc(ports.clock.now())
    if not branch:
        return Forked(origin=source.conversation, n=n, at=at)
    return Forked(
        origin=source.conversation,
        n=n,
        at=at,
        branch_of=root_lane(lane, state).conversation,
        counted_at="" if lane == source else lane.conversation,
    )


def _put(journal: Journal, start: _Start, *, user: str, title: str) -> Batch:
    """Put the first batch of a fork, or return it if an earlier try did."""
    ports, draft = journal.ports, None

    def plan(found: Batch) -> Draft | Batch | None:
        if found is start.begin:
            return draft
        return _existing(journal, found, start.first, user) if found.n else None

    for _ in range(ports.policy.append_tries):
        there = ports.log.tail(journal.lane, consistent=True)
        if there is None and draft is None:
            _check_depth(ports, origin_lane(journal.lane, start.first))
            draft = _draft(journal, start, title)
        batch = journal.commit(plan, tail=there or start.begin)
        if batch is not None:  # else nothing is there, and the first put never arrived
            return batch
    raise BusyError("the fork is contended", tries=ports.policy.append_tries)


def find_point(journal: Journal, tail: Batch, point: ForkPoint, *, branch: bool = False) -> int:
    """Return the number of the last batch of the origin that a fork has; that of a `branch` may be 0.

    The first batch of a fork is none of a branch: a message that is edited again and again makes branches of one origin,
    not one within the other. Raises NotFoundError `fork_point_not_found`, InputError `fork_beyond_end`.
    """
    n = _find(journal, tail, point)
    if n > tail.n:
        raise InputError(f"the conversation ends at {tail.n} and has no batch {n}", code="fork_beyond_end")
    if n < (0 if branch else 1):
        raise _not_found(point)
    if branch and tail.state.forked:
        while n and (batch := journal.get(n)) and forked_from(batch):
            n -= 1
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


def _existing(journal: Journal, tail: Batch, first: Forked, user: str) -> Batch:
    """Return the first batch of the fork that an earlier try of this request put. Raises InputError."""
    there = journal.get(tail.state.forked) if tail.state.forked else None
    entry = forked_from(there) if there else None
    if there is None or entry is None or replace(entry, at=first.at, effects=()) != first:
        raise _exists()
    check_owner(tail, user)
    return there


def _draft(journal: Journal, start: _Start, title: str) -> Draft:
    """Plan the fork's first batch: it ends the open turn, and hands back the messages that no turn has processed."""
    origin, begin, state = start.origin, start.begin, start.begin.state
    first = replace(start.first, effects=fit_calls(made_calls(origin, begin, start.last)))
    entries: list[Entry] = [first]
    if not begin.n:
        entries.append(Owner(user=state.owner, bundle=state.bundle))
    if state.status == "open":
        suffix = origin.since(state.rendered, upto=begin.n, consistent=True)
        entries += hand_back_all(suffix, state)
        if asked := pending(origin, state):
            entries.append(settle_request(asked, state, "withdrawn", message_id="", at=first.at))
        entries += fork_end(suffix, state, first.at)
    given = title or _title(journal.ports, origin.lane, suffix="" if first.branch_of else SUFFIX)
    entries.append(Titled(title=given, at=first.at))
    source = origin_lane(journal.lane, first)
    following = forked(
        state,
        begin.n + 1,
        segment=copy_segment(journal.ports, source, journal.lane, state.segment),
        begun_ms=epoch_ms(first.at),
        branch_of=first.branch_of,
    )
    if start.untitled and not title:
        following = replace(following, titled=0)
    return Draft(entries=tuple(entries), state=following)


def _title(ports: Ports, lane: Lane, *, suffix: str) -> str:
    row = ports.log.listing(lane)
    return f"{render_title(row.title if row else '')[: TITLE_CHARS - len(suffix)]}{suffix}".strip()


def _exists() -> InputError:
    return InputError("a conversation of this name exists, or was deleted", code="conversation_exists")


def _deleted() -> NotFoundError:
    return NotFoundError("the conversation was deleted", code=DELETED)
