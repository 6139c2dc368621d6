"""The schema of a remote tool's parameters, read keyword by keyword from any value that its server sends.

The result is a JSON schema again, and it accepts everything that the server's own accepts. A keyword that cannot be
read, or is not checked here, is removed, and its schema is marked `MORE`: the server requires more than is known. A
reference points into the document itself, to a schema in `$defs`; nothing is fetched.

    {"$ref": "#/definitions/Level"}   {"$ref": "#/$defs/Level"}, and `Level` is in `$defs`, once
    {"price": {"minimum": "0"}}       {"price": {"$open": true}}
    true, {}, null                    {}
    false                             {"not": {}}

Source: json-schema.org, drafts 4 to 2020-12; docs/how-to/connect-an-mcp-server.md#the-list.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from functools import cached_property
from itertools import islice
from typing import Any, Final, NamedTuple, NoReturn, TypeAlias
from urllib.parse import unquote

import msgspec

from stepline.errors import ToolError
from stepline.model.visible_text import shorten
from stepline.rendering.quote import inline

BAD_SCHEMA: Final = "mcp_bad_schema"
MORE: Final = "$open"
"""Marks a schema whose original has more rules than are kept."""
DEFS: Final = "#/$defs/"
NOTE: Final = "$comment"
"""Our note for the model; a server's own is dropped."""

SCHEMA_CHARS: Final = 16_000
NODES_MAX, DEFS_MAX, DEPTH_MAX, NAME_CHARS, ABOUT_CHARS = 1_000, 200, 24, 200, 200
ROWS_MAX, NUMBER_BYTES = 1_000, 40
"""The limits: entries of a list or a map in a schema; bytes of one number."""
_IGNORES_SIBLINGS: Final = re.compile(r"draft-0[3467]")
_NEWER: Final[Mapping[str, Collection[str]]] = {
    "draft-03": ("const", "if", "then", "else", "prefixItems"),
    "draft-04": ("const", "if", "then", "else", "prefixItems"),
    "draft-06": ("if", "then", "else", "prefixItems"),
    "draft-07": ("prefixItems",),
}
"""Keywords that an older draft does not know, and therefore does not check."""
_HALVES: Final = re.compile("[\ud800-\udfff]")
_TYPES: Final = frozenset({"string", "number", "integer", "boolean", "array", "object", "null"})
_INDEX: Final = re.compile(r"[0-9]{1,6}")
_UNCHECKED: Final = frozenset(
    {
        *("pattern", "format", "multipleOf", "divisibleBy", "uniqueItems", "contains", "minContains"),
        *("maxContains", "propertyNames", "minProperties", "maxProperties", "dependencies"),
        *("dependentRequired", "dependentSchemas"),
        *("unevaluatedProperties", "unevaluatedItems", "$dynamicRef", "$recursiveRef", "extends", "disallow"),
        *("contentEncoding", "contentMediaType", "contentSchema"),
    }
)
"""Left to the server: an expression may run without end, and the meaning of a format depends on its reader."""


class _Limits(NamedTuple):
    """The limits of a schema: levels, characters of a description, and bytes of an enumeration."""

    depth: int
    about_chars: int
    value_bytes: int


_LESS: Final = (
    _Limits(DEPTH_MAX, ABOUT_CHARS, 12_000),
    _Limits(DEPTH_MAX, ABOUT_CHARS, 1_000),
    _Limits(DEPTH_MAX, 0, 1_000),
    _Limits(6, 0, 1_000),
    _Limits(3, 0, 200),
    _Limits(2, 0, 200),
    _Limits(1, 0, 200),
)
"""The limits of later attempts to read a schema that is too large."""


def read_schema(raw: Any) -> dict[str, Any]:
    """Return the schema of a tool's parameters. Raises ToolError `mcp_bad_schema`: not a schema, or not an object's."""
    if raw is None or raw is True or raw == []:  # the last is how PHP writes an empty object
        return {"type": "object"}
    if not isinstance(raw, Mapping):
        _refuse("it is no schema")
    schema: dict[str, Any] = {}
    for limits in _LESS:
        schema = _Document(raw, limits).read()
        if len(msgspec.json.encode(schema).decode()) <= SCHEMA_CHARS:
            break
    else:
        schema = {MORE: True, NOTE: "too large to be shown"}
    named = schema.setdefault("type", "object")
    if "object" not in ([named] if isinstance(named, str) else named):
        _refuse("the parameters are no object")
    return {**schema, "type": "object"}


