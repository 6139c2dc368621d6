"""Entries: what a batch of the log says. `kind` discriminates on the wire; readers skip none of them.

What the batch around them says, they do not say again: a decision was recorded at the batch's time, its turn and
what the model had seen (`rendered`) are in the state behind it, and so is a result's turn.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from stepline.model.annotation import Contributed, Feedback, Titled
from stepline.model.attachment import Attachment
from stepline.model.base import Value
from stepline.model.block import Produced
from stepline.model.bust import Bust
from stepline.model.decision import Action, Notice
from stepline.model.execution import ToolEvent
from stepline.model.live_event import RULES, DropReason, EventClass, EventRule, classify
from stepline.model.plan import Plan
from stepline.model.reduction import (
    Compacted,
    Compacting,
    Compaction,
    CompactionKind,
    CompactionTrigger,
    Pruned,
)
from stepline.model.source import Citation, Source
from stepline.model.usage import Usage

__all__ = [
    "Closed",
    "Compacted",
    "Compacting",
    "Compaction",
    "CompactionKind",
    "CompactionTrigger",
    "Contributed",
    "Decided",
    "Deferred",
    "Dropped",
    "Entry",
    "Feedback",
    "Hide",
    "Inbound",
    "Opened",
    "Outcome",
    "Owner",
    "Pruned",
    "Reopened",
    "Resulted",
    "Started",
    "Steered",
    "TakenOver",
    "Titled",
]

Outcome = Literal["completed", "error"]


class Owner(Value, tag="owner", tag_field="kind"):
    """Who owns the conversation. Only in batch 1."""

    user: str


class Inbound(Value, tag="in", tag_field="kind"):
    """An event from outside, admitted once. A reactive one asks the model for an answer.

    `event` is its kind, and `prompt` for a message that opened a turn; a steer without a text says stop. `payload` is
    what it says beside its text, JSON only. `user` owns the conversation; `source` names the service that spoke for them.
    """

    message_id: str
    event: str
    text: str
    user: str
    at: str
    reactive: bool = True
    payload: dict[str, Any] = msgspec.field(default_factory=dict)
    attachments: tuple[Attachment, ...] = ()
    source: str = ""

    @property
    def event_class(self) -> EventClass:
        """Which of the classes of events this one is in."""
        return classify(self.event, text=self.text, reactive=self.reactive)

    @property
    def rule(self) -> EventRule:
        """What the table says that it does."""
        return RULES[self.event_class]

    @property
    def steers(self) -> bool:
        """Whether it interrupts the open turn."""
        return self.rule.interrupts


class Opened(Value, tag="opened", tag_field="kind"):
    """A turn begins. `prompts` are the batch numbers of the events that opened it."""

    turn: str
    at: str
    prompts: tuple[int, ...]


class Reopened(Value, tag="reopened", tag_field="kind"):
    """A later attempt takes the round; what the attempt before it streamed no longer counts."""

    iteration: int
    attempt: int


class Decided(Value, tag="decision", tag_field="kind"):
    """What the model decided in one round, recorded before any of its actions runs.

    `started_at` is when the model was asked. `accepted` is false for an answer that breaks the protocol:
    its `notices` tell the model why, and the next round follows. `claim` names the delta stream it settles.
    `stop_reason` is the provider's word if it is not the ordinary `end_turn`. `actions` run in their order; beside
    `complete` and `exit` they may be neutral ones, which run before the turn ends. `citations` are the sources that
    notes and answer cite and that were there when the model was asked, `unresolved` the numbers they cite that no
    source of the pool had; without a pool there are neither. `ended` says why the runtime answered in the model's
    place. `system` is a digest of the request's system part, if it is not that of the decision before; `bust` says
    that a cache that may live was read for less than it holds. `overhead_bytes` has the request beside its timeline.
    """

    iteration: int
    claim: int
    action: Literal["call_tool", "complete", "exit"]
    started_at: str
    accepted: bool = True
    thinking: tuple[str, ...] = ()
    notes: str = ""
    actions: tuple[Action, ...] = ()
    answer: str = ""
    followups: tuple[str, ...] = ()
    summary: str = ""
    raw: str = ""
    notices: tuple[Notice, ...] = ()
    plan: Plan | None = None
    interrupted: bool = False
    stop_reason: str = ""
    model: str = ""
    usage: Usage | None = None
    citations: tuple[Citation, ...] = ()
    unresolved: tuple[int, ...] = ()
    system: str = ""
    bust: Bust | None = None
    ended: Literal["", "max_iterations", "violations", "steer"] = ""
    overhead_bytes: int = 0


class Started(Value, tag="started", tag_field="kind"):
    """An action that must run at most once is about to run. `deadline` is when its program ends at the latest."""

    call_id: str
    deadline: str = ""


class Hide(Value):
    """An overlay: what batch `n` brought at `path` is read as `replacement`, or not at all if that is empty.

    The block stays what it was, and its path leads to all of it.
    """

    path: str
    n: int
    replacement: str = ""


class Resulted(Value, tag="result", tag_field="kind"):
    """What an action did, and when it began. `unverified`: it may have happened; nobody may run it again.

    `program` is set for a run of generated code; `emitted` is what the tools told the user on the way. `sources`
    are the rows of the pool that are new or changed by it, `hides` what the model reads shorter from here on.
    """

    call_id: str
    tool_id: str
    iteration: int
    status: Literal["ok", "error", "unverified"]
    at: str
    duration_ms: int = 0
    blocks: tuple[Produced, ...] = ()
    plans: tuple[Plan, ...] = ()
    error: dict[str, Any] | None = None
    program: bool = False
    emitted: tuple[ToolEvent, ...] = ()
    sources: tuple[Source, ...] = ()
    hides: tuple[Hide, ...] = ()


class Deferred(Value, tag="deferred", tag_field="kind"):
    """A completion was not accepted because reactive events arrived that the model has not seen."""

    turn: str
    iteration: int
    answer: str = ""
    citations: tuple[Citation, ...] = ()
    unresolved: tuple[int, ...] = ()


class Closed(Value, tag="closed", tag_field="kind"):
    """The turn's one end, with the answer that was recorded and what it cites, as in `Decided`.

    `usage`, `rounds`, `files` and the times count the whole turn; `model` gave the answer.
    """

    turn: str
    outcome: Outcome
    reason: str
    at: str
    answer: str = ""
    followups: tuple[str, ...] = ()
    code: str = ""
    message: str = ""
    started_at: str = ""
    citations: tuple[Citation, ...] = ()
    unresolved: tuple[int, ...] = ()
    usage: Usage | None = None
    rounds: int = 0
    files: int = 0
    elapsed_ms: int = 0
    model_ms: int = 0
    tools_ms: int = 0
    model: str = ""


class Dropped(Value, tag="dropped", tag_field="kind"):
    """An event that belongs to no turn is handed back, with the reason. `n` is the batch that admitted it."""

    n: int
    reason: DropReason
    message_id: str = ""
    event: str = ""


class Steered(Value, tag="steered", tag_field="kind"):
    """The steer that batch `n` brought is heeded: what was under way (`phase`, "" if nothing was) is over.

    `finalize` are the rounds that are left to come to an end; 0 if it said stop, and the close is next.
    """

    n: int
    turn: str
    at: str
    iteration: int
    message_id: str
    text: str = ""
    phase: Literal["", "decision", "tools"] = ""
    finalize: int = 0


class TakenOver(Value, tag="takeover", tag_field="kind"):
    """The execution that owned the turn ended without closing it; this batch is the new epoch."""

    turn: str
    reason: str
    takeovers: int


Entry: TypeAlias = (
    Owner
    | Inbound
    | Opened
    | Reopened
    | Decided
    | Started
    | Resulted
    | Deferred
    | Closed
    | Dropped
    | Steered
    | TakenOver
    | Pruned
    | Compacting
    | Compacted
    | Titled
    | Contributed
    | Feedback
)
