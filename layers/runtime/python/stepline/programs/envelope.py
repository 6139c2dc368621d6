"""Make the envelope from a backend's report and the verdicts on its files, and its text for the model.

It has the same keys for every failure. In the text the verdict is first and the program's output last; text that a
program or its tools wrote is indented, so that it cannot look like ours. It contains the tail of an output, the lines
that look like errors, and the tracebacks.

If there are several errors, one is named: a failure of the program takes precedence over missing files, and those
over invalid files. Source: docs/reference/execution.md#envelope, #report.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import accumulate, takewhile
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from stepline.model.block import Body
from stepline.model.path import out_key
from stepline.model.program.execution import ExecRequest, Run
from stepline.model.visible_text import shorten_line
from stepline.programs.host import sub_call_id
from stepline.programs.outcome import (
    MISSING,
    Artifact,
    ContractItem,
    Envelope,
    FileError,
    Output,
    OutputFile,
    OutputVerdict,
    RunError,
    Succeeded,
    Verdicts,
)

LIST_MAX: Final = 20
LIST_CHARS: Final = 1_500
KEPT_MAX: Final = 50
KEPT_CHARS: Final = 3_000
LINE_CHARS_MAX: Final = 300
INFRA_CHARS: Final = 2_000
LOG_CHARS: Final = 4_500
"""Maximum characters of the program's log with its indentation."""

_QUOTE: Final = "    "


def render_report(envelope: Envelope, turn: str) -> str:
    """Return the report of one run of turn `turn`, in Markdown."""
    missing = [one for one in envelope.errors if one.code in MISSING]
    unsound = [one for one in envelope.errors if one.code not in MISSING]
    sections = [
        _status(envelope),
        _listed("File errors:", map(_file_error, unsound)),
        _listed("Missing contracted outputs:", map(_file_error, missing)),
        _listed("Succeeded:", _succeeded(envelope)),
        _infra(envelope),
        _program_log(envelope),
        _listed(
            "Kept though no contract names them (internal):",
            [file.logical_path for file in envelope.kept],
            most=KEPT_MAX,
            chars=KEPT_CHARS,
        ),
        _listed("Not taken over:", (f"{one.path}: {one.code}: {one.message}" for one in envelope.left)),
        _listed("Deleted:", envelope.deleted),
        _listed("Tools called by the program:", _calls(envelope, turn)),
    ]
    return "\n".join(section for section in sections if section) + "\n"


def _status(envelope: Envelope) -> str:
    error = envelope.error
    if error is None:
        head = "Status: success"
        if count := len(envelope.user_tracebacks):
            head += f"\nWarning: it ended with 0, but its log holds {count} traceback(s); see whether they matter."
        return head
    lines = [
        f"Status: error — {error.code}: {shorten_line(error.message, LINE_CHARS_MAX)}",
        f"Advice: {error.description}",
    ]
    run = error.details["run"]
    if run["error"] and run["message"] and run["message"] not in error.message:
        lines.append(
            f"Runtime failure: {shorten_line(run['message'], LINE_CHARS_MAX)} (after {envelope.seconds:.1f} s)"
        )
    return "\n".join(lines)


def _file_error(error: FileError) -> str:
    detail = f" ({error.detail})" if error.detail else ""
    return f"{error.filename}: {error.code}{detail}: {error.message}"


def _succeeded(envelope: Envelope) -> list[str]:
    unchanged = {one.filename for one in envelope.succeeded if one.unchanged}
    return [
        f"{artifact.output.logical_path} ({artifact.mime}, {artifact.output.size_bytes} bytes, "
        f"{artifact.visibility}{', as it was before' if artifact.output.path in unchanged else ''}): "
        f"{artifact.description}"
        for artifact in envelope.artifacts
    ]


def _infra(envelope: Envelope) -> str:
    """Return the environment's output, if it failed or mentions an error."""
    lines = [*envelope.runtime_error_lines, *_flat(envelope.runtime_tracebacks)]
    if not lines and envelope.error and envelope.error.details["run"]["error"]:
        lines = tail(envelope.runtime_err_tail, INFRA_CHARS).splitlines()
    return _quoted("Infra errors (infra.log):", "\n".join(lines), INFRA_CHARS)


