"""Programs: the one that sums up a table by month, and what can be told of a program that ran.

What is told comes from the result in the timeline, never from what the program was meant to do.
"""

from __future__ import annotations

import json
import re
from string import Template
from typing import Any, Final

from stepline.errors import PathError
from stepline.local.scripted.goal import Goal
from stepline.local.scripted.reading import Call, View
from stepline.local.scripted.speech import quote
from stepline.local.scripted.table import find_table
from stepline.model.path import FilePath, parse_path, physical

EXEC_TOOL: Final = "exec_tools.execute_code_python"
CHART: Final = "monthly_totals.png"
TOTALS: Final = "monthly_totals.csv"
LOG_LINES: Final = 20

_PROGRAM: Final = Template(
    """\
import os
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

root = Path(os.environ["OUTPUT_DIR"])
outputs = root / $turn / "outputs"
outputs.mkdir(parents=True, exist_ok=True)

table = pd.read_csv(root / $source)
date = next(name for name in table.columns if "date" in name.lower())
amount = table.select_dtypes("number").columns[-1]
month = pd.to_datetime(table[date]).dt.strftime("%Y-%m")
totals = table[amount].groupby(month).sum().rename_axis("month").rename("total")

totals.to_csv(outputs / "$totals", float_format="%.2f")

figure, axes = plt.subplots(figsize=(8, 4.5))
axes.bar(totals.index, totals.values, color="#3b6ea5")
axes.set_title("Monthly totals")
axes.set_ylabel(amount)
figure.autofmt_xdate()
figure.tight_layout()
figure.savefig(outputs / "$chart", dpi=120)

print("| month | total |")
print("|---|---:|")
for name, total in totals.items():
    print(f"| {name} | {total:.2f} |")
"""
)
_OF_TURN: Final = re.compile(r"\b(turn_[A-Za-z0-9_-]{1,64}/(?:files|outputs)/[^\s\"'`]+)")
_STATUS: Final = re.compile(r"\AStatus: error — (?P<status>.+?)\.?$", re.MULTILINE)
_ERROR: Final = re.compile(r"^error: (?P<json>\{.*\})$", re.MULTILINE)
_LOG: Final = re.compile(r"^Program log \(tail[^\n]*\):\n(?P<log>(?: {4}.*(?:\n|$))+)", re.MULTILINE)


def totals_program(source: str, turn: str) -> str:
    """Return the program that sums up the table at a logical path for the given turn."""
    return _PROGRAM.substitute(
        source=json.dumps(physical(parse_path(source))), turn=json.dumps(turn), totals=TOTALS, chart=CHART
    )


def run_params(goal: Goal) -> dict[str, Any]:
    """Return the parameters of a run: the files that it promises, its name, and how long it may take."""
    if goal.totals:
        files = [
            (f"outputs/{CHART}", "Bar chart of the monthly totals"),
            (f"outputs/{TOTALS}", "Monthly totals"),
        ]
    else:
        files = [
            (name, "Written by the program you gave me") for name in goal.outputs or ("outputs/result.txt",)
        ]
    contract = [{"filename": name, "description": what} for name, what in files]
    name = "Monthly totals" if goal.totals else "Your program"
    return {
        "contract": contract,
        "prog_name": name,
        **({"timeout_s": goal.timeout_s} if goal.timeout_s else {}),
    }


def find_source(goal: Goal, view: View) -> str:
    """Return the logical path of the table that a goal speaks of: the newest of its name, or the newest of all."""
    if goal.data.startswith("fi:"):
        return goal.data if _is_file(goal.data) else ""
    wanted = f"/{goal.data}" if goal.data else ".csv"
    found = [path for path in _known(view) if path.endswith(wanted)]
    return next((path for path in reversed(found) if goal.data or not path.endswith(f"/{TOTALS}")), "")


def files_needed(goal: Goal, source: str, view: View) -> list[str]:
    """Return the files of earlier turns that a goal's program opens."""
    turn = view.current.turn_id
    named = [source] if goal.totals else [path for path in _named(goal.code) if path in set(_known(view))]
    return [path for path in named if path and not path.startswith(f"fi:{turn}.")]


def _known(view: View) -> list[str]:
    """Return the files that the timeline speaks of, in order."""
    return [path for turn in view.turns for call in turn.calls for path in call.paths if _is_file(path)]


def _named(code: str) -> list[str]:
    """Return the logical paths of the files that a program names by their physical path."""
    return [f"fi:{text.replace('/', '.', 1)}" for text in dict.fromkeys(_OF_TURN.findall(code))]


def _is_file(path: str) -> bool:
    try:
        return isinstance(parse_path(path), FilePath)
    except PathError:
        return False


def report_run(goal: Goal, call: Call, source: str) -> str:
    """Return what came of a run, in the words of its result."""
    log = _end_of_log(call)
    if call.unverified:
        return (
            "The run was interrupted, so I cannot tell whether the program did its work. "
            "I do not run it a second time on my own."
        )
    if call.failed:
        return f"The program did not succeed: {_why(call)}.{_fenced(log)}"
    files = [path for path in call.paths if _is_file(path)]
    kept = "".join(f"\n- `{path}`" for path in files)
    if not goal.totals:
        return f"The program ran.{_fenced(log)}" + (f"\n\nIt wrote:{kept}" if kept else "")
    table = find_table(log)
    if not table:
        return f"The program ran, but I found no table in what it printed.{_fenced(log)}"
    return f"Monthly totals of `{source}`:\n\n{table}\n\nThe chart is `outputs/{CHART}`. All files:{kept}"


def _report(call: Call) -> str:
    return next((text for path, text in call.blocks if path.endswith(".result")), "")


def _why(call: Call) -> str:
    status = _STATUS.search(_report(call))
    if status:
        return quote(status["status"], limit_chars=300)
    error = _ERROR.search(call.result)
    try:
        facts = json.loads(error["json"]) if error else {}
    except ValueError:
        facts = {}
    said = [str(facts[key]) for key in ("code", "message") if facts.get(key)]
    return quote(": ".join(said) or call.result, limit_chars=300).rstrip(".")


def _end_of_log(call: Call) -> str:
    found = _LOG.search(_report(call))
    lines = [line.removeprefix("    ") for line in found["log"].splitlines()] if found else []
    return "\n".join(lines[-LOG_LINES:])


def _fenced(log: str) -> str:
    return f" It printed:\n\n```text\n{log.replace('```', chr(39) * 3)}\n```" if log else ""
