"""Tool contracts: one JSON schema feeds the model's catalogue, the validator and the reference page."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import zip_longest
from typing import Any, Final, Literal, NoReturn

from stepline.model.decision import ApprovalRule
from stepline.protocol.decision.fanout import Reads, Strategy

ToolEffect = Literal["pure", "keyed", "once"]
"""The effect of running a call again: none, the same under the same name, or a second one."""

_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth")


@dataclass(frozen=True, kw_only=True)
class ToolSpec:
    """A tool's contract.

    `schema` is a JSON schema of an object, of drafts 7 to 2020-12. One that lists parameters accepts no others, unless
    `additionalProperties` says more. The parameters of `key_order` must be written in that order and before all others,
    because a client shows the long one while it is generated and needs the short ones for that. The model itself calls a
    tool that is `in_react`, its programs call one that is `in_exec`, in their supervisor, or through a function if it is
    `served`; a tool that `runs_code` runs the text of the code channel. A call of an
    `isolated` tool by the model itself runs as a separate program, on the backend for programs.
    `strategies` define which other actions it may share a round with; an `unknown` one runs alone. `reads` names
    all that a call can depend on: `parameters`, `outside` of the conversation, or the `conversation`. `outputs`
    names the files that a valid call will write, as the call does: two actions of a round never write the
    same one. A tool that is `cancellable` checks `ToolContext.cancel` while it works, and ends early when the
    user steers. `requests` are example requests of users, one line each, which the first of the `examples` answer, one
    each; clients may offer them to users. `card` is its text in the catalogue, if that is not made from the schema.
    `approval` states when a call needs a person, unless the deployment or the bundle does; without one it needs none.
    A call of an `any_order` tool gets no notice about the order of its parameters.
    `check` validates parameters by a schema that is not ours. An effect that is `claimed` is a foreign server's claim.
    """

    tool_id: str
    purpose: str
    schema: Mapping[str, Any]
    returns: str
    effect: ToolEffect
    read_only: bool
    key_order: tuple[str, ...] = ()
    any_order: bool = False
    examples: tuple[Mapping[str, Any], ...] = ()
    requests: tuple[str, ...] = ()
    in_react: bool = True
    in_exec: bool = False
    served: bool = False
    runs_code: bool = False
    isolated: bool = False
    cancellable: bool = False
    approval: ApprovalRule | None = None
    strategies: tuple[Strategy, ...] = ("unknown",)
    reads: Reads = "conversation"
    outputs: Callable[[Mapping[str, Any]], tuple[str, ...]] = lambda _: ()
    card: str = ""
    check: Callable[[Mapping[str, Any], Collection[str]], list[str]] | None = None
    claimed: bool = False

    def validate(self, params: Mapping[str, Any], *, unbound: Collection[str] = ()) -> list[str]:
        """Return the errors of the parameters, one sentence each; none for a valid call.

        Those in `unbound` hold references, whose content is checked when the call runs.
        """
        if self.check is not None:
            return self.check(params, unbound)
        properties, needed = self._fields
        known = set(unbound) & properties.keys()
        if not known:
            return self._check(params)
        rest = {name: rule for name, rule in properties.items() if name not in known}
        flat = {name: rule for name, rule in self.schema.items() if name not in {"$ref", "allOf"}}
        required = [name for name in needed if name not in known]
        check = _compile_call({**flat, "properties": rest, "required": required})
        return check({name: value for name, value in params.items() if name not in known})

    def misplaced(self, params: Mapping[str, Any]) -> list[str]:
        """Return a code (`path_not_first`, …) for every parameter out of order."""
        wanted = [key for key in self.key_order if key in params]
        written = list(params)[: len(wanted)]
        return [
            f"{key}_not_{_ordinal(self.key_order.index(key))}"
            for key, found in zip(wanted, written, strict=True)
            if key != found
        ]

    @property
    def documented(self) -> tuple[str, ...]:
        """All parameters in the order in which the card shows them, and in which a call should write them.

        One that is `alias_of` another is accepted and not documented.
        """
        rules, _ = self._fields
        return tuple(name for name, rule in rules.items() if isinstance(rule, bool) or "alias_of" not in rule)

    @cached_property
    def _fields(self) -> tuple[Mapping[str, Any], Sequence[str]]:
        """The rules of all parameters by name, and the names of the required ones."""
        # The sweeper, which has contracts for their effects alone, reads no schema.
        from stepline.tools.parameter import find_properties  # noqa: PLC0415 - see above

        return find_properties(self.schema)

    @cached_property
    def _check(self) -> Callable[[Mapping[str, Any]], list[str]]:
        return _compile_call(self.schema)


def _compile_call(schema: Mapping[str, Any]) -> Callable[[Mapping[str, Any]], list[str]]:
    from stepline.tools.parameter import close_schema  # noqa: PLC0415 - as in `_fields`

    check = compile_schema(close_schema(schema), whole="params")
    return lambda params: check(dict(params))


def compile_schema(schema: Mapping[str, Any], *, whole: str) -> Callable[[Any], list[str]]:
    """Return a function that finds the errors of a value, one sentence each; `whole` names the value itself.

    Raises fastjsonschema.JsonSchemaDefinitionException.
    """
    # Imported and compiled on the first call of a tool, which saves 12 ms and 3 ms of CPU time in a step
    # without one.
    import fastjsonschema  # noqa: PLC0415 - see above

    from stepline.tools.parameter import to_draft_7  # noqa: PLC0415 - as in `_fields`

    handlers = dict.fromkeys(("http", "https", "ftp", "file"), _refuse_reference)
    check = fastjsonschema.compile(to_draft_7(schema), handlers=handlers, use_default=False, fast_fail=False)

    def problems(value: Any) -> list[str]:
        try:
            check(value)
        except fastjsonschema.JsonSchemaValuesException as found:
            return [_sentence(error.message, whole) for error in found.errors]
        except fastjsonschema.JsonSchemaValueException as error:
            return [_sentence(error.message, whole)]
        return []

    return problems


def _refuse_reference(address: str) -> NoReturn:
    """Fetch nothing: a reference leads to a schema in the same document."""
    import fastjsonschema  # noqa: PLC0415 - as in `_compile`

    raise fastjsonschema.JsonSchemaDefinitionException(
        f"the reference {address[:200]} leads out of the schema"
    )


def _ordinal(index: int) -> str:
    return _ORDINALS[index] if index < len(_ORDINALS) else f"{index + 1}th"


def _sentence(message: str, whole: str) -> str:
    """Return the message with the model's names: the validator calls the whole value `data`."""
    return message.replace("data.", "").replace("data ", f"{whole} ", 1).replace("data[", f"{whole}[")[:300]


