"""`react.pull`: add files of earlier turns to the workspace of this turn's programs.

Nothing is copied here. The status keeps the physical paths in its meta, and the workspace is folded from the
log (`stepline.timeline.workspace`). Only stored bytes can be pulled: a view of a file is not the file.
Source: docs/reference/tools.md#reactpull.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NoReturn

from msgspec.structs import replace

from stepline.errors import PathError, ToolError
from stepline.model.base import Value
from stepline.model.block import Block
from stepline.model.ids import TURN
from stepline.model.path import AttachmentPath, FilePath, from_physical, parse_path, physical
from stepline.model.program.execution import WorkFile
from stepline.model.traversal import clean_text
from stepline.timeline.workspace import PULLED, fold_files, pick_files
from stepline.tools.content import read_path
from stepline.tools.context import ToolContext, ToolOutput
from stepline.tools.registry import Tool
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


TREE_FILES_MAX: Final = 80
"""Maximum files of a folder that its row lists."""

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
    taken: list[str] = []
    refused: dict[str, list[dict[str, str]]] = {"missing": [], "invalid": []}
    known: dict[str, dict[str, WorkFile]] = {}
    asked = list(dict.fromkeys(params["paths"]))
    for text in asked:
        try:
            ref = read_ref(text, context.turn)
            if ref.turn not in known:
                known[ref.turn] = _files_of(ref.turn, context)
            ref, files = _find(ref, known[ref.turn])
        except ToolError as error:
            flaw = "missing" if error.reason in ("turn_not_found", "not_found") else "invalid"
            facts = {key: str(value) for key, value in error.context.items()}
            refused[flaw].append({"path": text[:300], "reason": error.reason, "message": str(error), **facts})
            continue
        here = ref.turn == context.turn
        rows.append(_row(ref, files) | ({"status": "already_in_workspace"} if here else {}))
        if not here:
            taken.append(ref.path)
    found = {flaw: lost for flaw, lost in refused.items() if lost}
    status = context.result(PULL.tool_id, {"requested": asked, "pulled": rows, **found})
    notices = (_notice(found, len(asked), context),) if found else ()
    return ToolOutput(blocks=(*notices, replace(status, meta={PULLED: list(dict.fromkeys(taken))})))


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
    """Refuse a path that is no file's logical path; suggest one if it is a file's physical path."""
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


def _files_of(turn: str, context: ToolContext) -> dict[str, WorkFile]:
    if turn not in context.timeline.turns:
        raise ToolError(f"this conversation has no turn {turn}", code="turn_not_found")
    return fold_files(context.timeline.turn_blocks(turn))


def _find(ref: Ref, files: dict[str, WorkFile]) -> tuple[Ref, dict[str, WorkFile]]:
    """Return the files of a ref; one without a file of its own is a folder if there are files below it."""
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
