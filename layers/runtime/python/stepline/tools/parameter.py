"""Rules of tools' parameters, by the keywords of JSON schema of any draft: written, shown in the catalogue, and checked.

    {"prefixItems": [a], "items": b}            is checked as {"items": [a], "additionalItems": b}
    {"type": "string", "nullable": true}        {"type": ["string", "null"]}
    {"$ref": "#/$defs/A", "maxLength": 3}       {"allOf": [{"$ref": "#/$defs/A"}, {"maxLength": 3}]}

Source: json-schema.org, drafts 7 to 2020-12; spec.openapis.org, 3.0 (`nullable`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

PATH: Final = {"type": "string", "minLength": 1, "maxLength": 2048}


def param(kind: str | Sequence[str], description: str, **rules: Any) -> dict[str, Any]:
    """Return the rule of a parameter of one type, or of one of several."""
    return {"type": kind if isinstance(kind, str) else list(kind), **rules, "description": description}


def choice(options: Sequence[Any], description: str, **rules: Any) -> dict[str, Any]:
    """Return the rule of a parameter that is one of some values."""
    return {"enum": list(options), **rules, "description": description}


def closed_schema(properties: Mapping[str, Any], *required: str) -> dict[str, Any]:
    """Return the schema of a call with these parameters, in this order, and no others."""
    needed = {"required": list(required)} if required else {}
    return {"type": "object", "additionalProperties": False, **needed, "properties": properties}


# --- the lines of a card

_REFERENCES_MAX: Final = 20
_EITHER: Final = ("anyOf", "oneOf")
_TOGETHER: Final = (*_EITHER, "not", "if", "then", "else", "dependencies", "dependentRequired")
"""Rules for all parameters together."""


def describe_parameters(schema: Mapping[str, Any]) -> list[str]:
    """Return a line for each parameter of a schema, and for each field of the objects within, indented.

    An object that references lead to is shown once, by its name in `$defs`: `children (list of Node)`.
    """
    return _Lines(schema).of(schema, "  ")


def one_line_json(value: Any) -> str:
    """Return a value as JSON on one line."""
    return json.dumps(value, ensure_ascii=False)


def find_properties(
    schema: Mapping[str, Any], root: Mapping[str, Any] | None = None
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the rules of an object's fields by name, and the names of the required ones; `root` has the `$defs`.

    Those of the target of a reference, and of `allOf`, are among them.
    """
    properties: dict[str, Any] = {}
    required: list[str] = []
    for part in _parts(schema, schema if root is None else root):
        for name, rule in part.get("properties", {}).items():
            properties.setdefault(name, rule)
        required += part.get("required", ())
    return properties, tuple(required)


def resolve_reference(ref: str, root: Mapping[str, Any]) -> Any:
    """Return the target of a reference within a schema; True, which accepts any value, if there is none."""
    found: Any = root
    for token in ref.removeprefix("#").split("/")[1:]:
        key = token.replace("~1", "/").replace("~0", "~")
        if isinstance(found, list | tuple) and key.isdecimal() and int(key) < len(found):
            found = found[int(key)]
        elif isinstance(found, Mapping) and key in found:
            found = found[key]
        else:
            return True
    return found


def inner_objects(rule: Any, root: Mapping[str, Any] | None = None) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the schemas of the objects that a parameter, or its items, may be, each with its reference, or ""."""
    return list(_objects(rule, {} if root is None else root, ()))


def render_type(rule: Any, root: Mapping[str, Any] | None = None) -> str:
    """Return a schema's type in the catalogue's notation: `string`, `list of string`, `"a" | "b"`."""
    return _type(rule, {} if root is None else root, ())


def _type(rule: Any, root: Mapping[str, Any], within: tuple[str, ...]) -> str:
    if not isinstance(rule, Mapping):
        return "any" if rule else "nothing"
    if (ref := rule.get("$ref")) is not None:
        target = resolve_reference(ref, root)
        if ref in within or _has_fields(target):
            return _name(ref)
        return _type(target, root, (*within, ref))
    if "enum" in rule or "const" in rule:
        options = [one_line_json(option) for option in rule.get("enum", [rule.get("const")])]
    elif either := next((rule[name] for name in _EITHER if name in rule), None):
        options = [_type(one, root, within) for one in either]
    elif "allOf" in rule and "properties" not in rule:
        options = [" & ".join(dict.fromkeys(_type(one, root, within) for one in rule["allOf"]))]
    else:
        options = _kinds(rule, root, within)
    if rule.get("nullable") is True:
        options.append("null")
    return " | ".join(dict.fromkeys(options))


def _kinds(rule: Mapping[str, Any], root: Mapping[str, Any], within: tuple[str, ...]) -> list[str]:
    named = rule.get("type", _implied(rule))
    kinds = [named] if isinstance(named, str) else list(named)
    if [kind for kind in kinds if kind != "null"] == ["array"]:
        return [_list(rule, root, within) if kind == "array" else kind for kind in kinds]
    if "string" in kinds and isinstance(form := rule.get("format"), str):
        return [f"{form} string" if kind == "string" else kind for kind in kinds]
    values = rule.get("additionalProperties")
    if kinds == ["object"] and "properties" not in rule and isinstance(values, Mapping):
        return [f"map of {_bracketed(_type(values, root, within))}"]
    return kinds


def _implied(rule: Mapping[str, Any]) -> str:
    """Return the type that a schema without one implies."""
    if "properties" in rule or "additionalProperties" in rule:
        return "object"
    return "array" if "items" in rule or "prefixItems" in rule else "any"


def _list(rule: Mapping[str, Any], root: Mapping[str, Any], within: tuple[str, ...]) -> str:
    first, rest = _items(rule)
    if not first:
        return "list" if rest is True else f"list of {_bracketed(_type(rest, root, within))}"
    shown = [_type(one, root, within) for one in first]
    if rule.get("maxItems") == len(first):
        rest = False
    return f"[{', '.join(shown)}{'' if rest is False else ', …'}]"


def _items(rule: Mapping[str, Any]) -> tuple[Sequence[Any], Any]:
    """Return the schemas of a list's first items, and the one of the rest, in the notation of any draft."""
    items = rule.get("items", True)
    if isinstance(items, list | tuple):
        return items, rule.get("additionalItems", True)
    return rule.get("prefixItems", ()), items


