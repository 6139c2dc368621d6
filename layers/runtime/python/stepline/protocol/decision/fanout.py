"""The rule for several actions in a round: pure, applied during the stream and again at its end.

    off                one action a round
    safe_fanout        by the effects of actions: exploration, exploitation, neutral (the matrix below), and by the
                       content they read, if that shows that two of them are independent
    read_write_search  reads, writes and searches by the names of their tools, and one program

The first action is always admitted; each later one is checked against every one admitted before it. A refusal
drops the candidate alone.

`Admission` applies the rule to a round's decisions one by one. The stream asks as soon as a decision has
named its action and tool; the final validation asks again with the same identity, and gets the same answers.
An admitted action counts for later ones even if its parameters turn out invalid.

Source: docs/reference/channels.md#several-actions.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, Literal, Protocol, TypeAlias, get_args

from stepline.model.base import Value
from stepline.model.decision import ActionName, FanoutMode

Strategy: TypeAlias = Literal["exploration", "exploitation", "neutral", "unknown"]
"""An action's role in the task: exploration, exploitation, neutral; a tool may have several roles."""

Reads: TypeAlias = Literal["parameters", "outside", "conversation"]
"""All that a call can depend on: its own parameters; content outside the conversation; anything (the default of a
tool that does not declare it)."""

ACTIONS_MAX: Final = 8

_ADMITTED: Final[dict[Strategy, frozenset[Strategy]]] = {
    "exploration": frozenset({"exploration", "neutral"}),
    "exploitation": frozenset({"exploration", "exploitation", "neutral"}),
    "neutral": frozenset({"exploration", "exploitation", "neutral"}),
    "unknown": frozenset(),
}
"""The kinds that may follow an admitted action of a kind."""

_LISTED: Final = frozenset({"react.read", "react.write", "react.memsearch", "react.rg"})
_LISTED_PREFIXES: Final = ("web_tools.", "rendering_tools.write_")
LISTED_NAMES: Final = (*sorted(_LISTED), *(f"{prefix}*" for prefix in _LISTED_PREFIXES))
"""The tools that may share a round in mode `read_write_search`, for display."""


class FanoutRule(Value):
    """The limits of a round in a deployment."""

    mode: FanoutMode = "off"
    max_actions: int = ACTIONS_MAX

    @property
    def limit(self) -> int:
        """The maximum number of actions in a round."""
        return 1 if self.mode == "off" else self.max_actions


class Candidate(Value):
    """An action as known early in a stream: its action and tool. `strategies` and `reads` are the tool's."""

    action: ActionName
    tool_id: str = ""
    strategies: tuple[Strategy, ...] = ("unknown",)
    reads: Reads = "conversation"
    runs_code: bool = False

    @property
    def ends(self) -> bool:
        """True if it is the turn's answer."""
        return self.action != "call_tool"

    @property
    def neutral(self) -> bool:
        """True if it may run beside an answer."""
        return not self.ends and self.strategies == ("neutral",)


def find_refusal(rule: FanoutRule, admitted: Sequence[Candidate], candidate: Candidate) -> str:
    """Return the code that refuses a candidate beside the admitted ones; "" if it may run."""
    if not admitted:
        return ""
    if is_full(rule, admitted):
        return "multi_action_bundle_too_many_actions"
    if rule.mode == "read_write_search":
        return _refuse_by_name(admitted, candidate)
    return _refuse_by_kind(admitted, candidate)


def is_full(rule: FanoutRule, admitted: Sequence[Candidate]) -> bool:
    """Return True if no further action of any kind can be admitted."""
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
    return "" if fits else INCOMPATIBLE


def _fits(earlier: Candidate, later: Candidate) -> bool:
    by_kind = any(kind in _ADMITTED[before] for before in earlier.strategies for kind in later.strategies)
    return by_kind or may_be_apart(earlier, later)


def may_be_apart(earlier: ToolTraits, later: ToolTraits) -> bool:
    """Return True if an action that makes something can be independent of an earlier one that searches.

    Neither reads the output of the other. Whether the later one refers to the search depends on the parameters of both:
    `Collisions` checks that once they are known.
    """
    looks, makes = earlier.strategies == ("exploration",), later.strategies == ("exploitation",)
    return looks and makes and earlier.reads == "outside" and later.reads == "parameters"


