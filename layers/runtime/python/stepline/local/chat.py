"""`stepline chat`: a prompt on a terminal, a line a turn from a pipe."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

from msgspec.structs import replace

from stepline.errors import LimitError
from stepline.local.client.effect import Effect
from stepline.local.client.reducer import ClientState
from stepline.local.client.session import Session
from stepline.local.conversation import Bookmark, ask, load_bookmark, new_conversation, save_bookmark, watch
from stepline.local.view import View

INTERRUPTED = 130
"""What a shell reports of a command that Ctrl-C ended."""

OpenSession = Callable[[ClientState], Session]
Known = Literal["new", "last", "named"]


class Chat:
    """One person's place in one conversation at a time, kept for the next time."""

    def __init__(self, open_session: OpenSession, view: View, *, user: str, home: Path) -> None:
        """Speak as `user`, show on `view`, remember the place in `home`."""
        self._open_session = open_session
        self._view = view
        self._home = home
        self._place = Bookmark(user=user, conversation="")
        self._completed = True

    def run(self, lines: Iterator[str], conversation: str = "") -> int:
        """Send each line as a message; return the exit code that the last turn earned."""
        known = self._choose(conversation)
        try:
            while not self._talk(lines, known):
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

    def _talk(self, lines: Iterator[str], known: Known) -> bool:
        """Stay in one conversation; tell whether the lines ended, or it is to be left for a new one."""
        state = ClientState(conversation=self._place.conversation, cursor=self._place.cursor)
        with self._open_session(state) as session:
            effects = session.effects()
            if known != "new" and not self._catch_up(session, effects, known):
                return False
            self._view.say(f"conversation {session.state.conversation}, {_standing(session.state)}")
            for text in (line.strip() for line in lines):
                if text == "/new":
                    return False
                if text:
                    self._turn(session, effects, text)
        return True

    def _catch_up(self, session: Session, effects: Iterator[Effect], known: Known) -> bool:
        """Show what was missed, and a turn that still runs; false if the conversation is no more."""
        if known == "named" and not session.join():
            return True
        with self._view:
            found = watch(session, effects, self._show(session))
        if found is None and session.state.cursor:
            self._view.say(
                f"conversation {session.state.conversation} is not here any more; a new one begins"
            )
            return False
        return True

    def _turn(self, session: Session, effects: Iterator[Effect], text: str) -> None:
        with self._view:
            try:
                self._completed = ask(session, effects, text, self._show(session))
            except LimitError as error:
                self._completed = False
                self._view.say(f"error: {error.reason} {error}")

    def _show(self, session: Session) -> Callable[[Effect], None]:
        """Return what shows an effect and remembers that it was shown, so that nothing is shown twice."""

        def show(effect: Effect) -> None:
            self._view.show(effect)
            if session.state.cursor != self._place.cursor:
                self._place = replace(self._place, cursor=session.state.cursor)
                save_bookmark(self._home, self._place)

        return show


def _standing(state: ClientState) -> str:
    return f"event {state.cursor}" if state.cursor else "new"
