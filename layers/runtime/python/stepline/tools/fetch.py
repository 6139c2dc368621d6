"""`ctx_tools.fetch_ctx`: content of the conversation, whole, for a program to compute with.

`react.read` shows the model as much as fits; this gives a program everything: results as parsed
JSON or text, and rows of the source pool. Files are not fetched: they are in the program's folders.
Source: docs/reference/tools.md#ctx_toolsfetch_ctx.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from stepline.errors import PathError, ToolError
from stepline.model.path import SourcesPath, parse_path
from stepline.tools.content import load_content, source_rows
from stepline.tools.context import ToolContext, ToolOutput
from stepline.tools.parameter import closed_schema, param
from stepline.tools.registry import Tool
from stepline.tools.spec import ToolSpec

PATHS_MAX: Final = 40

_PATH: Final = {"type": "string", "maxLength": 2048}

FETCH: Final = ToolSpec(
    tool_id="ctx_tools.fetch_ctx",
    purpose=(
        "Give a program what stands at logical paths, whole: events and answers (ar:), tool calls and results (tc:), "
        "rows of the source pool (so:). Files are not fetched, they lie below OUTPUT_DIR."
    ),
    schema=closed_schema(
        {
            "path": {
                **_PATH,
                **param(
                    ["string", "array"],
                    "one logical path, or a list of them",
                    items=_PATH,
                    minItems=1,
                    maxItems=PATHS_MAX,
                ),
            }
        },
        "path",
    ),
    returns=(
        "for one path an object with `path` and either `ret`, which has `payload` (parsed JSON, or rows) or `text`, "
        "or `err`, which has `code` and `message`; for a list of paths a list of that, in its order"
    ),
    effect="pure",
    read_only=True,
    examples=(
        {"path": "tc:turn_20261121T101500_ab12cd.tc_0123456789ab.result"},
        {"path": ["ar:turn_20261121T101500_ab12cd.user.prompt", "so:sources_pool[1-3]"]},
    ),
    in_react=False,
    in_exec=True,
)

_ELSEWHERE: Final = {
    "fi": ("invalid_path_file", "files are not fetched; pulled and current ones lie below OUTPUT_DIR"),
    "sk": ("invalid_path_skill", "skills are instructions for the agent and not for its programs"),
}
_MALFORMED: Final = {"ar": "not_found", "tc": "invalid_path_tc", "so": "invalid_path_so"}
"""The fetchable families, each with its code for a malformed path: `ar:` has an open set of names."""


def run_fetch(params: Mapping[str, Any], context: ToolContext) -> ToolOutput:
    """Answer each path separately: a refused one does not affect the others."""
    path = params["path"]
    if isinstance(path, str):
        return ToolOutput(ret=_fetch(path, context))
    return ToolOutput(ret=[_fetch(one, context) for one in path])


def _fetch(path: str, context: ToolContext) -> dict[str, Any]:
    try:
        return {"path": path, "ret": _load(path, context)}
    except (ToolError, PathError) as refused:
        return {"path": path, "err": {"code": refused.reason, "message": str(refused)}}


def _load(path: str, context: ToolContext) -> dict[str, Any]:
    family = _family(path)
    try:
        parsed = parse_path(path)
    except PathError as refused:
        raise ToolError(str(refused), code=_MALFORMED[family]) from refused
    if isinstance(parsed, SourcesPath):
        return {"payload": source_rows(parsed, context)}
    content = load_content(parsed, context)
    if content.text is None:
        raise ToolError(f"{content.mime} is no text", code="content_not_text")
    if content.mime.partition(";")[0] == "application/json":
        try:
            return {"payload": msgspec.json.decode(content.text)}
        except msgspec.DecodeError:
            return {"text": content.text}  # declared as JSON, but invalid: return it as text
    return {"text": content.text}


def _family(path: str) -> str:
    """Return the family of a path that can be fetched. Raises ToolError `invalid_path_<why>`."""
    text = path.strip().removeprefix("conv:")
    if not text:
        raise ToolError("a path is not empty", code="invalid_path_empty")
    family, colon, _ = text.partition(":")
    if family.startswith("sources_pool"):
        return "so"
    if not colon:
        raise ToolError("a logical path begins with ar:, tc: or so:", code="invalid_path_literal")
    if family not in _MALFORMED:
        code, message = _ELSEWHERE.get(family, ("invalid_path_kind", "only ar:, tc: and so: can be fetched"))
        raise ToolError(message, code=code)
    return family


FETCH_TOOL: Final = Tool(spec=FETCH, run=run_fetch)
