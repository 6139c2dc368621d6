"""Conversations on the command line: send a message and wait until it is settled, or watch."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, get_args

import msgspec

from stepline.errors import InputError
from stepline.local.client.change import Acknowledged, Effect, Refused, Synced, TurnEnded
from stepline.local.client.session import Session
from stepline.local.stage.deployed import write_private
from stepline.model.base import Value
from stepline.model.decision import Reaction
from stepline.model.wire.live_event import PROMPT

Show = Callable[[Effect], None]
REACTIONS: Final[tuple[Reaction, ...]] = get_args(Reaction)
WITHDRAWN: Final = "none"


class Bookmark(Value):
    """The user's last conversation, and the last event shown.

    `bundle` is the name of its first bundle, "" for the stage's default, and `agent` that bundle's module, "" if
    unknown.
    """

    user: str
    conversation: str
    cursor: int = 0
    bundle: str = ""
    agent: str = ""


def new_conversation() -> str:
    """Return a name for a new conversation."""
    return f"chat-{secrets.token_hex(6)}"


def load_bookmark(home: Path, user: str) -> Bookmark | None:
    """Return the user's bookmark, or None."""
    path = home / "chat.json"
    if not path.exists():
        return None
    found = msgspec.json.decode(path.read_bytes(), type=Bookmark)
    return found if found.user == user else None


def save_bookmark(home: Path, bookmark: Bookmark) -> None:
    """Save the user's bookmark."""
    write_private(home / "chat.json", msgspec.json.encode(bookmark))


def send_and_settle(session: Session, effects: Iterator[Effect], text: str, show: Show) -> bool:
    """Send `text` and show everything until it is settled; return True if the last turn to end completed.

    Raises:
        LimitError: `message_too_large`.
    """
    return settle(session, effects, session.say(text), show)


def settle(session: Session, effects: Iterator[Effect], message_id: str, show: Show) -> bool:
    """Show everything until a message, and all sent after it, is settled and the conversation is idle.

    A message that opens or joins a turn is settled when that turn or the next ends, or when it is handed back; any
    other as soon as it is in the log. Return True if the last turn to end completed, and False if a turn waits for an
    approval, which may take days.
    """
    admitted, settled, completed = 0, 0, True
    for effect in effects:
        show(effect)
        match effect:
            case Acknowledged(frame=frame) if frame.turn_id or frame.kind == PROMPT:
                admitted = max(admitted, frame.n)
            case Acknowledged(frame=frame):
                admitted, settled = max(admitted, frame.n), max(settled, frame.n)
            case TurnEnded(n=n):
                settled, completed = max(settled, n), effect.answered
            case Refused(frame=frame) if frame.message_id in (message_id, ""):
                return False  # an error without an id concerns the subscription: nothing more would arrive
            case Refused() if not session.state.unacked and not admitted:
                return False
            case _:
                pass
        if admitted and min(settled, session.state.cursor) >= admitted and _is_idle(session):
            return completed
        if admitted and session.state.cursor >= admitted and session.state.approval and _is_idle(session):
            return False
    raise AssertionError("a session's effects do not end")


def pending_call(session: Session, effects: Iterator[Effect]) -> str:
    """Return the call for which a joined conversation waits for an approval; "" if it waits for none."""
    synced = False
    for effect in effects:
        synced = synced or isinstance(effect, Synced)
        if isinstance(effect, Refused) or (synced and session.whole and not session.state.behind()):
            return session.state.approval
    raise AssertionError("a session's effects do not end")


def parse_reaction(word: str) -> Reaction | None:
    """Return the reaction for a word, None for `none`. Raises InputError `bad_message`."""
    for known in REACTIONS:
        if word == known:
            return known
    if word == WITHDRAWN:
        return None
    raise InputError(f"a reaction is {', '.join(REACTIONS)}, or {WITHDRAWN}")


def wait_for_ack(effects: Iterator[Effect], message_id: str, show: Show) -> bool:
    """Show everything until a message is answered; return True if it is in the log."""
    for effect in effects:
        show(effect)
        match effect:
            case Acknowledged(frame=frame) if frame.message_id == message_id:
                return True
            case Refused(frame=frame) if frame.message_id in (message_id, ""):
                return False
            case _:
                pass
    raise AssertionError("a session's effects do not end")


def watch_conversation(session: Session, effects: Iterator[Effect], show: Show) -> bool | None:
    """Show missed events, then new ones, until no turn is open.

    Return True if the last turn that ended completed (also if none did), None if the conversation does not exist.
    """
    if not session.listening:
        session.listen()
    synced, completed = False, True
    for effect in effects:
        show(effect)
        match effect:
            case TurnEnded():
                completed = effect.answered
            case Refused(frame=frame):
                return None if frame.code == "not_found" else False
            case Synced():
                synced = True
            case _:
                continue
        if synced and _is_idle(session):
            return completed
    raise AssertionError("a session's effects do not end")


def _is_idle(session: Session) -> bool:
    """Return True if nothing is running, missing, unanswered or not yet shown; a parked turn does not run."""
    state = session.state
    running = state.open and not state.approval
    return session.whole and not (state.unacked or running or state.behind())
