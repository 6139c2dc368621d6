"""The schema of a remote tool: what is read of it, where its references lead, and how it is shown."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stepline.tools.mcp.foreign_schema import SCHEMA_CHARS, read_schema
from stepline.tools.mcp.schema_check import find_problems
from stepline.tools.mcp.tool_list import PARAMETERS_CHARS, render_parameters

CITY = {"type": "object", "required": ["city"], "properties": {"city": {"type": "string", "minLength": 2}}}


def params(**rules: Any) -> dict[str, Any]:
    return {"type": "object", "properties": rules}


def card(schema: Any) -> str:
    return "\n".join(render_parameters(read_schema(schema)))


def refuses(schema: Any, **values: Any) -> bool:
    return bool(find_problems(read_schema(schema), values))


@pytest.mark.parametrize(
    ("ref", "holder"),
    [
        ("#/$defs/A", {"$defs": {"A": CITY}}),
        ("#/definitions/A", {"definitions": {"A": CITY}}),
        ("#/components/schemas/A", {"components": {"schemas": {"A": CITY}}}),
        ("#/$defs/a~1b", {"$defs": {"a/b": CITY}}),
        ("#/$defs/a~01", {"$defs": {"a~1": CITY}}),
        ("#/$defs/50%25", {"$defs": {"50%": CITY}}),
        ("#/$defs/Gr%C3%B6%C3%9Fe", {"$defs": {"Größe": CITY}}),
        ("#/$defs/Page[Item]", {"$defs": {"Page[Item]": CITY}}),
        ("#/x/0", {"x": [CITY]}),
        ("#here", {"$defs": {"A": {"$anchor": "here", **CITY}}}),
        ("#here", {"definitions": {"A": {"$id": "#here", **CITY}}}),
        ("https://a.example/s#/$defs/A", {"$id": "https://a.example/s", "$defs": {"A": CITY}}),
        ("City", {"$defs": {"A": {"$id": "City", **CITY}}}),
        ("#/$defs/B", {"$defs": {"A": CITY, "B": {"$ref": "#/$defs/A"}}}),
    ],
)
@pytest.mark.parametrize("place", [lambda ref: ref, lambda ref: {"allOf": [ref], "description": "where"}])
def test_a_reference_leads_to_its_schema_wherever_that_is_in_the_document(ref, holder, place):
    schema = {**params(where=place({"$ref": ref})), **holder}
    assert '"city":{"type":"string"' in card(schema)
    assert refuses(schema, where={"city": "B"})
    assert not refuses(schema, where={"city": "Bonn"})


def test_a_reference_within_an_embedded_document_is_unchecked():
    inner = {"$id": "inner", "properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": CITY}}
    schema = {
        **params(x={"$ref": "#/$defs/In"}, y={"$ref": "#/$defs/In/$defs/A"}),
        "$defs": {"In": inner, "A": {"type": "integer"}},
    }
    assert not refuses(schema, x={"a": {}}, y=[])


@pytest.mark.parametrize(
    ("draft", "keyword", "checked"),
    [
        ("draft-04", {"const": 1}, False),
        ("draft-06", {"const": 1}, True),
        ("draft-06", {"if": {}, "then": {"type": "integer"}}, False),
        ("draft-07", {"if": {}, "then": {"type": "integer"}}, True),
        ("draft-07", {"$ref": "#/definitions/Any", "type": "integer"}, False),
        ("2020-12", {"$ref": "#/definitions/Any", "type": "integer"}, True),
    ],
)
def test_a_keyword_is_checked_only_where_the_draft_of_the_schema_knows_it(draft, keyword, checked):
    schema = {
        "$schema": f"https://json-schema.org/{draft}/schema#",
        **params(a=keyword),
        "definitions": {"Any": {}},
    }
    assert refuses(schema, a="x") is checked


def test_all_parameters_may_be_a_reference():
    schema = {"$ref": "#/$defs/Args", "$defs": {"Args": CITY}}
    assert card(schema) == 'params:\n  city (required): {"type":"string","minLength":2}'
    assert refuses(schema)


@pytest.mark.parametrize(
    "ref",
    [
        "http://169.254.169.254/latest",
        "other.json#/a",
        "#/$defs/none",
        "#/x/1",
        "#/x/-1",
        "#nowhere",
        7,
        None,
        {},
    ],
)
def test_a_reference_out_of_the_document_is_unchecked(ref):
    schema = {**params(a={"$ref": ref}, b={"type": "integer"}), "x": [CITY]}
    assert not refuses(schema, a=[1])
    assert refuses(schema, a=1, b="x")


def test_a_schema_within_itself_is_shown_once_and_checked_all_the_way():
    node = {"type": "object", "required": ["label"], "properties": {"label": {"type": "string"}}}
    node["properties"]["children"] = {"type": "array", "items": {"$ref": "#/$defs/Node"}}
    schema = {**params(root={"$ref": "#/$defs/Node"}), "$defs": {"Node": node}}
    assert card(schema).count('"label":{') == 1
    assert '"$comment":"Node again"' in card(schema)
    leaf = {"label": "c"}
    assert not refuses(schema, root={"label": "a", "children": [{"label": "b", "children": [leaf]}]})
    assert refuses(schema, root={"label": "a", "children": [{"label": "b", "children": [{}]}]})


def doubling(keyword: str, levels: int) -> dict[str, Any]:
    """Return a schema that is twice as large with each level, once its references are followed."""
    defs: dict[str, Any] = {f"L{at}": {keyword: [{"$ref": f"#/$defs/L{at + 1}"}] * 2} for at in range(levels)}
    return {**params(a={"$ref": "#/$defs/L0"}), "$defs": {**defs, f"L{levels}": {"type": "string"}}}


def nested(levels: int) -> dict[str, Any]:
    deep: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        deep = params(a=deep)
    return deep


HUGE = {
    "doubled by allOf": doubling("allOf", 40),
    "doubled by anyOf": doubling("anyOf", 40),
    "doubled by oneOf": doubling("oneOf", 400),
    "a chain of references": {
        **params(a={"$ref": "#/$defs/0"}),
        "$defs": {str(at): {"$ref": f"#/$defs/{at + 1}"} for at in range(5_000)},
    },
    "references in a circle": {
        "$ref": "#/$defs/A",
        "$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/A"}},
    },
    "a root within itself": {"$ref": "#", "allOf": [{"$ref": "#"}, {"$ref": "#"}]},
    "deep": params(b=nested(150)),
    "wide": params(**{f"p{at}": {"description": "d" * 200} for at in range(60)}),
    "wider": params(**{f"p{at}": {"type": "string"} for at in range(3_000)}),
    "too many": params(
        **{f"p{at}": {"type": "string"} for at in range(60_000)}, x={"enum": list(range(60_000))}
    ),
    "names of schemas": {
        **params(**{f"p{at}": {"$ref": f"#n{at}"} for at in range(900)}),
        "$defs": {f"d{at}": {} for at in range(60_000)},
    },
    "long names": params(**{"x" * 5_000: {"type": "string"}}),
    "two long enumerations": params(
        begin={"enum": [f"Area/City_{at}" for at in range(600)]},
        end={"enum": [f"Area/City_{at}" for at in range(600)]},
    ),
    "many branches": params(a={"anyOf": [*({"const": at} for at in range(900)), {"type": "string"}]}),
    "long numbers": params(
        a={"minimum": 10**400, "maxLength": 10**400, "enum": [10**400, "x"], "const": 1e999}
    ),
    "an expression without an end": {"patternProperties": {"(a+)+$": {}, "(a{1000}){1000}": {}}},
}


@pytest.mark.parametrize("name", HUGE)
def test_a_schema_of_any_size_is_read_checked_and_shown_in_little_room(name):
    schema = read_schema(HUGE[name])
    assert len(json.dumps(schema)) <= SCHEMA_CHARS
    assert find_problems(schema, {"a": "x", "a" * 500 + "!": [[["x"] * 50] * 50] * 50}) == []
    assert sum(map(len, render_parameters(schema))) <= PARAMETERS_CHARS + 50


@pytest.mark.parametrize(
    ("odd", "kept"),
    [
        ({"minimum": 0, "exclusiveMinimum": True}, {"minimum": 0}),
        ({"maxLength": 10.0}, {"maxLength": 10}),
        ({"maxLength": -1}, {}),
        ({"minLength": "3"}, {}),
        ({"minimum": None, "maximum": 4}, {"maximum": 4}),
        ({"type": "any"}, {}),
        ({"type": ["string", "date"]}, {}),
        ({"type": []}, {}),
        ({"type": None, "enum": ["a"]}, {"enum": ["a"]}),
        ({"enum": []}, {}),
        ({"enum": "a"}, {}),
        ({"anyOf": []}, {}),
        ({"oneOf": "x", "const": 1}, {"const": 1}),
        ({"anyOf": [{"type": "string"}, 7]}, {"anyOf": [{"type": "string"}, {"$open": True}]}),
        ({"required": True, "type": "string"}, {"type": "string"}),
        ({"required": ["a", 7]}, {"required": ["a"]}),
        (
            {"properties": {"a": 7, "b": {"type": "null"}}},
            {"properties": {"a": {"$open": True}, "b": {"type": "null"}}},
        ),
        ({"properties": ["a"]}, {}),
        ({"additionalProperties": "no"}, {}),
        ({"items": None}, {"items": {"$open": True}}),
        ({"description": ["x"], "title": 5, "default": {"a": 1}}, {}),
        ({"pattern": "(a+)+$", "format": "regex"}, {}),
        ({"type": "string", "nullable": True}, {"type": ["string", "null"]}),
    ],
)
def test_an_unreadable_keyword_is_dropped_and_its_neighbours_stay(odd, kept):
    read = read_schema(params(a=odd, b={"type": "integer"}))["properties"]
    assert {name: value for name, value in read["a"].items() if name != "$open"} == kept
    assert read["b"] == {"type": "integer"}


def test_rules_for_all_parameters_together_are_checked_and_shown():
    either = {**params(a={}, b={}), "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}
    assert [refuses(either, a=1), refuses(either), refuses(either, a=1, b=1)] == [False, True, True]
    assert '  together: {"oneOf":[{"required":["a"]},{"required":["b"]}]}' in card(either)
    depends = {**params(kind={}), "if": params(kind={"const": "x"}), "then": {"required": ["n"]}}
    assert [refuses(depends, kind="x"), refuses(depends, kind="y")] == [True, False]
    named = {
        "type": "object",
        "patternProperties": {"^x_": {"type": "integer"}},
        "additionalProperties": False,
    }
    assert [refuses(named, x_a=1), refuses(named, x_a="1"), refuses(named, y=1)] == [False, True, True]


def test_a_value_bound_later_fits_any_schema():
    schema = read_schema(
        {**params(a={"type": "integer"}, b={}), "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}
    )
    assert find_problems(schema, {"a": "ref:x"}, ["a"]) == []
    assert find_problems(schema, {"a": "ref:x", "b": 1}, ["a"]) != []


@pytest.mark.parametrize("base", [{"$ref": "#/$defs/City"}, {"allOf": [{"$ref": "#/$defs/City"}]}])
def test_rules_next_to_a_reference_are_shown_with_it(base):
    schema = {
        **params(where={**base, "properties": {"street": {}}, "required": ["street"]}),
        "$defs": {"City": CITY},
    }
    assert '"street":{}' in card(schema)
    assert '"city":{"type":"string"' in card(schema)


def test_a_long_enumeration_is_shown_in_part_and_checked_whole():
    schema = params(zone={"enum": [f"Area/City_{at}" for at in range(600)]})
    assert "600 values" in card(schema)
    assert [refuses(schema, zone="Area/City_599"), refuses(schema, zone="Area/City_600")] == [False, True]
