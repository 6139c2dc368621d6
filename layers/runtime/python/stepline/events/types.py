"""The types of client events and their data: one table for routes, the filter and the reference page.

A class is a type of event: its docstring says when a client gets it, its fields describe the data. A field
without a default is always present; one with a default is left out if it is empty. The payload of an inbound
event is never included: only its sender and the agent see it.
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

    Nothing follows `deleted`: the conversation is no longer in any list, and answers every request with `conversation_deleted`.
    """

    EVENT = "conv.status"
    ROUTE = "conv_status"

    state: Annotated[Literal["created", "in_progress", "idle", "error", "deleted"], "its current state"]
    updated_at: Annotated[str, "the time of the change"]
    current_turn_id: Annotated[str, "the open turn; if a turn ended without a next one, the ended turn"] = ""
    completion: Annotated[
        TurnCompletion,
        "how the turn ended; `queued_next`: successfully, and messages that arrived meanwhile open the next one "
        "immediately; `interrupted`: its execution was lost too often",
    ] = ""
    waits_for: Annotated[
        Literal["", "approval"],
        "`approval` if the open turn waits for a person who allows a call; left out otherwise",
    ] = ""


class TurnStarted(EventData):
    """A turn begins."""

    EVENT = "chat.start"
    ROUTE = "chat_start"

    turn_id: Annotated[str, "its name"]
    prompts: Annotated[list[int], "numbers of the events that opened it"]
    rounds: Annotated[int, "maximum rounds of the turn; events that arrive during the turn may add some"] = 0
    max_tokens: Annotated[int, "maximum tokens of a request of the turn"] = 0


class TurnQueued(EventData):
    """The turn is queued: the stage already runs its maximum number of turns. Nothing has to be sent again.

    A `sync` and a `pong` report its current position.
    """

    EVENT = "turn.queued"
    ROUTE = "chat_step"

    place: Annotated[int, "its position in the queue: 1 is the next"]


class TurnBegun(EventData):
    """The turn leaves the queue: it begins, or continues with the answer that it waited for."""

    EVENT = "turn.begun"
    ROUTE = "chat_step"

    waited_ms: Annotated[int, "the time that it waited"]


class RoundRestarted(EventData):
    """Another attempt takes the round: drop the text that was streamed under an older claim."""

    EVENT = "round.restarted"
    ROUTE = "chat_step"

    claim: Annotated[int, "the stream of the new attempt"]
    iteration: Annotated[int, "the round, from 0"]
    attempt: Annotated[int, "the number of retries"]


class RoundWaiting(EventData):
    """The model's provider is busy: the round continues after a wait, and nothing has to be sent again."""

    EVENT = "round.waiting"
    ROUTE = "chat_step"

    iteration: Annotated[int, "the round, from 0"]
    code: Annotated[str, "`model_overloaded` or `model_rate_limited`"]
    message: Annotated[str, "a sentence for the user"]
    until: Annotated[str, "when the round continues"]
    attempt: Annotated[int, "the number of the attempt that follows, from 2"] = 0
    attempts: Annotated[int, "the maximum number of attempts"] = 0


class AnswerDeferred(EventData):
    """An answer was not the final one: an event arrived that the model had not seen."""

    EVENT = "chat.step"
    ROUTE = "chat_step"
    STEP = "deferred"

    iteration: Annotated[int, "the round of the answer"]
    answer: Annotated[str, "the answer so far, with links for its citations"]


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

    count: Annotated[int, "number of items"]
    items: Annotated[list[CitedSource], "the sources, in the order of their numbers"]


class PooledSource(Value):
    """A source of the pool."""

    sid: Annotated[int, "its number in the conversation, which never changes"]
    title: Annotated[str, "may be empty"]
    url: Annotated[str, "http or https; left out for a document, a picture or a manual row"] = ""
    path: Annotated[str, "of a document or a picture; left out for a page"] = ""
    source_type: Annotated[str, "`file`, `attachment` or `manual`; left out for a page"] = "web"


class SourcesChanged(EventData):
    """A result added sources to the conversation's pool, or changed rows of it."""

    EVENT = "chat.sources"
    ROUTE = "chat_step"

    tool_id: Annotated[str, "the tool of the result"]
    call_id: Annotated[str, "the id of the call"]
    count: Annotated[int, "number of items"]
    items: Annotated[list[PooledSource], "the new and the changed rows, in the order of their numbers"]