OWN_PREFIX: Final = "react."
"""The prefix of the runtime's own tools."""


def render_tool_catalogue(specs: Sequence[ToolSpec]) -> str:
    """Return the tools for the system prompt: the roster, then a card for each, in the given order.

    Tools that only programs may call come last, under a separate heading.
    """
    own = [spec for spec in specs if spec.in_react]
    return "\n\n".join([_head(own), *map(render_tool_card, own), *_of_programs(specs)])


def split_catalogue(specs: Sequence[ToolSpec]) -> tuple[str, str]:
    """Return the catalogue in two parts: the tools of the task below the roster, and the runtime's own, including those of programs."""
    own = [spec for spec in specs if spec.in_react]
    common = [spec for spec in own if not spec.tool_id.startswith(OWN_PREFIX)]
    runtime = [spec for spec in own if spec.tool_id.startswith(OWN_PREFIX)]
    return (
        "\n\n".join([_head(own), *map(render_tool_card, common)]),
        "\n\n".join([*map(render_tool_card, runtime), *_of_programs(specs)]),
    )


def _head(own: Sequence[ToolSpec]) -> str:
    roster = ", ".join(spec.tool_id for spec in own)
    return (
        f"[TOOLS] {len(own)} available: {roster}\nNo other tool exists. Unknown parameters are refused.\n"
        "In parameters of react.write and of tools outside react.* a value `ref:<path>` stands for the text at a logical "
        "path that you see, `ref:so:sources_pool[1,3]` for rows of the pool: pass on what exists, do not write it again."
    )


def _of_programs(specs: Sequence[ToolSpec]) -> list[str]:
    """Return the tools that programs may call, with the cards of those that only they may; nothing if the agent runs no programs."""
    if not any(spec.runs_code and spec.in_react for spec in specs):
        return []
    callable_ids = ", ".join(spec.tool_id for spec in specs if spec.in_exec)
    head = f"[TOOLS OF PROGRAMS] a program, and nothing else, may call: {callable_ids}"
    return [head, *(render_tool_card(spec) for spec in specs if spec.in_exec and not spec.in_react)]


def render_tool_card(spec: ToolSpec) -> str:
    """Return one tool's card: purpose, parameters, order, returns, and each request with the example that answers it."""
    if spec.card:
        return spec.card
    from stepline.tools.parameter import describe_parameters, one_line_json  # noqa: PLC0415 - as in `_fields`

    lines = [f"## {spec.tool_id}", spec.purpose, "params:", *describe_parameters(spec.schema)]
    if spec.key_order:
        lines.append(f"order: write {', '.join(spec.key_order)} first, in this order")
    lines.append(f"returns: {spec.returns}")
    for request, example in zip_longest(spec.requests[: len(spec.examples)], spec.examples):
        lines += [f"request: {request}"] if request else []
        lines.append(f"example: {one_line_json({'tool_id': spec.tool_id, 'params': example})}")
    return "\n".join(lines)
