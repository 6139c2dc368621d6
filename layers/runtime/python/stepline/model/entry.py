"""Entries: the content of a batch. `kind` discriminates on the wire; readers skip none of them.

An entry does not repeat its batch: a decision was recorded at the batch's time, and its turn and the newest
batch the model had seen (`rendered`) are in the state after it, as is a result's turn.

Besides the entries of a turn there are annotations (title, contributions, feedback), and reductions,
after which the model reads less of a conversation; every path still resolves to the whole.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final, Literal, TypeAlias

import msgspec

from stepline.model.base import Value
from stepline.model.block import Body, Hide, Produced
from stepline.model.decision import (
    Action,
    ApprovalRule,
    ApprovalVerdict,
    Declined,
    LastingCall,
    LastingEffect,
    Notice,
    Origin,
    Reaction,
    RemoteTask,
    Sent,
)
from stepline.model.file.attachment import Attachment
from stepline.model.plan_steps import Plan
from stepline.model.program.execution import ToolEvent
from stepline.model.source import Citation, Source
from stepline.model.usage import Bust, ModelCall, Usage, sum_usages
from stepline.model.wire.live_event import RULES, DropReason, EventClass, EventClassRule, classify

TITLE_CHARS: Final = 80
"""The longest title that a conversation has."""

TURN_PARTS: Final = ("model_ms", "tools_ms", "starting_ms", "collecting_ms", "preparing_ms", "waiting_ms")
"""The measured parts of a turn's time; none overlaps another."""


class Titled(Value, tag="titled", tag_field="kind"):
    """The conversation's title; `text` and the usage are those of the gate stage, if it ran."""

    title: str
    at: str
    turn: str = ""
    text: str = ""
    usage: Usage | None = None


HookName: TypeAlias = Literal["pre_run_hook", "before_round", "post_run_hook"]


class Contributed(Value, tag="contributed", tag_field="kind"):
    """Blocks that a bundle's code adds to the timeline.

    With a `hook` it is also the end of that hook, which a `Started` announced; `iteration` is the round that was
    to begin. `unverified`: the process that ran it is gone, and its effects are not known. `code` names a failure.
    `emitted` are its messages to the user, `usage` is that of the model calls it made.
    """

    turn: str
    at: str
    blocks: tuple[Produced, ...]
    hook: HookName | None = None
    iteration: int = 0
    status: Literal["ok", "error", "unverified"] = "ok"
    code: str = ""
    emitted: tuple[ToolEvent, ...] = ()
    usage: Usage | None = None


class Feedback(Value, tag="feedback", tag_field="kind"):
    """Feedback of a user or a machine on a turn's answer; the newest of each origin counts.

    An empty one withdraws it. `turn_at` is when its turn began: without it, the feedback has no client event.
    `given_at` is the time of its client, which does not affect the order.
    """

    turn: str
    at: str
    reaction: Reaction | None = None
    text: str = ""
    origin: Origin = "user"
    confidence: float | None = None
    turn_at: str = ""
    given_at: str = ""

    @property
    def withdrawn(self) -> bool:
        """True if the feedback is empty."""
        return self.reaction is None and not self.text and self.confidence is None

    @property
    def word(self) -> str:
        """The reaction as one word: `none` for a text alone, `withdrawn` for empty feedback."""
        return self.reaction or ("withdrawn" if self.withdrawn else "none")


CompactionKind: TypeAlias = Literal["history", "history_with_split_turn", "current_turn_prefix"]
CompactionTrigger: TypeAlias = Literal["render_token_limit", "forced"]


class Pruned(Value, tag="pruned", tag_field="kind"):
    """Older turns are shortened from here on.

    The cause: they are in no live cache (`ttl`), it saves cost (`price`), or to make room (`budget`). The `keep` newest
    turns, including the open one, stay turns, the `intact` newest of them unchanged; older ones become cards or rows.
    `settled`: of those, too, the results up to this batch are shown as stubs. `steady`: a part of the request ends
    where the shortened text does, and is marked, as the next pruning may leave it as it is.
    """

    turn: str
    at: str
    cause: Literal["ttl", "price", "budget"]
    keep: int
    intact: int
    settled: int = 0
    before_tokens: int = 0
    after_tokens: int = 0
    steady: bool = False