class Followups(EventData):
    """The answer or a tool suggests next messages."""

    EVENT = "chat.followups"
    ROUTE = "chat_step"

    items: Annotated[list[str], "short actions, as a user would say them"]


class TurnCompleted(EventData):
    """A turn ends, with or without success."""

    EVENT = "chat.conversation.turn.completed"
    ROUTE = "chat_step"

    elapsed_ms: Annotated[int, "from its beginning to its end; 0 if that was not measured"]
    produced_file_count: Annotated[int, "files offered to the user, each time they are written"]
    citation_count: Annotated[int, "items of `chat.citations`"]


class TurnSummary(EventData):
    """A turn ends: its time, by part."""

    EVENT = "chat.turn.summary"
    ROUTE = "chat_step"

    markdown: Annotated[str, "the same as a Markdown table for display"]
    rounds: Annotated[int, "decisions of the model, including refused and interrupted ones"]
    elapsed_ms: Annotated[int, "as above; the parts below add up to it"]
    model_ms: Annotated[int, "in the model's decisions"]
    tools_ms: Annotated[int, "in tools, and in programs while they ran"]
    starting_ms: Annotated[int, "before programs ran: preparing their sandbox and their files"] = 0
    collecting_ms: Annotated[int, "after programs ran: collecting their output, and ending them"] = 0
    preparing_ms: Annotated[int, "for titles, summaries and hooks"] = 0
    waiting_ms: Annotated[int, "in waits for the model's provider"] = 0
    between_ms: Annotated[int, "between all of these, from one step to the next"] = 0


class UsageLine(Value, omit_defaults=False):
    """All calls of one model in one role."""

    role: Annotated[
        str, "the purpose of the calls, such as `solver.react.v2.decision.v2.regular` or `gate.simple`"
    ]
    model: Annotated[str, "the model that answered"]
    calls: Annotated[int, "number of calls, including failed ones"]
    input_tokens: Annotated[int, "as above"]
    cache_read_tokens: Annotated[int, "as above"]
    cache_write_5m_tokens: Annotated[int, "as above"]
    cache_write_1h_tokens: Annotated[int, "as above"]
    output_tokens: Annotated[int, "as above"]
    estimated: Annotated[bool, "at least one call ended before the provider counted it"]
    usd: Annotated[float, "the cost in US dollars; 0 if the price of the model is not known"]
    priced: Annotated[bool, "the price of the model is known"]


class TurnUsage(EventData):
    """A turn that called the model ends: its usage."""

    EVENT = "accounting.usage"
    ROUTE = "chat_service"

    rounds: Annotated[int, "decisions of the model"]
    input_tokens: Annotated[int, "neither read from nor written to a cache"]
    cache_read_tokens: Annotated[int, "read from a cache"]
    cache_write_5m_tokens: Annotated[int, "written to the cache of five minutes"]
    cache_write_1h_tokens: Annotated[int, "written to the cache of an hour"]
    output_tokens: Annotated[int, "written by the model"]
    total_input_tokens: Annotated[int, "all input tokens, cached or not"]
    weighted_tokens: Annotated[
        int,
        "in tokens of plain input at the usual price ratios: cache reads count 0.1, writes 1.25 and 2, "
        "output 5",
    ]
    model: Annotated[str, "the model of the last answer"] = ""
    estimated: Annotated[bool, "a call was interrupted before the provider counted it"] = False
    lines: Annotated[list[UsageLine], "the calls by role and model"] = msgspec.field(default_factory=list)
    usd: Annotated[float, "the cost in US dollars of the calls whose price is known"] = 0.0
    priced: Annotated[bool, "`usd` is the cost of all calls"] = False


class CacheBust(EventData):
    """A request read less from the model's cache than the previous request left there, and so cost more."""

    EVENT = "accounting.cache_bust"
    ROUTE = "chat_service"

    iteration: Annotated[int, "the round, from 0"]
    reason: Annotated[
        BustReason,
        "the change before the newest text: the instructions, the tools of MCP servers, the model, a block that the agent hid, "
        "older turns that were shortened or summarised, feedback; or `provider`, if the request did not change",
    ]
    expected_tokens: Annotated[int, "tokens that the cache held"]
    read_tokens: Annotated[int, "tokens that were read"]


