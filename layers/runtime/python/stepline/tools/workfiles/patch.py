"""`react.patch`: change a text file of the current turn, by a unified diff or by its whole new text.

The file is read from the artifact store and the result stored under its hash, as `react.write` does. A patch applies
as a whole or not at all. One that does not fit changes nothing, and names the line and the read that shows it.
Source: docs/reference/tools.md#reactpatch.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, NamedTuple

from stepline.errors import NotFoundError, PathError, ToolError
from stepline.model.block import Block
from stepline.model.path import FilePath, artifact_path, physical
from stepline.model.program.execution import WorkFile
from stepline.timeline.workspace import fold_files
from stepline.tools.context import ToolContext, ToolOutput, render_json
from stepline.tools.parameter import PATH, choice, closed_schema, param
from stepline.tools.registry import Tool
from stepline.tools.spec import ToolSpec
from stepline.tools.workfiles.syntax_check import find_syntax_flaw
from stepline.tools.workfiles.unified_diff import (
    Applied,
    AppliedHunk,
    Mismatch,
    apply_diff,
    is_diff,
    parse_diff,
    render_diff,
    split_lines,
    unfence,
)
from stepline.tools.write import Writing, keep_text

PATCHED_MAX_BYTES: Final = 1024 * 1024
PATCH_MAX_CHARS: Final = 512 * 1024
LINE_CHARS: Final = 300
AROUND_LINES: Final = 10
SPANS_SHOWN: Final = 50

PATCH: Final = ToolSpec(
    tool_id="react.patch",
    purpose=(
        "Change a text file of this turn in files/ or outputs/, whoever made it. A file of an earlier turn is "
        "checked out first."
    ),
    schema=closed_schema(
        {
            "path": {**PATH, "description": "files/… or outputs/…; a bare name is in outputs/"},
            "channel": choice(
                ["canvas", "internal"],
                "canvas shows the patch to the user, internal to nobody but you",
                default="canvas",
            ),
            "patch": param(
                "string",
                "a unified diff (it begins with `---`, `+++` or `@@`) with a few lines of context, else the whole new "
                "text; never with the line numbers of a read",
                minLength=1,
                maxLength=PATCH_MAX_CHARS,
            ),
            "kind": choice(["display", "file"], "as in react.write", default="display"),
            "format": choice(["diff", "whole"], "what patch is, if its beginning does not tell"),
        },
        "path",
        "patch",
    ),
    returns=(
        "the file's facts, the lines that changed and the diff as applied; of one that does not fit the first "
        "wrong line and a `suggested_read`"
    ),
    effect="keyed",
    read_only=False,
    strategies=("exploitation",),
    key_order=("path", "channel", "patch", "kind"),
    outputs=lambda params: (params["path"],),
    examples=(
        {
            "path": "files/app/main.py",
            "channel": "canvas",
            "patch": "@@ -3,2 +3,2 @@\n def area(r):\n-    return r * r\n+    return 3.14159 * r * r\n",
        },
    ),
)


class Patched(NamedTuple):
    """A new text, and the changes of a diff that made it."""

    text: str
    changes: tuple[AppliedHunk, ...] = ()


def run_patch(params: Mapping[str, Any], context: ToolContext) -> ToolOutput:
    """Patch one file. Raises PathError, ToolError for mistakes that the model can correct."""
    path = read_target(params["path"], context.turn)
    old = _load(path, context)
    patch, by_diff = read_patch(params)
    _check_pasted(patch, old, by_diff=by_diff)
    found = apply_diff(old, parse_diff(patch)) if by_diff else Patched(patch)
    if isinstance(found, Mismatch):
        return _misfit(path, found, context)
    channel: Literal["canvas", "internal"] = params.get("channel", "canvas")
    kind: Literal["display", "file"] = "file" if channel == "internal" else params.get("kind", "display")
    writing = Writing(path=path, text=found.text, channel=channel, kind=kind, scratchpad=False)
    written = keep_text(writing, PATCH.tool_id, context)
    facts = {
        "path": str(path),
        "ok": True,
        "format": "diff" if by_diff else "whole",
        **_change_facts(found),
        **written.facts,
    }
    blocks = [*_check(path, found.text, context), context.result(PATCH.tool_id, facts), written.block]
    if found.changes:
        blocks.append(_diff_block(path, found.changes, written.block, context))
    return ToolOutput(blocks=tuple(blocks), sources=written.sources)


def read_target(text: str, turn: str) -> FilePath:
    """Return the file to patch.

    Raises PathError; ToolError `patch_requires_current_turn_path`, `patch_unsupported_namespace`.
    """
    try:
        return artifact_path(turn, text)
    except PathError as refused:
        if refused.reason == "path_not_writable":
            raise ToolError(str(refused), code="patch_unsupported_namespace") from refused
        if refused.reason != "path_not_current_turn":
            raise
        named = text.removeprefix("conv:")
        hint = f"react.checkout {render_json({'mode': 'overlay', 'paths': [named]})}"
        raise ToolError(
            "files of an earlier turn never change: take a file below files/ over with react.checkout and patch "
            "that one, or write a new one",
            code="patch_requires_current_turn_path",
            checkout_hint=hint if ".files/" in named else None,
            suggested_path=refused.context.get("suggested_path"),
        ) from refused


def read_patch(params: Mapping[str, Any]) -> tuple[str, bool]:
    """Return the patch, and whether it is a diff. Raises ToolError `missing_patch`."""
    patch: str = params["patch"]
    if not patch.strip():
        raise ToolError("the patch is blank", code="missing_patch")
    form = params.get("format")
    if form == "whole":
        return patch, False
    bare = unfence(patch)
    by_diff = form == "diff" or is_diff(bare)
    return (bare if by_diff else patch), by_diff


def _load(path: FilePath, context: ToolContext) -> str:
    """Return the file's text. Raises ToolError `patch_target_missing`, `patch_target_unreadable`."""
    where = physical(path)
    assert where is not None
    file = fold_files(context.timeline.turn_blocks(context.turn)).get(where)
    if file is None:
        raise ToolError(
            "this turn has no such file; react.rg lists them, react.checkout takes over those of an earlier turn",
            code="patch_target_missing",
        )
    if file.size_bytes > PATCHED_MAX_BYTES:
        raise ToolError(
            f"files above {PATCHED_MAX_BYTES} bytes are not patched", code="patch_target_unreadable"
        )
    return _decode(file, context)