class Compaction(Value):
    """The common fields of a compaction's start and end. `id` names it; tokens are estimates of the whole request."""

    id: str
    turn: str
    at: str
    scope: CompactionKind
    trigger: CompactionTrigger
    before_tokens: int
    max_tokens: int


class Compacting(Compaction, tag="compacting", tag_field="kind"):
    """The start of a compaction: a model is about to be called for a summary."""


class Compacted(Compaction, tag="compacted", tag_field="kind"):
    """The end of a compaction, successful or not.

    `completed`: the model reads `summary`, which includes an older one, instead of every turn before the one that batch
    `cut` opened, and `checkpoint` instead of the open turn's rounds up to batch `split`; 0 is neither. The rest has
    `room` bytes, its longest parts cut to fit; 0 is no limit. With `keeps_events`, messages and events of the open turn
    are left out last. `reason` says why nothing changed, or why the summary is from the runtime and not from a model.
    `summary` covers `turns` turns; `covered` are the ids of those that no older summary covered. `usage` is that of the
    summaries.
    """

    status: Literal["completed", "skipped", "error"]
    reason: str = ""
    cut: int = 0
    summary: str = ""
    split: int = 0
    checkpoint: str = ""
    room: int = 0
    keeps_events: bool = False
    turns: int = 0
    covered: tuple[str, ...] = ()
    after_tokens: int = 0
    usage: Usage | None = None


Outcome = Literal["completed", "error"]


class Owner(Value, tag="owner", tag_field="kind"):
    """The owner of the conversation, and the name of its bundle; "" is the stage's default. Only in batch 1."""

    user: str
    bundle: str = ""


class Inbound(Value, tag="in", tag_field="kind"):
    """An event from outside, admitted once. A reactive one asks the model for an answer.

    `event` is its kind, and `prompt` for a message that opened a turn; a steer without a text is a stop.
    `payload` has its other fields, JSON only. `user` owns the conversation; `source` names the
    service that sent it for them. `timezone` is the user's, if their client named it.
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
    timezone: str = ""

    @property
    def event_class(self) -> EventClass:
        """Its class in the table of live events."""
        return classify(self.event, has_text=bool(self.text), reactive=self.reactive)

    @property
    def rule(self) -> EventClassRule:
        """The rule of its class."""
        return RULES[self.event_class]

    @property
    def steers(self) -> bool:
        """True if it interrupts the open turn."""
        return self.rule.interrupts


class Opened(Value, tag="opened", tag_field="kind"):
    """The start of a turn. `prompts` are the batch numbers of the events that opened it.

    `rounds` and the tokens of a request, `max_tokens`, are the turn's limits; 0 if not recorded.
    """

    turn: str
    at: str
    prompts: tuple[int, ...]
    rounds: int = 0
    max_tokens: int = 0


class Reopened(Value, tag="reopened", tag_field="kind"):
    """A later attempt runs the round; the stream of the previous attempt is void.

    With `usage` no attempt has the round yet: this one failed, and the tokens of its calls are in no other entry. With
    `until` the next attempt follows a wait for the model's provider, and `code` says why; the round has `attempts` at
    most, 0 if that was not recorded.
    """

    iteration: int
    attempt: int
    usage: Usage | None = None
    until: str = ""
    code: str = ""
    attempts: int = 0


class Decided(Value, tag="decision", tag_field="kind"):
    """The model's decision in one round, recorded before any of its actions runs.

    `started_at` is when the model was called. `accepted` is false for an answer that breaks the protocol: its `notices`
    show the model why, and the next round follows. `claim` names the delta stream it settles. `stop_reason` is that of
    the provider if it is not the usual `end_turn`. `actions` run in order; with `complete` and `exit` they may be
    neutral ones, which run before the turn ends. `citations` are the sources cited in notes and answer that existed
    when the model was called, `unresolved` the cited numbers without a source in the pool, and 0 for a citation that
    could not be read; without a pool there are neither. `ended` is set if the runtime answered instead of the model.
    `system` is the SHA-256 of the request's system part, if it differs from that of the previous decision: its text is
    stored at `out_key` of the turn. `sent` has the other facts to render the request again. `declined` is set if the
    model refused to answer; `bust` is set if the request read less from a live cache than the cache held.
    `overhead_bytes` is the request's size without its timeline. `usage` is that of the successful call, and `lost` that
    of calls of the same attempt which failed before it. `thinking_ms` is when each of `thinking` began and ended, after
    `started_at`; `code_ms` is the time that the model took to write the program. `rounds_left` are those that the turn
    then had. `show_artifacts` are paths and `show_skills` ids that the next request of the turn shows in full, and no
    other. `value` is the JSON text of the result of an agent with a result type, with `complete` only. `generation` is
    the model's whole text if it was accepted with corrections; `protocol.decision.spell` makes that of any other one.
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
    lost: Usage | None = None
    declined: Declined | None = None
    thinking_ms: tuple[tuple[int, int], ...] = ()
    code_ms: int = 0
    rounds_left: int | None = None
    sent: Sent | None = None
    show_artifacts: tuple[str, ...] = ()
    show_skills: tuple[str, ...] = ()
    value: str = ""
    generation: str = ""

    @property
    def cost(self) -> Usage:
        """The tokens of all calls of the attempt."""
        return sum_usages((self.usage or Usage(), self.lost)) if self.lost else self.usage or Usage()


