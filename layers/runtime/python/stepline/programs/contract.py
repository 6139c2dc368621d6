"""The contract of a run: parse the files that the program promises, and normalise their names.

The checks run in a fixed order, and the first failure refuses the whole contract: a program that writes to a path
that we would have to guess loses its file.
Source: docs/reference/execution.md#contract.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from stepline.errors import PathError, ToolError
from stepline.model.base import Value
from stepline.model.decision import Notice
from stepline.model.file.mime import guess_mime
from stepline.model.path import FilePath, artifact_path, physical
from stepline.model.program.execution import ContractFile, Visibility
from stepline.model.traversal import Names

CONTRACT_FILES_MAX: Final = 100
DESCRIPTION_CHARS_MAX: Final = 2_000

REWRITTEN: Final = "protocol_violation.exec_contract_rewritten"

_VISIBILITIES: Final[dict[str, Visibility]] = {"external": "external", "internal": "internal"}


class Contract(Value):
    """The files, in the model's order. `rewritten` holds pairs of the model's name and the completed one."""

    files: tuple[ContractFile, ...]
    rewritten: tuple[tuple[str, str], ...] = ()

    @property
    def notices(self) -> tuple[Notice, ...]:
        """Notices to the model about its contract."""
        if not self.rewritten:
            return ()
        message = (
            "File names of the contract were completed; these are the files' full paths below OUTPUT_DIR."
        )
        return (Notice(code=REWRITTEN, message=message, extra={"rewritten": dict(self.rewritten)}),)


def normalise_contract(params: Mapping[str, Any], *, turn: str) -> Contract:
    """Return the contract of a call of turn `turn`.

    Raises:
        ToolError: `missing_turn_id`, `missing_artifacts`, `invalid_artifacts_json`, `invalid_artifacts`,
            `invalid_artifact_spec`, `invalid_filename`.
    """
    if not turn:
        raise ToolError("a contract belongs to a turn, and this one has none", code="missing_turn_id")
    items = _read_items(params.get("contract"))
    files: list[ContractFile] = []
    rewritten: list[tuple[str, str]] = []
    taken: set[str] = set()
    places = Names()
    for number, item in enumerate(items, 1):
        raw, description = _text(item, "filename", "filepath"), _text(item, "description")
        if not (raw and description):
            raise ToolError(
                f"file {number} of the contract needs a filename and a description, both not empty",
                code="invalid_artifact_spec",
                file=number,
            )
        visibility = _visibility(item, number)
        filename = _place(raw, turn)
        if other := places.take(filename):
            raise ToolError(
                f"{raw[:200]!r} cannot stand beside {other[:200]!r}: name every file once, and none inside another",
                code="invalid_filename",
                filename=raw[:200],
            )
        # The prompt asks the model to write `outputs/x`; a notice for that would only cost tokens.
        if raw not in (filename, filename.removeprefix(f"{turn}/")):
            rewritten.append((raw, filename))
        files.append(
            ContractFile(
                name=_unique_name(filename, taken),
                filename=filename,
                description=description[:DESCRIPTION_CHARS_MAX],
                mime=guess_mime(filename),
                visibility=visibility,
            )
        )
    return Contract(files=tuple(files), rewritten=tuple(rewritten))


def _read_items(raw: Any) -> list[dict[str, Any]]:
    """Return the objects of a contract; other items of the list are ignored."""
    if raw is None or raw == "":
        raise ToolError(
            "the call has no contract: list every file that the program will write", code="missing_artifacts"
        )
    if isinstance(raw, str):
        try:
            raw = msgspec.json.decode(raw)
        except (msgspec.DecodeError, RecursionError) as error:
            raise ToolError(
                f"the contract is a text that is no JSON: {str(error)[:200]}", code="invalid_artifacts_json"
            ) from error
    items = [item for item in raw if isinstance(item, dict)] if isinstance(raw, list) else []
    if not items:
        raise ToolError(
            "the contract is a list of objects, each with filename and description, and at least one",
            code="invalid_artifacts",
        )
    if len(items) > CONTRACT_FILES_MAX:
        raise ToolError(
            f"the contract names {len(items)} files; {CONTRACT_FILES_MAX} is the most",
            code="invalid_artifacts",
        )
    return items


def _text(item: Mapping[str, Any], *keys: str) -> str:
    """Return the first value that is a non-blank string, stripped."""
    values = (item.get(key) for key in keys)
    return next((value.strip() for value in values if isinstance(value, str) and value.strip()), "")


def _visibility(item: Mapping[str, Any], number: int) -> Visibility:
    raw = item.get("visibility")
    if raw is None or raw == "":
        return "external"
    found = _VISIBILITIES.get(raw.strip().lower()) if isinstance(raw, str) else None
    if found is None:
        raise ToolError(
            f"the visibility of file {number} is neither external nor internal",
            code="invalid_artifact_spec",
            file=number,
        )
    return found


def _place(raw: str, turn: str) -> str:
    """Return the physical path of a file of the current turn."""
    try:
        path: FilePath = artifact_path(turn, raw)
    except PathError as refused:
        facts = {"reason": refused.reason, "suggested_path": refused.context.get("suggested_path")}
        raise ToolError(str(refused), code="invalid_filename", filename=raw[:200], **facts) from refused
    where = physical(path)
    assert where is not None
    return where


def _unique_name(filename: str, taken: set[str]) -> str:
    """Return the file's name without its extension, numbered if another file of the contract has it."""
    stem = posixpath.splitext(posixpath.basename(filename))[0]
    name, number = stem, 1
    while name in taken:
        number += 1
        name = f"{stem}_{number}"
    taken.add(name)
    return name
