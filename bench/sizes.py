"""Memory sizes: cost times time of each function at the sizes that it may have, from CPU time, memory and waits.

Lambda gives a function a core for each 1,769 MB, and a whole one while it initialises. So a larger size shortens
computation and makes waiting more expensive. Source: docs.aws.amazon.com/lambda, "Configure Lambda function memory".
"""

from __future__ import annotations

import itertools
import json
import statistics
from collections.abc import Mapping
from typing import Final, NamedTuple

from bench.cold import NO_INTERPRETER, Runs, find_interpreter, new_processes
from bench.row import Row
from stepline.delivery.stream_page import WAIT_MOST_S
from stepline_cdk.function import SIZES

FUNCTIONS: Final = ("authorizer", "socket", "stream", "decide", "act", "close")
TO_CHOOSE: Final = (256, 512, 1024, 1769)
GOAL: Final = 1.15
CALLS: Final = 8
ROUNDS: Final = 3
CORE_MIB: Final = 1769
COLD: Final = 0.1
"""The part of the calls that find no process: one in ten, for an agent that few people use at a time."""
CALL_S: Final = 0.005
WAITS_S: Final[Mapping[str, float]] = {"decide": 5.0, "stream": WAIT_MOST_S}
"""Waits for AWS, by the call; for the model's whole answer, and of a reader of a stream."""
LEAST_MIB: Final = {"decide": 512, "act": 512, "close": 512}
"""Least sizes of the functions that read a whole conversation: a long one takes several times what one of a turn does."""
PROGRAM: Final = """\
import json, sys, time
from types import SimpleNamespace
events = sys.stdin.read().splitlines()
from lambdas.{name} import handler
context = SimpleNamespace(
    function_name="bench", memory_limit_in_mb=512, invoked_function_arn="arn:aws:lambda:::function:bench:live", aws_request_id="1"
)
marks = [time.process_time()]
for event in events:
    handler(json.loads(event), context)
    marks.append(time.process_time())
print("SPENT", json.dumps([marks, int(open("/proc/self/status").read().partition("VmHWM:")[2].split()[0]) / 1024]))
"""


class Needs(NamedTuple):
    """CPU seconds of a function's initialisation, first call and later calls; its memory, and what a call waits."""

    initial_s: float
    first_s: float
    warm_s: float
    resident_mib: float
    waits_s: float

    def seconds(self, mib: int) -> float:
        """Return the mean time of a call at a size."""
        core = min(1.0, mib / CORE_MIB)
        cold_s = self.initial_s + self.first_s / core
        return COLD * cold_s + (1 - COLD) * self.warm_s / core + self.waits_s

    def product(self, mib: int) -> float:
        """Return the cost times the time of a mean call; the price of a MiB cancels in every ratio."""
        return mib * self.seconds(mib) ** 2


def rows() -> list[Row]:
    """Return `size_<function>`; the stage is started if it is not up."""
    found = find_interpreter()
    if found is None:
        return [
            Row(metric=f"size_{name}", value=None, unit="x", goal=GOAL, note=NO_INTERPRETER)
            for name in FUNCTIONS
        ]
    with new_processes(*found, ways=("bytecode",)) as runs_of:
        return [_row(name, _measure(name, runs_of["bytecode"])) for name in FUNCTIONS]


def _measure(name: str, runs: Runs) -> Needs:
    program = PROGRAM.format(name=name)
    seen = [runs.warm(name, program, CALLS) for _ in range(ROUNDS)]
    spent = [json.loads(lines[-1].removeprefix("SPENT ")) for lines, _ in seen]
    marks = [marks for marks, _ in spent]
    waits_s = statistics.mean(requests for _, requests in seen) * CALL_S
    return Needs(
        initial_s=statistics.median(each[0] for each in marks),
        first_s=statistics.median(each[1] - each[0] for each in marks),
        warm_s=statistics.median(
            after - before for each in marks for before, after in itertools.pairwise(each)
        ),
        resident_mib=max(resident for _, resident in spent),
        waits_s=waits_s + WAITS_S.get(name, 0),
    )


def _row(name: str, needs: Needs) -> Row:
    chosen = SIZES[name].memory_mib
    allowed = [mib for mib in TO_CHOOSE if mib >= LEAST_MIB.get(name, 0)]
    best = min(needs.product(mib) for mib in allowed)
    return Row(
        metric=f"size_{name}",
        value=round(needs.product(chosen) / best, 2),
        unit="x",
        peers={f"{mib} MB": round(needs.product(mib) / best, 2) for mib in TO_CHOOSE},
        goal=GOAL,
        note=f"{chosen} MB over the best of {', '.join(map(str, allowed))}; CPU {needs.initial_s * 1000:.0f} ms before the first call, "
        f"{needs.first_s * 1000:.0f} in it, {needs.warm_s * 1000:.0f} in a later one; {needs.resident_mib:.0f} MiB; "
        f"waits {needs.waits_s * 1000:.0f} ms; a mean call takes {needs.seconds(chosen) * 1000:.0f} ms",
    )