def _program_log(envelope: Envelope) -> str:
    shown = envelope.user_out_tail
    title = "Program log (tail):"
    if envelope.log_bytes > len(shown.encode()):
        title = f"Program log (tail, {len(shown)} characters of {envelope.log_bytes} bytes):"
    return _quoted(title, shown, LOG_CHARS)


def _calls(envelope: Envelope, turn: str) -> list[str]:
    return [
        f"tc:{turn}.{sub_call_id(envelope.exec_id, index)}.result {call.tool_id}: "
        f"{call.code or call.status}, {call.duration_ms} ms"
        for index, call in enumerate(envelope.calls)
    ]


def _listed(title: str, items: Iterable[str], *, most: int = LIST_MAX, chars: int = LIST_CHARS) -> str:
    """Return a titled list, cut to fit."""
    lines = [f"- {shorten_line(item, LINE_CHARS_MAX)}" for item in items]
    shown = _fitting(lines[:most], chars)
    if shown < len(lines):
        lines[shown:] = [f"- and {len(lines) - shown} more"]
    return "\n".join([title, *lines]) if lines else ""


def _quoted(title: str, text: str, chars: int) -> str:
    """Return the last lines of a foreign text below a title, cut to fit."""
    if not text.strip():
        return ""
    lines = [f"{_QUOTE}{line[-chars:]}" for line in text.strip("\n").splitlines()]
    shown = max(1, _fitting(reversed(lines), chars))
    return "\n".join([title, *lines[-shown:]])


def _fitting(lines: Iterable[str], chars: int) -> int:
    """Return how many of the first lines fit into `chars` characters together."""
    lengths = accumulate(len(line) + 1 for line in lines)
    return sum(1 for _ in takewhile(lambda length: length <= chars, lengths))


def _flat(tracebacks: Sequence[str]) -> list[str]:
    return [line for one in tracebacks for line in one.splitlines()]


RUN_CANCELLED: Final = "cancelled"
"""The code of a run that ended early, or never began, because the user steered."""

USER_TAIL_CHARS: Final = 4_000
RUNTIME_TAIL_CHARS: Final = 12_000
STDERR_TAIL_CHARS: Final = 4_000

_FILES: Final = "correct the program so that it writes every file of the contract, and run it again"
_ENVIRONMENT: Final = (
    "this is the environment's failure, not the program's: run it again once; if that fails too, try a program of one "
    "line; if that fails, go on without programs and say so"
)
_ADVICE: Final = {
    "nonzero_exit": "correct the program by its last lines and run it again",
    "timeout": "the program was ended by its time limit; let it do less at once, or ask for more time",
    RUN_CANCELLED: "the user said something while it ran: heed that before you run anything again; what it had written is kept",
    "memory_limit": "hold less in memory at once, in fewer processes",
    "file_size_limit": "write smaller files",
    "exec_workspace_delta_limit": "write less in one run",
    "workspace_size_limit": "delete what is not needed, or write less",
    "descriptors_in_flight": "receive the descriptors that processes send to each other, or send fewer at once",
    "unverified": "the run may have happened; look at what there is before you ask for it again",
    "missing_output_files": _FILES,
    "artifact_validation_failed": _FILES,
}


def make_envelope(request: ExecRequest, run: Run, verdicts: Verdicts) -> Envelope:
    """Return the envelope of a run."""
    taken = [(verdict, _output(verdict)) for verdict in verdicts.files if not verdict.code]
    error = _error(run, verdicts.failed)
    envelope = Envelope(
        exec_id=request.exec_id,
        ok=error is None,
        result_filename=f"exec_result_{request.exec_id}.json",
        artifacts=tuple(_artifact(verdict, output) for verdict, output in taken),
        items=tuple(_item(verdict, output) for verdict, output in taken),
        error=error,
        errors=_file_errors(verdicts.failed),
        succeeded=tuple(
            Succeeded(
                artifact_id=verdict.name,
                filename=verdict.path,
                size_bytes=verdict.size_bytes,
                unchanged=bool(verdict.key),
            )
            for verdict, _ in taken
        ),
        user_out_tail=tail(run.program_log, USER_TAIL_CHARS),
        runtime_err_tail=tail(run.runtime_log, RUNTIME_TAIL_CHARS),
        user_error_lines=error_lines(run.program_log),
        user_tracebacks=tracebacks(run.program_log),
        runtime_error_lines=error_lines(run.runtime_log),
        runtime_tracebacks=tracebacks(run.runtime_log),
        seconds=run.seconds,
        returncode=run.returncode,
        backend=run.isolation.backend or request.profile.backend,
        isolation=run.isolation,
        log_bytes=run.log_bytes,
        files=tuple(_file(request, verdict) for verdict in verdicts.taken),
        left=verdicts.left,
        deleted=run.deleted,
        calls=run.calls,
        events=run.events,
        sources=run.sources,
        began_at=run.began_at,
    )
    return replace(envelope, report_text=render_report(envelope, request.turn))