def _bracketed(kind: str) -> str:
    return f"({kind})" if " | " in kind or " & " in kind else kind


def _name(ref: str) -> str:
    return ref.rpartition("/")[2] if "/" in ref else "params"


def _has_fields(rule: Any) -> bool:
    return isinstance(rule, Mapping) and ("properties" in rule or "allOf" in rule)


def _parts(schema: Any, root: Mapping[str, Any], depth: int = 0) -> Iterator[Mapping[str, Any]]:
    """Yield the schemas that an object must fit: its own, its reference's target, and those of `allOf`."""
    if not isinstance(schema, Mapping) or depth > _REFERENCES_MAX:
        return
    yield schema
    if "$ref" in schema:
        yield from _parts(resolve_reference(schema["$ref"], root), root, depth + 1)
    for one in schema.get("allOf", ()):
        yield from _parts(one, root, depth + 1)


def _objects(
    rule: Any, root: Mapping[str, Any], within: tuple[str, ...]
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    if not isinstance(rule, Mapping):
        return
    if (ref := rule.get("$ref")) is not None and ref not in within:
        target = resolve_reference(ref, root)
        if _has_fields(target):
            yield ref, target
        else:
            yield from _objects(target, root, (*within, ref))
    if "properties" in rule:
        yield "", rule
    first, rest = _items(rule)
    values = () if "properties" in rule else (rule.get("additionalProperties"),)
    for one in (*(one for name in (*_EITHER, "allOf") for one in rule.get(name, ())), *first, rest, *values):
        yield from _objects(one, root, within)


class _Lines:
    """The lines of one schema, which show an object that references lead to once."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._seen = {"#", root.get("$ref", "#")}

    def of(self, schema: Mapping[str, Any], indent: str) -> list[str]:
        """Return the lines of an object's fields."""
        properties, required = find_properties(schema, self._root)
        lines: list[str] = []
        for name, rule in properties.items():
            lines += self._field(name, rule, indent, required=name in required)
        for part in _parts(schema, self._root):
            lines += self._rest(part, indent)
        return lines

    def _field(self, name: str, rule: Any, indent: str, *, required: bool = False) -> list[str]:
        said = rule if isinstance(rule, Mapping) else {}
        if "alias_of" in said:
            return []
        facts = [render_type(rule, self._root)]
        if required:
            facts.append("required")
        if "default" in said:
            facts.append(f"default {one_line_json(said['default'])}")
        about = said.get("description") or self._about(said)
        line = f"{indent}{name} ({', '.join(facts)}){': ' if about else ''}{about}"
        return [line, *self._within(rule, indent + "  ")]

    def _about(self, rule: Mapping[str, Any]) -> str:
        """Return the description of the only object that a parameter without a description may be."""
        found = inner_objects(rule, self._root)
        return " ".join(str(found[0][1].get("description", "")).split()) if len(found) == 1 else ""

    def _within(self, rule: Any, indent: str) -> list[str]:
        found = inner_objects(rule, self._root)
        lines: list[str] = []
        for ref, inner in found:
            if ref and ref in self._seen:
                continue
            self._seen.add(ref)
            named = [f"{indent}{_name(ref) if ref else 'object'}:"] if len(found) > 1 else []
            lines += [*named, *self.of(inner, indent + "  " if named else indent)]
        return lines

    def _rest(self, part: Mapping[str, Any], indent: str) -> list[str]:
        """Return the lines of the rules for names that no property has, and for all fields together."""
        lines: list[str] = []
        for expression, rule in part.get("patternProperties", {}).items():
            lines += self._field(f"names like {expression}", rule, indent)
        if isinstance(values := part.get("additionalProperties"), Mapping):
            lines += self._field("any other name", values, indent)
        rules = {name: part[name] for name in _TOGETHER if name in part}
        if not rules:
            return lines
        if set(rules) <= set(_EITHER) and inner_objects(rules, self._root):
            return [
                *lines,
                f"{indent}and one of: {render_type(rules, self._root)}",
                *self._within(rules, indent + "  "),
            ]
        return [*lines, f"{indent}together: {one_line_json(rules)}"]


# --- the schema of the validator

_DATA: Final = frozenset({"enum", "const", "default", "examples", "example"})
"""Keywords whose value is no schema."""
_MAPS: Final = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_NOTES: Final = frozenset(
    {"description", "title", "default", "examples", "$comment", "deprecated", "alias_of"}
)
_OPEN: Final = (
    "additionalProperties",
    "patternProperties",
    "unevaluatedProperties",
    "$ref",
    "allOf",
    "anyOf",
    "oneOf",
)
_DEPTH_MAX: Final = 40


def close_schema(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema of a call: one that lists its parameters, and does not say which others it accepts, accepts none."""
    is_open = "properties" not in schema or any(name in schema for name in _OPEN)
    return schema if is_open else {**schema, "additionalProperties": False}


def to_draft_7(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema in draft 7."""
    return {"$schema": "http://json-schema.org/draft-07/schema#", **_convert(schema)}


def _convert(rule: Any) -> Any:
    if isinstance(rule, list | tuple):
        return [_convert(one) for one in rule]
    if not isinstance(rule, Mapping):
        return rule
    made: dict[str, Any] = {}
    for name, value in rule.items():
        if name in _DATA or name == "$schema":
            made |= {} if name == "$schema" else {name: value}
        elif name in _MAPS and isinstance(value, Mapping):
            made[name] = {key: _convert(one) for key, one in value.items()}
        else:
            made[name] = _convert(value)
    if "prefixItems" in made:
        rest = {"additionalItems": made.pop("items")} if "items" in made else {}
        made |= {"items": made.pop("prefixItems"), **rest}
    if made.pop("nullable", None) is True:
        made = _or_null(made)
    beside = {name: value for name, value in made.items() if name not in {"$ref", "$defs", "definitions"}}
    if "$ref" in made and beside.keys() - _NOTES:
        defs = {name: made[name] for name in ("$defs", "definitions") if name in made}
        return {"allOf": [{"$ref": made["$ref"]}, beside], **defs}
    return made


def _or_null(rule: dict[str, Any]) -> dict[str, Any]:
    """Return a schema that accepts null, too, as OpenAPI 3.0 defines `nullable`: beside a `type` only."""
    if "type" not in rule:
        return rule
    kinds = [rule["type"]] if isinstance(rule["type"], str) else list(rule["type"])
    listed = {"enum": [*rule["enum"], None]} if "enum" in rule and None not in rule["enum"] else {}
    return {**rule, "type": list(dict.fromkeys([*kinds, "null"])), **listed}


def accepts_text(schema: Mapping[str, Any], at: Sequence[str | int]) -> bool:
    """Return True if a position within parameters accepts a text, or its schema is not known."""
    rules: list[Any] = [schema]
    for key in at:
        rules = [inner for rule in rules for one in _branches(rule, schema) for inner in _inner(one, key)]
    leaves = [one for rule in rules for one in _branches(rule, schema)]
    return not leaves or any(
        "string" in one.get("type", "object" if "properties" in one else "string") for one in leaves
    )


def _branches(rule: Any, root: Mapping[str, Any], depth: int = 0) -> Iterator[Mapping[str, Any]]:
    """Yield the schemas that a value may or must fit, without those that only refer to others."""
    if not isinstance(rule, Mapping) or depth > _DEPTH_MAX:
        return
    others = [resolve_reference(rule["$ref"], root)] if "$ref" in rule else []
    others += [one for name in ("allOf", "anyOf", "oneOf") for one in rule.get(name, ())]
    for one in others:
        yield from _branches(one, root, depth + 1)
    if not others or "type" in rule or "properties" in rule or "items" in rule:
        yield rule


def _inner(rule: Mapping[str, Any], key: str | int) -> Iterator[Any]:
    """Yield the schemas of a field, or of an item of a list."""
    if isinstance(key, str):
        known = rule.get("properties", {})
        if key in known or "additionalProperties" in rule:
            yield known.get(key, rule.get("additionalProperties"))
        return
    first, rest = _items(rule)
    yield first[key] if key < len(first) else rest