def _decode(file: WorkFile, context: ToolContext) -> str:
    try:
        data = context.artifacts.get(file.key)
    except NotFoundError as error:
        raise ToolError("the log names bytes that are gone from the store", code="body_missing") from error
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise ToolError(f"{file.mime} is no text: a program changes it", code="patch_target_unreadable")
    return text


_GUTTER: Final = re.compile(r" {0,6}[0-9]{1,9}\t")
_MARKERS: Final = ("[READ PREVIEW", "[READ RANGE]", "[TEXT FILE PREVIEW]")
NUMBERED_MIN, NUMBERED_SURE, NUMBERED_PERCENT = 2, 5, 35


def _check_pasted(patch: str, old: str, *, by_diff: bool) -> None:
    """Refuse text that was copied from a read with its line numbers, unless the file itself looks so.

    Raises ToolError `patch_contains_preview_line_numbers`.
    """
    lines = split_lines(patch)
    bodies = [line[1:] for line in lines if line[:1] in (" ", "+", "-")] if by_diff else lines
    if looks_pasted(bodies) and not looks_pasted(split_lines(old)):
        raise ToolError(
            "the patch holds line numbers or headers of a read, which are no part of the file; write it without them",
            code="patch_contains_preview_line_numbers",
        )


def looks_pasted(lines: Iterable[str]) -> bool:
    """Return True if lines look like those of a read: numbered, or with its headers."""
    filled = [line for line in lines if line.strip()]
    if any(line.startswith(_MARKERS) for line in filled):
        return True
    numbered = sum(_GUTTER.match(line) is not None for line in filled)
    many = numbered >= NUMBERED_MIN and numbered * 100 >= len(filled) * NUMBERED_PERCENT
    return many or numbered >= NUMBERED_SURE


