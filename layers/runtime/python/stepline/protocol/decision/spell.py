"""The text of a generation, spelled from the decision that the log records.

The log keeps the model's own text only where it says more than the decision: where it was refused, interrupted, or
accepted with corrections. Any other text is spelled here, in the channels of the protocol: parsed and judged anew, it
gives the same decision.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from stepline.model.decision import Action
from stepline.model.entry import Decided
from stepline.protocol.parser.grammar import CODE, DECISION, SUMMARY, THINKING


def start_tag(channel: str) -> str:
    """Return the tag that opens a channel."""
    return f"<channel:{channel}>"


def end_tag(channel: str) -> str:
    """Return the tag that closes a channel."""
    return f"</channel:{channel}>"


def tagged(channel: str, body: str) -> str:
    """Return a channel with its body."""
    return f"{start_tag(channel)}{body}{end_tag(channel)}"


def spell_generation(decision: Decided) -> str:
    """Return the text of a recorded decision: the model's own, if the log has it; "" if the model declined."""
    if decision.declined is not None:
        return ""
    return decision.raw or decision.generation or "\n".join(_channels(decision))


def _channels(decision: Decided) -> Iterator[str]:
    for text in decision.thinking or ("",):
        yield tagged(THINKING.name, text)
    first: dict[str, Any] = {"notes": decision.notes}
    staged = {"show_artifacts": decision.show_artifacts, "show_skills": decision.show_skills}
    first |= {name: named for name, named in staged.items() if named}
    for action in decision.actions:
        yield _spell({"action": "call_tool", **first, "tool_call": _call(action)})
        if action.code is not None:
            yield tagged(CODE.name, action.code)
        first = {"notes": ""}
    if decision.action != "call_tool":
        ended: dict[str, Any] = {"final_answer": decision.answer}
        if decision.followups:
            ended["suggested_followups"] = decision.followups
        if decision.value:
            ended["value"] = msgspec.Raw(decision.value.encode())
        yield _spell({"action": decision.action, **first, **ended})
    if decision.summary:
        yield tagged(SUMMARY.name, decision.summary)


def _call(action: Action) -> dict[str, Any]:
    return {"tool_id": action.tool_id, "params": action.params}


def _spell(body: dict[str, Any]) -> str:
    return tagged(DECISION.name, msgspec.json.encode(body).decode())
