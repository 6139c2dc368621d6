"""`react.checkout`: copy files of the project from earlier turns, to continue with them in this one.

    collect  find all sources, and check the names of the result, before anything is reported
    swap     one result: the files that are removed (`meta.deleted` of its status), then a block for each new file

No byte is copied: a block names the body that the earlier turn stored. The result is one batch of the log, so a kill
leaves the project either unchanged or complete, and the workspace is folded from the log as always. A pull before it is
allowed and not needed: nothing has to be on a disk.
Source: docs/reference/tools.md#reactcheckout.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

from msgspec.structs import replace

from stepline.errors import ToolError
from stepline.model.block import Block, Body
from stepline.model.ids import TURN
from stepline.model.path import from_physical
from stepline.model.program.execution import WorkFile
from stepline.model.traversal import find_clashes
from stepline.rendering.result import SILENT
from stepline.timeline.workspace import (
    CHECKOUT_RECORD,
    DELETED_PATHS,
    folders_above,
    last_checkout,
    project_files,
)
from stepline.tools.context import ToolContext, ToolOutput, render_json
from stepline.tools.parameter import PATH, choice, closed_schema, param
from stepline.tools.pull import REFS_MAX, TREE_FILES_MAX, Ref, find_files, read_ref
from stepline.tools.registry import Tool
from stepline.tools.spec import ToolSpec

Mode = Literal["replace", "overlay"]

CHECKOUT_FILES_MAX: Final = 5_000
NAMED_MAX: Final = 80

INVALID: Final = "protocol_violation.checkout_invalid_paths"
MISSING: Final = "protocol_violation.checkout_missing_paths"
NONEMPTY: Final = "react.checkout.nonempty"
FAILED: Final = "react.checkout.failed"

CHECKOUT: Final = ToolSpec(
    tool_id="react.checkout",
    purpose=(
        "Go on with the project of earlier turns: their files below files/ become files of this turn, at the same "
        "place below files/, to be read, patched and run. All of them come, or none."
    ),
    schema=closed_schema(
        {
            "mode": choice(
                ["replace", "overlay"],
                "replace: files/ holds nothing else afterwards; overlay: the rest of files/ stays",
                default="replace",
            ),
            "paths": param(
                "array",
                "fi:<turn>.files/, a folder or a file below it; a later one wins over an earlier one",
                minItems=1,
                maxItems=REFS_MAX,
                items=PATH,
            ),
            "version": param("string", "a turn, instead of paths: all of its files/", maxLength=200),
            "force": param("boolean", "replace also what this turn wrote into files/", default=False),
        }
    ),
    returns="what was checked out from where, the tree of files/, and what was removed; their paths are this turn's",
    effect="pure",
    read_only=False,
    examples=(
        {"mode": "replace", "paths": ["fi:turn_20261121T101500_ab12cd.files/"]},
        {"mode": "overlay", "paths": ["fi:turn_20261121T101500_ab12cd.files/site/style.css"]},
    ),
)


class _CheckoutSource(NamedTuple):
    """A path of the call, and its files by their path below `files/`."""

    ref: Ref
    files: Mapping[str, WorkFile]


def run_checkout(params: Mapping[str, Any], context: ToolContext) -> ToolOutput:
    """Check out every path, or nothing. Raises ToolError for mistakes that the model can correct."""
    mode: Mode = params.get("mode", "replace")
    sources = _find_sources(_named(params), context)
    if isinstance(sources, ToolOutput):
        return sources
    new_files = {rel: file for source in sources for rel, file in source.files.items()}
    if len(new_files) > CHECKOUT_FILES_MAX:
        raise ToolError(
            f"a checkout takes over at most {CHECKOUT_FILES_MAX} files", code="checkout_too_large"
        )
    blocks = context.timeline.turn_blocks(context.turn)
    root = f"{context.turn}/files/"
    here = project_files(blocks, context.turn)
    kept = here if mode == "overlay" else {}
    _check_names(new_files, kept)
    gone = _lost(here, kept, new_files)
    if mode == "replace" and not params.get("force", False):
        _check_unsaved(gone, here, new_files, blocks)
    made = [_file_block(rel, new_files[rel], context) for rel in sorted(new_files)]
    earlier = last_checkout(blocks).refs if mode == "overlay" else ()
    from_ = list(dict.fromkeys([*earlier, *(source.ref.asked for source in sources)]))
    facts: dict[str, Any] = {
        "ok": True,
        "mode": mode,
        "checked_out_from": from_,
        "checked_out": [
            {"source": source.ref.asked, "files": len(source.files), **context.version_fact(source.ref.turn)}
            for source in sources
        ],
        "materialized": _tree(sorted((kept.keys() | new_files.keys()) - gone), context.turn),
        "missing": [],
        "errors": [],
    }
    if gone:
        facts |= {"removed": sorted(gone)[:NAMED_MAX], "removed_count": len(gone)}
    status = replace(
        context.result(CHECKOUT.tool_id, facts),
        meta={DELETED_PATHS: [f"{root}{rel}" for rel in sorted(gone)]},
    )
    return ToolOutput(blocks=(status, _record(facts, context), *made))


def _named(params: Mapping[str, Any]) -> list[str]:
    """Return the paths of a call. Raises ToolError `protocol_violation.checkout_missing_paths`, `…_invalid_paths`."""
    paths, version = params.get("paths"), params.get("version")
    if paths is not None and version is not None:
        raise ToolError("give paths or a version, not both", code=INVALID)
    if version is not None:
        if not TURN.fullmatch(version):
            raise ToolError(f"{version[:80]!r} is no turn", code=INVALID)
        return [f"fi:{version}.files/"]
    if paths is None:
        raise ToolError("name at least one path below fi:<turn>.files/", code=MISSING)
    return list(dict.fromkeys(paths))


def _find_sources(paths: Sequence[str], context: ToolContext) -> list[_CheckoutSource] | ToolOutput:
    """Return the files of every path; the output of a call if some of them cannot be checked out."""
    known: dict[str, dict[str, WorkFile]] = {}
    found: list[_CheckoutSource] = []
    invalid: list[dict[str, Any]] = []
    missing: list[dict[str, Any]] = []
    for text in paths:
        try:
            ref = _read_source(text, context.turn)
            ref, files = find_files(ref, known, context)
        except ToolError as error:
            absent = error.reason in ("turn_not_found", "not_found")
            (missing if absent else invalid).append(
                {"path": text[:300], "reason": error.reason, "message": str(error)}
            )
            continue
        root = f"{ref.turn}/files/"
        found.append(_CheckoutSource(ref, {path.removeprefix(root): file for path, file in files.items()}))
    if not (invalid or missing):
        return found
    code = INVALID if invalid else FAILED
    rows = {key: lost for key, lost in (("invalid", invalid), ("missing", missing)) if lost}
    message = f"nothing was checked out: {len(invalid) + len(missing)} of {len(paths)} paths cannot be"
    notice = context.notice(CHECKOUT.tool_id, code, f"{message}.", rows)
    status = context.result(
        CHECKOUT.tool_id, {"ok": False, "error": {"code": code}, "message": message, **rows}
    )
    return ToolOutput(status="error", blocks=(notice, status), error={"code": code, "message": message})


def _read_source(text: str, turn: str) -> Ref:
    """Parse a path to check out. Raises ToolError: those of a pull, `not_below_files`, `current_turn`."""
    ref = read_ref(text, turn)
    if ref.space != "files":
        raise ToolError(
            "only what stands below files/ is checked out; pull it to read it", code="not_below_files"
        )
    if ref.turn == turn:
        raise ToolError("files of this turn are there already", code="current_turn")
    return ref


def _check_names(new_files: Mapping[str, WorkFile], kept: Mapping[str, WorkFile]) -> None:
    """Refuse names that are equal on some systems. A path that is both a file and a folder becomes the new one."""
    above = {folder for rel in new_files for folder in folders_above(rel)}
    stays = {
        rel
        for rel in kept
        if rel not in above and not any(folder in new_files for folder in folders_above(rel))
    }
    clashes = find_clashes(stays | new_files.keys(), settled=stays)
    if clashes:
        rel, other = min(clashes.items())
        raise ToolError(
            f"{rel[:120]!r} cannot stand beside {other[:120]!r}: check out one of them",
            code="path_clash",
            taken=other,
        )


def _lost(
    here: Mapping[str, WorkFile], kept: Mapping[str, WorkFile], new_files: Mapping[str, WorkFile]
) -> set[str]:
    """Return the files that no longer exist: replaced, or in the way of a new folder or file."""
    above = {folder for rel in new_files for folder in folders_above(rel)}
    gone = set()
    for rel in here.keys() - new_files.keys():
        if rel not in kept or rel in above or any(folder in new_files for folder in folders_above(rel)):
            gone.add(rel)
    return gone


def _check_unsaved(
    gone: set[str], here: Mapping[str, WorkFile], new_files: Mapping[str, WorkFile], blocks: Sequence[Block]
) -> None:
    """Refuse to remove or overwrite files that this turn itself wrote. Raises ToolError `react.checkout.nonempty`."""
    came = {
        (block.path.partition(".files/")[2], block.body.sha256)
        for block in blocks
        if block.tool_id == CHECKOUT.tool_id and block.body is not None
    }
    changed = {rel for rel, file in new_files.items() if rel in here and here[rel].sha256 != file.sha256}
    own = sorted(rel for rel in gone | changed if (rel, here[rel].sha256) not in came)
    if own:
        raise ToolError(
            f"this turn wrote {len(own)} files below files/ that would be gone; use overlay, or force",
            code=NONEMPTY,
            files=own[:NAMED_MAX],
        )


def _file_block(rel: str, file: WorkFile, context: ToolContext) -> Block:
    """Return the block of a file of this turn, with the body that the earlier turn stored."""
    path = str(from_physical(f"{context.turn}/files/{rel}"))
    body = Body(key=file.key, sha256=file.sha256, size_bytes=file.size_bytes, mime=file.mime)
    return context.block(CHECKOUT.tool_id, path, mime=file.mime, body=body, meta={SILENT: True})


def _tree(files: Sequence[str], turn: str) -> dict[str, Any]:
    """Return the facts of the current files/."""
    omitted = max(0, len(files) - TREE_FILES_MAX)
    logical, root = f"fi:{turn}.files/", f"{turn}/files/"
    return {
        "file_count": len(files),
        "tree": files[:TREE_FILES_MAX],
        "tree_truncated": bool(omitted),
        "omitted_files": omitted,
        "target_root": root,
        "target_logical_root": logical,
        "path_rule": {"logical": f"{logical}<path>", "physical": f"{root}<path>"},
    }


def _record(status: Mapping[str, Any], context: ToolContext) -> Block:
    """Return the block that names the sources of files/."""
    facts = {"mode": status["mode"], "checked_out_from": status["checked_out_from"]}
    return context.block(
        CHECKOUT.tool_id,
        f"ar:{context.turn}.{CHECKOUT_RECORD}",
        type=CHECKOUT_RECORD,
        mime="application/json",
        text=render_json(facts),
        meta={SILENT: True},
    )


CHECKOUT_TOOL: Final = Tool(spec=CHECKOUT, run=run_checkout)