def _change_facts(found: Applied | Patched) -> dict[str, Any]:
    """Return the facts of the changes: their positions, and the hunks that were not at the stated line."""
    if not found.changes:
        return {}
    signs = [line.sign for change in found.changes for line in change.lines]
    facts: dict[str, Any] = {
        "hunks": len(found.changes),
        "added": signs.count("+"),
        "removed": signs.count("-"),
        "changed": [
            {"line_start": first, "line_count": count}
            for first, count in (change.span for change in found.changes[:SPANS_SHOWN])
        ],
    }
    facts |= {"moved": moved} if (moved := [one.number for one in found.changes if one.moved]) else {}
    loose = [one.number for one in found.changes if one.loose]
    return facts | ({"white_space_ignored": loose} if loose else {})


def _diff_block(
    path: FilePath, changes: tuple[AppliedHunk, ...], content: Block, context: ToolContext
) -> Block:
    """Return the diff as a view of the file: it has its own path, so it is never mistaken for the file."""
    body = content.body
    assert body is not None
    meta = {"source_path": str(path), "source_sha256": body.sha256, "whole": False}
    text = render_diff(f"{path.space}/{path.rel}", changes)
    return context.block(PATCH.tool_id, context.path("view.0"), mime="text/plain", text=text, meta=meta)


def _check(path: FilePath, text: str, context: ToolContext) -> list[Block]:
    flaw = find_syntax_flaw(path.rel, text)
    if flaw is None:
        return []
    message = f"The file was patched, but line {flaw.line} is no longer valid: {flaw.message[:LINE_CHARS]}."
    extra = {"path": str(path), "line": flaw.line, "suggested_read": _suggest(path, flaw.line, 1)}
    return [context.notice(PATCH.tool_id, "post_patch_check_failed", message, extra)]


def _misfit(path: FilePath, found: Mismatch, context: ToolContext) -> ToolOutput:
    """Return the output of a diff that does not fit: nothing was changed."""
    if found.places:
        named = ", ".join(map(str, found.places))
        message = f"hunk {found.hunk} fits at several lines ({named}): give it more context"
    else:
        message = f"hunk {found.hunk} does not fit: the file has another line {found.target_line}"
    diagnostic: dict[str, Any] = {
        "hunk_index": found.hunk,
        "requested_start_line": found.stated,
    }
    if found.places:
        diagnostic["places"] = found.places
    else:
        diagnostic["first_mismatch"] = {
            "patch_line": found.patch_line,
            "target_line": found.target_line,
            "expected": _clip(found.expected),
            "actual": None if found.actual is None else _clip(found.actual),
        }
    code = "hunk_mismatch"
    facts = {
        "path": str(path),
        "mismatch_diagnostic": diagnostic,
        "suggested_read": _suggest(path, found.target_line, found.line_count),
    }
    notice = context.notice(PATCH.tool_id, code, f"Nothing was changed: {message}.", facts)
    status = context.result(PATCH.tool_id, {"path": str(path), "ok": False, "error": {"code": code}})
    return ToolOutput(status="error", blocks=(notice, status), error={"code": code, "message": message})


def _suggest(path: FilePath, line: int, count: int) -> dict[str, Any]:
    """Return the item of a read that shows lines of the file, with some around them."""
    first = max(1, line - AROUND_LINES)
    return {
        "path": str(path),
        "line_start": first,
        "line_count": line - first + count + AROUND_LINES,
        "line_numbers": "disabled",
    }


def _clip(line: str) -> str:
    return line.rstrip("\n")[:LINE_CHARS]


PATCH_TOOL: Final = Tool(spec=PATCH, run=run_patch)