class TurnAnswered(EventData):
    """The turn ends with the recorded answer, which replaces streamed text."""

    EVENT = "chat.complete"
    ROUTE = "chat_complete"

    final_answer: Annotated[str, "Markdown, with links for its citations"]
    answer: Annotated[str, "the same"]
    followups: Annotated[list[str], "as in `chat.followups`"]
    suggested_followups: Annotated[list[str], "the same"]
    reason: Annotated[
        str,
        "`complete`; `exit`, without a claim of success; `token_limit`, the shown part of an answer that was cut at "
        "the model's output limit; `max_iterations`, a status because the rounds are used up; `violations`, a status "
        "because the model broke the protocol too often; `steer`, the user asked for an end; `stop`, the user stopped the turn",
    ]
    used_sources: Annotated[list[int], "numbers of the cited sources"]
    unresolved_sids: Annotated[list[int], "cited numbers that have no source"]
    selected_model: Annotated[str, "the model that wrote it"] = ""
    message: Annotated[
        str, "the reason of the end, if the answer is the partial answer of a stopped or cut turn"
    ] = ""
    value: Annotated[
        Any, "the JSON value of an agent with a [result type](../how-to/write-a-bundle.md#a-result-type)"
    ] = None


class TurnFailed(EventData):
    """The turn ends without an answer."""

    EVENT = "chat.error"
    ROUTE = "chat_error"

    code: Annotated[str, "stable, see [errors](errors.md)"]
    error: Annotated[str, "a sentence for the user"]
    retryable: Annotated[bool, "true if the same message may succeed when it is sent again under a new id"]
    error_type: Annotated[ErrorType, "set for `execution_lost` and for `step_timeout`"] = ""
    retry_after_s: Annotated[int, "the wait that the model's provider requested last"] = 0


class NamedFile(Value):
    """A file with the name that the user gave it."""

    filename: Annotated[str, "its name"]
    mime: Annotated[str, "its type"]
    size_bytes: Annotated[int, "its size"]


class AttachedFile(NamedFile):
    """A file attached to an event."""

    path: Annotated[
        str,
        "its logical path: `fi:…`; left out while its event waits for a turn, or if the event opens one with others",
    ] = ""


class Accepted(EventData):
    """A message or another event was recorded in the log."""

    EVENT = "chat.conversation.accepted"
    ROUTE = "chat_step"

    message_id: Annotated[str, "its id, set by the client"]
    kind: Annotated[
        str, "`prompt` for a message that begins a turn, `followup`, `steer`, or the kind of another event"
    ]
    text: Annotated[str, "its text; empty for a stop"]
    chars: Annotated[int, "its length"]
    source: Annotated[str, "the service that sent it for the user"] = ""
    attachments: Annotated[list[AttachedFile], "its files"] = []  # noqa: RUF012 - of a frozen value, copied by msgspec


class ContinuationAccepted(EventData):
    """A message arrived while a turn is open: it waits, and does not open a separate turn now."""

    EVENT = "queue.continuation.accepted"
    ROUTE = "chat_service"

    message_id: Annotated[str, "its id, set by the client"]
    message_kind: Annotated[str, "`followup`, `steer`, or the kind of another event"]
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
        "`nothing_to_steer`: no turn is open; `turn_closed`: the answer was recorded before the steer; "
        "`stopped`: the turn was stopped before the model saw it",
    ]
    message_id: Annotated[str, "its id, set by the client"] = ""
    kind: Annotated[str, "its kind"] = ""


class SteerHeeded(EventData):
    """The user steered, and the turn applies the steer: the current work is interrupted."""

    EVENT = "timeline.external.steer.interrupted"
    ROUTE = "chat_service"

    turn_id: Annotated[str, "the open turn"]
    sequence: Annotated[int, "the event number of the steer"]
    message_id: Annotated[str, "its id, set by the client"]
    text: Annotated[str, "its text; empty for a stop"]
    checkpoint: Annotated[int, "the round, from 0"]
    cancelled_phase: Annotated[str, "the interrupted work: `decision`, `tools`, or empty"]
    finalize_rounds: Annotated[int, "rounds left to finish; 0 for a stop"]


