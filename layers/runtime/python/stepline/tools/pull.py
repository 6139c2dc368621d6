"""`react.pull`: add files of earlier turns to the workspace of this turn's programs.

No file is copied here. The status keeps the physical paths in its meta, and the workspace is folded from the
log (`stepline.timeline.workspace`). Only stored bytes can be pulled: a view of a file is not the file.

    fi:<turn>.…          a file of an earlier turn, at its own path
    <namespace>:<rel>    content that a bundle's resolver finds, as a file of this turn: `.external.<namespace>.attachments/…`

Source: docs/reference/tools.md#reactpull.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any, Final, NoReturn

from msgspec.structs import replace

from stepline.errors import PathError, ToolError
from stepline.model.base import Value
from stepline.model.block import Block
from stepline.model.ids import TURN
from stepline.model.path import (
    AttachmentPath,
    FilePath,
    NamespacePath,
    from_physical,
    parse_path,
    physical,
)
from stepline.model.program.execution import WorkFile
from stepline.model.traversal import clean_text
from stepline.rendering.result import SILENT
from stepline.timeline.workspace import PULLED, fold_files, pick_files
from stepline.tools.content import load_content, read_path
from stepline.tools.context import ToolContext, ToolOutput, store_bytes
from stepline.tools.parameter import PATH, closed_schema, param
from stepline.tools.registry import Tool
from stepline.tools.spec import ToolSpec

REFS_MAX: Final = 40

PULL: Final = ToolSpec(
    tool_id="react.pull",
    purpose=(
        "Bring files of earlier turns into the workspace, where react.rg and programs of this turn find them. It shows "
        "nothing: react.read does. Files of this turn are there already. A pulled file stays where it was written, "
        "under its own turn, and never changes: react.checkout takes it over."
    ),
    schema=closed_schema(
        {
            "paths": param(
                "array",
                "logical paths of files (fi:); a folder can be named below fi:<turn>.files/ only, outputs and "
                "attachments one by one",
                minItems=1,
                maxItems=REFS_MAX,
                items=PATH,
            ),
        },
        "paths",
    ),
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


TREE_FILES_MAX: Final = 80
"""Maximum files of a folder that its row lists."""
DIGEST_CHARS: Final = 12
"""Hex digits in the folder of a file that a resolver found."""

_FOLDERS_OF_ATTACHMENTS = re.compile(
    r"(?:user\.attachments|external(?:\.[A-Za-z0-9_-]+(?:\.attachments(?:/[A-Za-z0-9_-]+)?)?)?)/?"
)
_WHOLE_SPACE = re.compile(rf"fi:(?P<turn>{TURN.pattern})\.(?P<space>files|outputs)/?")
_OF_TURN = re.compile(rf"fi:{TURN.pattern}\.(?P<rest>.+)", re.DOTALL)


class Ref(Value):
    """The target of one path: a turn's file, or all files below a folder, which ends with a slash."""

    asked: str
    turn: str
    path: str
    space: str


def run_pull(params: Mapping[str, Any], context: ToolContext) -> ToolOutput:
    """Pull every path in the order of the request; a refused one does not affect the others."""
    rows: list[dict[str, Any]] = []
    pulled: list[str] = []
    made: list[Block] = []
    refused: dict[str, list[dict[str, str]]] = {"missing": [], "invalid": [], "errors": []}
    known: dict[str, dict[str, WorkFile]] = {}
    asked = list(dict.fromkeys(params["paths"]))
    for text in asked:
        own = _is_own(text, context)
        try:
            if own:
                row, file = _resolve(text, context)
                rows.append(row)
                made.append(file)
                continue
            ref, files = find_files(read_ref(text, context.turn), known, context)
        except ToolError as error:
            flaw = _flaw(error.reason, own=own)
            facts = {key: str(value) for key, value in error.context.items()}
            refused[flaw].append({"path": text[:300], "reason": error.reason, "message": str(error), **facts})
            continue
        here = ref.turn == context.turn
        version = context.version_fact(ref.turn) if ref.space == "files" else {}
        rows.append(_row(ref, files) | ({"status": "already_in_workspace"} if here else version))
        if not here:
            pulled.append(ref.path)
    found = {flaw: lost for flaw, lost in refused.items() if lost}
    status = context.result(PULL.tool_id, {"requested": asked, "pulled": rows, **found})
    notices = (_notice(found, len(asked), context),) if found else ()
    status = replace(status, meta={PULLED: list(dict.fromkeys(pulled))})
    return ToolOutput(blocks=(*notices, status, *made))


def _flaw(code: str, *, own: bool) -> str:
    if code in ("turn_not_found", "not_found"):
        return "missing"
    return "errors" if own and not code.startswith("path_") else "invalid"


def _is_own(text: str, context: ToolContext) -> bool:
    """Return True for a path that begins with a namespace of the bundle."""
    return text.removeprefix("conv:").partition(":")[0] in context.resolvers


