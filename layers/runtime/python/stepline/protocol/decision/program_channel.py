"""Assign programs to decisions: a decision owns the text of the code channel right after it.

A decision alone in its round owns the program in any position.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from stepline.errors import DecisionError
from stepline.model.decision import Notice, ToolCall
from stepline.protocol.decision.call_check import ToolSpecLike
from stepline.protocol.decision.notice import NOTHING_RAN, make_notice
from stepline.protocol.parser.grammar import CODE, DECISION
from stepline.protocol.parser.transcript import INTERRUPTED, Instance, Transcript

Programs: TypeAlias = tuple[Instance, ...]

MISPLACED = "code_channel_without_single_exec"


def bind_programs(transcript: Transcript) -> dict[int, Programs]:
    """Return the non-blank code channels by the index of the decision before them.

    -1 for those before every decision.

    Blank decisions own none, and a single decision owns all.
    """
    decisions = [one.instance for one in transcript.of(DECISION.name) if one.raw.strip()]
    bound: dict[int, list[Instance]] = {}
    owner = decisions[0] if len(decisions) == 1 else -1
    for one in transcript.instances:
        if not one.raw.strip():
            continue
        if one.channel == DECISION.name:
            owner = one.instance
        elif one.channel == CODE.name:
            bound.setdefault(owner, []).append(one)
    return {owner: tuple(programs) for owner, programs in bound.items()}


def check_program(
    call: ToolCall | None,
    tools: Mapping[str, ToolSpecLike],
    programs: Sequence[Instance],
    notices: list[Notice],
    *,
    alone: bool = True,
    cut: bool = False,
) -> str | None:
    """Return the program that a call runs, None if it runs none. Raises DecisionError.

    The call has passed `check_call`; `programs` are its own. `alone`: the round has no other decision; `cut`:
    the end of the generation is missing.
    """
    if call is None or not tools[call.tool_id].runs_code:
        if programs and call and alone:
            raise DecisionError(
                f"The code channel held a program, but {call.tool_id} runs none. {NOTHING_RAN} "
                "Leave the channel empty, or call the tool that runs code.",
                code=MISPLACED,
                tool_id=call.tool_id,
            )
        if programs:
            notices.append(_stray(call))
        return None
    if not programs:
        raise DecisionError(
            f"The call runs code, but no program stood behind it. {NOTHING_RAN} "
            "Write the program into a code channel right behind the decision that runs it.",
            code="code_channel_missing",
        )
    if len(programs) > 1:
        raise DecisionError(
            f"There were {len(programs)} code channels for one call. {NOTHING_RAN} Write one program.",
            code=MISPLACED,
            channels=len(programs),
        )
    program = programs[0]
    if program.truncated and (cut or program.reason in INTERRUPTED):
        raise DecisionError(f"The program was cut off. {NOTHING_RAN}", code="generation_truncated")
    return program.raw


def _stray(call: ToolCall | None) -> Notice:
    if call is None:
        message = (
            "The answer stands; the program in the code channel did not run. Leave it empty when you answer."
        )
        return make_notice(MISPLACED, message)
    message = (
        f"The program behind the call of {call.tool_id} did not run, because that tool runs none; the call counts. "
        "A program stands right behind the decision that runs it."
    )
    return make_notice(MISPLACED, message, tool_id=call.tool_id)