class Started(Value, tag="started", tag_field="kind"):
    """An action or a hook that must run at most once is about to run. `deadline` is its program's latest end.

    With a `task` the action runs already, on a server that is polled for its end.
    """

    call_id: str
    deadline: str = ""
    task: RemoteTask | None = None


class Resulted(Value, tag="result", tag_field="kind"):
    """The result of an action, with its start time.

    `unverified`: it may have happened and must not be run again. `program` is set for a run of generated code, `log` is
    the end of its output, `log_bytes` the size of all of it. `duration_ms` is the run's own time, `starting_ms` and
    `collecting_ms` the times to start it and to collect its files. `emitted` are the tools' messages to the user.
    `sources` are the rows of the pool that it added or changed, `hides` the overlays it adds. `usage` is that of the
    model calls that the tool made. `effect` is its tool's, unless that is pure or the call was not allowed.
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
    log: str = ""
    log_bytes: int = 0
    usage: Usage | None = None
    starting_ms: int = 0
    collecting_ms: int = 0
    effect: LastingEffect | None = None


class Deferred(Value, tag="deferred", tag_field="kind"):
    """A completion was not accepted because reactive events arrived that the model has not seen."""

    turn: str
    iteration: int
    answer: str = ""
    citations: tuple[Citation, ...] = ()
    unresolved: tuple[int, ...] = ()


class Closed(Value, tag="closed", tag_field="kind"):
    """The end of a turn, with the recorded answer and its citations, as in `Decided`.

    `usage`, `rounds`, `files` and the times, as in a `Tally`, are for the whole turn; `model` gave the answer.
    `retry_after_s` is the wait that the provider last requested, if the turn failed because of it. `bill` has a line
    for each role and model that the turn has called. `value` is the JSON text of the result, "" if it has none.
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
    retry_after_s: int = 0
    bill: tuple[ModelCall, ...] = ()
    starting_ms: int = 0
    collecting_ms: int = 0
    waiting_ms: int = 0
    preparing_ms: int = 0
    value: str = ""

    @property
    def between_ms(self) -> int:
        """The rest of the time: between steps, while none of them ran."""
        parts: int = sum(getattr(self, name) for name in TURN_PARTS)
        return max(0, self.elapsed_ms - parts)


def whole_answer(entry: Decided | Closed) -> str:
    """Return the answer, followed by the JSON text of its value in a fence, if it has one."""
    return f"{entry.answer}\n\n```json\n{entry.value}\n```" if entry.value else entry.answer


class Dropped(Value, tag="dropped", tag_field="kind"):
    """An event that belongs to no turn is handed back, with the reason. `n` is the batch that admitted it."""

    n: int
    reason: DropReason
    message_id: str = ""
    event: str = ""


class SteeredEntry(Value, tag="steered", tag_field="kind"):
    """The steer of batch `n` is applied: the running `phase` ("" if none) is over.

    `finalize` are the rounds left to finish; 0 for a stop, and the close is next.
    """

    n: int
    turn: str
    at: str
    iteration: int
    message_id: str
    text: str = ""
    phase: Literal["", "decision", "tools"] = ""
    finalize: int = 0


