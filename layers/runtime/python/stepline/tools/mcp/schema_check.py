"""A check of parameters by a foreign server's schema, as far as it is known here.

It has three results: a value fits, does not, or may fit, because the server has more rules than are kept (`MORE`), a
reference has no end, or an expression is not understood. Only a value that certainly does not fit is refused, because
the server itself might accept any other. The schema is data: none of it becomes a program, and a check ends after
a fixed number of steps, whatever the schema says.
Source: docs/how-to/connect-an-mcp-server.md#the-list.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from stepline.tools.mcp.foreign_schema import DEFS, MORE

Fits: TypeAlias = bool | None
"""None: it may fit."""

STEPS_MAX, DEPTH_MAX, PROBLEMS_MAX, PROBLEM_CHARS, KEY_CHARS, SHOWN_MAX = 50_000, 60, 10, 300, 1_000, 20
EXPRESSION_BYTES: Final = 1 << 20
_LATER: Final = object()
"""Represents a value that does not exist yet."""
_PLAIN: Final = re.compile(
    r"(?:[^\\\[({]|\{(?!,)|\\[dDwWsSbB]|\\[^A-Za-z0-9]|\[(?!:|\]|\^\])|\((?!\?)|\(\?:)*"
)
"""Expressions with the same meaning in every engine, about names of printable ASCII."""
_KINDS: Final[Mapping[str, tuple[type, ...]]] = {
    "string": (str,),
    "number": (int, float),
    "integer": (int,),
    "array": (list, tuple),
    "object": (dict, Mapping),
    "null": (type(None),),
    "boolean": (bool,),
}


def find_problems(
    schema: Mapping[str, Any], params: Mapping[str, Any], unbound: Collection[str] = ()
) -> list[str]:
    """Return the certain problems of parameters, one sentence each; those in `unbound` have no value yet."""
    values = {name: _LATER if name in unbound else value for name, value in params.items()}
    check = _Check(schema.get("$defs", {}))
    check.fits(schema, values, "", 0)
    return [problem[:PROBLEM_CHARS] for problem in dict.fromkeys(check.problems)]


def is_same(one: Any, other: Any) -> bool:
    """Return True if two values are equal in JSON, where true is not 1, and 1 is 1.0."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(is_same, one, other))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(is_same(one[name], other[name]) for name in one)
    return bool(one == other)


