"""What stands in the data of client events: what every type has in common, and the types of a conversation's turns.

A class is a type of event: its docstring says when a client hears of it, its fields what it is told. A field without
a default is always there; one with a default is left out where it says nothing.
Source: docs/reference/events.md.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, TypeAlias

import msgspec

from stepline.model.base import Value
from stepline.model.usage import BustReason
from stepline.model.wire.event import ClientEvent

Route: TypeAlias = Literal[
    "chat_start",
    "chat_step",
    "chat_service",
    "chat_compaction",
    "chat_complete",
    "chat_error",
    "conv_status",
]
"""The families of events that a client binds to."""

Completion: TypeAlias = Literal["", "success", "error", "queued_next", "interrupted"]
ErrorType: TypeAlias = Literal["", "turn_interrupted", "task_watchdog_timeout"]
Status: TypeAlias = Literal["started", "running", "completed", "error", "skipped", "update"]

Doc = msgspec.Meta


class EventData(Value, forbid_unknown_fields=True):
    """The data of one type of events. `STEP` tells apart what one type says in several ways."""

    EVENT: ClassVar[str]
    ROUTE: ClassVar[Route]
    STEP: ClassVar[str] = ""


def make_event(data: EventData, at: str, turn: str, status: Status) -> ClientEvent:
    """Return the event that says this."""
    return ClientEvent(
        type=data.EVENT,
        route=data.ROUTE,
        ts=at,
        turn_id=turn,
        step=data.STEP,
        status=status,
        data=msgspec.to_builtins(data),
    )


class TitleGiven(EventData):
    """The conversation has a name: the beginning of its first message, later one that says what it is about."""

    EVENT = "chat.conversation.title"
    ROUTE = "chat_step"
    STEP = "conversation_title"

    title: Annotated[str, Doc(description="at most 80 characters, on one line")]


class ConversationStatus(EventData):
    """The conversation begins, a turn begins, or a turn has ended."""

    EVENT = "conv.status"
    ROUTE = "conv_status"

    state: Annotated[Literal["created", "in_progress", "idle", "error"], Doc(description="how it stands now")]
    updated_at: Annotated[str, Doc(description="since when")]
    current_turn_id: Annotated[
        str, Doc(description="the open turn; at an end without a next one, its own")
    ] = ""
    completion: Annotated[
        Completion,
        Doc(
            description="how the turn ended; `queued_next`: well, and messages that came meanwhile open the next at "
            "once; `interrupted`: its execution was lost too often"
        ),
    ] = ""


class TurnStarted(EventData):
    """A turn begins."""

    EVENT = "chat.start"
    ROUTE = "chat_start"

    turn_id: Annotated[str, Doc(description="its name")]
    prompts: Annotated[list[int], Doc(description="numbers of the events that opened it")]


class RoundRestarted(EventData):
    """Another attempt takes the round: drop what streamed under an older claim."""

    EVENT = "round.restarted"
    ROUTE = "chat_step"

    claim: Annotated[int, Doc(description="the stream of the new attempt")]
    iteration: Annotated[int, Doc(description="the round, from 0")]
    attempt: Annotated[int, Doc(description="how often it was retried")]


class AnswerDeferred(EventData):
    """An answer was not the last word: an event came that the model had not seen."""

    EVENT = "chat.step"
    ROUTE = "chat_step"
    STEP = "deferred"

    iteration: Annotated[int, Doc(description="the round that gave it")]
    answer: Annotated[str, Doc(description="the answer so far, with links for what it cites")]


class CitedSource(Value):
    """A source that an answer cites."""

    sid: Annotated[int, Doc(description="its number in the conversation: `[[S:1]]` cites 1")]
    title: Annotated[str, Doc(description="may be empty")]
    url: Annotated[str, Doc(description="http or https")]


class Citations(EventData):
    """The answer cites sources on the web."""

    EVENT = "chat.citations"
    ROUTE = "chat_step"

    count: Annotated[int, Doc(description="how many")]
    items: Annotated[list[CitedSource], Doc(description="a source each, in the order of their numbers")]


class Followups(EventData):
    """The answer suggests how to go on."""

    EVENT = "chat.followups"
    ROUTE = "chat_step"

    items: Annotated[list[str], Doc(description="short actions, as a user would say them")]


class TurnCompleted(EventData):
    """A turn ends, well or not."""

    EVENT = "chat.conversation.turn.completed"
    ROUTE = "chat_step"

    elapsed_ms: Annotated[int, Doc(description="from its begin to its end; 0 if that was not counted")]
    produced_file_count: Annotated[
        int, Doc(description="files offered to the user, each time they are written")
    ]
    citation_count: Annotated[int, Doc(description="items of `chat.citations`")]


class TurnSummary(EventData):
    """A turn ends: where its time went."""

    EVENT = "chat.turn.summary"
    ROUTE = "chat_step"

    markdown: Annotated[str, Doc(description="the same as a table for people")]
    rounds: Annotated[int, Doc(description="decisions of the model, refused ones and those cut off included")]
    elapsed_ms: Annotated[int, Doc(description="as above")]
    model_ms: Annotated[int, Doc(description="in the model's decisions")]
    tools_ms: Annotated[int, Doc(description="in tools and programs")]


class TurnUsage(EventData):
    """A turn that asked the model ends: what it consumed."""

    EVENT = "accounting.usage"
    ROUTE = "chat_service"

    rounds: Annotated[int, Doc(description="decisions of the model")]
    input_tokens: Annotated[int, Doc(description="neither read from nor written to a cache")]
    cache_read_tokens: Annotated[int, Doc(description="read from a cache")]
    cache_write_5m_tokens: Annotated[int, Doc(description="written to the cache of five minutes")]
    cache_write_1h_tokens: Annotated[int, Doc(description="written to the cache of an hour")]
    output_tokens: Annotated[int, Doc(description="written by the model")]
    total_input_tokens: Annotated[int, Doc(description="everything it read, cached or not")]
    weighted_tokens: Annotated[
        int,
        Doc(
            description="in tokens of plain input at the usual price ratios: cache reads count 0.1, writes 1.25 and 2, "
            "output 5"
        ),
    ]
    model: Annotated[str, Doc(description="which gave the last answer")] = ""
    estimated: Annotated[bool, Doc(description="a call was cut off before the provider counted it")] = False


class CacheBust(EventData):
    """A request read less of the model's cache than the request before had left there: it cost more than it had to."""

    EVENT = "accounting.cache_bust"
    ROUTE = "chat_service"

    iteration: Annotated[int, Doc(description="the round, from 0")]
    reason: Annotated[
        BustReason,
        Doc(
            description="what changed before the newest text: the instructions, the model, a block that the agent hid, older "
            "turns that were shortened or summarised, feedback; or `provider`, if nothing of ours did"
        ),
    ]
    expected_tokens: Annotated[int, Doc(description="what there was to read")]
    read_tokens: Annotated[int, Doc(description="what was read")]


