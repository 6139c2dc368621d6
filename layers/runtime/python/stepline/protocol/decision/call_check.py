"""Check a decision's call against its tool's contract."""

from __future__ import annotations

from collections.abc import Collection, Container, Mapping
from typing import Any, Final, Protocol

import msgspec

from stepline.errors import DecisionError
from stepline.model.decision import Notice, ToolCall
from stepline.protocol.decision.fanout import ToolTraits
from stepline.protocol.decision.notice import NOTHING_RAN, NOTICES, cap, make_notice
from stepline.protocol.decision.reference import binds, find_references


class ToolSpecLike(ToolTraits, Protocol):
    """The part of a tool's contract that the protocol needs.

    A call that runs code names the files it will write.
    """

    @property
    def key_order(self) -> tuple[str, ...]:
        """The parameters that must be written first, in order."""

    @property
    def documented(self) -> tuple[str, ...]:
        """All parameters, in the order in which the catalogue shows them."""

    def validate(self, params: Mapping[str, Any], /, *, unbound: Collection[str] = ()) -> list[str]:
        """Return the errors in the parameters, one sentence each; those in `unbound` have no value yet."""

    def misplaced(self, params: Mapping[str, Any], /) -> list[str]:
        """Return `<param>_not_<ordinal>` for every parameter of `key_order` out of its order."""

    def outputs(self, params: Mapping[str, Any], /) -> tuple[str, ...]:
        """Return the files that a valid call declares to write, by the names it gives them."""


OLD_NAMES: Final[Mapping[str, str]] = {
    "react.stream": "react.write",
    "react.file": "react.write",
    "react.memory_read": "react.memsearch",
    "react.search_files": "react.rg",
}
"""Tools' names in earlier versions of the agent, which a model or a program may remember."""


def new_name(tool_id: str, known: Container[str]) -> str:
    """Return the name that a tool has now, if it had another one and is among those `known`; else ""."""
    name = OLD_NAMES.get(tool_id, "")
    return name if name in known else ""


def check_call(call: ToolCall, tools: Mapping[str, ToolSpecLike], allowed: Collection[str]) -> None:
    """Raise DecisionError if a call violates its tool's contract."""
    tool_id = call.tool_id
    spec = tools.get(tool_id)
    if spec is None:
        renamed = new_name(tool_id, allowed)
        wrong = f"{tool_id} is now {renamed}." if renamed else f"There is no tool {cap(tool_id, 80)!r}."
        raise DecisionError(
            f"{wrong} {NOTHING_RAN} Call {renamed or 'one'} of the catalogue.",
            code="unknown_tool_id",
            tool_id=cap(tool_id, 80),
            renamed_to=renamed or None,
            tools=", ".join(sorted(allowed)),
        )
    if tool_id not in allowed:
        raise DecisionError(
            f"{tool_id} can be called by generated code only. {NOTHING_RAN} Call it from a program, or another tool.",
            code="tool_not_allowed_in_react",
            tool_id=tool_id,
        )
    if spec.runs_code:
        _check_contract(call)
    bound_later = binds(tool_id, runs_code=spec.runs_code)
    unbound = [name for name, value in call.params.items() if bound_later and any(find_references(value))]
    if problems := spec.validate(call.params, unbound=unbound):
        raise DecisionError(
            f"The parameters of {tool_id} were refused: {cap('; '.join(problems), 500)}. {NOTHING_RAN} "
            "Correct them by the catalogue and call again.",
            code="bad_params",
            tool_id=tool_id,
            problems="; ".join(problems),
        )
    if misplaced := spec.misplaced(call.params):
        order = ", ".join(spec.key_order)
        raise DecisionError(
            f"The parameters of {tool_id} stood in another order than {order}. {NOTHING_RAN} "
            "Call again in this order: the user sees the result while you write it.",
            code=misplaced[0] if misplaced[0] in NOTICES else "params_out_of_order",
            tool_id=tool_id,
            order=order,
        )


def check_order(call: ToolCall, tools: Mapping[str, ToolSpecLike], notices: list[Notice]) -> None:
    """Add a notice if a valid call does not write its parameters in the documented order.

    Where a client shows a parameter while it is written, the order is a rule, and `check_call` has refused the call.
    """
    documented = tools[call.tool_id].documented
    wanted = [name for name in documented if name in call.params]
    if wanted != [name for name in call.params if name in documented]:
        message = f"The call counts. Write the parameters of {call.tool_id} in the order of its card."
        notices.append(make_notice("params_not_as_documented", message, order=", ".join(wanted)))


def _check_contract(call: ToolCall) -> None:
    """Raise DecisionError unless the call names at least one file. Errors of a file are reported by the run."""
    contract = call.params.get("contract")
    if contract is None or contract == [] or (isinstance(contract, str) and not contract.strip()):
        raise DecisionError(
            f"The call runs code, but it has no contract. {NOTHING_RAN} "
            "Send a contract: a list with filename and description of every file that the program will write.",
            code="missing_contract",
            tool_id=call.tool_id,
        )
    if isinstance(contract, str):
        try:
            contract = msgspec.json.decode(contract)
        except (msgspec.DecodeError, RecursionError) as error:
            raise _bad_contract(call, f"as a text it must be JSON: {cap(str(error), 200)}") from error
    if not isinstance(contract, list):
        raise _bad_contract(call, "it must be a list")
    if not any(isinstance(item, dict) for item in contract):
        raise _bad_contract(call, "it must hold at least one object")


def _bad_contract(call: ToolCall, problem: str) -> DecisionError:
    return DecisionError(
        f"The contract of the call was refused: {problem}. {NOTHING_RAN} "
        'Send a list like [{"filename": "outputs/table.csv", "description": "what it holds"}].',
        code="invalid_contract",
        tool_id=call.tool_id,
        problem=problem,
    )
