"""Checks of a program's text before it runs. It runs unchanged or not at all.

Files of other turns that the program names are found in its literals, not in comments. Literals are found by
their quotes and not by Python's own parser, because the text is untrusted and this process is trusted.

The working directory is the root of the current turn, so `outputs/x` and `files/x` belong to that turn without a
change to the text. Source: docs/reference/execution.md#before-the-run.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Final

from stepline.errors import PathError, ToolError
from stepline.model.base import Value
from stepline.model.ids import TURN
from stepline.model.path import from_physical, parse_path, physical
from stepline.tools.context import render_json

_ESCAPED: Final = r"\\(?:.|\Z)"
_LITERAL: Final = re.compile(
    "|".join(
        (
            r"\#[^\n]*",
            *(rf"{q * 3}([^{q}\\]*(?:(?:{_ESCAPED}|{q}(?!{q * 2}))[^{q}\\]*)*)(?:{q * 3}|\Z)" for q in "'\""),
            *(rf"{q}([^{q}\\]*(?:{_ESCAPED}[^{q}\\]*)*)(?:{q}|\Z)" for q in "'\""),
        )
    ),
    re.DOTALL,
)
"""A comment, or a literal whose text is the only matching group; an unclosed one extends to the end."""
_REFERENCE: Final = re.compile(
    rf"(?<![A-Za-z0-9_-])(?:fi:(?P<logical>{TURN.pattern})\.(?:files/|outputs/|user\.attachments/|external\.)"
    rf"|(?P<physical>{TURN.pattern})/(?:files|outputs|attachments|external)/)(?P<rest>[^\n\\'\"<>|]*)"
)
_OPEN_END: Final = re.compile(r"[{*?\[%]")
"""The end of a path's fixed part: a field of an f-string, a pattern, a format."""


class Reference(Value):
    """A file of another turn: `path` is its physical path, `logical` its logical path."""

    path: str
    logical: str


def find_absent(code: str, *, turn: str, present: Collection[str]) -> tuple[Reference, ...]:
    """Return the files of other turns that a program of `turn` names and would not find.

    `present` are physical paths.
    """
    if not any(found["logical"] or found["physical"] for found in _foreign(code, turn)):
        return ()
    absent: dict[str, Reference] = {}
    for literal in _LITERAL.finditer(code):
        for found in _foreign(literal[literal.lastindex] if literal.lastindex else "", turn):
            reference = _resolve(found, present)
            if reference is not None:
                absent.setdefault(reference.path, reference)
    return tuple(absent.values())


def _foreign(text: str, turn: str) -> Iterator[re.Match[str]]:
    return (found for found in _REFERENCE.finditer(text) if (found["logical"] or found["physical"]) != turn)


def _resolve(found: re.Match[str], present: Collection[str]) -> Reference | None:
    """Return the file that a reference names if it is absent; None if it is present, or names no file.

    A file's name may contain spaces, and a sentence may continue after a path, so both readings are tried.
    """
    candidates = [_read(found, rest) for rest in _readings(found["rest"])]
    named = [reference for reference in candidates if reference is not None]
    if not named or any(_is_there(reference.path, found, present) for reference in named):
        return None
    in_a_sentence = any(char.isspace() for char in found.string[: found.start()])
    return named[-1] if in_a_sentence else named[0]


def _readings(rest: str) -> list[str]:
    fixed = _OPEN_END.split(rest, maxsplit=1)[0]
    word = fixed.split(maxsplit=1)[0].rstrip(".,;:)!") if fixed.strip() else ""
    return list(dict.fromkeys((fixed.strip().rstrip("/"), word.rstrip("/"))))


def _read(found: re.Match[str], rest: str) -> Reference | None:
    head = found[0][: found.start("rest") - found.start()]
    try:
        path = parse_path(head + rest) if found["logical"] else from_physical(head + rest)
    except PathError:
        return None
    where = physical(path)
    return Reference(path=where, logical=str(path)) if where else None


def _is_there(path: str, found: re.Match[str], present: Collection[str]) -> bool:
    if _OPEN_END.search(found["rest"]):
        return any(file.startswith(path) for file in present)
    return path in present or any(file.startswith(f"{path}/") for file in present)


EXCERPT_CHARS_MAX: Final = 500
NAMED_MAX: Final = 20

_LEFTOVER: Final = re.compile(r"</?channel:|</?thinking>", re.IGNORECASE)
_FENCE: Final = re.compile(r"\s*(`)")
_NOTICES: Final = {
    "exec_missing_code": "protocol_violation.exec_missing_code",
    "exec_code_contaminated": "protocol_violation.exec_code_contaminated",
    "pre_exec_pull_required": "protocol_violation.exec_requires_pull",
    "missing_turn_id": "protocol_violation.exec_contract_invalid",
    "missing_artifacts": "protocol_violation.exec_contract_invalid",
    "invalid_artifacts_json": "protocol_violation.exec_contract_invalid",
    "invalid_artifacts": "protocol_violation.exec_contract_invalid",
    "invalid_artifact_spec": "protocol_violation.exec_contract_invalid",
    "invalid_filename": "protocol_violation.exec_contract_invalid",
}


def check_program(code: str, *, turn: str, present: Collection[str]) -> None:
    """Refuse a program that cannot work; `present` are the physical paths of its workspace.

    Raises:
        ToolError: `exec_missing_code`; `exec_code_contaminated` with `marker`, `line`, `excerpt`;
            `pre_exec_pull_required` with `missing`, `logical_missing`, `pull_hint`.
    """
    if not code.strip():
        raise ToolError(
            "the code channel was empty, so nothing ran; write the program into it", code="exec_missing_code"
        )
    _check_clean(code)
    absent = find_absent(code, turn=turn, present=present)
    if absent:
        named = absent[:NAMED_MAX]
        hint = render_json({"paths": [reference.logical for reference in named]})
        raise ToolError(
            f"the program did not run: it names {len(absent)} files of other turns that are not in the workspace; "
            f"pull them first with react.pull {hint}, then run it again",
            code="pre_exec_pull_required",
            missing=[reference.path for reference in named],
            logical_missing=[reference.logical for reference in named],
            pull_hint=f"react.pull {hint}",
        )


def notice_code(code: str) -> str:
    """Return the notice code for a refusal's code; the same code by default."""
    return _NOTICES.get(code, code)


def _check_clean(code: str) -> None:
    """Refuse a text that contains more than a program: a channel tag, or a fence around it."""
    fence, leftover = _FENCE.match(code), _LEFTOVER.search(code)
    if fence:
        at, marker = fence.start(1), fence[1]
    elif leftover:
        at, marker = leftover.start(), leftover[0].lower()
    else:
        return
    line = code.count("\n", 0, at) + 1
    begin = code.rfind("\n", 0, at) + 1
    end = code.find("\n", at)
    excerpt = code[begin : end if end >= 0 else len(code)][:EXCERPT_CHARS_MAX]
    raise ToolError(
        f"the program did not run: line {line} holds {marker!r}, which is no Python; "
        "write nothing but the program into the code channel",
        code="exec_code_contaminated",
        marker=marker,
        line=line,
        excerpt=excerpt,
    )
