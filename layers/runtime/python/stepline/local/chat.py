"""`stepline chat`: a prompt on a terminal, a line a turn from a pipe."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, Literal

from msgspec.structs import replace

from stepline.errors import LimitError
from stepline.local.client.effect import Effect, HandedBack
from stepline.local.client.session import Session
from stepline.local.client.state import ClientState
from stepline.local.conversation import (
    Bookmark,
    load_bookmark,
    new_conversation,
    save_bookmark,
    settle,
    watch,
)
from stepline.local.keyboard import STOP, Keyboard
from stepline.local.view import View

INTERRUPTED = 130
"""What a shell reports of a command that Ctrl-C ended."""

NEW: Final = "/new"
STEER: Final = "/steer"
HELP: Final = "while the agent works: a line is heard with what it does next, /steer TEXT interrupts it, /stop ends the turn"

OpenSession = Callable[[ClientState], Session]
Known = Literal["new", "last", "named"]


class Chat:
    """One person's place in one conversation at a time, kept for the next time."""

    def __init__(
        self, open_session: OpenSession, view: View, keyboard: Keyboard, *, user: str, home: Path
    ) -> None:
        """Speak as `user` what comes from `keyboard`, show on `view`, remember the place in `home`."""
        self._open_session = open_session
        self._view = view
        self._keyboard = keyboard
        self._home = home
        self._place = Bookmark(user=user, conversation="")
        self._completed = True
        self._own: set[str] = set()

    def run(self, conversation: str = "") -> int:
        """Send each line as a message; return the exit code that the last turn earned."""
        known = self._choose(conversation)
        try:
            while not self._talk(known):
                known = self._begin()
        except KeyboardInterrupt:
            self._view.say(f"left; come back with: stepline chat --conversation {self._place.conversation}")
            return INTERRUPTED
        return 0 if self._completed else 1

    def _choose(self, conversation: str) -> Known:
        """Go to the conversation asked for, else to the last one, else to a new one."""
        last = load_bookmark(self._home, self._place.user)
        if last is not None and conversation in ("", last.conversation):
            self._place = last
            return "last"
        if conversation:
            self._place = replace(self._place, conversation=conversation, cursor=0)
            return "named"
        return self._begin()

    def _begin(self) -> Known:
        self._place = replace(self._place, conversation=new_conversation(), cursor=0)
        return "new"

    def _talk(self, known: Known) -> bool:
        """Stay in one conversation; tell whether the lines ended, or it is to be left for a new one."""
        state = ClientState(conversation=self._place.conversation, cursor=self._place.cursor)
        with self._open_session(state) as session:
            effects = session.effects(lambda: self._hear(session))
            if known != "new" and not self._catch_up(session, effects, known):
                return False
            self._view.say(f"conversation {session.state.conversation}, {_standing(session.state)}")
            if self._keyboard.commands:
                self._view.say(HELP)
            while (line := self._keyboard.line()) is not None:
                text = line.strip()
                if text == NEW:
                    return False
                if text == STEER and self._keyboard.commands:
                    self._view.say(HELP)
                elif text:
                    self._turn(session, effects, text)
        return True

    def _catch_up(self, session: Session, effects: Iterator[Effect], known: Known) -> bool:
        """Show what was missed, and a turn that still runs; false if the conversation is no more."""
        if known == "named" and not session.join():
            return True
        with self._view, self._keyboard:
            found = watch(session, effects, self._show(session))
        if found is None and session.state.cursor:
            self._view.say(
                f"conversation {session.state.conversation} is not here any more; a new one begins"
            )
            return False
        return True

    def _turn(self, session: Session, effects: Iterator[Effect], text: str) -> None:
        with self._view, self._keyboard:
            message_id = self._say(session, text)
            if message_id:
                self._completed = settle(session, effects, message_id, self._show(session))
            else:
                self._completed = False

    def _hear(self, session: Session) -> None:
        """Take what was typed while the agent works."""
        for line in self._keyboard.typed():
            text = line.strip()
            if text in (NEW, STEER):
                self._view.say(HELP)
            elif text:
                self._view.say(f"> {text}")
                self._say(session, text)
        self._view.typing(self._keyboard.draft)

    def _say(self, session: Session, text: str) -> str:
        """Send a line, as a command if it is one; return the message's id, or nothing if it cannot be sent."""
        command, _, rest = text.partition(" ") if self._keyboard.commands else ("", "", "")
        try:
            if text == STOP and command:
                message_id = session.stop()
            elif command == STEER and rest.strip():
                message_id = session.steer(rest.strip())
            else:
                message_id = session.say(text)
        except LimitError as error:
            self._view.say(f"error: {error.reason} {error}")
            return ""
        self._own.add(message_id)
        return message_id

    def _show(self, session: Session) -> Callable[[Effect], None]:
        """Return what shows an effect and remembers that it was shown, so that nothing is shown twice."""

        def show(effect: Effect) -> None:
            self._view.show(effect)
            if isinstance(effect, HandedBack) and effect.message_id in self._own:
                self._keyboard.give_back(effect.text)
            if session.state.cursor != self._place.cursor:
                self._place = replace(self._place, cursor=session.state.cursor)
                save_bookmark(self._home, self._place)

        return show


def _standing(state: ClientState) -> str:
    return f"event {state.cursor}" if state.cursor else "new"
