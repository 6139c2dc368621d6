"""Entries: what a batch of the log says. `kind` discriminates on the wire; readers skip none of them.

What the batch around them says, they do not say again: a decision was recorded at the batch's time, its turn and
what the model had seen (`rendered`) are in the state behind it, and so is a result's turn.

Entries beside the course of a turn: what a conversation is called, and what bundles and users say about it.

Entries by which the model reads less of a conversation; every path still leads to the whole.
"""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias

import msgspec

from stepline.model.base import Value
from stepline.model.block import Produced
from stepline.model.decision import Action, Notice
from stepline.model.file.attachment import Attachment
from stepline.model.plan_steps import Plan
from stepline.model.program.execution import ToolEvent
from stepline.model.source import Citation, Source
from stepline.model.usage import Bust, Usage
from stepline.model.wire.live_event import RULES, DropReason, EventClass, EventRule, classify

TITLE_CHARS: Final = 80
"""The longest title that a conversation has."""


class Titled(Value, tag="titled", tag_field="kind"):
    """The conversation has a title; `text` is what the gate stage said besides, and what that cost, if there was one."""

    title: str
    at: str
    turn: str = ""
    text: str = ""
    usage: Usage | None = None


class Contributed(Value, tag="contributed", tag_field="kind"):
    """Blocks that the code of a bundle puts on the timeline."""

    turn: str
    at: str
    blocks: tuple[Produced, ...]


class Feedback(Value, tag="feedback", tag_field="kind"):
    """What a user, or a machine, thinks of a turn's answer; the newest of an origin counts. One that says nothing takes it back."""

    turn: str
    at: str
    reaction: Literal["ok", "not_ok", "neutral"] | None = None
    text: str = ""
    origin: Literal["user", "machine"] = "user"
    confidence: float | None = None

    @property
    def withdrawn(self) -> bool:
        """Whether it says nothing any more."""
        return self.reaction is None and not self.text and self.confidence is None


CompactionKind: TypeAlias = Literal["history", "history_with_split_turn", "current_turn_prefix"]
CompactionTrigger: TypeAlias = Literal["render_token_limit", "forced"]


class Pruned(Value, tag="pruned", tag_field="kind"):
    """Older turns are read shorter from here on: no cache of them lives (`ttl`), it pays (`price`), or to make room (`budget`).

    The `keep` newest turns, counting the open one, stay turns, the `intact` newest of them untouched; older ones
    become cards or rows. `settled`: of the open turn, too, the results up to this batch are read by their stubs.
    """

    turn: str
    at: str
    cause: Literal["ttl", "price", "budget"]
    keep: int
    intact: int
    settled: int = 0
    before_tokens: int = 0
    after_tokens: int = 0


class Compaction(Value):
    """What both ends of a compaction say. `id` names it; tokens are estimates of the whole request."""

    id: str
    turn: str
    at: str
    scope: CompactionKind
    trigger: CompactionTrigger
    before_tokens: int
    max_tokens: int


class Compacting(Compaction, tag="compacting", tag_field="kind"):
    """A compaction begins: a model is about to be asked for a summary."""


class Compacted(Compaction, tag="compacted", tag_field="kind"):
    """A compaction ended, for better or worse.

    `completed`: the model reads `summary`, which has absorbed an older one, in place of every turn before the one
    that batch `cut` opened, and `checkpoint` in place of the open turn's rounds up to batch `split`; 0 is nothing of
    the kind. What else stays has `room` bytes, the longest of it cut to fit; 0 is no bound. `reason` says why nothing
    changed, or why the words are the runtime's and no model's. `summary` covers `turns` turns, the ids of the first
    and the last are `covered`. `usage` is what the summaries cost.
    """

    status: Literal["completed", "skipped", "error"]
    reason: str = ""
    cut: int = 0
    summary: str = ""
    split: int = 0
    checkpoint: str = ""
    room: int = 0
    turns: int = 0
    covered: tuple[str, ...] = ()
    after_tokens: int = 0
    usage: Usage | None = None


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