class _Document:
    """One document, in which references lead from one schema to another."""

    def __init__(self, root: Mapping[str, Any], limits: _Limits) -> None:
        self._root, self._limits = root, limits
        dialect = _IGNORES_SIBLINGS.search(str(root.get("$schema")))
        self._alone, self._newer = dialect is not None, _NEWER[dialect[0]] if dialect else ()
        self._embedded = 0
        self._left = NODES_MAX
        self._names: dict[str, str] = {}
        self._found: dict[str, Any] = {}
        self._referring: list[dict[str, Any]] = []

    def read(self) -> dict[str, Any]:
        """Return the whole document: its root, and in `$defs` every schema that a reference leads to."""
        schema, defs = self._read(self._root, 0), dict[str, Any]()
        while len(defs) < len(self._found):  # `_found` grows meanwhile
            name = list(self._found)[len(defs)]
            defs[name] = self._read(self._found[name], 1)
        for node in self._referring:  # the type is then known without following a reference
            if named := defs[node["$ref"].removeprefix(DEFS)].get("type"):
                node.setdefault("type", named)
        return {**schema, "$defs": defs} if defs else schema

    def _read(self, raw: Any, depth: int) -> dict[str, Any]:
        self._left -= 1
        if isinstance(raw, bool):
            return {} if raw else {"not": {}}
        if not isinstance(raw, Mapping):
            return {MORE: True}
        if depth > self._limits.depth or self._left < 0:
            return {MORE: True, NOTE: "deeper than is shown"} | _type(raw)
        kept: dict[str, Any] = {}
        if "$ref" in raw:
            kept |= self._refer(raw["$ref"])
            if self._alone:
                raw = {name: raw[name] for name in ("description", "default") if name in raw}
        embedded = depth > 0 and _is_resource(raw)
        self._embedded += embedded
        for keyword in raw:
            if keyword not in self._newer:
                kept |= self._keyword(keyword, raw, depth)
        if "items" in raw or "prefixItems" in raw:
            kept |= self.items(raw, depth)
        self._embedded -= embedded
        kept = dict(sorted(kept.items(), key=lambda row: _ORDER.get(row[0], len(_ORDER))))
        if "$ref" in kept:
            self._referring.append(kept)
        return kept

    def _keyword(self, keyword: Any, raw: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        """Return the part of a schema that one keyword adds."""
        if keyword in _UNCHECKED:
            return {MORE: True}
        reader = _READERS.get(keyword)
        return reader(self, keyword, raw, depth) if reader else {}

    def annotation(self, keyword: str, raw: Mapping[Any, Any], _: int) -> dict[str, Any]:
        value, chars = raw[keyword], self._limits.about_chars
        if not chars:
            return {}
        if keyword == "description":
            if not isinstance(value, str):
                return {}
            return {keyword: shorten(inline(value[: 4 * chars].encode(errors="replace").decode()), chars)}
        fits = isinstance(value, str | int | float | None) and _is_json(value, 4 * chars)
        return {keyword: value} if fits and len(str(value)) <= chars else {}

    def values(self, keyword: str, raw: Mapping[Any, Any], _: int) -> dict[str, Any]:
        """Return the values that a schema lists: all of them, or none if they are too many or not valid."""
        said = raw[keyword]
        if keyword == "const":
            return {keyword: said} if _is_json(said, self._limits.value_bytes) else {MORE: True}
        if not isinstance(said, list | tuple) or not 0 < len(said) <= ROWS_MAX:
            return {MORE: True}
        if not _is_json(list(said), self._limits.value_bytes):
            return {MORE: True}
        return {keyword: [*said, *([None] if raw.get("nullable") is True and None not in said else [])]}

    def schemas(self, keyword: str, raw: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        value = raw[keyword]
        if not isinstance(value, list | tuple) or not 0 < len(value) <= ROWS_MAX:
            return {MORE: True}
        return {keyword: [self._read(one, depth + 1) for one in value]}

    def one(self, keyword: str, raw: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        value = raw[keyword]
        if keyword == "additionalProperties":
            maps = [raw[place] for place in _MAPS if isinstance(raw.get(place), Mapping)]
            if any(len(_rows(one)) < len(one) for one in maps):
                return {MORE: True}  # it covers all names but these, and not all of these are kept
            if isinstance(value, bool):
                return {keyword: value}
        return {keyword: self._read(value, depth + 1)} if isinstance(value, Mapping | bool) else {MORE: True}

    def items(self, raw: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        """Return the schemas of a list's items; drafts before 2020-12 have those of the first ones in `items`."""
        first, rest = () if self._alone else raw.get("prefixItems", ()), raw.get("items", True)
        if isinstance(rest, list | tuple):
            first, rest = rest, raw.get("additionalItems", True)
        if not isinstance(first, list | tuple) or len(first) > ROWS_MAX:
            return {MORE: True}  # the rest of the items are unknown, too
        kept: dict[str, Any] = {"prefixItems": [self._read(one, depth + 1) for one in first]} if first else {}
        return kept if rest is True else kept | {"items": self._read(rest, depth + 1)}

    def map(self, keyword: str, raw: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        value = raw[keyword]
        if not isinstance(value, Mapping):
            return {} if value == [] else {MORE: True}
        kept = _rows(value)
        read: dict[str, Any] = {keyword: {name: self._read(one, depth + 1) for name, one in kept.items()}}
        return read if len(kept) == len(value) else read | {MORE: True}

    def _refer(self, ref: Any) -> dict[str, Any]:
        """Return a reference to a schema of this document, or the known part of any other."""
        target = self._find(ref)
        if target is None:
            return {MORE: True, NOTE: "described elsewhere"}
        pointer, found = target
        if pointer not in self._names:
            if len(self._names) == DEFS_MAX:
                return {MORE: True, NOTE: "deeper than is shown"}
            said = re.sub(r"\W", "_", pointer.rpartition("/")[2], flags=re.ASCII)[:40] or "parameters"
            name = said if said not in self._found else f"{said}_{len(self._names)}"
            while name in self._found:
                name += "_"
            self._names[pointer], self._found[name] = name, found
        return {"$ref": f"{DEFS}{self._names[pointer]}"}

    def _find(self, ref: Any) -> tuple[str, Any] | None:
        """Return the target of a reference within the document, as a pointer and the schema; None if it is outside."""
        if not isinstance(ref, str) or self._embedded:
            return None
        own = self._root.get("$id", self._root.get("id"))
        fragment = ref.removeprefix(own.rstrip("#")) if isinstance(own, str) and own else ref
        if fragment != "#" and not fragment.startswith("#/"):
            return self._named.get(unquote(fragment, errors="replace"))
        pointer = unquote(fragment[1:], errors="replace")
        found: Any = self._root
        for token in pointer.split("/")[1:]:
            key = token.replace("~1", "/").replace("~0", "~")
            if (
                isinstance(found, Mapping)
                and key in found
                and (found is self._root or not _is_resource(found))
            ):
                found = found[key]
            elif isinstance(found, list | tuple) and _INDEX.fullmatch(key) and int(key) < len(found):
                found = found[int(key)]
            else:
                return None
        return pointer, found

    @cached_property
    def _named(self) -> dict[str, tuple[str, Any]]:
        """The schemas of `$defs` by their own names."""
        named: dict[str, tuple[str, Any]] = {}
        for section in ("$defs", "definitions"):
            held = self._root.get(section)
            for name, schema in held.items() if isinstance(held, Mapping) else ():
                fields = schema if isinstance(schema, Mapping) else {}
                anchor = fields.get("$anchor")
                said = (
                    f"#{anchor}" if isinstance(anchor, str) else None,
                    fields.get("$id"),
                    fields.get("id"),
                )
                named |= {one: (f"/{section}/{name}", schema) for one in said if isinstance(one, str)}
        return named


def _is_resource(raw: Mapping[Any, Any]) -> bool:
    """Return True for a schema that is a document within the document: its references start at itself."""
    said = raw.get("$id", raw.get("id"))
    return isinstance(said, str) and not said.startswith("#")


def _rows(value: Mapping[Any, Any]) -> dict[str, Any]:
    """Return the entries of a map that have names, up to the limit."""
    return {name: one for name, one in islice(value.items(), ROWS_MAX) if _is_text(name)}


def _type(raw: Mapping[Any, Any]) -> dict[str, Any]:
    """Return the type or types that a schema names; an unknown one may mean anything."""
    said = raw.get("type")
    if "type" not in raw:
        return {}
    named = [said] if isinstance(said, str) else said
    if not isinstance(named, list | tuple) or not named:
        return {MORE: True}
    if not all(isinstance(one, str) and one in _TYPES for one in named):
        return {MORE: True}
    named = list(dict.fromkeys([*named, *(["null"] if raw.get("nullable") is True else [])]))
    return {"type": said if named == [said] else named}


def _number(keyword: str, raw: Mapping[Any, Any]) -> dict[str, Any]:
    value = raw[keyword]
    fits = isinstance(value, int | float) and not isinstance(value, bool) and _is_json(value, NUMBER_BYTES)
    return {keyword: value} if fits else {MORE: True}


def _count(keyword: str, raw: Mapping[Any, Any]) -> dict[str, Any]:
    value = _number(keyword, raw).get(keyword, -1)
    return {keyword: int(value)} if value >= 0 and value == int(value) else {MORE: True}


def _required(keyword: str, raw: Mapping[Any, Any]) -> dict[str, Any]:
    value = raw[keyword]
    if not isinstance(value, list | tuple):
        return {MORE: True}
    named = [one for one in value[:ROWS_MAX] if _is_text(one)]
    return {keyword: list(dict.fromkeys(named))} | ({} if len(named) == len(value) else {MORE: True})


def _is_json(value: Any, most_bytes: int) -> bool:
    """Return True if a value is short, and survives encoding and decoding."""
    try:
        data = msgspec.json.encode(value)
        return len(data) <= most_bytes and bool(msgspec.json.decode(data) == value)
    except (ValueError, TypeError, OverflowError, RecursionError, msgspec.MsgspecError):
        return False


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= NAME_CHARS and not _HALVES.search(value)


def _refuse(why: str) -> NoReturn:
    raise ToolError(f"the schema of a remote tool is refused: {why}", code=BAD_SCHEMA)


_BOUNDS: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_COUNTS: Final = ("minLength", "maxLength", "minItems", "maxItems")
_LISTS: Final = ("allOf", "anyOf", "oneOf")
_MAPS: Final = ("properties", "patternProperties")

_AFTER: Final = (*_LISTS, *_MAPS, "required", "additionalProperties", "not", "if", "then", "else")

_Reader: TypeAlias = Callable[[_Document, str, Mapping[Any, Any], int], dict[str, Any]]

_READERS: Final[Mapping[Any, _Reader]] = {
    "type": lambda _, __, raw, ___: _type(raw),
    "description": _Document.annotation,
    **dict.fromkeys(_BOUNDS, lambda _, keyword, raw, __: _number(keyword, raw)),
    **dict.fromkeys(_COUNTS, lambda _, keyword, raw, __: _count(keyword, raw)),
    "enum": _Document.values,
    "const": _Document.values,
    "default": _Document.annotation,
    **dict.fromkeys(_LISTS, _Document.schemas),
    **dict.fromkeys(_MAPS, _Document.map),
    "required": lambda _, keyword, raw, __: _required(keyword, raw),
    **dict.fromkeys(("additionalProperties", "not", "if", "then", "else"), _Document.one),
}
_ORDER: Final = {
    name: at for at, name in enumerate(("$ref", *list(_READERS)[: -len(_AFTER)], "items", *_AFTER))
}
"""The order in which a schema is kept, independent of its server's: it is shown."""
