"""Importing a function in a new process: CPU time, beside its dependencies alone and other libraries, and modules.

Modules of the standard library are not counted, for they differ between versions of Python; those of packages differ
a little, so they are counted on the oldest Python alone.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from bench.budget import BUDGETS
from bench.row import HANDLERS, Limit, MeasureError, Row

ROOT = Path(__file__).resolve().parents[1]
ROUNDS = 5
GOAL_TIMES = 15.0
PROGRAMS = {
    "pass": "pass",
    "boto3_dynamodb_s3": "import boto3; [boto3.client(name, region_name='us-east-1') for name in ('dynamodb', 's3')]",
    "anthropic": "import anthropic",
    **{handler: f"import lambdas.{handler}" for handler in HANDLERS},
}


COUNTED_ON = (3, 11)
COUNT = """\
import sys
before = set(sys.modules)
import lambdas.{handler}
print(sum(name.partition(".")[0] not in sys.stdlib_module_names for name in set(sys.modules) - before))
"""


def rows() -> list[Row]:
    """Return `import_cpu_ms_<handler>` and `modules_<handler>`."""
    return [*_timed_rows(), *module_rows()]


def module_rows() -> list[Row]:
    """Return `modules_<handler>`."""
    counted = sys.version_info[:2] == COUNTED_ON
    return [
        Row(
            metric=(metric := f"modules_{handler}"),
            value=count_modules(handler) if counted else None,
            unit="modules",
            goal=BUDGETS[metric].aim,
            note="" if counted else "counted on Python {}.{} alone".format(*COUNTED_ON),
        )
        for handler in HANDLERS
    ]


def count_modules(handler: str) -> int:
    """Return the modules that a new process loads for a function, but for the standard library's."""
    program = COUNT.format(handler=handler)
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return int(done.stdout)


def _timed_rows() -> list[Row]:
    best = dict.fromkeys(PROGRAMS, float("inf"))
    for number in range(ROUNDS + 1):  # the first time writes bytecode and warms the disk
        for name, program in PROGRAMS.items():
            spent_ms = cpu_ms_of(program)
            if number:
                best[name] = min(best[name], spent_ms)
    peers = {name: round(best[name], 1) for name in ("boto3_dynamodb_s3", "anthropic")}
    return [
        Row(
            metric=f"import_cpu_ms_{handler}",
            value=round(best[handler], 1),
            unit="ms CPU",
            peers=peers,
            limit=Limit("python -c pass", round(best["pass"], 1)),
            goal_times=GOAL_TIMES,
        )
        for handler in HANDLERS
    ]


def cpu_ms_of(program: str) -> float:
    """Return the CPU milliseconds of a new interpreter that runs a program and ends."""
    child = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT)
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise MeasureError(f"{program!r} ended with {child.returncode}")
    return (used.ru_utime + used.ru_stime) * 1000
