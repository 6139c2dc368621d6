"""docs/reference/tools.md: every tool, from its own schema."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from docs.build import DOCS
from stepline.tools.catalogue import default_registry
from stepline.tools.knowledge import SEARCH
from stepline.tools.spec import ToolSpec, inner_objects, render_type

PATH: Final = DOCS / "reference/tools.md"

_HEAD = """\
# Tools

Made from the tools' own schemas by `make docs`; a test keeps this page in step. The same
schema makes the model's catalogue and checks every call. Unknown parameters are refused, and a refused call is a
result that the model reads and can mend. How paths are written: [paths](paths.md).

Effect: `pure` may run again, `keyed` repeats under the same name, `once` is recorded before it starts and never
runs twice. A deployment that runs no programs has none of the tools that are for programs, and an agent whose
[bundle](../how-to/write-a-bundle.md) has no documents has no `react.search_knowledge`.
"""


def documented_specs() -> tuple[ToolSpec, ...]:
    """Return the contracts of all tools in the library, including those of only some agents."""
    return (*default_registry(executes=True).specs, SEARCH)


def render() -> str:
    """Return the page."""
    return "\n".join([_HEAD, *(_section(spec) for spec in documented_specs())])


def _section(spec: ToolSpec) -> str:
    lines = [
        f"## {spec.tool_id}",
        "",
        spec.purpose,
        "",
        f"Effect `{spec.effect}`.{_callers(spec)}{_ending(spec)} Returns {spec.returns}.",
        "",
    ]
    if spec.key_order:
        lines += [
            f"Parameters are written in this order: {', '.join(f'`{key}`' for key in spec.key_order)}.",
            "",
        ]
    lines += [
        "| parameter | type | default | meaning |",
        "|---|---|---|---|",
        *_rows(spec.schema, prefix=""),
        "",
    ]
    for example in spec.examples:
        lines += ["```json", json.dumps(example, ensure_ascii=False, indent=2), "```", ""]
    return "\n".join(lines)


def _callers(spec: ToolSpec) -> str:
    if not spec.in_exec:
        return ""
    return " Programs may call it as well." if spec.in_react else " Only programs may call it."


def _ending(spec: ToolSpec) -> str:
    return " Ends early when the user steers." if spec.cancellable else ""


def _rows(schema: Mapping[str, Any], prefix: str) -> list[str]:
    rows = []
    for name, rule in schema["properties"].items():
        required = name in schema.get("required", ())
        default = "required" if required else _default(rule)
        kind = render_type(rule).replace("|", "\\|")
        rows.append(f"| `{prefix}{name}` | {kind} | {default} | {rule['description']} |")
        for inner in inner_objects(rule):
            rows += _rows(inner, prefix=f"{prefix}{name}[].")
    return rows


def _default(rule: Mapping[str, Any]) -> str:
    return f"`{json.dumps(rule['default'])}`" if "default" in rule else ""
