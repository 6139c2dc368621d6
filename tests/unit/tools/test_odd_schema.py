"""A tool's schema is any valid JSON schema: without descriptions, with references, unions, or of another draft."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stepline.local.stage.bundle_check import check_contracts
from stepline.tools.parameter import accepts_text
from stepline.tools.registry import Registry, Tool
from stepline.tools.spec import ToolSpec, render_tool_card

from .conftest import ToolConversation

SPEC = ToolSpec(
    tool_id="shop.find", purpose="Find.", schema={}, returns="rows", effect="pure", read_only=True
)
QUERY = {
    "type": "object",
    "required": ["team"],
    "properties": {"team": {"type": "string", "description": "its id"}, "limit": {"type": "integer"}},
}
NODE = {
    "type": "object",
    "required": ["label"],
    "properties": {
        "label": {"type": "string"},
        "children": {"type": "array", "items": {"$ref": "#/$defs/Node"}},
    },
}
SHAPES = {
    "Circle": {"type": "object", "required": ["r"], "properties": {"r": {"type": "number"}}},
    "Square": {"type": "object", "required": ["edge"], "properties": {"edge": {"type": "number"}}},
}


def of(defs=None, **properties):
    return {"type": "object", "properties": properties, **({"$defs": defs} if defs else {})}


SCHEMAS = {
    "no descriptions": (
        of(name={"type": "string"}),
        ["name (string)"],
        {"name": "a"},
        ({"name": 1}, "name "),
    ),
    "a reference": (
        {**of({"Query": QUERY}, query={"$ref": "#/$defs/Query"}), "required": ["query"]},
        ["query (Query, required)", "  team (string, required): its id", "  limit (integer)"],
        {"query": {"team": "a"}},
        ({"query": {"team": 1}}, "query.team "),
    ),
    "recursive": (
        of({"Node": NODE}, root={"$ref": "#/$defs/Node", "description": "the tree"}),
        ["root (Node): the tree", "  label (string, required)", "  children (list of Node)"],
        {"root": {"label": "a", "children": [{"label": "b"}]}},
        ({"root": {"label": "a", "children": [{"label": 1}]}}, "root.children[0].label "),
    ),
    "the root is a reference": (
        {"$ref": "#/$defs/Query", "$defs": {"Query": QUERY}},
        ["team (string, required): its id", "limit (integer)"],
        {"team": "a"},
        ({"team": 1}, "team "),
    ),
    "a reference to the root": (
        of(text={"type": "string"}, inner={"$ref": "#"}),
        ["text (string)", "inner (params)"],
        {"inner": {"inner": {"text": "a"}}},
        ({"inner": {"inner": {"text": 1}}}, "inner.inner.text "),
    ),
    "a union of objects": (
        of(SHAPES, shape={"oneOf": [{"$ref": "#/$defs/Circle"}, {"$ref": "#/$defs/Square"}]}),
        [
            "shape (Circle | Square)",
            "  Circle:",
            "    r (number, required)",
            "  Square:",
            "    edge (number, required)",
        ],
        {"shape": {"edge": 1}},
        ({"shape": {"size": 1}}, "shape "),
    ),
    "allOf of one": (
        of({"Query": QUERY}, query={"allOf": [{"$ref": "#/$defs/Query"}], "description": "which"}),
        ["query (Query): which", "  team (string, required): its id", "  limit (integer)"],
        {"query": {"team": "a"}},
        ({"query": {}}, "query "),
    ),
    "allOf of the root": (
        {"type": "object", "allOf": [QUERY, {"properties": {"page": {"type": "integer"}}}]},
        ["team (string, required): its id", "limit (integer)", "page (integer)"],
        {"team": "a", "page": 1},
        ({"team": "a", "page": "x"}, "page "),
    ),
    "a nullable text": (
        of(a={"anyOf": [{"type": "string"}, {"type": "null"}]}, b={"type": ["integer", "null"]}),
        ["a (string | null)", "b (integer | null)"],
        {"a": None, "b": None},
        ({"a": 1}, "a "),
    ),
    "nullable of OpenAPI": (
        of(a={"type": "string", "nullable": True}, b={"type": "string", "enum": ["x"], "nullable": True}),
        ["a (string | null)", 'b ("x" | null)'],
        {"a": None, "b": None},
        ({"a": 1}, "a "),
    ),
    "const": (
        of(kind={"const": "card"}),
        ['kind ("card")'],
        {"kind": "card"},
        ({"kind": "cash"}, "kind "),
    ),
    "prefixItems": (
        of(pair={"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "items": False}),
        ["pair ([integer, string])"],
        {"pair": [1, "a"]},
        ({"pair": [1, 2]}, "pair[1] "),
    ),
    "a map": (
        of({"Query": QUERY}, by={"type": "object", "additionalProperties": {"$ref": "#/$defs/Query"}}),
        ["by (map of Query)", "  team (string, required): its id", "  limit (integer)"],
        {"by": {"x": {"team": "a"}}},
        ({"by": {"x": {"team": 1}}}, "by.x.team "),
    ),
    "any further name": (
        {"type": "object", "additionalProperties": {"type": "integer"}},
        ["any other name (integer)"],
        {"a": 1},
        ({"a": "x"}, "a "),
    ),
    "names by an expression": (
        {"type": "object", "additionalProperties": False, "patternProperties": {"^x-": {"type": "string"}}},
        ["names like ^x- (string)"],
        {"x-a": "1"},
        ({"y": "1"}, "params "),
    ),
    "a boolean schema": (
        of(a=True, b={}, c=False),
        ["a (any)", "b (any)", "c (nothing)"],
        {"a": 1, "b": [2]},
        ({"c": 1}, "c "),
    ),
    "no type but fields": (
        of(a={"properties": {"b": {"type": "integer"}}}, d={"items": {"type": "string"}}),
        ["a (object)", "  b (integer)", "d (list of string)"],
        {"a": {"b": 1}, "d": ["x"]},
        ({"a": {"b": "x"}}, "a.b "),
    ),
    "a list of anything": (
        of(rows={"type": "array"}),
        ["rows (list)"],
        {"rows": [1, "a"]},
        ({"rows": 1}, "rows "),
    ),
    "one of two parameters": (
        {
            **of(a={"type": "string"}, b={"type": "string"}),
            "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
        },
        [
            "a (string)",
            "b (string)",
            'together: {"anyOf": [{"required": ["a"]}, {"required": ["b"]}]}',
        ],
        {"a": "x"},
        ({}, "params "),
    ),
    "one of two kinds of calls": (
        {"type": "object", "$defs": SHAPES, "oneOf": [{"$ref": f"#/$defs/{name}"} for name in SHAPES]},
        [
            "and one of: Circle | Square",
            "  Circle:",
            "    r (number, required)",
            "  Square:",
            "    edge (number, required)",
        ],
        {"r": 1},
        ({}, "params "),
    ),
    "a rule beside a reference": (
        of({"Name": {"type": "string"}}, name={"$ref": "#/$defs/Name", "maxLength": 2}),
        ["name (string)"],
        {"name": "ab"},
        ({"name": "abc"}, "name "),
    ),
    "definitions of draft 7": (
        {**of(level={"$ref": "#/definitions/Level"}), "definitions": {"Level": {"enum": ["calm", "urgent"]}}},
        ['level ("calm" | "urgent")'],
        {"level": "calm"},
        ({"level": "high"}, "level "),
    ),
    "a word of JSON schema as a name": (
        of(
            nullable={"type": "boolean"},
            prefixItems={"type": "string"},
            enum={"enum": [{"nullable": True}]},
        ),
        ["nullable (boolean)", "prefixItems (string)", 'enum ({"nullable": true})'],
        {"nullable": True, "prefixItems": "a", "enum": {"nullable": True}},
        ({"nullable": None}, "nullable "),
    ),
}


@pytest.mark.parametrize(("schema", "lines", "valid", "broken"), SCHEMAS.values(), ids=SCHEMAS)
def test_a_valid_schema_is_shown_and_checked(schema, lines, valid, broken):
    spec = replace(SPEC, schema=schema)
    card = render_tool_card(spec).split("\n")
    assert card[3:-1] == [f"  {line}" for line in lines]
    assert spec.validate(valid) == []
    params, named = broken
    problems = spec.validate(params)
    assert problems
    assert problems[0].startswith(named)
    assert list(check_contracts([spec])) == []


def test_a_schema_that_does_not_say_so_accepts_no_unknown_parameter():
    assert replace(SPEC, schema=of(a={"type": "string"})).validate({"b": 1}) != []


@pytest.mark.parametrize(
    "ref", ["https://example.com/a.json", "http://127.0.0.1:1/a", "file:///etc/passwd", "#/$defs/None"]
)
def test_a_reference_out_of_the_schema_is_refused_and_not_fetched(ref):
    (problem,) = check_contracts([replace(SPEC, schema=of(a={"$ref": ref}))])
    assert problem.code == "tool_schema_invalid"


def test_references_in_a_call_get_the_form_that_their_position_accepts():
    schema = {
        "$ref": "#/$defs/All",
        "$defs": {
            "All": of(
                text={"type": "string"},
                rows={"type": "array", "items": {"$ref": "#/$defs/Query"}},
                either={"anyOf": [{"type": "string"}, {"type": "object"}]},
                by={"type": "object", "additionalProperties": {"type": "integer"}},
                pair={"prefixItems": [{"type": "string"}, {"type": "object"}]},
                any=True,
            ),
            "Query": QUERY,
        },
    }
    texts = [("text",), ("rows", 0, "team"), ("either",), ("pair", 0), ("pair", 2), ("any",), ("unknown",)]
    others = [("rows",), ("rows", 3), ("rows", 0, "limit"), ("by", "x"), ("pair", 1)]
    assert all(accepts_text(schema, at) for at in texts)
    assert not any(accepts_text(schema, at) for at in others)
    spec = replace(
        SPEC, schema={**schema, "$defs": {**schema["$defs"], "All": of(q={"$ref": "#/$defs/Query"})}}
    )
    assert spec.validate({"q": "ref:fi:a"}, unbound=["q"]) == []
    assert spec.validate({"q": "ref:fi:a"}) != []


def test_a_call_with_a_broken_nested_value_is_refused_by_its_path():
    schema = SCHEMAS["recursive"][0]
    tools = Registry(
        (Tool(spec=replace(SPEC, schema=schema), run=lambda _params, _context: pytest.fail("ran")),)
    )
    output = ToolConversation(registry=tools).call("shop.find", {"root": {"label": "a", "children": [3]}})
    assert output.error["code"] == "bad_params"
    assert "root.children[0]" in output.error["message"]