def _refuse_by_name(admitted: Sequence[Candidate], candidate: Candidate) -> str:
    if candidate.ends or any(one.ends for one in admitted):
        return "multi_action_bundle_mixed_actions"
    programs = sum(one.runs_code for one in (*admitted, candidate))
    together = (*admitted, candidate)
    if programs > 1 or not all(may_share_round(one.tool_id, runs_code=one.runs_code) for one in together):
        return "multi_action_bundle_unsafe_tool"
    return ""


def may_share_round(tool_id: str, *, runs_code: bool) -> bool:
    """Return True if a tool may share a round in mode `read_write_search`."""
    return runs_code or tool_id in _LISTED or tool_id.startswith(_LISTED_PREFIXES)


ACTIONS: Final[Mapping[str, ActionName]] = {name: name for name in get_args(ActionName)}

TOO_MANY: Final = "multi_action_bundle_too_many_actions"
INCOMPATIBLE: Final = "multi_action_bundle_strategy_incompatible"
INVALID_ITEM: Final = "multi_action_bundle_invalid_item"
ANSWER_AFTER: Final = "multi_action_bundle_final_answer_after_non_neutral"

ASKED_MAX: Final = 2 * ACTIONS_MAX
"""The maximum number of decisions that are examined: each refused one costs a notice."""


class ToolTraits(Protocol):
    """The traits of a tool that decide on admission."""

    @property
    def strategies(self) -> tuple[Strategy, ...]:
        """Its roles in the task."""

    @property
    def reads(self) -> Reads:
        """All that a call can depend on."""

    @property
    def runs_code(self) -> bool:
        """True if it runs the text of the code channel."""


class Admission:
    """Admits the decisions of one generation, in text order.

    Ask once for every decision that is not blank, including one without an identity.
    """

    def __init__(
        self,
        rule: FanoutRule,
        tools: Mapping[str, ToolTraits],
        allowed: Collection[str],
        *,
        last_round: bool = False,
    ) -> None:
        """Admit calls of `tools` that are `allowed`, by `rule`; none in the last round."""
        self._rule = rule
        self._tools = tools
        self._allowed = allowed
        self._last_round = last_round
        self._admitted: list[Candidate] = []
        self._asked = 0
        self._faulty = False  # a decision was refused for its own fault

    @property
    def admitted(self) -> tuple[Candidate, ...]:
        """The admitted actions, in order."""
        return tuple(self._admitted)

    @property
    def full(self) -> bool:
        """True if no further action of any kind can be admitted.

        A round of one action takes the first decision or none; the number of questions is bounded.
        """
        asked_max = 1 if self._rule.limit == 1 else ASKED_MAX
        return self._asked >= asked_max or is_full(self._rule, self._admitted)

    def ask(self, action: str, tool_id: str = "") -> str:
        """Admit the next decision, or return the code of its refusal. `action` is empty if it names none."""
        if self.full:
            return TOO_MANY
        self._asked += 1
        if fault := self._fault(action, tool_id):
            self._faulty = True
            return fault
        candidate = make_candidate(ACTIONS[action], tool_id, self._tools)
        if self._last_round and not candidate.ends:
            self._faulty = self._faulty or not candidate.neutral
            return "last_round_requires_answer"
        # An answer after an action that cannot run may refer to that action's result.
        code = ANSWER_AFTER if candidate.ends and self._faulty else ""
        code = code or find_refusal(self._rule, self._admitted, candidate)
        if not code:
            self._admitted.append(candidate)
        return code

    def _fault(self, action: str, tool_id: str) -> str:
        """Return the code of a decision's own fault, independent of its siblings."""
        if not action:
            return INVALID_ITEM
        if action not in ACTIONS:
            return "invalid_action"
        return self._fault_of_call(tool_id) if action == "call_tool" else ""

    def _fault_of_call(self, tool_id: str) -> str:
        if not tool_id:
            return "missing_tool_id"
        if tool_id not in self._tools:
            return "unknown_tool_id"
        return "" if tool_id in self._allowed else "tool_not_allowed_in_react"


def make_candidate(action: ActionName, tool_id: str, tools: Mapping[str, ToolTraits]) -> Candidate:
    """Return a decision as a candidate for the rule; its tool is one of `tools`."""
    if action != "call_tool":
        return Candidate(action=action)
    traits = tools[tool_id]
    return Candidate(
        action=action,
        tool_id=tool_id,
        strategies=traits.strategies,
        reads=traits.reads,
        runs_code=traits.runs_code,
    )
