"""The types of client events and their data: one table for routes, the filter and the reference page.

A class is a type of event: its docstring says when a client gets it, its fields describe the data. A field
without a default is always there; one with a default is left out if it is empty. The payload of an inbound
event is never included: it is between its sender and the agent.
Source: docs/reference/events.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeAlias

import msgspec

from stepline.model.base import Value
from stepline.model.decision import Origin, Reaction
from stepline.model.usage import BustReason
from stepline.model.wire.event import EventData

TurnCompletion: TypeAlias = Literal["", "success", "error", "queued_next", "interrupted"]
ErrorType: TypeAlias = Literal["", "turn_interrupted", "task_watchdog_timeout"]


class TitleGiven(EventData):
    """The conversation has a title: first the beginning of its first message, later one about its subject."""

    EVENT = "chat.conversation.title"
    ROUTE = "chat_step"
    STEP = "conversation_title"

    title: Annotated[str, "at most 80 characters, on one line"]


class ConversationStatus(EventData):
    """The conversation begins, a turn begins, waits for a person or has ended, or the conversation was deleted.

    Nothing follows `deleted`: the conversation is in no list any more, and answers everything with `conversation_deleted`.
    """

    EVENT = "conv.status"
    ROUTE = "conv_status"

    state: Annotated[Literal["created", "in_progress", "idle", "error", "deleted"], "how it stands now"]
    updated_at: Annotated[str, "since when"]
    current_turn_id: Annotated[str, "the open turn; at an end without a next one, its own"] = ""
    completion: Annotated[
        TurnCompletion,
        "how the turn ended; `queued_next`: well, and messages that came meanwhile open the next at "
        "once; `interrupted`: its execution was lost too often",
    ] = ""
    waits_for: Annotated[
        Literal["", "approval"],
        "what the open turn waits for: a person who allows a call; left out otherwise",
    ] = ""


class TurnStarted(EventData):
    """A turn begins."""

    EVENT = "chat.start"
    ROUTE = "chat_start"

    turn_id: Annotated[str, "its name"]
    prompts: Annotated[list[int], "numbers of the events that opened it"]
    rounds: Annotated[int, "rounds that it may have; events that come meanwhile may add some"] = 0
    max_tokens: Annotated[int, "tokens that a request of it may have"] = 0


class TurnQueued(EventData):
    """The turn waits in line: as many turns run as the stage may run at once. Nothing has to be sent again.

    A `sync` and a `pong` tell the place that it has come to.
    """

    EVENT = "turn.queued"
    ROUTE = "chat_step"

    place: Annotated[int, "its place in line: 1 is the next"]


class TurnBegun(EventData):
    """The turn has waited in line, and begins, or goes on with the answer for which it was parked."""

    EVENT = "turn.begun"
    ROUTE = "chat_step"

    waited_ms: Annotated[int, "how long it waited"]


class RoundRestarted(EventData):
    """Another attempt takes the round: drop what streamed under an older claim."""

    EVENT = "round.restarted"
    ROUTE = "chat_step"

    claim: Annotated[int, "the stream of the new attempt"]
    iteration: Annotated[int, "the round, from 0"]
    attempt: Annotated[int, "how often it was retried"]


class RoundWaiting(EventData):
    """The model's provider is busy: the round goes on after a wait, and nothing has to be sent again."""

    EVENT = "round.waiting"
    ROUTE = "chat_step"

    iteration: Annotated[int, "the round, from 0"]
    code: Annotated[str, "`model_overloaded` or `model_rate_limited`"]
    message: Annotated[str, "what to tell the user"]
    until: Annotated[str, "when the round goes on"]
    attempt: Annotated[int, "the number of the attempt that follows, from 2"] = 0
    attempts: Annotated[int, "how many there are at most"] = 0


class AnswerDeferred(EventData):
    """An answer was not the final one: an event came that the model had not seen."""

    EVENT = "chat.step"
    ROUTE = "chat_step"
    STEP = "deferred"

    iteration: Annotated[int, "the round that gave it"]
    answer: Annotated[str, "the answer so far, with links for what it cites"]


class CitedSource(Value):
    """A source that an answer cites."""

    sid: Annotated[int, "its number in the conversation: `[[S:1]]` cites 1"]
    title: Annotated[str, "may be empty"]
    url: Annotated[str, "http or https; empty for a document"]
    path: Annotated[str, "of a document of the agent: `ks:…`; left out for a page"] = ""


