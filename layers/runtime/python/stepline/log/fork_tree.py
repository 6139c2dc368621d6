"""The tree of a conversation: its root, which is no branch, and all branches of that.

A branch is counted by the root or by another branch, so the tree is found from its root. Source: docs/concepts/forks.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from stepline.model.batch import ForkRow, State
from stepline.model.ids import Lane
from stepline.ports.log import Log


def root_lane(lane: Lane, state: State) -> Lane:
    """Return the lane of the root of a conversation's tree."""
    return replace(lane, conversation=state.branch_of or lane.conversation)


def walk_branches(log: Log, root: Lane) -> Iterator[ForkRow]:
    """Yield the branches of a root, each after the one that counts it, by a query for each conversation of the tree."""
    return walk_forks(log, root, lambda row: row.branch_of == root.conversation)


def walk_forks(log: Log, lane: Lane, keeps: Callable[[ForkRow], bool] = lambda _: True) -> Iterator[ForkRow]:
    """Yield the forks of a conversation and theirs that `keeps` allows, each after the one that counts it."""
    lanes = [lane]
    for above in lanes:
        for row in filter(keeps, log.forks(above)):
            lanes.append(replace(lane, conversation=row.conversation))
            yield row


def own_forks(log: Log, lane: Lane) -> list[ForkRow]:
    """Return the forks that a conversation counts and that are no branches."""
    return [row for row in log.forks(lane) if not row.branch_of]
