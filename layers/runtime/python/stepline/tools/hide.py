"""`react.hide`: replace something in the newest part of the timeline by a short text.

Only content near the end may be hidden: a provider caches the prompt's beginning, and a change in it would
have to be paid for in full. Hidden content is not lost: its path leads to the whole, and reading it shows it again at
the end.
Source: docs/reference/tools.md#reacthide.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from msgspec.structs import replace

from stepline.context.media import choose_media
from stepline.context.rules import find_group, pre_tail
from stepline.errors import PathError, ToolError
from stepline.model.base import Value
from stepline.model.block import Block, Hide
from stepline.rendering.piece import byte_length, estimate_bytes, text_bytes
from stepline.tools.content import read_path
from stepline.tools.context import ToolContext, ToolOutput
from stepline.tools.parameter import PATH, closed_schema, param
from stepline.tools.registry import Tool
from stepline.tools.spec import ToolSpec

PATHS_MAX: Final = 20
REPLACEMENT_MAX_CHARS: Final = 700

_MESSAGES: Final = {
    "hide_before_cache": "it stands too far back: hiding it would spoil the cached part of the prompt",
    "hide_too_old": "too much stands behind it; only what is near the end can be hidden",
    "hide_gains_nothing": "the replacement is not shorter than what it would hide",
    "not_found": "nothing that you see stands at this path",
}

HIDE: Final = ToolSpec(
    tool_id="react.hide",
    purpose=(
        "Show a large result that is no longer needed by a short text in its place, to keep the context small. Only "
        "what was shown near the end can be hidden. Nothing is lost: react.read of the path shows it again."
    ),
    schema=closed_schema(
        {
            "path": {
                **PATH,
                "description": "logical path of what to hide, where it was shown last; of a read also the path of one view",
            },
            "paths": param(
                "array", "several of them, instead of path", minItems=1, maxItems=PATHS_MAX, items=PATH
            ),
            "replacement": param(
                "string", "what you need to remember of it", pattern="\\S", maxLength=REPLACEMENT_MAX_CHARS
            ),
        },
        "replacement",
    ),
    returns="for each path whether it is hidden, and how many tokens that saves; refused ones are told in a notice",
    effect="pure",
    read_only=False,
    strategies=("neutral",),
    examples=(
        {
            "path": "tc:turn_20261121T101500_ab12cd.tc_0123456789ab.result",
            "replacement": "build log, 400 lines: only test_login failed",
        },
    ),
)


class _HideOutcome(Value):
    """The outcome for one path. `code` says why it is not hidden; tokens are estimated."""

    path: str
    status: Literal["ok", "not_found", "too_old", "refused"]
    code: str = ""
    blocks_hidden: int = 0
    tokens_hidden: int = 0
    tail_tokens: int = 0
    overlay: Hide | None = None

    def row(self, tail_limit: int) -> dict[str, Any]:
        """Return the row of the status."""
        row: dict[str, Any] = {
            "path": self.path,
            "status": self.status,
            "blocks_hidden": self.blocks_hidden,
            "tokens_hidden": self.tokens_hidden,
            "tail_tokens": self.tail_tokens,
            "tail_limit": tail_limit,
        }
        return row | ({"before_cache": True} if self.code == "hide_before_cache" else {})


def run_hide(params: Mapping[str, Any], context: ToolContext) -> ToolOutput:
    """Hide every path that may be hidden. Raises ToolError `hide_nothing_named`."""
    named = [params["path"]] if "path" in params else []
    paths = list(dict.fromkeys([*named, *params.get("paths", ())]))
    if not paths:
        raise ToolError("name what to hide, in `path` or `paths`", code="hide_nothing_named")
    outcomes = [_hide(path, params["replacement"], context) for path in paths]
    limit = context.rules.editable_tail_tokens
    rows = [outcome.row(limit) for outcome in outcomes]
    status = context.result(HIDE.tool_id, rows[0] if len(rows) == 1 else {"paths": rows})
    overlays = tuple(outcome.overlay for outcome in outcomes if outcome.overlay)
    refused = [outcome for outcome in outcomes if outcome.code]
    notices = [_notice(index, outcome, context) for index, outcome in enumerate(refused)]
    if overlays:
        return ToolOutput(blocks=(*notices, status), hides=overlays)
    first = refused[0].code
    return ToolOutput(
        status="error", blocks=(*notices, status), error={"code": first, "message": _MESSAGES[first]}
    )


def _hide(text: str, replacement: str, context: ToolContext) -> _HideOutcome:
    """Judge one path by the limits of the editable tail."""
    pieces, rules = context.timeline.pieces, context.rules
    path = _canonical(text, context)
    found = find_group(pieces, path)
    if not found:
        return _HideOutcome(path=path, status="not_found", code="not_found")
    hidden = text_bytes(pieces[at] for at in found)
    after = text_bytes(pieces[found[0] :]) - hidden
    judged = _HideOutcome(path=path, status="ok", tail_tokens=estimate_bytes(after))
    if found[0] < pre_tail(pieces, rules):
        return replace(judged, status="too_old", code="hide_before_cache")
    if judged.tail_tokens > rules.editable_tail_tokens:
        return replace(judged, status="too_old", code="hide_too_old")
    if byte_length(replacement) >= hidden:
        return replace(judged, status="refused", code="hide_gains_nothing")
    attached = choose_media(context.timeline.media, rules)
    files = sum(one.tokens for at in found if (one := pieces[at].media) and one in attached)
    return replace(
        judged,
        blocks_hidden=len(found),
        tokens_hidden=estimate_bytes(hidden) + files,
        overlay=Hide(path=path, n=pieces[found[0]].n, replacement=replacement),
    )


def _canonical(text: str, context: ToolContext) -> str:
    """Return the path as the timeline shows it: canonical, with aliases resolved."""
    try:
        path = str(read_path(text, context.turn, context.resolvers))
    except PathError:
        return text[:300]
    if find_group(context.timeline.pieces, path):
        return path
    blocks = context.timeline.resolve(path)
    return blocks[-1].path or path if blocks else path


def _notice(index: int, outcome: _HideOutcome, context: ToolContext) -> Block:
    notice = context.notice(HIDE.tool_id, outcome.code, _MESSAGES[outcome.code], {"path": outcome.path})
    return replace(notice, path=context.path(f"notice.{index}")) if index else notice


HIDE_TOOL: Final = Tool(spec=HIDE, run=run_hide)
