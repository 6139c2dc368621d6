"""Which actions of a generation may run together: one pure rule, asked while it streams and again behind it.

    off           one action a round
    safe_fanout   by what actions do: looking about, producing, neither (the matrix below)
    classic       by name: reads, writes, searches and one program

The first action is always admitted; each later one is held against every one admitted before it. A refusal drops
the candidate alone. Source: docs/reference/channels.md#several-actions.

The way of a round's decisions through the rule of several actions, one by one, by what they are.

Whoever shows a stream asks as soon as a decision says what it is; whoever judges the whole asks again with the
same words. The answers are the same, because both ask here. An action that was admitted counts for later ones
even if its parameters turn out bad.
Source: docs/reference/channels.md#several-actions.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias, get_args

from stepline.model.base import Value
from stepline.model.decision import ActionName, FanoutMode
from stepline.protocol.decision.json_repair import repair_object
from stepline.protocol.parser.field import FieldStream

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


ACTIONS: Final[Mapping[str, ActionName]] = {name: name for name in get_args(ActionName)}

TOO_MANY: Final = "multi_action_bundle_too_many_actions"
UNREADABLE: Final = "multi_action_bundle_invalid_item"
ANSWER_AFTER: Final = "multi_action_bundle_final_answer_after_non_neutral"

ASKED_MAX: Final = 2 * ACTIONS_MAX
"""How many decisions of a generation are looked at: each that is refused costs a notice."""

ACTION: Final = ("action",)
TOOL_ID: Final = ("tool_call", "tool_id")
"""Where in a decision's object it says what it is."""


class ToolTraits(Protocol):
    """What has to be known of a tool to admit a call of it."""

    @property
    def strategies(self) -> tuple[Strategy, ...]:
        """What it does for the task."""

    @property
    def runs_code(self) -> bool:
        """Whether it runs the text of the code channel."""


class Identity(NamedTuple):
    """What a decision says it is; `tool_id` matters for `call_tool` alone."""

    action: str = ""
    tool_id: str = ""

    @property
    def known(self) -> bool:
        """Whether it says enough to be admitted or refused."""
        return bool(self.tool_id) if self.action == "call_tool" else bool(self.action)

    def same(self, other: Identity) -> bool:
        """Tell whether another reading of the decision says the same; a text in two pieces, or broken, has two."""
        return self.action == other.action and (self.action != "call_tool" or self.tool_id == other.tool_id)


class Admission:
    """Admits the decisions of one generation, in the order in which they were written.

    Ask once for every decision that is not blank, also for one that does not say what it is.
    """

    def __init__(
        self,
        rule: FanoutRule,
        tools: Mapping[str, ToolTraits],
        allowed: Collection[str],
        *,
        last_round: bool = False,
    ) -> None:
        """Admit by `rule` calls of those `tools` that are `allowed`, and in the last round none."""
        self._rule = rule
        self._tools = tools
        self._allowed = allowed
        self._last_round = last_round
        self._admitted: list[Candidate] = []
        self._asked = 0
        self._faulty = False  # a decision was refused for what it is

    @property
    def admitted(self) -> tuple[Candidate, ...]:
        """What was admitted, in order."""
        return tuple(self._admitted)

    @property
    def full(self) -> bool:
        """Whether nothing further can be admitted, whatever it is.

        A round of one action takes the first or none; no round is asked without end.
        """
        asked_max = 1 if self._rule.limit == 1 else ASKED_MAX
        return self._asked >= asked_max or is_full(self._rule, self._admitted)

    def ask(self, action: str, tool_id: str = "") -> str:
        """Admit the next decision, or return the code of its refusal. Empty: it does not say what it is."""
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
        # An answer behind an action that cannot run may speak of what that one would have brought.
        code = ANSWER_AFTER if candidate.ends and self._faulty else ""
        code = code or refuse(self._rule, self._admitted, candidate)
        if not code:
            self._admitted.append(candidate)
        return code

    def _fault(self, action: str, tool_id: str) -> str:
        """Return what is wrong with a decision whatever stands beside it."""
        if not action:
            return UNREADABLE
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
    """Return a decision as the rule sees it; its tool is one of `tools`."""
    if action != "call_tool":
        return Candidate(action=action)
    traits = tools[tool_id]
    return Candidate(action=action, tool_id=tool_id, strategies=traits.strategies, runs_code=traits.runs_code)


def identify(body: str) -> Identity:
    """Return what a whole decision says it is: what it told as it came, else what it says once it is mended."""
    action, tool_id = _Word(), _Word()
    words = {ACTION: action, TOOL_ID: tool_id}
    FieldStream(words.get).feed(body)
    told = Identity(action.text, tool_id.text)
    return told if told.known else identify_fields(repair_object(body) or {})


def identify_fields(fields: Mapping[str, object]) -> Identity:
    """Return what a decision's object says it is."""
    action, call = fields.get("action"), fields.get("tool_call")
    tool_id = call.get("tool_id") if isinstance(call, dict) else ""
    return Identity(
        action=action if isinstance(action, str) else "", tool_id=tool_id if isinstance(tool_id, str) else ""
    )


class _Word:
    """Takes a value; `text` is empty until it is complete."""

    def __init__(self) -> None:
        self.text = ""
        self._pieces: list[str] = []

    def take(self, text: str, /) -> None:
        self._pieces.append(text)

    def end(self) -> None:
        self.text = "".join(self._pieces)
