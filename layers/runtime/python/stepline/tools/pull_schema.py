"""The contract of `react.pull`."""

from __future__ import annotations

from typing import Any, Final

from stepline.tools.spec import ToolSpec

REFS_MAX: Final = 40

_REF: Final[dict[str, Any]] = {"type": "string", "minLength": 1, "maxLength": 2048}

PULL: Final = ToolSpec(
    tool_id="react.pull",
    purpose=(
        "Bring files of earlier turns into the workspace, so that programs of this turn can open them. It shows "
        "nothing: react.read does. Files of this turn are there already, and a pulled file stays where it was "
        "written, under its own turn."
    ),
    schema={
        "type": "object",
        "additionalProperties": False,
        "required": ["paths"],
        "properties": {
            "paths": {
                "type": "array",
                "minItems": 1,
                "maxItems": REFS_MAX,
                "items": _REF,
                "description": (
                    "logical paths of files (fi:); a folder can be named below fi:<turn>.files/ only, outputs and "
                    "attachments one by one"
                ),
            },
        },
    },
    returns=(
        "a row per file or folder with its physical path, which is where a program finds it below OUTPUT_DIR; "
        "what could not be pulled, with the reason"
    ),
    effect="pure",
    read_only=True,
    strategies=("exploration",),
    examples=(
        {"paths": ["fi:turn_20261121T101500_ab12cd.outputs/sales.csv"]},
        {"paths": ["fi:turn_20261121T101500_ab12cd.files/site/"]},
    ),
)
