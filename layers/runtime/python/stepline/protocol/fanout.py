"""Which actions of a generation may run together: one pure rule, asked while it streams and again behind it.

    off           one action a round
    safe_fanout   by what actions do: looking about, producing, neither (the matrix below)
    classic       by name: reads, writes, searches and one program

The first action is always admitted; each later one is held against every one admitted before it. A refusal drops
the candidate alone. Source: docs/reference/channels.md#several-actions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

from stepline.model.base import Value
from stepline.model.decision import ActionName, FanoutMode

Strategy: TypeAlias = Literal["exploration", "exploitation", "neutral", "unknown"]
"""What an action does for the task: look about, produce, neither; a tool may be of several kinds."""

ACTIONS_MAX: Final = 8

_ADMITTED: Final[dict[Strategy, frozenset[Strategy]]] = {
    "exploration": frozenset({"exploration", "neutral"}),
    "exploitation": frozenset({"exploration", "exploitation", "neutral"}),
    "neutral": frozenset({"exploration", "exploitation", "neutral"}),
    "unknown": frozenset(),
}
"""What may follow an admitted action of a kind."""

_CLASSIC: Final = frozenset({"react.read", "react.write", "react.memsearch", "react.rg"})
_CLASSIC_PREFIXES: Final = ("web_tools.", "rendering_tools.write_")
CLASSIC_NAMES: Final = (*sorted(_CLASSIC), *(f"{prefix}*" for prefix in _CLASSIC_PREFIXES))
"""The tools that may share a round in mode `classic`, for people."""


class FanoutRule(Value):
    """How a deployment bounds a round."""

    mode: FanoutMode = "off"
    max_actions: int = ACTIONS_MAX

    @property
    def limit(self) -> int:
        """How many actions one round may have."""
        return 1 if self.mode == "off" else self.max_actions


class Candidate(Value):
    """An action as far as a stream tells it early: what it is and which tool it calls. `strategies` are the tool's."""

    action: ActionName
    tool_id: str = ""
    strategies: tuple[Strategy, ...] = ("unknown",)
    runs_code: bool = False

    @property
    def ends(self) -> bool:
        """Whether it is the turn's answer."""
        return self.action != "call_tool"

    @property
    def neutral(self) -> bool:
        """Whether it may stand beside an answer."""
        return not self.ends and self.strategies == ("neutral",)


def refuse(rule: FanoutRule, admitted: Sequence[Candidate], candidate: Candidate) -> str:
    """Return the code with which a candidate is refused beside those admitted before it; "" if it may run."""
    if not admitted:
        return ""
    if is_full(rule, admitted):
        return "multi_action_bundle_too_many_actions"
    if rule.mode == "classic":
        return _refuse_classic(admitted, candidate)
    return _refuse_by_kind(admitted, candidate)


def is_full(rule: FanoutRule, admitted: Sequence[Candidate]) -> bool:
    """Tell whether no further action can be admitted, whatever it is."""
    return len(admitted) >= rule.limit


def _refuse_by_kind(admitted: Sequence[Candidate], candidate: Candidate) -> str:
    if candidate.ends:
        return (
            ""
            if all(one.neutral for one in admitted)
            else "multi_action_bundle_final_answer_after_non_neutral"
        )
    if any(one.ends for one in admitted):
        return "" if candidate.neutral else "multi_action_bundle_non_neutral_after_final_answer"
    if candidate.runs_code and any(one.runs_code for one in admitted):
        return "multi_action_bundle_unsafe_tool"
    fits = all(_fits(one, candidate) for one in admitted)
    return "" if fits else "multi_action_bundle_strategy_incompatible"


def _fits(earlier: Candidate, later: Candidate) -> bool:
    return any(kind in _ADMITTED[before] for before in earlier.strategies for kind in later.strategies)


def _refuse_classic(admitted: Sequence[Candidate], candidate: Candidate) -> str:
    if candidate.ends or any(one.ends for one in admitted):
        return "multi_action_bundle_mixed_actions"
    programs = sum(one.runs_code for one in (*admitted, candidate))
    together = (*admitted, candidate)
    if programs > 1 or not all(is_classic(one.tool_id, runs_code=one.runs_code) for one in together):
        return "multi_action_bundle_unsafe_tool"
    return ""


def is_classic(tool_id: str, *, runs_code: bool) -> bool:
    """Tell whether a tool may share a round in mode `classic`."""
    return runs_code or tool_id in _CLASSIC or tool_id.startswith(_CLASSIC_PREFIXES)