class Listed(Value, tag="listed", tag_field="kind"):
    """The tools of the bundle's MCP servers, for this turn and for those that open before `until`.

    `body` holds the list, which never changes; `tools` is how many it has. `servers` is a digest of the rows that named
    the servers, `failed` those that did not answer completely, and `left_out` tools that were not accepted, with codes.
    """

    turn: str
    at: str
    until: str
    servers: str
    body: Body
    tools: int = 0
    failed: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


class TakenOver(Value, tag="takeover", tag_field="kind"):
    """The execution that owned the turn ended without closing it; this batch is the new epoch."""

    turn: str
    reason: str
    takeovers: int


class ApprovalRequested(Value, tag="approval_requested", tag_field="kind"):
    """The turn is parked until a person approves `action`, the exact call that will run.

    `rule` is why an approval is needed, `until` how long the answer may take, "" for ever.
    """

    turn: str
    at: str
    iteration: int
    action: Action
    rule: ApprovalRule
    until: str = ""

    def is_expired(self, now: datetime) -> bool:
        """Return True if the time for an answer is over."""
        return bool(self.until) and datetime.fromisoformat(self.until) <= now


class ApprovalAnswered(Value, tag="approval_answered", tag_field="kind"):
    """The request of batch `n` is settled, and this batch is the turn's new epoch.

    `text` is the reason of a denial. `action` is the call that runs instead of an edited one, under its own id.
    `requested_at` is since when the turn was parked. `message_id` names the message that settled it, and `client` the
    application that sent it for the owner, "" if the owner's token names none.
    """

    n: int
    turn: str
    at: str
    iteration: int
    call_id: str
    tool_id: str
    verdict: ApprovalVerdict
    requested_at: str
    message_id: str
    text: str = ""
    action: Action | None = None
    client: str = ""


class Queued(Value, tag="queued", tag_field="kind"):
    """The open turn is queued for an execution, because the stage runs its maximum number of turns; `place` 1 is the next."""

    turn: str
    at: str
    place: int


class Begun(Value, tag="begun", tag_field="kind"):
    """The turn that batch `n` queued at `queued_at` gets its execution, and this batch is its new epoch."""

    n: int
    turn: str
    at: str
    queued_at: str

    @property
    def waited_ms(self) -> int:
        """How long the turn waited."""
        waited = datetime.fromisoformat(self.at) - datetime.fromisoformat(self.queued_at)
        return max(0, round(waited.total_seconds() * 1000))


class Deleted(Value, tag="deleted", tag_field="kind"):
    """The deletion of the conversation by its owner, and with it of the open `turn`, "" if none was open.

    `call_id` is the program that may still run; batch `n` queued the turn, at `queued_at`; `origin` counted it as a fork.
    """

    at: str
    turn: str = ""
    call_id: str = ""
    n: int = 0
    queued_at: str = ""
    origin: str = ""


class Importing(Value, tag="importing", tag_field="kind"):
    """The start of an import: the batches up to `Imported` are made of documents, and no other process puts any.

    `digest` is the SHA-256 of the imported documents, as 64 hex: the same import continues with it. `files` names the
    files whose bytes were uploaded when it began, `sha256:bytes`, with commas between.
    """

    digest: str
    at: str
    files: str = ""


class Imported(Value, tag="imported", tag_field="kind"):
    """The end of an import: the conversation is complete, and continues like any other."""

    digest: str
    at: str


class Forked(Value, tag="forked", tag_field="kind"):
    """The start of a fork: its batches up to `n` are those of the conversation `origin`, which may be a fork, too.

    `branch_of` is the root of a branch. The origin counts the fork, or `counted_at`, the branch in which it was made.
    `effects` are the calls that the origin had made after them, at most 100.
    """

    origin: str
    n: int
    at: str
    branch_of: str = ""
    counted_at: str = ""
    effects: tuple[LastingCall, ...] = ()

    @property
    def counter(self) -> str:
        """The conversation that counts the fork, and is not deleted before it."""
        return self.counted_at or self.origin


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
    | SteeredEntry
    | TakenOver
    | Listed
    | ApprovalRequested
    | ApprovalAnswered
    | Queued
    | Begun
    | Pruned
    | Compacting
    | Compacted
    | Titled
    | Contributed
    | Feedback
    | Deleted
    | Importing
    | Imported
    | Forked
)
