"""Conversations as the command line drives them: say something and wait until it is settled, or only watch."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from stepline.local.client.change import Acknowledged, Effect, Refused, Synced, TurnEnded
from stepline.local.client.session import Session
from stepline.local.stage.deployed import write_private
from stepline.model.base import Value
from stepline.model.wire.live_event import PROMPT

Show = Callable[[Effect], None]


class Bookmark(Value):
    """The conversation a user was last in, and how far it was shown."""

    user: str
    conversation: str
    cursor: int = 0


def new_conversation() -> str:
    """Return a name for a conversation that does not exist yet."""
    return f"chat-{secrets.token_hex(6)}"


def load_bookmark(home: Path, user: str) -> Bookmark | None:
    """Return where this user was, if it is known."""
    path = home / "chat.json"
    if not path.exists():
        return None
    found = msgspec.json.decode(path.read_bytes(), type=Bookmark)
    return found if found.user == user else None


def save_bookmark(home: Path, bookmark: Bookmark) -> None:
    """Remember where a user is."""
    write_private(home / "chat.json", msgspec.json.encode(bookmark))


def ask(session: Session, effects: Iterator[Effect], text: str, show: Show) -> bool:
    """Say `text` and show everything until it is settled; tell whether the turn that ended last completed.

    Raises:
        LimitError: `message_too_large`.
    """
    return settle(session, effects, session.say(text), show)


def settle(session: Session, effects: Iterator[Effect], message_id: str, show: Show) -> bool:
    """Show everything until a message, and all that was said after it, is settled and the conversation is idle.

    A message that finds or opens a turn is answered by that turn or the next, or handed back; any other is settled when it
    stands. Return whether the turn that ended last completed.
    """
    admitted, settled, completed = 0, 0, True
    for effect in effects:
        show(effect)
        match effect:
            case Acknowledged(frame=frame) if frame.turn_id or frame.kind == PROMPT:
                admitted = max(admitted, frame.n)
            case Acknowledged(frame=frame):
                admitted, settled = max(admitted, frame.n), max(settled, frame.n)
            case TurnEnded(n=n, outcome=outcome):
                settled, completed = max(settled, n), outcome == "completed"
            case Refused(frame=frame) if frame.message_id in (message_id, ""):
                return False  # without an id it is about what we listen to: nothing more would be heard
            case Refused() if not session.state.unacked and not admitted:
                return False
            case _:
                pass
        if admitted and min(settled, session.state.cursor) >= admitted and _rests(session):
            return completed
    raise AssertionError("a session's effects do not end")


def watch(session: Session, effects: Iterator[Effect], show: Show) -> bool | None:
    """Show what was missed and what still comes, until no turn is open.

    Return whether the last turn that ended completed (true if none did), or None if there is no such conversation.
    """
    if not session.listening:
        session.listen()
    synced, completed = False, True
    for effect in effects:
        show(effect)
        match effect:
            case TurnEnded(outcome=outcome):
                completed = outcome == "completed"
            case Refused(frame=frame):
                return None if frame.code == "not_found" else False
            case Synced():
                synced = True
            case _:
                continue
        if synced and _rests(session):
            return completed
    raise AssertionError("a session's effects do not end")


def _rests(session: Session) -> bool:
    """Tell whether nothing is running, missing or unanswered, and everything was shown."""
    state = session.state
    return session.whole and not (state.unacked or state.open or state.behind())