ToolFamily: TypeAlias = Literal["react", "external"]


class ToolName(Value):
    """A tool that a decision calls."""

    tool_id: Annotated[str, "its name"]
    call_id: Annotated[str, "the id of this call"]


class BundleItem(Value):
    """One action of a decision with several."""

    action: Annotated[str, "`call_tool`, `complete` or `exit`"]
    tool_id: Annotated[str, "of a call"] = ""
    call_id: Annotated[str, "of a call"] = ""


class TimedThought(Value):
    """A thought of the model before a decision."""

    text: Annotated[str, "its text, without surrounding whitespace"]
    began_ms: Annotated[int, "its beginning, counted from `started_at`; 0 if that was not measured"] = 0
    ended_ms: Annotated[int, "its end"] = 0


class RoundUsage(Value):
    """Tokens of all model calls for one decision."""

    input_tokens: Annotated[int, "neither read from nor written to a cache"]
    cache_read_tokens: Annotated[int, "read from a cache"]
    cache_write_5m_tokens: Annotated[int, "written to the cache of five minutes"]
    cache_write_1h_tokens: Annotated[int, "written to the cache of an hour"]
    output_tokens: Annotated[int, "written by the model"]
    estimated: Annotated[bool, "a call was interrupted before the provider counted it"] = False


class DecisionMade(EventData):
    """The model decided; this settles the delta stream `claim`."""

    EVENT = "solver.react.decision"
    ROUTE = "chat_step"

    claim: Annotated[int, "its delta stream"]
    iteration: Annotated[int, "the round, from 0"]
    action: Annotated[str, "`call_tool`, `complete` or `exit`"]
    accepted: Annotated[
        bool,
        "false if it broke the protocol, was interrupted or declined; another round follows a broken protocol",
    ]
    notes: Annotated[str, "its progress lines, with links for their citations"]
    tools: Annotated[list[ToolName], "in the order in which they run"]
    interrupted: Annotated[bool, "it was interrupted on purpose"]
    started_at: Annotated[str, "when the model was called"]
    rendered: Annotated[
        int, "number of the newest batch that the model had seen; it has seen every message up to this batch"
    ]
    bundle_size: Annotated[int, "number of its actions, if there are several"] = 0
    bundle: Annotated[list[BundleItem], "its actions, if there are several"] = []  # noqa: RUF012 - of a frozen value, copied by msgspec
    declined: Annotated[
        bool, "the model declined: its fallback is called in the next round, or the turn ends"
    ] = False
    rounds_left: Annotated[int | None, "rounds that the turn has after this one"] = None
    model: Annotated[str, "the model that decided"] = ""
    thinking: Annotated[list[TimedThought], "its thinking blocks"] = []  # noqa: RUF012 - of a frozen value, copied by msgspec
    usage: Annotated[RoundUsage | None, "its usage"] = None
    answer: Annotated[str, "if it was interrupted: the part of its answer that was shown, with links"] = ""


class CallStarted(EventData):
    """An accepted action is about to run."""

    EVENT = "react.tool.call"
    ROUTE = "chat_service"

    tool_id: Annotated[str, "its name"]
    call_id: Annotated[str, "the same in all events of this call"]
    iteration: Annotated[int, "the round, from 0"]
    params: Annotated[
        dict[str, Any],
        "strings up to 120 characters; longer ones and bodies as `{chars}`, nested values as `{items}`",
    ]
    tool_family: Annotated[ToolFamily, "`react` for tools of the runtime"]
    phase: Annotated[Literal["started"], "phase of the call"]
    executed: Annotated[bool, "false: not yet"]


