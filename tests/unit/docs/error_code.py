"""The codes of errors: those that the source can utter, and those that the pages list."""

from __future__ import annotations

import ast
import re
from functools import cache
from typing import Final

from docs.build import errors, execution, executor_protocol
from stepline.errors import SteplineError
from stepline.loop.close import ERRORS, MESSAGES
from stepline.model.ids import check_segment
from stepline.protocol.decision.notice import NOTICES
from tests.unit.docs.source import DOCS, LIBRARY, called, name, nodes, python_files


def path_codes() -> set[str]:
    """Return the codes with which a path is refused, as docs/reference/paths.md lists them."""
    return set(re.findall(r"^\| `(\w+)` \|", (DOCS / "reference/paths.md").read_text(), re.MULTILINE))


def listed_codes() -> set[str]:
    """Return every code that the page lists or refers to."""
    groups = (
        errors.CLIENT,
        errors.EVENT_SOURCE,
        errors.UPLOADS,
        errors.IMPORTS,
        errors.TERMINAL,
        errors.AUTHORIZER,
        errors.MODEL_SERVICE,
        errors.TOOLS,
        errors.PROGRAM,
        errors.BUNDLE,
        errors.LOCAL,
        errors.INTERNAL_CODES,
        NOTICES,
    )
    elsewhere = path_codes() | execution.CODES | executor_protocol.REFUSED.keys()
    return {code for group in groups for code in group} | elsewhere


def constants() -> set[str]:
    """Return every string literal of the library's source."""
    found = nodes(python_files(name(LIBRARY), "exec_task"))
    return {node.value for _, node in found if isinstance(node, ast.Constant) and isinstance(node.value, str)}


@cache
def source_codes() -> dict[str, str]:
    """Return every code the library can utter, with a file that utters it."""
    found = {kind.code: "errors.py" for kind in (SteplineError, *errors.CLASSES.values())}
    found |= dict.fromkeys([*ERRORS.values(), *MESSAGES], "loop/close.py")
    library = [p for p in python_files(name(LIBRARY)) if "scripted" not in p.parts]
    for path, node in nodes(library):
        for code in _codes(node):
            found.setdefault(code, name(path))
    return found


FIRST: Final = {"refuse", "rejected", "Refusal", "Unfit", "_Unfit", "_broken"}
SECOND: Final = {"notice", "_failed", "_left", "_refuse"}
"""What takes a code as its first argument, or as its second."""


def _codes(node: ast.AST) -> list[str]:
    match node:
        case ast.Call(args=[_, ast.Constant(value=str(what))]) if called(node) == check_segment.__name__:
            return [f"bad_{what}"]
        case ast.Call():
            said = (
                node.args[:1] if called(node) in FIRST else node.args[1:2] if called(node) in SECOND else []
            )
            said += [keyword.value for keyword in node.keywords if keyword.arg in ("code", "error")]
            return [v.value for v in said if isinstance(v, ast.Constant) and _is_code(v.value)]
        case ast.Tuple(elts=[_, ast.Name(id=kind), ast.Constant(value=str(code))]) if kind in errors.CLASSES:
            return [code]
        case ast.Dict():
            return _paired(node)
        case _:
            return []


def _is_code(value: object) -> bool:
    return isinstance(value, str) and re.fullmatch(r"[a-z][a-z0-9_.]+", value) is not None


def _paired(node: ast.Dict) -> list[str]:
    """Return the codes of a dict that says one (`{"code": …}`) or maps a validator's words to ours."""
    pairs = [
        (key.value, value.value)
        for key, value in zip(node.keys, node.values, strict=True)
        if isinstance(key, ast.Constant) and isinstance(value, ast.Constant) and isinstance(value.value, str)
    ]
    return [value for key, value in pairs if key in ("code", "json_invalid", "union_tag_invalid")]
