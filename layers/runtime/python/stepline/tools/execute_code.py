"""`exec_tools.execute_code_python`: run a program of the model in isolation, for the files it promises.

This module holds only the contract. The program is the text of the code channel, never a parameter. The
loop sends it to the backend that runs programs: this tool never runs like the others.
Source: docs/reference/tools.md#exec_toolsexecute_code_python.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NoReturn

from stepline.errors import ToolError
from stepline.model.program.promise import read_promises
from stepline.tools.context import ToolContext
from stepline.tools.parameter import closed_schema, param
from stepline.tools.registry import Tool
from stepline.tools.spec import ToolSpec


def promised_files(params: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the files of a contract, by the names it uses; it is validated when the run is planned."""
    names = (promise.get("filename", "").strip() for promise in read_promises(params.get("contract")))
    return tuple(name for name in names if name)


EXECUTE: Final = ToolSpec(
    tool_id="exec_tools.execute_code_python",
    purpose=(
        "Run the Python program of the channel `code`, alone and without a network, and keep the files of its "
        "contract. Not for text that you can write yourself: that is react.write."
    ),
    schema=closed_schema(
        {
            "contract": param(
                ["array", "string"],
                "every file that the program will write, at least one; or the same list as JSON text",
                items={
                    "properties": {
                        "filename": param(
                            "string",
                            "required; outputs/… or files/… of this turn; a bare name goes to outputs/",
                        ),
                        "description": param("string", "required; what the file will hold, for the user"),
                        "visibility": param(
                            "string",
                            "external: the user gets the file; internal: only you and later programs",
                            default="external",
                        ),
                    },
                },
            ),
            "prog_name": param(
                "string", "a short name of the program, which the user sees while it runs", maxLength=200
            ),
            "timeout_s": param(
                "integer",
                "seconds after which the program is ended; the limit of this deployment if left out",
                minimum=1,
            ),
        },
        "contract",
    ),
    returns=(
        "a report (status, file errors, missing files, end of the program's output), then each kept file by its "
        "logical path, texts with a preview"
    ),
    effect="once",
    read_only=False,
    examples=(
        {
            "contract": [
                {"filename": "outputs/totals.csv", "description": "Monthly totals"},
                {"filename": "outputs/totals.png", "description": "Bar chart of the monthly totals"},
            ],
            "prog_name": "Monthly totals",
        },
    ),
    runs_code=True,
    outputs=promised_files,
    strategies=("exploration", "exploitation"),
)


def exec_tool() -> Tool:
    """Return the tool, for the registry of a deployment that runs programs."""
    return Tool(spec=EXECUTE, run=_refuse)


def _refuse(_params: Mapping[str, Any], _context: ToolContext) -> NoReturn:
    raise ToolError("programs do not run here: a run begins with its code", code="execution_unavailable")