class Citations(EventData):
    """The answer cites sources: pages of the web, or documents of the agent."""

    EVENT = "chat.citations"
    ROUTE = "chat_step"

    count: Annotated[int, "how many"]
    items: Annotated[list[CitedSource], "a source each, in the order of their numbers"]


class Followups(EventData):
    """The answer suggests how to go on, or a tool does."""

    EVENT = "chat.followups"
    ROUTE = "chat_step"

    items: Annotated[list[str], "short actions, as a user would say them"]


class TurnCompleted(EventData):
    """A turn ends, with or without success."""

    EVENT = "chat.conversation.turn.completed"
    ROUTE = "chat_step"

    elapsed_ms: Annotated[int, "from its begin to its end; 0 if that was not counted"]
    produced_file_count: Annotated[int, "files offered to the user, each time they are written"]
    citation_count: Annotated[int, "items of `chat.citations`"]


class TurnSummary(EventData):
    """A turn ends: its time, by part."""

    EVENT = "chat.turn.summary"
    ROUTE = "chat_step"

    markdown: Annotated[str, "the same as a table for people"]
    rounds: Annotated[int, "decisions of the model, refused ones and those cut off included"]
    elapsed_ms: Annotated[int, "as above; the parts below are together as long"]
    model_ms: Annotated[int, "in the model's decisions"]
    tools_ms: Annotated[int, "in tools, and in programs while they ran"]
    starting_ms: Annotated[int, "until programs ran: their place, their files"] = 0
    collecting_ms: Annotated[int, "after programs ran: what they left, and their end"] = 0
    preparing_ms: Annotated[int, "for titles, summaries and hooks"] = 0
    waiting_ms: Annotated[int, "in waits for the model's provider"] = 0
    between_ms: Annotated[int, "between all of these, from one step to the next"] = 0


class UsageLine(Value, omit_defaults=False):
    """All calls of one model in one role."""

    role: Annotated[
        str, "what the model was asked for, such as `solver.react.v2.decision.v2.regular` or `gate.simple`"
    ]
    model: Annotated[str, "which answered"]
    calls: Annotated[int, "how many, failed ones included"]
    input_tokens: Annotated[int, "as above"]
    cache_read_tokens: Annotated[int, "as above"]
    cache_write_5m_tokens: Annotated[int, "as above"]
    cache_write_1h_tokens: Annotated[int, "as above"]
    output_tokens: Annotated[int, "as above"]
    estimated: Annotated[bool, "one of them ended before the provider counted it"]
    usd: Annotated[float, "the cost in US dollars; 0 where the price of the model is not known"]
    priced: Annotated[bool, "the price of the model is known"]


class TurnUsage(EventData):
    """A turn that asked the model ends: its usage."""

    EVENT = "accounting.usage"
    ROUTE = "chat_service"

    rounds: Annotated[int, "decisions of the model"]
    input_tokens: Annotated[int, "neither read from nor written to a cache"]
    cache_read_tokens: Annotated[int, "read from a cache"]
    cache_write_5m_tokens: Annotated[int, "written to the cache of five minutes"]
    cache_write_1h_tokens: Annotated[int, "written to the cache of an hour"]
    output_tokens: Annotated[int, "written by the model"]
    total_input_tokens: Annotated[int, "everything it read, cached or not"]
    weighted_tokens: Annotated[
        int,
        "in tokens of plain input at the usual price ratios: cache reads count 0.1, writes 1.25 and 2, "
        "output 5",
    ]
    model: Annotated[str, "which gave the last answer"] = ""
    estimated: Annotated[bool, "a call was cut off before the provider counted it"] = False
    lines: Annotated[list[UsageLine], "the calls by role and model"] = msgspec.field(default_factory=list)
    usd: Annotated[float, "the cost in US dollars of the calls whose price is known"] = 0.0
    priced: Annotated[bool, "that is the cost of all"] = False


class CacheBust(EventData):
    """A request read less of the model's cache than the request before left there, and so cost more."""

    EVENT = "accounting.cache_bust"
    ROUTE = "chat_service"

    iteration: Annotated[int, "the round, from 0"]
    reason: Annotated[
        BustReason,
        "what changed before the newest text: the instructions, the tools of MCP servers, the model, a block that the agent hid, older "
        "turns that were shortened or summarised, feedback; or `provider`, if nothing of ours did",
    ]
    expected_tokens: Annotated[int, "what there was to read"]
    read_tokens: Annotated[int, "what was read"]


