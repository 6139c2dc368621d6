"""`tool`: a function with annotated parameters as a tool of a bundle.

    @tool("shop.price", effect="pure", read_only=True)
    def price(name: Annotated[str, "what to look up"], currency: Currency = Currency.EUR) -> Price:
        'Look up what something costs.'

    parameters    the schema: pydantic models, dataclasses, TypedDict, Literal, Enum, Optional, defaults; a text in
                  `Annotated`, or pydantic's `Field`, describes and bounds one
    docstring     the purpose
    result        a model, a dataclass or any JSON value, as JSON; a text; or a `ToolOutput`

pydantic reads the annotations, checks every call and makes the values that the function gets. It is loaded when a bundle
decorates its first function, so a deployment without such tools never pays for it.
Source: docs/how-to/add-a-tool.md; docs/adr/0003-dependencies.md.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, get_args

from stepline.tools.context import ToolContext, ToolOutput
from stepline.tools.parameter import render_type
from stepline.tools.registry import Tool
from stepline.tools.spec import ToolEffect, ToolSpec

if TYPE_CHECKING:
    from pydantic import BaseModel, TypeAdapter, ValidationError

PROBLEMS_MAX, PROBLEM_CHARS = 10, 300
"""Of the errors of one call, and of each of them."""
_REFUSED: Final = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.VAR_POSITIONAL,
    inspect.Parameter.VAR_KEYWORD,
)


def tool(
    tool_id: str, *, effect: ToolEffect = "once", read_only: bool = False, **fields: Any
) -> Callable[[Callable[..., Any]], Tool]:
    """Return a decorator that makes a tool of a function with annotated parameters.

    `fields` are further ones of ToolSpec. A parameter of type ToolContext gets the call's context and is not in the
    schema. The function may be a coroutine function. It raises ToolError as `run` of any tool does.

    Raises TypeError for a parameter without an annotation, or one that no JSON can fill.
    """

    def made(function: Callable[..., Any]) -> Tool:
        typed = _Typed(function)
        facts = {
            "purpose": inspect.getdoc(function) or function.__name__.replace("_", " "),
            "returns": typed.returns,
            **fields,
        }
        spec = ToolSpec(
            tool_id=tool_id,
            schema=typed.schema,
            effect=effect,
            read_only=read_only,
            check=typed.find_problems,
            **facts,
        )
        return Tool(spec=spec, run=lambda params, context: typed.run(tool_id, params, context))

    return made


class _Typed:
    """A function, the model of its parameters, and the type of its result."""

    def __init__(self, function: Callable[..., Any]) -> None:
        from pydantic import ConfigDict, Field, TypeAdapter, create_model  # noqa: PLC0415 - see above

        hints = typing.get_type_hints(function, include_extras=True)
        self._function = function
        self._context: str | None = None
        self._names: dict[str, str] = {}
        fields: dict[str, Any] = {}
        for name, parameter in inspect.signature(function).parameters.items():
            if hints.get(name) is ToolContext:
                self._context = name
                continue
            if parameter.kind in _REFUSED or name not in hints:
                raise TypeError(f"{function.__qualname__}: parameter {name} needs an annotation, and a name")
            # A field's own name may be one that models do not accept, such as `copy` or `_id`.
            own = f"p{len(fields)}"
            self._names[own] = name
            needed = parameter.default is parameter.empty
            fields[own] = (
                typing.Annotated[described(hints[name]), Field(alias=name)],
                ... if needed else parameter.default,
            )
        self._model: type[BaseModel] = create_model(
            "Parameters", __config__=ConfigDict(extra="forbid", arbitrary_types_allowed=False), **fields
        )
        self.schema: Mapping[str, Any] = self._model.model_json_schema()
        result = hints.get("return")
        self._returns = None if result in (None, type(None), ToolOutput) else result
        self._result: TypeAdapter[Any] = TypeAdapter(Any if self._returns is None else self._returns)

    @property
    def returns(self) -> str:
        """The result in the catalogue's notation."""
        if self._returns is None:
            return "its status"
        schema = self._result.json_schema(mode="serialization")
        fields = schema.get("properties", {})
        if not fields:
            return render_type(schema, schema)
        return ", ".join(f"{name} ({render_type(rule, schema)})" for name, rule in fields.items())

    def find_problems(self, params: Mapping[str, Any], unbound: Collection[str] = ()) -> list[str]:
        """Return the errors in parameters, one sentence each, without those of the ones in `unbound`."""
        from pydantic import ValidationError  # noqa: PLC0415 - as above

        try:
            self._model.model_validate(dict(params))
        except ValidationError as error:
            return describe_error(error, unbound)
        return []

    def run(self, tool_id: str, params: Mapping[str, Any], context: ToolContext) -> ToolOutput:
        """Call the function with parameters that `find_problems` accepts."""
        model = self._model.model_validate(dict(params))
        values = {name: getattr(model, own) for own, name in self._names.items()}
        if self._context is not None:
            values[self._context] = context
        found = self._function(**values)
        if inspect.iscoroutine(found):
            import asyncio  # noqa: PLC0415 - few tools need it

            found = asyncio.run(found)
        return self._output(tool_id, found, context)

    def _output(self, tool_id: str, found: Any, context: ToolContext) -> ToolOutput:
        if isinstance(found, ToolOutput):
            return found
        if found is None:
            return ToolOutput(blocks=(context.result(tool_id, {"status": "ok"}),))
        if isinstance(found, str):
            return ToolOutput(blocks=(context.result(tool_id, found),), ret=found)
        value = self._result.dump_python(self._result.validate_python(found), mode="json")
        return ToolOutput(blocks=(context.result(tool_id, {"status": "ok", "result": value}),), ret=value)


def described(hint: Any) -> Any:
    """Return an annotation in which a text of `Annotated` is a description, as pydantic reads it."""
    from pydantic import Field  # noqa: PLC0415 - as above

    if typing.get_origin(hint) is not typing.Annotated:
        return hint
    kind, *notes = get_args(hint)
    return typing.Annotated[
        (kind, *(Field(description=note) if isinstance(note, str) else note for note in notes))
    ]


def describe_error(
    error: ValidationError, unbound: Collection[str] = (), *, whole: str = "params"
) -> list[str]:
    """Return the problems of a value named `whole`, one sentence each, without those of the fields in `unbound`."""
    found = (one for one in error.errors(include_url=False) if not one["loc"] or one["loc"][0] not in unbound)
    sentences = (f"{_place(one['loc']) or whole}: {one['msg']}"[:PROBLEM_CHARS] for one in found)
    return list(dict.fromkeys(sentences))[:PROBLEMS_MAX]


def _place(location: Sequence[str | int]) -> str:
    """Return the position of an error as a path: `rows[0].name`; "" for the whole value."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    return "".join(parts).removeprefix(".")
