"""Whether a decision's call keeps its tool's contract, and which program it runs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from stepline.errors import DecisionError
from stepline.model.decision import Notice, ToolCall
from stepline.protocol.notice import NOTHING_RAN, NOTICES, cap, make_notice
from stepline.protocol.transcript import Instance


class ToolSpecLike(Protocol):
    """What the protocol asks of a tool's contract."""

    @property
    def key_order(self) -> tuple[str, ...]:
        """The parameters that must be written first, in their order."""

    @property
    def runs_code(self) -> bool:
        """Whether the tool runs what stands in the code channel. Such a call names the files it will write."""

    def validate(self, params: Mapping[str, Any], /) -> list[str]:
        """Return what is wrong with the parameters, one sentence each."""

    def misplaced(self, params: Mapping[str, Any], /) -> list[str]:
        """Return `<param>_not_<ordinal>` for every parameter of `key_order` out of its order."""


def check_call(call: ToolCall, tools: Mapping[str, ToolSpecLike], allowed: Collection[str]) -> None:
    """Raise DecisionError if a call does not keep its tool's contract."""
    tool_id = call.tool_id
    spec = tools.get(tool_id)
    if spec is None:
        raise DecisionError(
            f"There is no tool {cap(tool_id, 80)!r}. {NOTHING_RAN} Call one of the catalogue.",
            code="unknown_tool_id",
            tool_id=cap(tool_id, 80),
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
    if problems := spec.validate(call.params):
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


def _check_contract(call: ToolCall) -> None:
    """Raise DecisionError unless the call names at least one file. What is wrong with one is for the run to say."""
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


def check_code(
    call: ToolCall | None,
    tools: Mapping[str, ToolSpecLike],
    programs: Sequence[Instance],
    notices: list[Notice],
    *,
    cut: bool,
) -> str | None:
    """Return the program a call runs, None if it runs none. Raises DecisionError.

    The call has passed `check_call`. `programs` are the code channels that are not blank, `cut` says that the
    generation's end is missing.
    """
    code = "code_channel_without_single_exec"
    if call is None or not tools[call.tool_id].runs_code:
        if programs and call:
            raise DecisionError(
                f"The code channel held a program, but {call.tool_id} runs none. {NOTHING_RAN} "
                "Leave the channel empty, or call the tool that runs code.",
                code=code,
                tool_id=call.tool_id,
            )
        if programs:
            message = "The answer stands; the program in the code channel did not run. Leave it empty when you answer."
            notices.append(make_notice(code, message))
        return None
    if not programs:
        raise DecisionError(
            f"The call runs code, but the code channel was empty. {NOTHING_RAN} Write the program into it.",
            code="code_channel_missing",
        )
    if len(programs) > 1:
        raise DecisionError(
            f"There were {len(programs)} code channels for one call. {NOTHING_RAN} Write one program.",
            code=code,
            channels=len(programs),
        )
    if cut and programs[0].truncated:
        raise DecisionError(f"The program was cut off. {NOTHING_RAN}", code="generation_truncated")
    return programs[0].raw