def _resolve(text: str, context: ToolContext) -> tuple[dict[str, Any], Block]:
    """Return the row and the file of one of the bundle's own paths. Raises ToolError.

    The same path is the same file of a turn: pulling it again replaces the file.
    """
    try:
        path = parse_path(text, context.resolvers)
    except PathError as error:
        raise ToolError(str(error), code=error.reason) from error
    assert isinstance(path, NamespacePath)
    content = load_content(path, context)
    data = content.written.encode("utf-8", "surrogatepass")
    body = content.body or store_bytes(data, content.mime, context)
    where = AttachmentPath(
        turn=context.turn,
        name=path.rel.rpartition("/")[2],
        kind=path.namespace,
        message_id=f"path_{hashlib.sha256(path.rel.encode()).hexdigest()[:DIGEST_CHARS]}",
    )
    facts = {
        "logical_path": str(where),
        "physical_path": physical(where),
        "file_count": 1,
        "size_bytes": body.size_bytes,
        "mime": body.mime,
    }
    meta = {"pulled_from": str(path), SILENT: True}
    block = context.block(PULL.tool_id, str(where), mime=body.mime, body=body, meta=meta)
    return {"pulled_from": str(path), **facts}, block


def read_ref(text: str, turn: str) -> Ref:
    """Parse a path to pull; `turn` is the current one.

    Raises:
        ToolError: `not_a_fi_ref`, `unresolvable_fi_ref`, `attachment_pulls_require_exact_file_ref`,
            `output_pulls_require_exact_file_ref`.
    """
    try:
        cleaned = clean_text(text).removeprefix("conv:")
        if not cleaned.startswith("fi:"):
            _refuse_foreign(cleaned, turn)
        if whole := _WHOLE_SPACE.fullmatch(cleaned):
            turn_of, space = whole["turn"], whole["space"]
            ref = Ref(asked=f"fi:{turn_of}.{space}/", turn=turn_of, path=f"{turn_of}/{space}/", space=space)
        else:
            ref = _exact_ref(cleaned)
    except PathError as error:
        raise ToolError(str(error), code="unresolvable_fi_ref") from error
    if ref.path.endswith("/"):
        _check_folder(ref.space)
    return ref


def _exact_ref(text: str) -> Ref:
    named = _OF_TURN.fullmatch(text)
    if named and _FOLDERS_OF_ATTACHMENTS.fullmatch(named["rest"]):
        _check_folder("attachments")
    path = parse_path(text.removesuffix("/"))
    if not isinstance(path, FilePath | AttachmentPath):
        raise ToolError(
            "the source of a program is no file of a workspace; react.read shows it",
            code="unresolvable_fi_ref",
        )
    space = path.space if isinstance(path, FilePath) else "attachments"
    slash = "/" if text.endswith("/") else ""
    return Ref(asked=f"{path}{slash}", turn=path.turn, path=f"{physical(path)}{slash}", space=space)


def _refuse_foreign(text: str, turn: str) -> NoReturn:
    """Refuse a path that is not a file's logical path; suggest one if it is a file's physical path."""
    suggested: dict[str, str | float | list[str] | None] = {}
    try:
        read_path(text, turn)
    except PathError as error:
        suggested = {key: value for key, value in error.context.items() if key == "suggested_path"}
    raise ToolError(
        "only files can be pulled; their logical paths begin with fi:", code="not_a_fi_ref", **suggested
    )


def _check_folder(space: str) -> None:
    """Refuse a folder in a space whose files must be named one by one."""
    if space == "outputs":
        raise ToolError("outputs are pulled one by one", code="output_pulls_require_exact_file_ref")
    if space == "attachments":
        raise ToolError("attachments are pulled one by one", code="attachment_pulls_require_exact_file_ref")


def find_files(
    ref: Ref, known: dict[str, dict[str, WorkFile]], context: ToolContext
) -> tuple[Ref, dict[str, WorkFile]]:
    """Return the files of a ref; one without a file of its own is a folder if there are files below it.

    `known` keeps the files of each turn. Raises ToolError `turn_not_found`, `not_found`, and as `read_ref` does.
    """
    if ref.turn not in known:
        if ref.turn not in context.timeline.turns:
            raise ToolError(f"this conversation has no turn {ref.turn}", code="turn_not_found")
        known[ref.turn] = fold_files(context.timeline.turn_blocks(ref.turn))
    files = known[ref.turn]
    if found := pick_files(files, ref.path):
        return ref, found
    folder = replace(ref, asked=f"{ref.asked.rstrip('/')}/", path=f"{ref.path.rstrip('/')}/")
    if found := pick_files(files, folder.path):
        _check_folder(ref.space)
        return folder, found
    raise ToolError("no file was written there, or a program deleted it", code="not_found")


def _row(ref: Ref, files: dict[str, WorkFile]) -> dict[str, Any]:
    size_bytes = sum(file.size_bytes for file in files.values())
    if not ref.path.endswith("/"):
        return {
            "logical_path": str(from_physical(ref.path)),
            "physical_path": ref.path,
            "file_count": 1,
            "size_bytes": size_bytes,
            "mime": files[ref.path].mime,
        }
    tree = sorted(path.removeprefix(ref.path) for path in files)
    omitted = max(0, len(tree) - TREE_FILES_MAX)
    return {
        "logical_root": ref.asked,
        "physical_root": ref.path,
        "file_count": len(files),
        "size_bytes": size_bytes,
        "tree": tree[:TREE_FILES_MAX],
        "tree_truncated": bool(omitted),
        "omitted_files": omitted,
        "path_rule": {"logical": f"{ref.asked}<path>", "physical": f"{ref.path}<path>"},
    }


def _notice(found: Mapping[str, list[dict[str, str]]], asked: int, context: ToolContext) -> Block:
    lost = sum(len(rows) for rows in found.values())
    message = f"{lost} of {asked} paths could not be pulled; the result says why."
    return context.notice(PULL.tool_id, "pull_paths_missing", message)


PULL_TOOL: Final = Tool(spec=PULL, run=run_pull)
