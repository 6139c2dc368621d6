"""The end of a turn, read back from its last blocks, and the feedback that was given on it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from stepline.log.importing.foreign_value import Findings, count_of, name_of, object_of, time_of
from stepline.log.importing.import_state import ImportState
from stepline.model.block import Block
from stepline.model.decision import FEEDBACK_CHARS
from stepline.model.entry import TURN_PARTS, Closed, Feedback
from stepline.model.usage import Usage
from stepline.timeline.turn_blocks import SOURCES_USED

COMPLETION: Final = "assistant.completion"
FOLLOWUPS_MAX: Final = 20
FOLLOWUP_CHARS: Final = 2_000
MESSAGE_CHARS: Final = 2_000
_WORD: Final = re.compile(r"[a-z][a-z0-9_.-]{0,63}")


def read_closed(
    import_state: ImportState,
    blocks: Sequence[Block],
    turn: str,
    at: str,
    *,
    attempts: int,
    answered: bool,
    message: str,
) -> Closed:
    """Return the end of a turn. `attempts` answers were recorded before; `answered`: the last one is the turn's."""
    findings = import_state.findings
    state = _facts(blocks, "react.state")
    ended = {**state, **_facts(blocks, "react.exit")}
    reason = _word(ended.get("reason")) or "complete"
    outcome = ended.get("outcome")
    failed = outcome == "error" or (outcome != "completed" and reason == "error")
    answers = [block for block in blocks if block.type == COMPLETION]
    last = answers[-1] if answers else None
    further = last is not None and len(answers) > attempts
    state.setdefault("rounds", state.get("iteration"))  # as the existing system calls them
    counts: dict[str, Any] = {
        n: count_of(state.get(n)) for n in ("rounds", "files", "elapsed_ms", *TURN_PARTS)
    }
    cited = last.meta.get(SOURCES_USED, ()) if last is not None and further else ()
    return Closed(
        turn=turn,
        outcome="error" if failed else "completed",
        reason=reason,
        at=at,
        answer=last.text if last is not None and (answered or further) else "",
        followups=_followups(blocks),
        code=_word(ended.get("code")),
        message=message[:MESSAGE_CHARS],
        started_at=last.ts if last is not None and further else "",
        citations=import_state.citations(cited),
        usage=_usage(state.get("usage")),
        model=name_of(state.get("model"), findings) if state.get("model") else "",
        **counts,
    )


def read_feedback(findings: Findings, block: Block, turn: str, *, began: str, at: str) -> Feedback:
    """Return the feedback that a block shows."""
    facts = object_of(block.text)
    text = facts.get("text", "") if facts is not None else block.text
    reaction, confidence = block.meta.get("reaction"), block.meta.get("confidence")
    given = block.meta.get("given_at")
    return Feedback(
        turn=turn,
        at=block.ts or at,
        reaction=reaction if reaction in ("ok", "not_ok", "neutral") else None,
        text=text[:FEEDBACK_CHARS] if isinstance(text, str) else "",
        origin="machine" if block.meta.get("origin") in ("machine", "system") else "user",
        confidence=confidence
        if isinstance(confidence, int | float) and not isinstance(confidence, bool)
        else None,
        turn_at=began,
        given_at=time_of(given, findings, default="") if given else "",
    )


def _facts(blocks: Sequence[Block], kind: str) -> dict[str, Any]:
    found = next((block for block in reversed(blocks) if block.type == kind), None)
    return (object_of(found.text) or {}) if found else {}


def _followups(blocks: Sequence[Block]) -> tuple[str, ...]:
    found = next((block for block in blocks if block.type == "stage.suggested_followups"), None)
    if found is None:
        return ()
    try:
        items = msgspec.json.decode(found.text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return ()
    rows = items.get("items", ()) if isinstance(items, dict) else items
    texts = [one for one in rows if isinstance(one, str)] if isinstance(rows, list) else []
    return tuple(text[:FOLLOWUP_CHARS] for text in texts[:FOLLOWUPS_MAX])


def _word(value: Any) -> str:
    return value if isinstance(value, str) and _WORD.fullmatch(value) else ""


def _usage(value: Any) -> Usage | None:
    """Return the tokens that a turn's report lists; they are shown, but not counted."""
    if not isinstance(value, dict):
        return None
    names = [name for name in Usage.__struct_fields__ if name != "estimated"]
    return Usage(
        **{name: count_of(value.get(name)) for name in names}, estimated=value.get("estimated") is True
    )