class _Check:
    def __init__(self, defs: Mapping[str, Any]) -> None:
        self._defs = defs
        self._steps = STEPS_MAX
        self._quiet = 0
        self.problems: list[str] = []

    def fits(self, schema: Mapping[str, Any], value: Any, at: str, depth: int) -> Fits:
        """Return True, False or None for a value and a schema; `at` is its position in the parameters, "" for all of them."""
        self._steps -= 1 + len(schema.get("enum", ())) + len(schema.get("required", ()))
        if self._steps < 0 or depth > DEPTH_MAX or value is _LATER:
            return None
        verdict: Fits = None if MORE in schema else True
        if "$ref" in schema:
            target = self._defs.get(schema["$ref"].removeprefix(DEFS), {MORE: True})
            verdict = _both(verdict, self.fits(target, value, at, depth + 1))
        verdict = _both(verdict, self._kind(schema, value, at))
        verdict = _both(verdict, self._combined(schema, value, at, depth))
        if isinstance(value, Mapping):
            return _both(verdict, self._object(schema, value, at, depth))
        if isinstance(value, list | tuple):
            return _both(verdict, self._list(schema, value, at, depth))
        return verdict

    def _say(self, problem: str) -> Fits:
        if not self._quiet and len(self.problems) < PROBLEMS_MAX:
            self.problems.append(problem)
        return False

    def _try(self, schema: Mapping[str, Any], value: Any, at: str, depth: int) -> Fits:
        """Return True, False or None for a value that may fit one of several schemas; reports no problem."""
        self._quiet += 1
        try:
            return self.fits(schema, value, at, depth + 1)
        finally:
            self._quiet -= 1

    def _kind(self, schema: Mapping[str, Any], value: Any, at: str) -> Fits:
        name = at or "params"
        named = schema.get("type", ())
        kinds = [named] if isinstance(named, str) else named
        if kinds and not any(_is(kind, value) for kind in kinds):
            return self._say(f"{name} must be {' or '.join(kinds)}")
        if "enum" in schema and not any(is_same(one, value) for one in schema["enum"]):
            return self._say(f"{name} must be one of {_shown(schema['enum'])}")
        if "const" in schema and not is_same(schema["const"], value):
            return self._say(f"{name} must be {_shown(schema['const'])}")
        if isinstance(value, str):
            return self._bounds(schema, len(value), name, "Length", "characters")
        if isinstance(value, list | tuple):
            return self._bounds(schema, len(value), name, "Items", "items")
        return self._range(schema, value, name) if _is("number", value) else True

    def _bounds(self, schema: Mapping[str, Any], size: int, name: str, of: str, unit: str) -> Fits:
        if size < schema.get(f"min{of}", size):
            return self._say(f"{name} must have at least {schema[f'min{of}']} {unit}")
        if size > schema.get(f"max{of}", size):
            return self._say(f"{name} must have at most {schema[f'max{of}']} {unit}")
        return True

    def _range(self, schema: Mapping[str, Any], value: float, name: str) -> Fits:
        if "minimum" in schema and value < schema["minimum"]:
            return self._say(f"{name} must be at least {schema['minimum']}")
        if "maximum" in schema and value > schema["maximum"]:
            return self._say(f"{name} must be at most {schema['maximum']}")
        if "exclusiveMinimum" in schema and value <= schema["exclusiveMinimum"]:
            return self._say(f"{name} must be more than {schema['exclusiveMinimum']}")
        if "exclusiveMaximum" in schema and value >= schema["exclusiveMaximum"]:
            return self._say(f"{name} must be less than {schema['exclusiveMaximum']}")
        return True

    def _combined(self, schema: Mapping[str, Any], value: Any, at: str, depth: int) -> Fits:
        name = at or "params"
        found: Fits = True
        for one in schema.get("allOf", ()):
            found = _both(found, self.fits(one, value, at, depth + 1))
        if "anyOf" in schema:
            found = _both(found, self._any(schema["anyOf"], value, at, depth))
        if "oneOf" in schema:
            tried = [self._try(one, value, at, depth) for one in schema["oneOf"]]
            if tried.count(False) == len(tried) or tried.count(True) > 1:
                found = self._say(f"{name} must fit exactly one of the schemas in oneOf")
            elif None in tried:
                found = _both(found, None)
        if "not" in schema:
            within = self._try(schema["not"], value, at, depth)
            if within is True:
                found = self._say(f"{name} must not be so" if schema["not"] else f"{name} must not be there")
            found = _both(found, None if within is None else not within)
        return _both(found, self._conditional(schema, value, at, depth)) if "if" in schema else found

    def _any(self, schemas: Sequence[Mapping[str, Any]], value: Any, at: str, depth: int) -> Fits:
        best: Fits = False
        for one in schemas:
            tried = self._try(one, value, at, depth)
            if tried is True:
                return True
            best = None if tried is None else best
        return best if best is None else self._say(f"{at or 'params'} must fit one of the schemas in anyOf")

    def _conditional(self, schema: Mapping[str, Any], value: Any, at: str, depth: int) -> Fits:
        condition = self._try(schema["if"], value, at, depth)
        if condition is not None:
            return self.fits(schema.get("then" if condition else "else", {}), value, at, depth + 1)
        either = [self._try(schema.get(name, {}), value, at, depth) for name in ("then", "else")]
        if either == [False, False]:
            return self._say(f"{at or 'params'} must fit then or else")
        return True if either == [True, True] else None

    def _object(self, schema: Mapping[str, Any], value: Mapping[str, Any], at: str, depth: int) -> Fits:
        rules, expressions = schema.get("properties", {}), schema.get("patternProperties", {})
        verdict: Fits = True
        for name in schema.get("required", ()):
            if name not in value:
                verdict = self._say(f"{_child(at, name)} is required")
        for name, one in value.items():
            if self._steps < 0:
                return _both(verdict, None)
            there = _child(at, name)
            known: Fits = name in rules
            if known:
                verdict = _both(verdict, self.fits(rules[name], one, there, depth + 1))
            for expression, rule in expressions.items():
                self._steps -= 1
                matches = _matches(expression, name)
                fits = (
                    self.fits(rule, one, there, depth + 1) if matches else None if matches is None else True
                )
                verdict = _both(verdict, fits)
                known = known or (matches if known is False else matches or None)
            if not known:
                verdict = _both(verdict, None if known is None else self._rest(schema, one, there, depth))
        return verdict

    def _rest(self, schema: Mapping[str, Any], value: Any, there: str, depth: int) -> Fits:
        """Return the fit of a field that no property names, by the rule for all other fields."""
        rest = schema.get("additionalProperties", True)
        if rest is False:
            return self._say(f"{there} is unknown; there are {_shown(list(schema.get('properties', {})))}")
        return True if rest is True else self.fits(rest, value, there, depth + 1)

    def _list(self, schema: Mapping[str, Any], value: Sequence[Any], at: str, depth: int) -> Fits:
        first: Sequence[Any] = schema.get("prefixItems", ())
        verdict: Fits = True
        for number, one in enumerate(value):
            rule = first[number] if number < len(first) else schema.get("items")
            if rule is None:
                break
            verdict = _both(verdict, self.fits(rule, one, f"{at}[{number}]", depth + 1))
        return verdict


def _both(one: Fits, other: Fits) -> Fits:
    if one is False or other is False:
        return False
    return None if one is None or other is None else True


def _is(kind: str, value: Any) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    return isinstance(value, _KINDS[kind]) or (
        kind == "integer" and isinstance(value, float) and value.is_integer()
    )


def _matches(expression: str, name: str) -> bool | None:
    """Return True if an expression finds something in a name; None if engines disagree."""
    if not (
        name.isascii() and name.isprintable() and len(name) <= KEY_CHARS and _PLAIN.fullmatch(expression)
    ):
        return None
    import re2  # noqa: PLC0415 - 9 ms, only for schemas with expressions

    options = re2.Options()
    options.log_errors, options.max_mem = False, EXPRESSION_BYTES
    try:
        return re2.search(expression, name, options) is not None
    except re2.error:
        return None


def _child(at: str, name: str) -> str:
    return f"{at}.{name}" if at else name


def _shown(value: Any) -> str:
    return msgspec.json.encode(value[:SHOWN_MAX] if isinstance(value, list) else value).decode()