class TurnAnswered(EventData):
    """The turn's end, with the recorded answer, which replaces streamed text."""

    EVENT = "chat.complete"
    ROUTE = "chat_complete"

    final_answer: Annotated[str, "Markdown, with links for what it cites"]
    answer: Annotated[str, "the same"]
    followups: Annotated[list[str], "as in `chat.followups`"]
    suggested_followups: Annotated[list[str], "the same"]
    reason: Annotated[
        str,
        "`complete`; `exit`, without a claim of success; `token_limit`, the part that was shown of an answer that the "
        "model's output limit cut; `max_iterations`, a status because the rounds are used up; `violations`, a status "
        "because the model broke the protocol too often; `steer`, the user asked to come to an end; `stop`, the user stopped the turn",
    ]
    used_sources: Annotated[list[int], "numbers of the sources that it cites"]
    unresolved_sids: Annotated[list[int], "numbers that it cites and that no source has"]
    selected_model: Annotated[str, "the model that gave it"] = ""
    message: Annotated[
        str, "what there is to say of the end if the answer is what was there when it was stopped or cut"
    ] = ""


class TurnFailed(EventData):
    """The turn's end without an answer."""

    EVENT = "chat.error"
    ROUTE = "chat_error"

    code: Annotated[str, "stable, see [errors](errors.md)"]
    error: Annotated[str, "what to tell the user"]
    retryable: Annotated[bool, "whether the same message, sent again under a new id, may be answered"]
    error_type: Annotated[ErrorType, "set for `execution_lost` and for `step_timeout`"] = ""
    retry_after_s: Annotated[int, "the wait that the model's provider asked for last"] = 0


class NamedFile(Value):
    """A file by the name that its user gave it."""

    filename: Annotated[str, "its own name"]
    mime: Annotated[str, "its type"]
    size_bytes: Annotated[int, "its size"]


class AttachedFile(NamedFile):
    """A file attached to an event."""

    path: Annotated[
        str, "its logical path: `fi:…`; left out while its event waits for a turn, or opens one with others"
    ] = ""


class Accepted(EventData):
    """A message or another event was recorded in the log."""

    EVENT = "chat.conversation.accepted"
    ROUTE = "chat_step"

    message_id: Annotated[str, "the client's own id of it"]
    kind: Annotated[
        str, "`prompt` for what was said to begin a turn, `followup`, `steer`, or an event's own kind"
    ]
    text: Annotated[str, "what was said; of a steer, nothing for a stop"]
    chars: Annotated[int, "its length"]
    source: Annotated[str, "the service that sent it for the user"] = ""
    attachments: Annotated[list[AttachedFile], "the files that came with it"] = []  # noqa: RUF012 - of a frozen value, copied by msgspec


class ContinuationAccepted(EventData):
    """A message came while a turn is open: it waits, and opens no turn of its own now."""

    EVENT = "queue.continuation.accepted"
    ROUTE = "chat_service"

    message_id: Annotated[str, "the client's own id of it"]
    message_kind: Annotated[str, "`followup`, `steer`, or an event's own kind"]
    active_turn_id: Annotated[str, "the open turn"]
    n: Annotated[int, "the message's event number"]


class MessageDropped(EventData):
    """A message was dropped: it is handed back, and can be sent again."""

    EVENT = "chat.step"
    ROUTE = "chat_step"
    STEP = "dropped"

    n: Annotated[int, "the event number of the message"]
    reason: Annotated[
        str,
        "`nothing_to_steer`: no turn is open; `turn_closed`: the answer was there before the steer; "
        "`stopped`: the turn was stopped before the model saw it",
    ]
    message_id: Annotated[str, "the client's own id of it"] = ""
    kind: Annotated[str, "its kind"] = ""


class SteerHeeded(EventData):
    """The user steered, and the turn heeds it: the work under way is cut off."""

    EVENT = "timeline.external.steer.interrupted"
    ROUTE = "chat_service"

    turn_id: Annotated[str, "the open turn"]
    sequence: Annotated[int, "the event number of the steer"]
    message_id: Annotated[str, "the client's own id of it"]
    text: Annotated[str, "what was said; empty for a stop"]
    checkpoint: Annotated[int, "the round, from 0"]
    cancelled_phase: Annotated[str, "what was under way: `decision`, `tools`, or nothing"]
    finalize_rounds: Annotated[int, "rounds left to come to an end; 0 for a stop"]