class CallEnded(EventData):
    """An action ended."""

    EVENT = "react.tool.result"
    ROUTE = "chat_service"

    tool_id: Annotated[str, "its name"]
    call_id: Annotated[str, "the id of the call"]
    iteration: Annotated[int, "the round, from 0"]
    status: Annotated[
        Literal["ok", "error", "unverified"], "`unverified`: it may have happened; it is not run again"
    ]
    duration_ms: Annotated[int, "its duration"]
    paths: Annotated[list[str], "logical paths of its output"]
    preview: Annotated[str, "up to 600 characters of its output that the user may see"]
    tool_family: Annotated[ToolFamily, "as above"]
    phase: Annotated[Literal["completed"], "phase of the call"]
    executed: Annotated[
        bool | None,
        "false if the call was refused, left out for a steer, or its program lost or cancelled, before it "
        "began; null if that is unknown",
    ]
    code: Annotated[str, "why it failed"] = ""


class CallRejected(EventData):
    """A decision broke the protocol, or one action of several was not run."""

    EVENT = "react.tool.rejected"
    ROUTE = "chat_service"

    iteration: Annotated[int, "the round, from 0"]
    code: Annotated[str, "why; see [channels](channels.md)"]
    phase: Annotated[Literal["rejected"], "phase of the call"]
    executed: Annotated[bool, "always false"]
    action_index: Annotated[int, "the number of the action among several, from 1; the others run"] = 0
    tool_id: Annotated[str, "the tool that it would have called, if that is known"] = ""
    parent_tool_call_id: Annotated[str, "the id that the call would have had"] = ""


class Noticed(EventData):
    """The runtime corrected an accepted decision."""

    EVENT = "react.notice"
    ROUTE = "chat_service"

    iteration: Annotated[int, "the round, from 0"]
    code: Annotated[str, "the correction; see [channels](channels.md)"]


class ToolReported(EventData):
    """A tool, or a hook of the bundle, emitted an event while it ran."""

    EVENT = "react.tool.event"
    ROUTE = "chat_service"

    tool_id: Annotated[str, "its name"]
    call_id: Annotated[str, "the id of the call; the name again for a hook"]
    type: Annotated[str, "the type that the tool gave it"]
    data: Annotated[dict[str, Any], "the data that the tool gave it"]


class ToolProgress(EventData):
    """A tool reported how far it is. It is a report: on [a lane](#lanes) while the call runs, and in no batch."""

    EVENT = "react.tool.progress"
    ROUTE = "chat_service"

    tool_id: Annotated[str, "its name"]
    call_id: Annotated[str, "the id of the call"]
    done: Annotated[float, "how much is done"]
    total: Annotated[float, "of how much; 0 if that is unknown"] = 0
    text: Annotated[str, "what the tool does now, up to 200 characters"] = ""


class SearchFiltered(EventData):
    """A search kept these results."""

    EVENT = "web_search.filtered_results"
    ROUTE = "chat_step"

    search_id: Annotated[str, "the id of the search"]
    objective: Annotated[str, "its purpose"]
    queries: Annotated[list[str], "its queries"]
    results: Annotated[list[dict[str, Any]], "the sources, best first"]
    tool_id: Annotated[str, "the name of the tool"]
    call_id: Annotated[str, "the id of the call"]


class SearchView(EventData):
    """The same results as HTML, for clients that show it unchanged."""

    EVENT = "web_search.html_view"
    ROUTE = "chat_step"

    search_id: Annotated[str, "the id of the search"]
    html: Annotated[str, "a section with a list of links; all text of pages is escaped"]
    tool_id: Annotated[str, "the name of the tool"]
    call_id: Annotated[str, "the id of the call"]


class PagesFetched(EventData):
    """Pages were fetched, or could not be fetched."""

    EVENT = "web_fetch.results"
    ROUTE = "chat_step"

    execution_id: Annotated[str, "the id of the call"]
    objective: Annotated[str, "their purpose"]
    urls: Annotated[list[str], "the requested addresses"]
    results: Annotated[
        list[dict[str, Any]], "a row for each: a source with the status `success`, or a status and an error"
    ]
    tool_id: Annotated[str, "the name of the tool"]
    call_id: Annotated[str, "the id of the call"]


class ProgramText(EventData):
    """A program is about to run."""

    ROUTE = "chat_step"

    execution_id: Annotated[str, "the id of the call, the same in all events of this run"]
    text: Annotated[str, "the text, unchanged"]


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
    description: Annotated[str, "its content"] = ""
    visibility: Annotated[str, "`internal` if it is not for the user"] = ""


