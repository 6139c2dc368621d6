"""What is checked of a program before it runs. It runs as it was written or not at all.

The working directory is the root of the current turn, so `outputs/x` and `files/x` are that turn's without a
change to the text. Source: docs/reference/execution.md#before-the-run.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from stepline.errors import ToolError
from stepline.execution.reference import find_absent
from stepline.tools.context import render_json

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
    """Refuse a program that cannot work; `present` are the files it will find, by their physical paths.

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
    """Return the notice that goes with the code of a refusal; the same code if it has no other."""
    return _NOTICES.get(code, code)


def _check_clean(code: str) -> None:
    """Refuse a text that is more than a program: a leftover of the channels, or a fence around it."""
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