class TurnAnswered(EventData):
    """The turn's end, with the recorded answer, which replaces streamed text."""

    EVENT = "chat.complete"
    ROUTE = "chat_complete"

    final_answer: Annotated[str, Doc(description="Markdown, with links for what it cites")]
    answer: Annotated[str, Doc(description="the same")]
    followups: Annotated[list[str], Doc(description="as in `chat.followups`")]
    suggested_followups: Annotated[list[str], Doc(description="the same")]
    reason: Annotated[
        str,
        Doc(
            description="`complete`; `exit`, without a claim of success; `max_iterations`, a status because the rounds are "
            "used up; `steer`, the user asked to come to an end; `stop`, the user stopped the turn"
        ),
    ]
    used_sources: Annotated[list[int], Doc(description="numbers of the sources that it cites")]
    unresolved_sids: Annotated[list[int], Doc(description="numbers that it cites and that no source has")]
    selected_model: Annotated[str, Doc(description="the model that gave it")] = ""
    message: Annotated[
        str,
        Doc(
            description="what there is to say of the end if the answer is what was there when it was stopped"
        ),
    ] = ""


class TurnFailed(EventData):
    """The turn's end without an answer."""

    EVENT = "chat.error"
    ROUTE = "chat_error"

    code: Annotated[str, Doc(description="stable, see [errors](errors.md)")]
    error: Annotated[str, Doc(description="what to tell the user")]
    error_type: Annotated[
        ErrorType,
        Doc(description="set for `execution_lost` and for `step_timeout`"),
    ] = ""
