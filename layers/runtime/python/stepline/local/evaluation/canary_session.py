"""Sessions of `compaction-conformance-kit`: what of a long conversation survives its compactions.

The kit plants canaries of five types, such as a safety rule or a budget, and probes for their exact values in what the
model reads afterwards. The turns are played here as they are, in a context that is too small for them; a round of the
kit ends with the next compaction. Source: https://pypi.org/project/compaction-conformance-kit/.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from stepline.errors import DependencyError, InputError
from stepline.local.evaluation.case_file import PastTurn
from stepline.local.evaluation.case_judge import Finding

if TYPE_CHECKING:
    from pathlib import Path

    from stepline.local.evaluation.case_file import Canaries
    from stepline.local.evaluation.live_conversation import LiveConversation

FILLER: Final = PastTurn(
    message="Go on about otters.",
    answer="The otter eats fish, sleeps in a holt by the river and marks the banks of its range. " * 30,
)
FILLER_TURNS: Final = 60
"""The most turns that a round waits for its compaction."""


def find_lost_canaries(
    conversation: LiveConversation, canaries: Canaries, folder: Path
) -> tuple[Finding, ...]:
    """Play a session and return the types of which too few canaries are left.

    Raises:
        DependencyError: `needs_extra`, the kit is not installed.
        InputError: `not_compacted`, the context is too large for the session.
    """
    try:
        from compaction_kit.canaries import seeded_canaries
        from compaction_kit.corpus import build_random_session
        from compaction_kit.runner import run_conformance
        from compaction_kit.session import build_seeded_session
    except ModuleNotFoundError as error:
        raise DependencyError(
            "compaction-conformance-kit is not installed: pip install 'stepline[eval]'", code="needs_extra"
        ) from error
    if canaries.seed is None:
        session, planted = build_seeded_session(), seeded_canaries()
    else:
        session, planted = build_random_session(canaries.seed)
    compactor = _ConversationCompactor(conversation, folder)
    last = run_conformance(session, compactor, rounds=canaries.rounds, canaries=planted).rounds[-1]
    findings = []
    for kind in canaries.survive.__struct_fields__:
        wanted, found = getattr(canaries.survive, kind), last.survival_by_type.get(kind, 0.0)
        if found < wanted:
            lost = [one.id for one in planted if one.type.value == kind and not last.survived[one.id]]
            why = f"{found:.0%} survive, not {wanted:.0%}; lost: {', '.join(lost)}"
            findings.append(Finding(key=f"canaries.survive.{kind}", kind="canaries", why=why))
    return tuple(findings)


class _ConversationCompactor:
    """The kit's protocol of a compactor, over a conversation of ours."""

    name = "stepline"

    def __init__(self, conversation: LiveConversation, folder: Path) -> None:
        self._conversation, self._folder = conversation, folder

    def compact(self, turns: Sequence[Any], round_num: int = 1) -> Any:
        """Return the context that the model reads after the next compaction; the first round plays the session before it."""
        from compaction_kit.compacted import CompactedContext

        if round_num == 1:
            for past in _exchanges(turns):
                self._conversation.take_past(past, self._folder)
        before = self._conversation.compactions()
        for _ in range(FILLER_TURNS):
            shown = self._conversation.take_past(FILLER, self._folder)
            if self._conversation.compactions() > before:
                return CompactedContext(text=shown, compactor_name=self.name, round_num=round_num)
        raise InputError(
            f"{FILLER_TURNS} turns led to no compaction: lower AI_REACT_CONTEXT_MAX_TOKENS in `settings`",
            code="not_compacted",
        )


def _exchanges(turns: Sequence[Any]) -> list[PastTurn]:
    """Return the session's messages with their answers; its system prompt is the agent's own here."""
    spoken = [one for one in turns if one.role in ("user", "assistant")]
    pairs = zip(spoken[::2], spoken[1::2], strict=True)
    return [PastTurn(message=said.text, answer=answered.text) for said, answered in pairs]
