"""Whether a decision's call keeps its tool's contract, and which program it runs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

from stepline.errors import DecisionError
from stepline.model.decision import Notice, ToolCall
from stepline.protocol.notice import NOTHING_RAN, NOTICES, cap, make_notice
from stepline.protocol.transcript import Instance

EXEC_TOOLS = frozenset({"exec_tools.execute_code_python"})
"""The tools that run what stands in the code channel."""


class ToolSpecLike(Protocol):
    """What the protocol asks of a tool's contract."""

    @property
    def key_order(self) -> tuple[str, ...]:
        """The parameters that must be written first, in their order."""

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


def check_code(
    call: ToolCall | None, programs: Sequence[Instance], notices: list[Notice], *, cut: bool
) -> str | None:
    """Return the program a call runs, None if it runs none. Raises DecisionError.

    `programs` are the code channels that are not blank, `cut` says that the generation's end is missing.
    """
    code = "code_channel_without_single_exec"
    if call is None or call.tool_id not in EXEC_TOOLS:
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
