"""One run for tests of its parts: a request, files in a spool, and the backend's report."""

from __future__ import annotations

import hashlib
import io
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stepline.model.ids import Lane
from stepline.model.program.execution import (
    CollectedFile,
    ContractFile,
    ExecRequest,
    Isolation,
    RefusedFile,
    Run,
    WorkFile,
)
from stepline.programs.contract import normalise_contract
from stepline.programs.envelope import make_envelope
from stepline.programs.outcome import Envelope, Verdicts
from stepline.programs.outputs import validate_outputs

TURN = "turn_20261122T101500_ab12cd"
OLD = "turn_20261121T090000_0f0f0f"
CALL = "tc_0123456789ab"
AT = "2026-11-22T10:15:03.000Z"
LANE = Lane(tenant="acme", project="support", conversation="c-1")


def promised(*files: str | dict[str, Any]) -> tuple[ContractFile, ...]:
    """Return the contract of files, given by name or by a full description."""
    items = [
        {"filename": one, "description": f"about {one}"} if isinstance(one, str) else one for one in files
    ]
    return normalise_contract({"contract": items}, turn=TURN).files


def at(name: str) -> str:
    return f"{TURN}/{name}"


@dataclass
class ProgramRun:
    """Let a program write files, then validate them."""

    spool: Path
    contract: tuple[ContractFile, ...] = ()
    inputs: tuple[WorkFile, ...] = ()
    files: list[CollectedFile] = field(default_factory=list)
    refused: list[RefusedFile] = field(default_factory=list)

    @property
    def request(self) -> ExecRequest:
        return ExecRequest(
            exec_id=CALL,
            lane=LANE,
            turn=TURN,
            iteration=1,
            at=AT,
            n=7,
            code="print(1)",
            contract=self.contract,
            files=self.inputs,
        )

    def left(self, name: str, data: bytes | str) -> str:
        """Let the program write a file; return its physical path."""
        data = data.encode() if isinstance(data, str) else data
        sha256 = hashlib.sha256(data).hexdigest()
        (self.spool / sha256).write_bytes(data)
        self.files.append(CollectedFile(path=at(name), sha256=sha256, size_bytes=len(data)))
        return at(name)

    def run(self, **fields: Any) -> Run:
        known: dict[str, Any] = {"returncode": 0, "isolation": Isolation(backend="process", seccomp=True)}
        return Run(files=tuple(self.files), refused=tuple(self.refused), **(known | fields))

    def judge(self, **fields: Any) -> Verdicts:
        return validate_outputs(self.request, self.run(**fields), self.spool)

    def envelope(self, **fields: Any) -> Envelope:
        run = self.run(**fields)
        return make_envelope(self.request, run, validate_outputs(self.request, run, self.spool))


def zipped(parts: dict[str, str | bytes], *, compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Return a zip container of these parts."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", compression) as archive:
        for name, body in parts.items():
            archive.writestr(name, body)
    return data.getvalue()


MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
RELATIONS = (
    '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="rId1" '
    'Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" '
    'Target="xl/workbook.xml"/></Relationships>'
)


def workbook(*states: str, **parts: str | bytes) -> bytes:
    """Return an XLSX file whose sheets have these states; `parts` replace or add others."""
    sheets = "".join(
        f'<sheet name="S{i}" sheetId="{i}" state="{state}"/>' for i, state in enumerate(states, 1)
    )
    book = f'<workbook xmlns="{MAIN}"><sheets>{sheets}</sheets></workbook>'
    filler = hashlib.shake_256(b"filler").hexdigest(1000)
    return zipped({"_rels/.rels": RELATIONS, "xl/workbook.xml": book, "xl/styles.xml": filler, **parts})