class ProgramContract(EventData):
    """A program is about to run: the files that it promises."""

    EVENT = "code_exec.contract"
    ROUTE = "chat_step"

    execution_id: Annotated[str, "the id of the call"]
    contract: Annotated[list[PromisedFile], "the files"]


class ProgramLog(ProgramText):
    """A program with output has ended: the end of its output."""

    EVENT = "code_exec.log"

    log_bytes: Annotated[int, "the size of the whole output"]


class ErrorCode(Value):
    """The code of a failure."""

    code: Annotated[str, "see [execution](execution.md#errors)"]


class ProgramTimings(Value):
    """Durations of a program."""

    codegen: Annotated[int | None, "the time in which the model wrote it, in ms: with `gen`"] = None
    exec: Annotated[int | None, "its run, in ms: with `done` and `error`"] = None
    start: Annotated[int | None, "from its launch until it ran, in ms: with `done` and `error`"] = None
    collect: Annotated[
        int | None, "from the end of its run to this event, in ms: with `done` and `error`"
    ] = None


class ProgramStatus(EventData):
    """A program was written, started, or its run ended."""

    EVENT = "code_exec.status"
    ROUTE = "chat_step"

    execution_id: Annotated[str, "the id of the call"]
    status: Annotated[Literal["gen", "exec", "done", "error"], "its state"]
    deadline: Annotated[str, "with `exec`: the time at which it ends at the latest"] = ""
    timings: Annotated[ProgramTimings | None, "durations of the finished parts"] = None
    error: Annotated[ErrorCode | None, "if it failed"] = None


class ApprovalAsked(EventData):
    """The turn waits for a person: it is not known yet whether this call runs. Nothing runs meanwhile."""

    EVENT = "approval.requested"
    ROUTE = "chat_step"

    call_id: Annotated[str, "the id of the call; an [answer](messages.md#approve) names it"]
    tool_id: Annotated[str, "its tool"]
    iteration: Annotated[int, "the round, from 0"]
    params: Annotated[dict[str, Any], "the parameters of the call; `ref:<path>` represents a content"]
    rule: Annotated[Literal["always", "never", "first_use"], "why a person is asked"]
    editable: Annotated[bool, "true if the parameters may be edited; those of a program may not"]
    code: Annotated[str, "the program, if the call runs one"] = ""
    until: Annotated[str, "the time from which an answer is too late; left out if there is no limit"] = ""


class ApprovalSettled(EventData):
    """A request for an approval is settled, and the turn continues."""

    EVENT = "approval.answered"
    ROUTE = "chat_step"

    call_id: Annotated[str, "the call that needed approval"]
    tool_id: Annotated[str, "its tool"]
    verdict: Annotated[
        Literal["approved", "edited", "denied", "expired", "withdrawn"],
        "the answer; `expired`: it was too late; `withdrawn`: a steer or a stop arrived instead",
    ]
    text: Annotated[str, "the reason of a denial"] = ""
    edited_call_id: Annotated[str, "the call that runs instead of an edited one"] = ""
    params: Annotated[dict[str, Any], "its parameters"] = msgspec.field(default_factory=dict)
    client: Annotated[str, "the application that answered, as the sender's token names it"] = ""


class PlanShown(EventData):
    """A plan changed."""

    EVENT = "react.plan"
    ROUTE = "chat_step"

    plan_id: Annotated[str, "the same in every version of the plan"]
    steps: Annotated[list[str], "in order"]
    status: Annotated[dict[str, str], "by step number, from 1: `pending`, `in_progress`, `done` or `failed`"]
    current: Annotated[bool, "true if it is the plan to follow"]
    open: Annotated[bool, "true if it has work left"]


class OfferedFile(Value):
    """A file for the user."""

    logical_path: Annotated[str, "its path in the conversation"]
    filename: Annotated[str, "the last part of the path"]
    mime: Annotated[str, "its type"]
    size_bytes: Annotated[int, "its size"]
    sha256: Annotated[str, "the SHA-256 of its bytes"]
    call_id: Annotated[str, "the call that wrote it"]
    rn: Annotated[str, "its resource name"] = ""


class FilesOffered(EventData):
    """An action wrote files for the user."""

    EVENT = "chat.files"
    ROUTE = "chat_step"

    count: Annotated[int, "number of items"]
    items: Annotated[list[OfferedFile], "the files"]


