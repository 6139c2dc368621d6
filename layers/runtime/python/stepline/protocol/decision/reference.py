"""References: a parameter `ref:<path>` stands for the content at a path, which is bound before the call runs.

Bound are the parameters of `react.write`, and of tools outside `react.*` but for one that runs code, whose
contract is shown before it runs. A value that begins with `ref:` is a reference. What it may stand for is
decided with the decision; the content that it gets is fixed then, too, so that a call that is run again gets
the same.

Source: docs/reference/tools.md#references.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

from stepline.errors import DecisionError, PathError, ToolError
from stepline.model.base import Value
from stepline.model.decision import Notice, ToolCall
from stepline.protocol.decision.notice import NOTHING_RAN, cap, make_notice

REFERENCE: Final = "ref:"
"""The prefix of a parameter that refers to the content at a path."""
SOURCES_PARAM: Final = "sources_list"
"""The parameter that takes rows of the pool of sources, and nothing else."""

NOT_VISIBLE: Final = "protocol_violation.param_ref_not_visible"
NORMALIZED: Final = "protocol_warning.ref_path_normalized"

_WRITE: Final = "react.write"
_OWN: Final = "react."
_RENDERER: Final = "rendering_tools.write_"
_PATH_CHARS: Final = 200


class Referred(Value):
    """The target of a reference: its canonical path. `internal`: a file that the user does not see."""

    path: str
    internal: bool = False


Refer: TypeAlias = Callable[[str], Referred]
"""Finds the target of a path as the model wrote it. Raises PathError or ToolError, by its code."""


def refers_to_nothing(written: str) -> Referred:
    """Refuse every path: the round has no conversation."""
    raise ToolError(f"{cap(written, _PATH_CHARS)} is not in view", code="ref_not_visible")


def binds(tool_id: str, *, runs_code: bool) -> bool:
    """Return True if references in a tool's parameters are bound."""
    return tool_id == _WRITE or not (tool_id.startswith(_OWN) or runs_code)


def find_references(value: Any, param: str = "") -> Iterator[tuple[str, str]]:
    """Yield every reference in parameters, as (the innermost parameter's name, the path as written)."""
    match value:
        case str() if value.startswith(REFERENCE):
            yield param, value.removeprefix(REFERENCE).strip()
        case dict():
            for name, item in value.items():
                yield from find_references(item, str(name))
        case list():
            for item in value:
                yield from find_references(item, param)


def replace_references(
    value: Any, of: Callable[[str, Mapping[str, Any]], Any], schema: Mapping[str, Any]
) -> Any:
    """Return parameters with every reference replaced by `of` its path and the schema of its place.

    What takes a reference's place is not searched for others.
    """
    match value:
        case str() if value.startswith(REFERENCE):
            return of(value.removeprefix(REFERENCE).strip(), schema)
        case dict():
            rules = schema.get("properties", {})
            return {name: replace_references(item, of, rules.get(name, {})) for name, item in value.items()}
        case list():
            return [replace_references(item, of, schema.get("items", {})) for item in value]
        case _:
            return value


def check_references(call: ToolCall, refer: Refer, notices: list[Notice]) -> ToolCall:
    """Return the call with its references in canonical form, and add a notice if that changed one.

    Raises DecisionError `protocol_violation.param_ref_not_visible`, with every violation and its code.
    """
    canonical: dict[str, str] = {}
    violations: list[str] = []
    for param, written in find_references(call.params):
        try:
            canonical[written] = _target(call.tool_id, param, written, refer).path
        except (ToolError, PathError) as refused:
            code = refused.reason if isinstance(refused, ToolError) else "ref_not_visible"
            violations.append(f"{code}: {param}={cap(written, _PATH_CHARS)}: {refused}")
    if violations:
        raise DecisionError(
            f"A reference in the parameters of {call.tool_id} cannot be bound: {cap('; '.join(violations), 500)}. "
            f"{NOTHING_RAN} Write ref: and a path that you see, or the text itself.",
            code=NOT_VISIBLE,
            tool_id=call.tool_id,
            violations=violations,
        )
    fixed = {written: path for written, path in canonical.items() if written != path}
    if not fixed:
        return call
    told = ", ".join(f"{cap(written, _PATH_CHARS)} is {path}" for written, path in fixed.items())
    notices.append(
        make_notice(
            NORMALIZED,
            f"A reference takes a logical path: {told}. The call ran with that one.",
            tool_id=call.tool_id,
            refs=fixed,
        )
    )
    params = replace_references(call.params, lambda written, _: f"{REFERENCE}{canonical[written]}", {})
    return ToolCall(tool_id=call.tool_id, params=params)


def _target(tool_id: str, param: str, written: str, refer: Refer) -> Referred:
    """Return the target of a reference if its parameter takes it. Raises ToolError, PathError."""
    found = refer(written)
    if param == SOURCES_PARAM and not found.path.startswith("so:"):
        raise ToolError(
            "it takes rows of the pool, such as ref:so:sources_pool[1,3]",
            code="sources_list_requires_sources_pool",
        )
    if found.internal and tool_id.startswith(_RENDERER):
        raise ToolError(
            "an internal file is not rendered for the user; write it with another channel first",
            code="ref_internal_not_visible",
        )
    return found
