"""The check of parameters by a foreign schema: nothing is refused that a validator of the whole schema accepts."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from stepline.tools.mcp.foreign_schema import MORE, read_schema
from stepline.tools.mcp.schema_check import find_problems

NAMES = st.sampled_from(["a", "b", "x_1", "größe", "a[0]", "{a}"])
SCALARS = st.sampled_from([None, True, False, 0, 1, 1.0, 2.5, -3, "", "a", "bb", "2026-01-01", "😀"])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)
TYPES = st.sampled_from(["string", "number", "integer", "boolean", "array", "object", "null"])
SIZES = st.integers(0, 3)
REFS = st.sampled_from(["#", "#/$defs/One", "#/$defs/Two~1~0%25", "#/$defs/One/properties/a"])
CHECKED = {
    "type": TYPES | st.lists(TYPES, min_size=1, max_size=3, unique=True),
    "enum": st.lists(VALUES, min_size=1, max_size=4),
    "const": VALUES,
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), st.integers(-3, 3)),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), SIZES),
    "required": st.lists(NAMES, max_size=2, unique=True),
}
LEFT = {
    "pattern": st.sampled_from(["^a", "b+$"]),
    "format": st.just("date"),
    "multipleOf": st.just(2),
    "uniqueItems": st.booleans(),
    "minProperties": SIZES,
    "propertyNames": st.just({"maxLength": 1}),
    "contains": st.just({"type": "string"}),
    "dependentRequired": st.just({"a": ["b"]}),
    "unevaluatedProperties": st.booleans(),
}


def schemas(keywords: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Return schemas of these keywords, and of all that hold schemas."""

    def within(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
        parts = inner | st.builds(lambda ref: {"$ref": ref}, REFS)  # of a value's parts, so that each ends
        maps = st.dictionaries(NAMES, parts, max_size=3)
        return st.fixed_dictionaries(
            {},
            optional={
                **keywords,
                "properties": maps,
                "patternProperties": st.dictionaries(
                    st.sampled_from(["^x_", "a", r"^\w+$", "(?=a)"]), inner, max_size=2
                ),
                "items": parts,
                "prefixItems": st.lists(inner, min_size=1, max_size=2),
                "additionalProperties": inner,
                **dict.fromkeys(("allOf", "anyOf", "oneOf"), st.lists(inner, min_size=1, max_size=3)),
                **dict.fromkeys(("not", "if", "then", "else"), inner),
            },
        )

    return st.recursive(st.booleans() | st.fixed_dictionaries({}, optional=keywords), within, max_leaves=8)


def documents(keywords: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    inner = schemas(keywords)
    defs = st.fixed_dictionaries(
        {"One": st.fixed_dictionaries({"properties": st.fixed_dictionaries({"a": inner})}), "Two/~%": inner}
    )
    objects = inner.filter(lambda one: isinstance(one, dict))
    return st.builds(lambda root, defs: {**root, "type": "object", "$defs": defs}, objects, defs)


PARAMS = st.dictionaries(NAMES, VALUES, max_size=4)


def accepts(schema: dict[str, Any], value: Any) -> bool:
    """Return the verdict of a validator of whole schemas."""
    return Draft202012Validator(schema).is_valid(value)


@given(documents(CHECKED | LEFT), PARAMS)
def test_parameters_that_the_whole_schema_accepts_are_never_refused(
    schema: dict[str, Any], value: Any
) -> None:
    if accepts(schema, value):
        assert find_problems(read_schema(schema), value) == []


@given(documents(CHECKED), PARAMS)
def test_parameters_that_break_a_fully_known_schema_are_refused(schema: dict[str, Any], value: Any) -> None:
    read = read_schema(schema)
    if not accepts(schema, value) and MORE not in repr(read) and "(?=a)" not in repr(read):
        assert find_problems(read, value) or not all(name.isascii() for name in _names(value))


def _names(value: Any) -> list[str]:
    if isinstance(value, list):
        return [name for one in value for name in _names(one)]
    return (
        [name for key, one in value.items() for name in (key, *_names(one))]
        if isinstance(value, dict)
        else []
    )