ToolFamily: TypeAlias = Literal["react", "external"]


class ToolName(Value):
    """A tool that a decision calls."""

    tool_id: Annotated[str, "its name"]
    call_id: Annotated[str, "this call's"]


class BundleItem(Value):
    """One action of a decision with several."""

    action: Annotated[str, "`call_tool`, `complete` or `exit`"]
    tool_id: Annotated[str, "of a call"] = ""
    call_id: Annotated[str, "of a call"] = ""


class TimedThought(Value):
    """A thinking of the model before a decision."""

    text: Annotated[str, "as it was written, without blanks around it"]
    began_ms: Annotated[int, "when it began, after `started_at`; 0 if that was not measured"] = 0
    ended_ms: Annotated[int, "when it ended"] = 0


class RoundUsage(Value):
    """Tokens of all model calls for one decision."""

    input_tokens: Annotated[int, "neither read from nor written to a cache"]
    cache_read_tokens: Annotated[int, "read from a cache"]
    cache_write_5m_tokens: Annotated[int, "written to the cache of five minutes"]
    cache_write_1h_tokens: Annotated[int, "written to the cache of an hour"]
    output_tokens: Annotated[int, "written by the model"]
    estimated: Annotated[bool, "a call was cut off before the provider counted it"] = False


class DecisionMade(EventData):
    """The model decided; settles the delta stream `claim`."""

    EVENT = "solver.react.decision"
    ROUTE = "chat_step"

    claim: Annotated[int, "the stream in which it was written"]
    iteration: Annotated[int, "the round, from 0"]
    action: Annotated[str, "`call_tool`, `complete` or `exit`"]
    accepted: Annotated[
        bool, "false if it broke the protocol, and another round follows, if it was cut off, or declined"
    ]
    notes: Annotated[str, "its progress lines, with links for what they cite"]
    tools: Annotated[list[ToolName], "in the order in which they run"]
    interrupted: Annotated[bool, "it was cut off on purpose"]
    started_at: Annotated[str, "when the model was asked"]
    rendered: Annotated[int, "number of the newest batch that the model had seen: every message up to it"]
    bundle_size: Annotated[int, "how many actions it has, if several"] = 0
    bundle: Annotated[list[BundleItem], "one each, if several"] = []  # noqa: RUF012 - of a frozen value, copied by msgspec
    declined: Annotated[
        bool, "the model declined: its fallback is asked in the next round, or the turn ends"
    ] = False
    rounds_left: Annotated[int | None, "rounds that the turn has behind this one"] = None
    model: Annotated[str, "the model that decided"] = ""
    thinking: Annotated[list[TimedThought], "what it thought first, a text each"] = []  # noqa: RUF012 - of a frozen value, copied by msgspec
    usage: Annotated[RoundUsage | None, "what it cost"] = None
    answer: Annotated[str, "if it was cut off: the part of its answer that was shown, with links"] = ""


class CallStarted(EventData):
    """An accepted action is about to run."""

    EVENT = "react.tool.call"
    ROUTE = "chat_service"

    tool_id: Annotated[str, "its name"]
    call_id: Annotated[str, "the same in everything about this call"]
    iteration: Annotated[int, "the round, from 0"]
    params: Annotated[
        dict[str, Any],
        "strings up to 120 characters; longer ones and bodies as `{chars}`, nested ones as `{items}`",
    ]
    tool_family: Annotated[ToolFamily, "`react` for tools of the runtime itself"]
    phase: Annotated[Literal["started"], "of the call"]
    executed: Annotated[bool, "false: not yet"]


class CallEnded(EventData):
    """An action ended."""

    EVENT = "react.tool.result"
    ROUTE = "chat_service"

    tool_id: Annotated[str, "its name"]
    call_id: Annotated[str, "the call's"]
    iteration: Annotated[int, "the round, from 0"]
    status: Annotated[
        Literal["ok", "error", "unverified"], "`unverified`: it may have happened; nobody runs it again"
    ]
    duration_ms: Annotated[int, "how long it took"]
    paths: Annotated[list[str], "logical paths of what it produced"]
    preview: Annotated[str, "up to 600 characters of it that the user may see"]
    tool_family: Annotated[ToolFamily, "as above"]
    phase: Annotated[Literal["completed"], "of the call"]
    executed: Annotated[
        bool | None,
        "false if the call was refused, left out for a steer, or its program lost or cancelled, before it "
        "began; null if nobody knows",
    ]
    code: Annotated[str, "why it failed"] = ""