def lost_envelope(request: ExecRequest, code: str, message: str) -> Envelope:
    """Return the envelope of a run without an outcome, with the reason."""
    return make_envelope(request, Run(error=code, message=message), Verdicts())


def is_lost(envelope: Envelope) -> bool:
    """Return True if a run failed because of its environment, and not because of the program."""
    return bool(envelope.code) and envelope.code not in _ADVICE.keys() - {"unverified"}


def output_bodies(request: ExecRequest, verdicts: Verdicts, spool: Path) -> list[tuple[Path, Body]]:
    """Return the bodies to store before the envelope names them: file in the spool, and object."""
    bodies = {
        verdict.sha256: (spool / verdict.sha256, _body(request, verdict))
        for verdict in verdicts.taken
        if not verdict.key
    }
    return list(bodies.values())


def _body(request: ExecRequest, verdict: OutputVerdict) -> Body:
    key = verdict.key or out_key(request.lane, request.turn, verdict.sha256)
    return Body(key=key, sha256=verdict.sha256, size_bytes=verdict.size_bytes, mime=verdict.mime)


def _output(verdict: OutputVerdict) -> Output:
    return Output(
        path=verdict.path,
        logical_path=verdict.logical,
        size_bytes=verdict.size_bytes,
        sha256=verdict.sha256,
    )


def _artifact(verdict: OutputVerdict, output: Output) -> Artifact:
    return Artifact(
        resource_id=f"artifact:{verdict.name}",
        output=output,
        mime=verdict.mime,
        description=verdict.description,
        visibility=verdict.visibility,
    )


def _item(verdict: OutputVerdict, output: Output) -> ContractItem:
    return ContractItem(
        artifact_id=verdict.name, output=output, filename=verdict.path, visibility=verdict.visibility
    )


def _file(request: ExecRequest, verdict: OutputVerdict) -> OutputFile:
    return OutputFile(
        path=verdict.path,
        logical_path=verdict.logical,
        body=_body(request, verdict),
        visibility=verdict.visibility,
        contracted=verdict.contracted,
        description=verdict.description,
        text_symbols=verdict.text_symbols,
        line_count=verdict.line_count,
        preview=verdict.preview.text if verdict.preview else "",
        whole=bool(verdict.preview and verdict.preview.whole),
    )


def _file_errors(failed: Iterable[OutputVerdict]) -> tuple[FileError, ...]:
    return tuple(
        FileError(
            artifact_id=verdict.name,
            filename=verdict.path,
            code=verdict.code,
            message=verdict.message,
            detail=verdict.detail,
        )
        for verdict in failed
    )


def _error(run: Run, failed: tuple[OutputVerdict, ...]) -> RunError | None:
    """Return the error to name; None for a success."""
    missing = [verdict for verdict in failed if verdict.code in MISSING]
    unsound = [verdict for verdict in failed if verdict.code not in MISSING]
    if run.error or run.returncode != 0:
        code, message = run.error.partition(":")[0].strip() or "execution_failed", _failure(run)
    elif missing:
        code, message = "missing_output_files", f"missing or empty: {_names(missing)}"
    elif unsound:
        code, message = "artifact_validation_failed", f"not taken over: {_names(unsound)}"
    else:
        return None
    details: dict[str, Any] = {
        "missing": [verdict.path for verdict in missing],
        "errors": [
            {"filename": verdict.path, "code": verdict.code, "message": verdict.message}
            for verdict in unsound
        ],
        "run": {
            "error": run.error,
            "message": run.message,
            "returncode": run.returncode,
            "seconds": run.seconds,
            "backend": run.isolation.backend,
        },
        "stderr_tail": tail(run.runtime_log, STDERR_TAIL_CHARS),
    }
    return RunError(
        code=code,
        message=message,
        error=code,
        description=_ADVICE.get(code, _ENVIRONMENT),
        details=details,
    )


