"""Live events: the effect of an external event on a conversation, as one table of five classes.

Admission, the loop and the close use this table, and docs/reference/live-events.md is printed from it. The
kinds of events are open; their classes are not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from stepline.errors import InputError
from stepline.model.base import Value

EventClass: TypeAlias = Literal["message", "reactive", "quiet", "steer", "stop"]
DropReason: TypeAlias = Literal["nothing_to_steer", "turn_closed", "stopped"]

PROMPT: Final = "prompt"
FOLLOWUP: Final = "followup"
STEER: Final = "steer"
STOP: Final = "stop"
"""The kind with which a client sends a steer without a text; it is stored as a steer."""

CREDIT: Final = "iteration_credit"
"""The payload field by which an event changes the number of rounds it adds."""

KIND: Final = re.compile(r"[a-z][a-z0-9_-]{0,31}")
REACTIVE_KINDS: Final = frozenset({"form", "wizard"})
"""Kinds that request an answer by default; all others do only if `reactive` is set."""


class EventClassRule(Value):
    """The effect of one class of events.

    idle       without an open turn: `opens` one, is `kept` for the next one, or is `dropped`
    holds      an open turn does not end before the model has seen it, as long as rounds are left
    credits    it adds rounds to the open turn
    interrupts it ends the running generation, a tool or a program that can be cancelled, and the remaining actions
    then       how an interrupted turn continues: `finalize` in a limited number of rounds, or `close` at once
    unseen     the fate of one that the model has not seen when the turn ends: `promoted` to open the next one, `kept`
               in its place for the next turn to read, however that is opened, or `dropped`
    stopped    the same, for one that came before a stop
    """

    covers: str
    idle: Literal["opens", "kept", "dropped"]
    unseen: Literal["promoted", "kept", "dropped"]
    stopped: Literal["promoted", "kept", "dropped"]
    holds: bool = False
    credits: bool = False
    interrupts: bool = False
    then: Literal["", "finalize", "close"] = ""


RULES: Final[Mapping[EventClass, EventClassRule]] = {
    "message": EventClassRule(
        covers="what the user says: `send`, or an event of kind `followup`",
        idle="opens",
        holds=True,
        credits=True,
        unseen="promoted",
        stopped="dropped",
    ),
    "reactive": EventClassRule(
        covers="an event of any other kind that is reactive: a form, a wizard's step, an alert to act on",
        idle="opens",
        holds=True,
        credits=True,
        unseen="promoted",
        stopped="promoted",
    ),
    "quiet": EventClassRule(
        covers="an event of any other kind that is not", idle="kept", unseen="kept", stopped="kept"
    ),
    "steer": EventClassRule(
        covers="an event of kind `steer` with a text",
        idle="dropped",
        interrupts=True,
        then="finalize",
        unseen="dropped",
        stopped="dropped",
    ),
    "stop": EventClassRule(
        covers="an event of kind `stop`, or of kind `steer` without a text",
        idle="dropped",
        interrupts=True,
        then="close",
        unseen="dropped",
        stopped="dropped",
    ),
}


def classify(kind: str, *, has_text: bool, reactive: bool) -> EventClass:
    """Return the class of an event, as sent or as stored."""
    if kind in (STEER, STOP):
        return "steer" if has_text else "stop"
    if kind in (PROMPT, FOLLOWUP):
        return "message"
    return "reactive" if reactive else "quiet"


def is_reactive(kind: str, asked: bool | None) -> bool:
    """Return True if an event requests an answer: by its sender's choice, or else by its kind.

    Raises InputError `bad_event` for a kind that is always one or the other.
    """
    fixed = {FOLLOWUP: True, STEER: False, STOP: False}.get(kind)
    if fixed is None:
        return kind in REACTIVE_KINDS if asked is None else asked
    if asked not in (None, fixed):
        raise InputError(f"an event of kind {kind} is {'' if fixed else 'never '}reactive", code="bad_event")
    return fixed
