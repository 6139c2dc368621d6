"""The types of client events: one table, which routes, the filter and the reference page come from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, TypeAlias

from stepline.timeline import event_compaction as compaction
from stepline.timeline import event_data as turn
from stepline.timeline import event_inbound as inbound
from stepline.timeline import event_round as round_
from stepline.timeline.event_data import EventData

Model: TypeAlias = type[EventData]


class EventType(NamedTuple):
    """One row: an event's type and step, the family a client binds to, when it comes, and its data."""

    type: str
    route: str
    step: str
    cause: str
    model: Model


MODELS: Final[tuple[Model, ...]] = (
    turn.ConversationStatus,
    inbound.Accepted,
    turn.TitleGiven,
    inbound.ContinuationAccepted,
    turn.TurnStarted,
    round_.DecisionMade,
    round_.CallStarted,
    round_.CallRejected,
    round_.Noticed,
    turn.CacheBust,
    turn.RoundRestarted,
    compaction.CompactionTold,
    round_.CallEnded,
    round_.ToolTold,
    round_.SearchFiltered,
    round_.ProgramObjective,
    round_.ProgramName,
    round_.ProgramCode,
    round_.ProgramContract,
    round_.ProgramStatus,
    round_.PlanShown,
    round_.FilesOffered,
    turn.AnswerDeferred,
    inbound.SteerHeeded,
    inbound.MessageDropped,
    turn.Citations,
    turn.Followups,
    turn.TurnCompleted,
    turn.TurnSummary,
    turn.TurnUsage,
    turn.TurnAnswered,
    turn.TurnFailed,
)
"""In the order in which a turn brings them."""

TABLE: Final = tuple(
    EventType(model.EVENT, model.ROUTE, model.STEP, " ".join((model.__doc__ or "").split()), model)
    for model in MODELS
)
ROUTES: Final[Mapping[str, str]] = {row.type: row.route for row in TABLE}
BY_STEP: Final[Mapping[tuple[str, str], EventType]] = {(row.type, row.step): row for row in TABLE}
"""Rows by type and step: what one type says in several steps has several kinds of data."""

TERMINAL: Final = frozenset({turn.TurnAnswered.EVENT, turn.TurnFailed.EVENT})
