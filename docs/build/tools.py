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

## References

A parameter `ref:<path>` of `react.write`, or of a tool outside `react.*`, stands for the content at that path. The content is put in
its place before the tool runs, so the model writes no text twice. A value that begins with `ref:` is a reference, at any depth; a text
that is to begin so begins with something else. `exec_tools.execute_code_python` takes none: its contract is shown before it runs.

| written | stands for |
|---|---|
| `ref:fi:<turn>.outputs/a.md`, `ref:tc:<turn>.<call>.result`, any path of the log | its text; where the tool takes no text, what its JSON says |
| `ref:so:sources_pool[1,3]` | these rows, as a list; `sources_list` takes nothing else |
| `ref:<turn>/outputs/a.md`, `ref:outputs/a.md`, `ref:files/…`, `ref:attachments/…` | the same, by the logical path; the notice `protocol_warning.ref_path_normalized` names it |

A reference reads this conversation's log, and of it what the model has in view: a path of a piece that it reads, an open plan, a row
of the pool. Skills and documents of a bundle are not read, nor is any folder. A decision with any other reference is refused, with the
notice `protocol_violation.param_ref_not_visible`, whose `violations` begin with a code:

| code | |
|---|---|
| `ref_not_visible` | no path, nothing stands there, or it is not in view |
| `ref_internal_not_visible` | a file of channel `internal`, for `rendering_tools.write_*` |
| `sources_list_requires_sources_pool` | `sources_list` takes rows of the pool |
| `ref_not_text`, `content_too_large` | bytes, or more than 16 MiB |

The decision records the content of each reference by its hash (`bound`), before anything runs. A call that is tried again gets that
content, whatever stands at the path by then. What a reference brings is not searched for others. A write by reference shows clients
nothing while it is generated; its file comes with its result.
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