class CallRejected(EventData):
    """A decision broke the protocol, or one action of several was not run."""

    EVENT = "react.tool.rejected"
    ROUTE = "chat_service"

    iteration: Annotated[int, "the round, from 0"]
    code: Annotated[str, "why; see [channels](channels.md)"]
    phase: Annotated[Literal["rejected"], "of the call"]
    executed: Annotated[bool, "always false"]
    action_index: Annotated[int, "which of several actions, from 1; the others run"] = 0
    tool_id: Annotated[str, "the tool it would have called, if that is known"] = ""
    parent_tool_call_id: Annotated[str, "the call it would have been"] = ""


class Noticed(EventData):
    """The runtime corrected an accepted decision."""

    EVENT = "react.notice"
    ROUTE = "chat_service"

    iteration: Annotated[int, "the round, from 0"]
    code: Annotated[str, "what; see [channels](channels.md)"]


class ToolReported(EventData):
    """A tool, or a hook of the bundle, emitted an event while it ran."""

    EVENT = "react.tool.event"
    ROUTE = "chat_service"

    tool_id: Annotated[str, "its name"]
    call_id: Annotated[str, "the call's; a hook's name again"]
    type: Annotated[str, "the tool's own word"]
    data: Annotated[dict[str, Any], "the tool's own"]


class SearchFiltered(EventData):
    """A search kept these results."""

    EVENT = "web_search.filtered_results"
    ROUTE = "chat_step"

    search_id: Annotated[str, "the search's"]
    objective: Annotated[str, "what it was for"]
    queries: Annotated[list[str], "what was asked"]
    results: Annotated[list[dict[str, Any]], "a source each, the best first"]
    tool_id: Annotated[str, "the tool's"]
    call_id: Annotated[str, "the call's"]


class SearchView(EventData):
    """The same results as HTML, for clients that show it as it is."""

    EVENT = "web_search.html_view"
    ROUTE = "chat_step"

    search_id: Annotated[str, "the search's"]
    html: Annotated[str, "a section with a list of links; nothing in it comes from a page unescaped"]
    tool_id: Annotated[str, "the tool's"]
    call_id: Annotated[str, "the call's"]


class PagesFetched(EventData):
    """Pages were fetched, or not."""

    EVENT = "web_fetch.results"
    ROUTE = "chat_step"

    execution_id: Annotated[str, "the call's"]
    objective: Annotated[str, "what they were for"]
    urls: Annotated[list[str], "the addresses that were asked for"]
    results: Annotated[
        list[dict[str, Any]], "a row for each: a source with the status `success`, or a status and an error"
    ]
    tool_id: Annotated[str, "the tool's"]
    call_id: Annotated[str, "the call's"]


class ProgramText(EventData):
    """A program is about to run."""

    ROUTE = "chat_step"

    execution_id: Annotated[str, "the call's, in everything about this run"]
    text: Annotated[str, "as it is"]


class ProgramObjective(ProgramText):
    """A program is about to run: its objective."""

    EVENT = "code_exec.objective"


class ProgramName(ProgramText):
    """A program is about to run: its name."""

    EVENT = "code_exec.program.name"


class ProgramCode(ProgramText):
    """A program is about to run: its source."""

    EVENT = "code_exec.code"

    language: Annotated[str, "`python`"]


class PromisedFile(Value):
    """A file that a program promises."""

    filename: Annotated[str, "as the model wrote it"] = ""
    description: Annotated[str, "what it holds"] = ""
    visibility: Annotated[str, "`internal` if it is not for the user"] = ""


class ProgramContract(EventData):
    """A program is about to run: the files it promises."""

    EVENT = "code_exec.contract"
    ROUTE = "chat_step"

    execution_id: Annotated[str, "the call's"]
    contract: Annotated[list[PromisedFile], "a file each"]


class ProgramLog(ProgramText):
    """A program that printed something has ended: the end of its output."""

    EVENT = "code_exec.log"

    log_bytes: Annotated[int, "the size of all of it"]


class ErrorCode(Value):
    """The code of a failure."""

    code: Annotated[str, "see [execution](execution.md#errors)"]


