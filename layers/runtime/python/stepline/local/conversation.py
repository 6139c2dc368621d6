"""Conversations as the command line drives them: say something and wait for its answer, or only watch."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from stepline.local.client.effect import Acknowledged, Effect, Refused, Synced, TurnEnded
from stepline.local.client.session import Session
from stepline.local.stage import write_private
from stepline.model.base import Value

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
    """Say `text` and show everything until the turn that answers it has ended; tell whether it completed.

    A message that comes while a turn is open is answered by that turn or by the next, so the wait ends with the
    first turn that ends after it and leaves the conversation idle.

    Raises:
        LimitError: `message_too_large`.
    """
    message_id = session.say(text)
    admitted, ended = 0, TurnEnded(n=0, turn_id="", outcome="completed", answer="")
    for effect in effects:
        show(effect)
        match effect:
            case Acknowledged(frame=frame) if frame.message_id == message_id:
                admitted = frame.n
            case TurnEnded():
                ended = effect
            case Refused(frame=frame) if frame.message_id == message_id:
                return False
            case Refused() if not session.state.unacked and not admitted:
                return False
            case _:
                continue
        if admitted and ended.n > admitted and not session.state.open:
            return ended.outcome == "completed"
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
        if synced and not session.state.open and not session.state.behind():
            return completed
    raise AssertionError("a session's effects do not end")