class UploadedFile(NamedFile):
    """An uploaded file, in the form in which a message attaches it."""

    sha256: Annotated[str, "the SHA-256 of its bytes"]


class UploadTaken(EventData):
    """An uploaded file may be attached. A [notice](messages.md#notice): it has no number and is not replayed."""

    EVENT = "chat.attachments"
    ROUTE = "chat_service"
    STEP = "attachments"

    upload: Annotated[str, "the slot that it was posted to"]
    count: Annotated[int, "number of items"]
    items: Annotated[list[UploadedFile], "the files"]


class UploadRefused(EventData):
    """An uploaded file was refused; the turn continues.

    A [notice](messages.md#notice): it has no number and is not replayed.
    """

    EVENT = "rate_limit.attachment_failure"
    ROUTE = "chat_service"
    STEP = "rate_limit"

    upload: Annotated[str, "the slot that it was posted to"]
    reason: Annotated[str, "the code ([errors](errors.md#uploads))"]
    message: Annotated[str, "a sentence for people"]
    filename: Annotated[str, "its name"]
    mime: Annotated[str, "its stated type"]
    size_bytes: Annotated[int, "its stated size"]
    show_in_timeline: Annotated[bool, "always true"]
    reasons: Annotated[list[str], "codes of the rules that refused it, for `preflight_rejected`"] = []  # noqa: RUF012 - of a frozen value, copied by msgspec


class CompactionReported(EventData):
    """The conversation outgrew its budget, and a compaction of its older parts begins or has ended.

    A compaction without a model call has only an end.
    """

    EVENT = "chat.compaction"
    ROUTE = "chat_compaction"
    STEP = "context.compaction"

    compaction_id: Annotated[str, "the same at its beginning and at its end"]
    title: Annotated[str, "a title for display"]
    kind: Annotated[
        str,
        "the summarised part: `history` (turns), `current_turn_prefix` (earlier rounds of this turn) "
        "or `history_with_split_turn` (both)",
    ]
    trigger_reason: Annotated[
        str, "`render_token_limit`: by our estimate; `forced`: the provider found the request too large"
    ]
    before_tokens: Annotated[int, "of the request, estimated"]
    max_tokens: Annotated[int, "maximum tokens of a request"]
    force: Annotated[bool, "true if the provider refused the request"] = False
    after_tokens: Annotated[int, "of the request, estimated"] = 0
    compacted_tokens: Annotated[int, "the difference of both"] = 0
    input_tokens: Annotated[int, "tokens that the model read for its summaries"] = 0
    output_tokens: Annotated[int, "tokens that it wrote"] = 0
    reason: Annotated[str, "why nothing changed, or why the text is by the runtime instead of a model"] = ""
    covered_turns: Annotated[
        int, "number of turns that the summary covers, including those of an older summary"
    ] = 0
    covered_turn_ids: Annotated[list[str], "those of these turns that no older summary covered, in order"] = (
        msgspec.field(default_factory=list)
    )
    split_turn_id: Annotated[str, "the turn whose earlier rounds a checkpoint covers"] = ""


Model: TypeAlias = type[EventData]


class FeedbackGiven(EventData):
    """A user or a check rates a turn that has ended, or withdraws the rating: the newest event per turn and origin counts.

    It can arrive at any time, also between events of a later turn; `turn_id` of the event is the rated turn.
    """

    EVENT = "turn.feedback"
    ROUTE = "chat_service"

    origin: Annotated[Origin, "`user`, or `machine` for a check of the bundle or of another service"]
    reaction: Annotated[Reaction | None, "null for a text alone, and for a withdrawn feedback"]
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
    ToolProgress,
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
    SourcesChanged,
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
"""The event types, in the order in which they occur in a turn."""

EVENT_TABLE: Final = tuple(
    EventType(model.EVENT, model.ROUTE, model.STEP, " ".join((model.__doc__ or "").split()), model)
    for model in MODELS
)
EVENT_ROUTES: Final[Mapping[str, str]] = {row.type: row.route for row in EVENT_TABLE}

TERMINAL: Final = frozenset({TurnAnswered.EVENT, TurnFailed.EVENT})
