"""The value of a decision that completes a turn, for an agent with a result type: bounded, then checked by the type.

A value that does not fit is refused like any other broken decision, before the user sees its answer. In the last round,
where no correction can follow, the answer counts as `exit` without it.

Source: docs/how-to/write-a-bundle.md#a-result-type.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec.structs import replace

from stepline.errors import DecisionError, ToolError
from stepline.model.decision import Notice, ParsedDecision
from stepline.protocol.decision.notice import NOTHING_RAN, cap, make_notice
from stepline.protocol.decision.round_rules import AcceptValue

VALUE_BYTES, VALUE_DEPTH = 32_768, 24
"""The most that a value has: bytes of its JSON, and levels of lists and objects."""
INVALID: Final = "value_invalid"


def check_value(
    decision: ParsedDecision, accept: AcceptValue, notices: list[Notice], *, last_round: bool
) -> ParsedDecision:
    """Return the decision with its value in the recorded form. Raises DecisionError `value_invalid`."""
    if decision.action != "complete":
        return replace(decision, value=msgspec.UNSET)
    try:
        return replace(decision, value=accepted_value(decision.value, accept))
    except ToolError as error:
        if last_round:
            message = "The answer counts as exit: its value does not fit the result type, and no round is left to correct it."
            notices.append(make_notice("value_dropped", message, problems=str(error)))
            return replace(decision, action="exit", value=msgspec.UNSET)
        raise DecisionError(
            f"The value was refused: {cap(str(error), 500)}. {NOTHING_RAN} The user has not seen the answer. "
            "Send the decision again with a value of the result type, or with action exit if there is none.",
            code=INVALID,
            problems=str(error),
        ) from error


def accepted_value(said: Any, accept: AcceptValue) -> Any:
    """Return a value in its recorded form; `said` is UNSET if the model wrote none. Raises ToolError `value_invalid`."""
    if said is msgspec.UNSET:
        raise ToolError("value: it is missing", code=INVALID)
    if not _is_shallow(said, VALUE_DEPTH):
        raise ToolError(f"value: it has more than {VALUE_DEPTH} levels", code=INVALID)
    value = accept(said)
    try:
        size = len(msgspec.json.encode(value))
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise ToolError(f"value: it is no JSON: {error!s:.200}", code=INVALID) from error
    if size > VALUE_BYTES:
        raise ToolError(
            f"value: it has more than {VALUE_BYTES:,} bytes; write long content to a file and name its path",
            code=INVALID,
        )
    return value


def _is_shallow(value: Any, levels: int) -> bool:
    if not isinstance(value, dict | list):
        return True
    inner = value.values() if isinstance(value, dict) else value
    return levels > 0 and all(_is_shallow(one, levels - 1) for one in inner)