class ProgramTimings(Value):
    """Durations of a program."""

    codegen: Annotated[int | None, "how long the model wrote it, in ms: with `gen`"] = None
    exec: Annotated[int | None, "its run, in ms: with `done` and `error`"] = None
    start: Annotated[int | None, "from its launch until it ran, in ms: with `done` and `error`"] = None
    collect: Annotated[int | None, "from the end of its run to now, in ms: with `done` and `error`"] = None


class ProgramStatus(EventData):
    """A program was written, started, or its run ended."""

    EVENT = "code_exec.status"
    ROUTE = "chat_step"

    execution_id: Annotated[str, "the call's"]
    status: Annotated[Literal["gen", "exec", "done", "error"], "how it stands"]
    deadline: Annotated[str, "at the start: when it ends at the latest"] = ""
    timings: Annotated[ProgramTimings | None, "of what is over"] = None
    error: Annotated[ErrorCode | None, "if it failed"] = None


class ApprovalAsked(EventData):
    """The turn waits for a person: it is not known yet whether this call runs. Nothing runs meanwhile."""

    EVENT = "approval.requested"
    ROUTE = "chat_step"

    call_id: Annotated[str, "the call's; an [answer](messages.md#approve) names it"]
    tool_id: Annotated[str, "its tool"]
    iteration: Annotated[int, "the round, from 0"]
    params: Annotated[dict[str, Any], "as the call will run with them; `ref:<path>` stands for a content"]
    rule: Annotated[Literal["always", "never", "first_use"], "why a person is asked"]
    editable: Annotated[bool, "whether the parameters may be edited; those of a program may not"]
    code: Annotated[str, "the program, if the call runs one"] = ""
    until: Annotated[str, "when an answer comes too late; left out if never"] = ""


class ApprovalSettled(EventData):
    """A request for an approval is settled, and the turn goes on."""

    EVENT = "approval.answered"
    ROUTE = "chat_step"

    call_id: Annotated[str, "the call that was asked about"]
    tool_id: Annotated[str, "its tool"]
    verdict: Annotated[
        Literal["approved", "edited", "denied", "expired", "withdrawn"],
        "the answer; `expired`: it came too late; `withdrawn`: a steer or a stop came instead",
    ]
    text: Annotated[str, "the words of a denial"] = ""
    edited_call_id: Annotated[str, "the call that runs instead of an edited one"] = ""
    params: Annotated[dict[str, Any], "its parameters"] = msgspec.field(default_factory=dict)


class PlanShown(EventData):
    """A plan changed."""

    EVENT = "react.plan"
    ROUTE = "chat_step"

    plan_id: Annotated[str, "the same in every version of it"]
    steps: Annotated[list[str], "in order"]
    status: Annotated[dict[str, str], "by step number, from 1: `pending`, `in_progress`, `done` or `failed`"]
    current: Annotated[bool, "whether it is the one to follow"]
    open: Annotated[bool, "whether it still asks for work"]


class OfferedFile(Value):
    """A file for the user."""

    logical_path: Annotated[str, "its place in the conversation"]
    filename: Annotated[str, "the last part of it"]
    mime: Annotated[str, "its type"]
    size_bytes: Annotated[int, "its size"]
    sha256: Annotated[str, "of its bytes"]
    call_id: Annotated[str, "the call that wrote it"]
    rn: Annotated[str, "its resource name"] = ""


class FilesOffered(EventData):
    """An action wrote files for the user."""

    EVENT = "chat.files"
    ROUTE = "chat_step"

    count: Annotated[int, "how many"]
    items: Annotated[list[OfferedFile], "a file each"]


class UploadedFile(NamedFile):
    """A file that was uploaded: what a message says to attach it."""

    sha256: Annotated[str, "of its bytes"]


class UploadTaken(EventData):
    """An uploaded file may be attached. A [notice](messages.md#notice): it has no number and is not replayed."""

    EVENT = "chat.attachments"
    ROUTE = "chat_service"
    STEP = "attachments"

    upload: Annotated[str, "the slot it was posted to"]
    count: Annotated[int, "how many"]
    items: Annotated[list[UploadedFile], "a file each"]


class UploadRefused(EventData):
    """An uploaded file was refused; the turn goes on. A [notice](messages.md#notice): it has no number and is not replayed."""

    EVENT = "rate_limit.attachment_failure"
    ROUTE = "chat_service"
    STEP = "rate_limit"

    upload: Annotated[str, "the slot it was posted to"]
    reason: Annotated[str, "the code ([errors](errors.md#uploads))"]
    message: Annotated[str, "a sentence for people"]
    filename: Annotated[str, "its own name"]
    mime: Annotated[str, "its stated type"]
    size_bytes: Annotated[int, "its stated size"]
    show_in_timeline: Annotated[bool, "always true"]
    reasons: Annotated[list[str], "codes of the rules that refuse it, for `preflight_rejected`"] = []  # noqa: RUF012 - of a frozen value, copied by msgspec


