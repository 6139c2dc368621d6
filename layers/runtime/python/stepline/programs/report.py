"""The report: a run's envelope as the model reads it, the verdict first and the program's output last.

Text that a program or its tools wrote is indented, so that it cannot look like ours.
Source: docs/reference/execution.md#report.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate, takewhile
from typing import Final

from stepline.model.shorten import shorten_line
from stepline.programs.host import sub_call_id
from stepline.programs.outcome import MISSING, Envelope, FileError
from stepline.programs.printed import tail

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
    """Return how many of the first lines have at most `chars` characters together."""
    lengths = accumulate(len(line) + 1 for line in lines)
    return sum(1 for _ in takewhile(lambda length: length <= chars, lengths))


def _flat(tracebacks: Sequence[str]) -> list[str]:
    return [line for one in tracebacks for line in one.splitlines()]