def _failure(run: Run) -> str:
    """Return the reason of the program's failure in one line."""
    lines = error_lines(run.program_log)
    said = last_exception(run.program_log) or (lines[-1] if lines else "")
    status = f"exit status {run.returncode}" if run.returncode is not None else ""
    if run.error in ("", "nonzero_exit"):
        return " — ".join(part for part in (said or run.message, status) if part) or "it left no exit status"
    return run.message or said or status or "it could not be run to its end"


def _names(verdicts: list[OutputVerdict]) -> str:
    shown = ", ".join(verdict.path for verdict in verdicts[:5])
    return f"{shown} and {len(verdicts) - 5} more" if len(verdicts) > 5 else shown


LINES_MAX: Final = 20
TRACEBACKS_MAX: Final = 3
TRACEBACK_CHARS_MAX: Final = 4_000

# One character before `Error` is enough to match, and keeps the scan linear.
_ERROR: Final = re.compile(r"(?i:\berror\b)|\wError\b|Exception")
_HEAD: Final = "Traceback (most recent call last):"
_NOISE: Final = (
    "Event loop is closed",
    "Task was destroyed but it is pending",
    "Exception ignored in:",
    "Task exception was never retrieved",
)
"""Lines that an event loop prints at interpreter exit; they say nothing about the program."""


def tail(text: str, chars_max: int) -> str:
    """Return the end of a text, from the start of a line if that costs less than half of it."""
    if len(text) <= chars_max:
        return text
    end = text[-chars_max:]
    if text[-chars_max - 1] == "\n":
        return end
    line = end.find("\n") + 1
    return end[line:] if 0 < line <= chars_max // 2 else end


def error_lines(text: str) -> tuple[str, ...]:
    """Return the last lines that mention an error, each once, in order."""
    found: dict[str, None] = {}
    for raw in text.splitlines():
        line = raw.strip()
        if line and _ERROR.search(line) and not _is_noise(line):
            found.pop(line, None)
            found[line] = None
    return tuple(line[:LINE_CHARS_MAX] for line in list(found)[-LINES_MAX:])


def tracebacks(text: str) -> tuple[str, ...]:
    """Return the last tracebacks, each once: from the head to the line that names the exception."""
    found: dict[str, None] = {}
    for block in _blocks(text.splitlines()):
        shown = "\n".join(block)
        if not _is_noise(block[-1]):
            found.pop(shown, None)
            found[shown] = None
    return tuple(_middle_out(one) for one in list(found)[-TRACEBACKS_MAX:])


def last_exception(text: str) -> str:
    """Return the line that names the exception of the last traceback; empty if there is none."""
    ended = [
        block[-1] for block in _blocks(text.splitlines()) if len(block) > 1 and not block[-1][:1].isspace()
    ]
    return ended[-1].strip()[:LINE_CHARS_MAX] if ended else ""


def _blocks(lines: list[str]) -> list[list[str]]:
    """Extract the tracebacks: a head, its indented frames, and the first line after them."""
    blocks: list[list[str]] = []
    current: list[str] | None = None
    for line in lines:
        if line.strip() == _HEAD:
            current = [line.strip()]
            blocks.append(current)
        elif current is not None:
            current.append(line)
            if line and not line[0].isspace():
                current = None
    return blocks


def _middle_out(text: str) -> str:
    """Return a long traceback without its middle: origin and exception are at its ends."""
    if len(text) <= TRACEBACK_CHARS_MAX:
        return text
    half = TRACEBACK_CHARS_MAX // 2
    return f"{text[:half]}\n…\n{text[-half:]}"


def _is_noise(line: str) -> bool:
    return any(word in line for word in _NOISE)
