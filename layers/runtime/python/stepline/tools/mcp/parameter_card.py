"""The parameters of a remote tool on its card: a line for each, and what the server wrote as JSON on it.

A parameter is shown with what its references lead to, to a depth; a schema within itself is an open one, with a note. What
is too long is made again, shorter: fewer levels, then no descriptions, then fewer parameters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from stepline.rendering.quote import inline_json
from stepline.tools.mcp.foreign_schema import DEFS, MORE, NOTE

PARAMETERS_CHARS: Final = 6_500
NODES_MAX, REFERENCES_MAX, ENUM_SHOWN, BRANCHES_SHOWN = 600, 30, 20, 20
ENUM_MAX: Final = 100
_PLAIN: Final = re.compile(r"[A-Za-z_$@][A-Za-z0-9_.$@-]{0,63}")
_NESTED: Final = frozenset(
    {
        *("properties", "patternProperties", "additionalProperties", "items", "prefixItems"),
        *("allOf", "anyOf", "oneOf", "not", "if", "then", "else"),
    }
)
_SAID_ONCE: Final = frozenset({"description", "type", "default", NOTE})
_BESIDE: Final = ("anyOf", "oneOf", "not", "if", "then", "else", "patternProperties")
"""What the parameters must be together."""
_SHORTER: Final = ((6, True), (4, True), (3, True), (2, True), (1, True), (1, False))
"""How many levels are shown, with or without descriptions."""
_HIDDEN: Final = (MORE, "$ref", "$defs")


def render_parameters(schema: Mapping[str, Any]) -> list[str]:
    """Return the lines of a card that say what parameters a schema wants."""
    lines: list[str] = []
    for depth, described in _SHORTER:
        lines = _Shown(schema, depth, described=described).lines()
        if sum(map(len, lines)) + len(lines) <= PARAMETERS_CHARS:
            return lines
    return list(_first(lines))


def _first(lines: Sequence[str]) -> Iterator[str]:
    room = PARAMETERS_CHARS
    for number, line in enumerate(lines):
        room -= len(line) + 1
        if room < 0:
            yield f"  … {len(lines) - number} more"
            return
        yield line


class _Shown:
    """One view of a schema, to a depth."""

    def __init__(self, schema: Mapping[str, Any], depth: int, *, described: bool) -> None:
        self._schema, self._depth, self._described = schema, depth, described
        self._defs = schema.get("$defs", {})
        self._left = NODES_MAX

    def lines(self) -> list[str]:
        """Return a line for each parameter, and one for what they must be together."""
        properties: dict[str, Any] = {}
        required: list[str] = []
        beside: list[dict[str, Any]] = []
        for part, within in self._parts(self._schema, ()):
            for name, rule in part.get("properties", {}).items():
                properties.setdefault(name, self._show(rule, 0, within))
            required += part.get("required", ())
            if together := {name: part[name] for name in _BESIDE if name in part}:
                beside.append(self._show(together, 0, within))
            if isinstance(part.get("additionalProperties"), Mapping):
                beside.append({"additionalProperties": self._show(part["additionalProperties"], 0, within)})
        for name in required:
            properties.setdefault(name, {})
        lines = ["params:" if properties or beside else "params: none named"]
        for name, rule in properties.items():
            said = name if _PLAIN.fullmatch(name) else inline_json(name)
            lines.append(f"  {said}{' (required)' if name in required else ''}: {inline_json(rule)}")
        return [*lines, *(f"  together: {inline_json(one)}" for one in beside)]

    def _parts(
        self, schema: Mapping[str, Any], within: tuple[str, ...]
    ) -> Iterator[tuple[Mapping[str, Any], tuple[str, ...]]]:
        """Yield the schemas that all parameters must fit: the root, what it refers to, and those of `allOf`."""
        self._left -= 1
        if self._left < 0:
            return
        yield schema, within
        ref = schema.get("$ref")
        if ref is not None and ref not in within and len(within) < REFERENCES_MAX:
            yield from self._parts(self._target(ref), (*within, ref))
        for one in schema.get("allOf", ()):
            yield from self._parts(one, within)

    def _target(self, ref: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self._defs.get(ref.removeprefix(DEFS), {})
        return found

    def _show(self, schema: Mapping[str, Any], depth: int, within: tuple[str, ...]) -> dict[str, Any]:
        """Return a schema as it is shown; `within` are the references that led here."""
        self._left -= 1
        shown = {name: one for name, one in schema.items() if name not in _HIDDEN}
        ref = schema.get("$ref")
        if ref is not None:
            if ref in within or len(within) == REFERENCES_MAX:
                return self._within(shown, depth, within) | {NOTE: f"{ref.removeprefix(DEFS)} again"}
            inner = self._show(self._target(ref), depth, (*within, ref))
            return _joined(inner, self._within(shown, depth, within))
        if len(shown.get("allOf", ())) == 1:  # how generators write a reference that has a description
            (only,) = shown.pop("allOf")
            return _joined(self._show(only, depth, within), self._within(shown, depth, within))
        return self._within(shown, depth, within)

    def _within(self, shown: dict[str, Any], depth: int, within: tuple[str, ...]) -> dict[str, Any]:
        if not self._described:
            shown.pop("description", None)
        if len(values := shown.get("enum", ())) > ENUM_MAX:
            shown |= {"enum": values[:ENUM_SHOWN], NOTE: f"{len(values)} values; these are the first"}
        deep = depth >= self._depth or self._left < 0
        for keyword, value in tuple(shown.items()):
            if keyword not in _NESTED or not isinstance(value, Mapping | list):
                continue
            if deep:
                del shown[keyword]
                shown[NOTE] = "deeper than is shown"
            elif isinstance(value, list):
                shown[keyword] = [self._show(one, depth + 1, within) for one in value[:BRANCHES_SHOWN]]
                if len(value) > BRANCHES_SHOWN:
                    shown[NOTE] = f"{len(value)} in {keyword}; these are the first"
            elif keyword in ("properties", "patternProperties"):
                shown[keyword] = {name: self._show(one, depth + 1, within) for name, one in value.items()}
            else:
                shown[keyword] = self._show(value, depth + 1, within)
        return shown


def _joined(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Return two schemas that a value must fit both, as one if they do not say the same differently."""
    if (one.keys() & other.keys()) <= _SAID_ONCE:
        return one | other
    return {**other, "allOf": [one, *other.get("allOf", ())]}