class CompactionReported(EventData):
    """The conversation outgrew its budget, and a compaction of its older parts begins or has ended.

    One without a model call has an end only.
    """

    EVENT = "chat.compaction"
    ROUTE = "chat_compaction"
    STEP = "context.compaction"

    compaction_id: Annotated[str, "the same when it begins and when it ends"]
    title: Annotated[str, "what to call it"]
    kind: Annotated[
        str,
        "what is summed up: `history` (turns), `current_turn_prefix` (earlier rounds of this turn) "
        "or `history_with_split_turn` (both)",
    ]
    trigger_reason: Annotated[
        str, "`render_token_limit`: by our estimate; `forced`: the provider found the request too large"
    ]
    before_tokens: Annotated[int, "of the request, estimated"]
    max_tokens: Annotated[int, "what a request may have"]
    force: Annotated[bool, "whether the provider asked for it"] = False
    after_tokens: Annotated[int, "of the request, estimated"] = 0
    compacted_tokens: Annotated[int, "how many fewer that is"] = 0
    input_tokens: Annotated[int, "what the model read for its summaries"] = 0
    output_tokens: Annotated[int, "what it wrote"] = 0
    reason: Annotated[str, "why nothing changed, or why the words are the runtime's and no model's"] = ""
    covered_turns: Annotated[int, "how many turns the summary covers, those of an older one too"] = 0
    covered_turn_ids: Annotated[list[str], "the turns among them that no older summary covered, in order"] = (
        msgspec.field(default_factory=list)
    )
    split_turn_id: Annotated[str, "the turn whose earlier rounds a checkpoint covers"] = ""


Model: TypeAlias = type[EventData]


class FeedbackGiven(EventData):
    """Somebody rates a turn that has ended, or takes that back: the newest event of a turn and an origin counts.

    It comes whenever it is given, also between events of a later turn; `turn_id` of the event is the rated turn.
    """

    EVENT = "turn.feedback"
    ROUTE = "chat_service"

    origin: Annotated[Origin, "`user`, or `machine` for a check of the bundle or of another service"]
    reaction: Annotated[Reaction | None, "null for a mere text, and for what is withdrawn"]
    text: Annotated[str, "up to 1,000 characters"] = ""
    confidence: Annotated[float | None, "of a machine, 0.7 to 1"] = None
    withdrawn: Annotated[bool, "the origin's feedback of this turn no longer counts"] = False


class EventType(NamedTuple):
    """One row: an event's type and step, its route, its cause, and its data."""

    type: str
    route: str
    step: str
    cause: str
    model: Model


MODELS: Final[tuple[Model, ...]] = (
    ConversationStatus,
    UploadTaken,
    UploadRefused,
    Accepted,
    TitleGiven,
    ContinuationAccepted,
    TurnStarted,
    TurnQueued,
    TurnBegun,
    DecisionMade,
    CallStarted,
    CallRejected,
    Noticed,
    CacheBust,
    RoundRestarted,
    RoundWaiting,
    CompactionReported,
    ApprovalAsked,
    ApprovalSettled,
    CallEnded,
    ToolReported,
    SearchFiltered,
    SearchView,
    PagesFetched,
    ProgramObjective,
    ProgramName,
    ProgramCode,
    ProgramContract,
    ProgramLog,
    ProgramStatus,
    PlanShown,
    FilesOffered,
    AnswerDeferred,
    SteerHeeded,
    MessageDropped,
    Citations,
    Followups,
    TurnCompleted,
    TurnSummary,
    TurnUsage,
    TurnAnswered,
    TurnFailed,
    FeedbackGiven,
)
"""In the order in which they occur in a turn."""

EVENT_TABLE: Final = tuple(
    EventType(model.EVENT, model.ROUTE, model.STEP, " ".join((model.__doc__ or "").split()), model)
    for model in MODELS
)
EVENT_ROUTES: Final[Mapping[str, str]] = {row.type: row.route for row in EVENT_TABLE}

TERMINAL: Final = frozenset({TurnAnswered.EVENT, TurnFailed.EVENT})
