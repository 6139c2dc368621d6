"""The services that a function used while it worked for a conversation, as AWS bills them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable

from stepline.model.base import Row, Value
from stepline.model.usage import ModelCall

ENDS = frozenset({"done", "stop"})
"""The routes after which an execution invokes nothing more."""
ENDING = frozenset({"decide", "close"})
"""The functions whose route may end an execution: the machine continues after every other one, whatever it returned."""


class Consumption(Row):
    """Counts of one or more invocations.

    `mb_ms` is the time of a function times its memory. Reads of the table are counted in halves of a unit
    (`read_units_x2`), since an eventually consistent one is half of one. `object_puts` are requests of the more
    expensive class (put, copy, list), `object_gets` all others that are billed. `posts` are frames to one connection,
    counted per started 32 KiB. `exec_ms` is the time of programs, wherever they ran; `task_ms`, `task_vcpu_ms` and
    `exec_mb_ms` are that of tasks, alone and times their processors and their memory.
    """

    invocations: int = 0
    function_ms: int = 0
    mb_ms: int = 0
    transitions: int = 0
    read_units_x2: int = 0
    write_units: int = 0
    object_puts: int = 0
    object_gets: int = 0
    posts: int = 0
    post_bytes: int = 0
    exec_ms: int = 0
    exec_mb_ms: int = 0
    searches: int = 0
    fetches: int = 0
    embeddings: int = 0
    task_ms: int = 0
    task_vcpu_ms: int = 0


class InvocationCost(Value):
    """The consumption of one invocation for a conversation.

    `turn` is "" if it worked for none. An invocation of a state has `epoch`, the `visit` of its execution (how many
    states were visited before), the machine's `attempt` and the `route` that it returned (`started` if it started a
    task), "" if it raised. `lost` counts the attempts of the previous state that cannot have reported: its last one
    died, and this state caught it. `calls` are its model calls that are in no batch: those of a replay.
    """

    turn: str
    function: str
    at: str
    used: Consumption
    epoch: int = 0
    visit: int = 0
    attempt: int = 0
    route: str = ""
    lost: int = 0
    calls: tuple[ModelCall, ...] = ()


def add_all(used: Iterable[Consumption]) -> Consumption:
    """Return the sum of counts."""
    totals = dict.fromkeys(Consumption.__struct_fields__, 0)
    for one in used:
        for name in totals:
            totals[name] += getattr(one, name)
    return Consumption(**totals)


def count_unreported(
    costs: Collection[InvocationCost], *, epochs: Iterable[int] = (), running: int = 0
) -> int:
    """Return the number of attempts of states without their own row, because their process died.

    `epochs` are those of the log, `running` is the one whose execution still runs: it misses only attempts that a later
    attempt or state proves. Without any row none is missing: the turns ran in no function. An attempt that AWS refused
    to run before a later one ran counts, too.
    """
    by_epoch: defaultdict[int, list[InvocationCost]] = defaultdict(list)
    for cost in costs:
        if cost.epoch:
            by_epoch[cost.epoch].append(cost)
    absent = [epoch for epoch in set(epochs) if costs and epoch not in by_epoch and epoch != running]
    return len(absent) + sum(
        _unreported_of(rows) + (epoch != running and not _is_over(rows)) for epoch, rows in by_epoch.items()
    )


def _unreported_of(rows: Collection[InvocationCost]) -> int:
    """Return the attempts of one execution that a later attempt, state or visit proves."""
    visits: defaultdict[int, defaultdict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    lost: dict[int, InvocationCost] = {}
    for row in rows:
        visits[row.visit][row.function].add(row.attempt)
        if row.lost:
            lost[row.visit] = row
    missed = 0
    for visit in range(max(visits) + 1):
        catcher = lost.get(visit)
        states = visits[visit]
        gaps = {name: max(attempts) + 1 - len(attempts) for name, attempts in states.items()}
        if catcher:
            missed += catcher.lost + gaps[catcher.function]
        else:
            missed += sum(gaps.values()) or not states
    return missed


def _is_over(rows: Collection[InvocationCost]) -> bool:
    """Return True if no visit must follow the last one of an execution: it ended there, or no attempt of it answered."""
    newest = max(row.visit for row in rows)
    last = [row for row in rows if row.visit == newest]
    ended = any(row.function in ENDING and row.route in ENDS for row in last)
    return ended or not any(row.route for row in last)
