"""The result type of an agent: a JSON schema, or a type that pydantic reads, and the check of a value against it.

    {"type": "object", "required": ["eur"], "properties": {"eur": {"type": "number"}}}     a mapping is a JSON schema
    class Price(BaseModel): eur: float                                                     a model, a dataclass, list[Price]

Source: docs/how-to/write-a-bundle.md#a-result-type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from stepline.errors import InputError, ToolError
from stepline.tools.parameter import describe_parameters
from stepline.tools.spec import compile_schema
from stepline.tools.typed.typed_function import describe_error, described

INVALID: Final = "value_invalid"


@dataclass(frozen=True)
class ResultType:
    """The schema of a value, and the two directions between JSON and values.

    `accept` returns a value in its recorded form, which is JSON; it raises ToolError `value_invalid` with the problems.
    `decode` makes a value of the declared type from it; it raises ValueError if the type has changed since.
    """

    schema: Mapping[str, Any]
    accept: Callable[[Any], Any]
    decode: Callable[[Any], Any]

    def describe(self) -> str:
        """Return the lines for the instructions of the model."""
        shared = {name: self.schema[name] for name in ("$defs", "definitions") if name in self.schema}
        value = {name: rule for name, rule in self.schema.items() if name not in shared}
        return "\n".join(
            describe_parameters({"properties": {"value": value}, "required": ["value"], **shared})
        )


def read_result_type(declared: Any) -> ResultType:
    """Return the result type that a bundle declares. Raises InputError `result_type_invalid`."""
    if isinstance(declared, Mapping):
        return _of_schema(declared)
    from pydantic import TypeAdapter  # noqa: PLC0415 - for agents whose result is a type

    try:
        adapter: TypeAdapter[Any] = TypeAdapter(described(declared))
        schema = adapter.json_schema()
    except Exception as error:
        raise InputError(
            f"the result type {declared!r:.80} has no JSON schema: {error!s:.300}", code="result_type_invalid"
        ) from error

    def accept(value: Any) -> Any:
        from pydantic import ValidationError  # noqa: PLC0415 - as above

        try:
            return adapter.dump_python(adapter.validate_python(value), mode="json", by_alias=True)
        except ValidationError as error:
            raise ToolError("; ".join(describe_error(error, whole="value")), code=INVALID) from error

    return ResultType(schema, accept, adapter.validate_python)


def _of_schema(schema: Mapping[str, Any]) -> ResultType:
    import fastjsonschema  # noqa: PLC0415 - for agents with a result type

    try:
        check = compile_schema(schema, whole="value")
        describe_parameters(schema)
    except (
        fastjsonschema.JsonSchemaDefinitionException,
        KeyError,
        TypeError,
        AttributeError,
        ValueError,
    ) as error:
        raise InputError(
            f"the schema of the result type is not valid: {error!s:.300}", code="result_type_invalid"
        ) from error

    def accept(value: Any) -> Any:
        if problems := check(value):
            raise ToolError("; ".join(problems), code=INVALID)
        return value

    return ResultType(schema, accept, lambda value: value)
