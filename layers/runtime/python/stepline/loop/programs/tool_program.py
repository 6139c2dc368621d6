"""The call of an isolated tool as a program of one call: its text, its promise, and its result.

The tool grants the call before anything runs; the program is our own code around it and calls no tool. The jail
prints a report as the last line of its output. The report's fields are typed and bounded; the file itself is
validated like that of any program.
Source: docs/concepts/execution.md#documents.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

import msgspec

from stepline.errors import ToolError
from stepline.model.base import Value
from stepline.model.block import Block
from stepline.model.file.mime import DOCX, PDF, PPTX, XLSX, guess_mime
from stepline.model.program.execution import ContractFile, WorkFile
from stepline.programs.blocks import file_facts
from stepline.programs.contract import normalise_contract
from stepline.programs.outcome import MISSING, Envelope, OutputFile
from stepline.tools.context import ToolContext, ToolOutput
from stepline.tools.registry import Tool, refuse_call

CALL_S: Final = 120
"""The seconds of one call."""

FAILED: Final = "rendering_failed"
INVALID: Final = "artifact_invalid"
SMALL: Final = "file_unusually_small"
_BYTES_MIN: Final = {PDF: 500, DOCX: 1_000, PPTX: 2_000, XLSX: 1_000, "image/png": 300, "text/html": 300}

_CODE: Final = re.compile(r"[a-z_]{1,40}")
_OF_FILES: Final = frozenset({"missing_output_files", "artifact_validation_failed"})

Short = Annotated[str, msgspec.Meta(max_length=1_000)]
Count = Annotated[int, msgspec.Meta(ge=0, le=10_000_000)]


class Warned(Value):
    """A finding about a document that was written nevertheless."""

    code: Annotated[str, msgspec.Meta(pattern=r"\A[a-z_]{1,40}\Z")]
    message: Short = ""


class Drawn(Value):
    """The facts of a document, by its kind, and the sources that it cites."""

    warnings: Annotated[tuple[Warned, ...], msgspec.Meta(max_length=20)] = ()
    sources_used: Annotated[tuple[Count, ...], msgspec.Meta(max_length=2_000)] = ()
    pages: Count | None = None
    paragraphs: Count | None = None
    tables: Count | None = None
    slides: Count | None = None
    sheets: Count | None = None
    rows: Count | None = None
    elements: Count | None = None
    width_px: Count | None = None
    height_px: Count | None = None


class _CallReport(Value):
    """The report of one call; `code` and `message` are its error's."""

    ok: bool
    code: str = ""
    message: Short = ""
    ret: Drawn | None = None


def plan_tool_program(
    tool: Tool, params: Mapping[str, Any], context: ToolContext
) -> tuple[str, tuple[ContractFile, ...]]:
    """Return the text of a call's program, and its promise. Raises the tool's PathError or ToolError."""
    call = {"tool_id": tool.spec.tool_id, "params": params, "grant": tool.run(params, context).ret}
    text = msgspec.json.encode(call).decode()
    title = str(params.get("title", "")).strip() or tool.spec.tool_id
    promises = [{"filename": name, "description": title} for name in tool.spec.outputs(params)]
    contract = normalise_contract({"contract": promises}, turn=context.turn)
    return f"agent_io_tools.run_granted({text!r})\n", contract.files


def pictures_of(files: Sequence[WorkFile], turn: str) -> tuple[WorkFile, ...]:
    """Return the files that a document may show: the program of a call gets no others."""
    return tuple(
        file
        for file in files
        if file.path.startswith(f"{turn}/") and guess_mime(file.path).startswith("image/")
    )


def call_output(envelope: Envelope, context: ToolContext, tool_id: str) -> ToolOutput:
    """Return the output of a call from the outcome of its program."""
    report = _read_report(envelope.user_out_tail)
    file = next((file for file in envelope.files if file.contracted), None)
    if envelope.error is None and file is not None and report is not None and report.ret is not None:
        return _written(file, report.ret, context, tool_id)
    code, message = _failure(envelope, report)
    notice = f"tool_call_error.{code}"
    return refuse_call(ToolError(message, code=code), tool_id, context, notice=notice)


def _read_report(printed: str) -> _CallReport | None:
    """Return the report in the last line of an output; None if there is none."""
    lines = printed.rstrip("\n").splitlines()
    try:
        return msgspec.json.decode(lines[-1] if lines else "", type=_CallReport)
    except (msgspec.MsgspecError, RecursionError):
        return None


def _failure(envelope: Envelope, report: _CallReport | None) -> tuple[str, str]:
    """Return the code and the message of a call whose file is missing."""
    if report is not None and report.code:
        return (report.code if _CODE.fullmatch(report.code) else FAILED), report.message
    if envelope.code in _OF_FILES and envelope.errors:
        first = envelope.errors[0]
        return (INVALID if first.code in MISSING else first.code), first.message
    if envelope.code in ("", "nonzero_exit"):
        return FAILED, envelope.message or "the program ended without a report"
    return envelope.code, envelope.message


def _written(file: OutputFile, drawn: Drawn, context: ToolContext, tool_id: str) -> ToolOutput:
    facts = {name: value for name, value in msgspec.structs.asdict(drawn).items() if isinstance(value, int)}
    about = file_facts(file, context) | facts
    if used := [sid for sid in drawn.sources_used if sid in context.sources.known]:
        about["sources_used"] = used
    if file.body.size_bytes < _BYTES_MIN.get(file.body.mime, 0):
        about["write_warning"] = SMALL
    return ToolOutput(
        blocks=(
            *(_warning(warned, context, tool_id) for warned in drawn.warnings),
            context.result(tool_id, {"status": "ok", **about}),
            context.block(tool_id, file.logical_path, mime=file.body.mime, body=file.body, meta=about),
        )
    )


def _warning(warned: Warned, context: ToolContext, tool_id: str) -> Block:
    return context.notice(tool_id, f"tool_call_warning.{warned.code}", warned.message)
