"""The contract of `react.read`."""

from __future__ import annotations

from typing import Any, Final

from stepline.tools.spec import ToolSpec

REQUESTS_MAX: Final = 40

_PATH: Final = {"type": "string", "minLength": 1, "maxLength": 2048}
_LINE_NUMBERS: Final = {
    "enum": ["lines", "sparsed", "disabled", True, False],
    "description": "number every line of a range (the default), a few, or none; numbers are no part of the text",
}
# Every keyword speaks of one type only, so one schema takes both and says exactly what is wrong with either.
_ITEM: Final[dict[str, Any]] = {
    **_PATH,
    "type": ["object", "string"],
    "additionalProperties": False,
    "required": ["path"],
    "properties": {
        "path": {**_PATH, "description": "logical path"},
        "line_start": {"type": "integer", "minimum": 1, "description": "first line, from 1"},
        "line_count": {"type": "integer", "minimum": 1, "description": "how many lines"},
        "offset_text_symbols": {
            "type": "integer",
            "minimum": 0,
            "description": "first character, from 0, instead of lines",
        },
        "max_text_symbols": {"type": "integer", "minimum": 1, "description": "at most so many characters"},
        "line_numbers": _LINE_NUMBERS,
    },
}

READ: Final = ToolSpec(
    tool_id="react.read",
    purpose=(
        "Show what stands at logical paths: events and answers (ar:), tool calls and results (tc:), files (fi:), "
        "working summaries (ws:), rows of the pool of sources (so:sources_pool[1,3-5]). Use it for what you do not see in full; what you already see is not repeated."
    ),
    schema={
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "paths": {
                "type": "array",
                "maxItems": REQUESTS_MAX,
                "items": _PATH,
                "description": "logical paths to show from their beginning; give paths, items, or both",
            },
            "items": {
                "type": "array",
                "maxItems": REQUESTS_MAX,
                "items": _ITEM,
                "description": "exact ranges, served in order; several may name one path",
            },
            "max_text_symbols": {
                "type": "integer",
                "minimum": 1,
                "description": "ask for fewer characters a path than the limit in ANNOUNCE",
            },
            "line_numbers": _LINE_NUMBERS,
            "stats_only": {
                "type": "boolean",
                "default": False,
                "description": "sizes, lines and tokens only, no content",
            },
        },
    },
    returns=(
        "a status with a row per request, then what is shown, each at a path of its own; a piece that was cut "
        "ends with the request that continues it"
    ),
    effect="pure",
    read_only=True,
    in_exec=True,
    strategies=("exploration",),
    examples=(
        {"paths": ["fi:turn_20261121T101500_ab12cd.outputs/report.md"]},
        {
            "items": [
                {
                    "path": "tc:turn_20261121T101500_ab12cd.tc_0123456789ab.result",
                    "line_start": 40,
                    "line_count": 20,
                }
            ]
        },
    ),
)
