"""One conversation over a websocket that may break: feeds the fold, keeps what it says until it is answered.

Reconnects and resumes by itself; a message goes out again under the same id until the server has answered it.
Everything that must wait has a due time, looked at between frames; there is no thread of ours here.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, Final, Self

from msgspec.structs import replace
from websockets.exceptions import ConnectionClosed

from stepline.errors import AuthError, DependencyError, SteplineError
from stepline.local.client.credential import Credential
from stepline.local.client.effect import Acknowledged, Effect, Refused, Synced
from stepline.local.client.reducer import (
    EXPIRED,
    PASSING,
    ClientState,
    fold_frame,
    forget_message,
    note_message,
    resume_request,
    send_request,
)
from stepline.local.client.wire import Connection, Dial, encode_request, read_frame
from stepline.model.base import Value
from stepline.model.event import AckFrame, AuthFrame, ErrorFrame, Frame, PongFrame, SyncFrame
from stepline.ports.clock import Clock

BROKEN: Final = frozenset({"gateway", "internal"})
"""Failures that name no message: each that is unanswered goes out again."""


class Pace(Value):
    """How patient a session is."""

    tick_s: float = 0.25
    ping_every_s: float = 25.0
    resume_every_s: float = 0.5
    resume_answer_s: float = 10.0
    answer_s: float = 20.0
    tries: int = 5
    renew_after: float = 0.8
    """Of the time that the token has left."""
    reconnect_delays_s: tuple[float, ...] = (0.5, 1.0, 2.0, 4.0, 8.0, 8.0, 8.0)


class Session:
    """Say things, and iterate over `effects`; `state` is what the client knows so far.

    `listening` tells whether this connection has been asked to bring what happens. With a `credential` that renews,
    the connection outlives the token it was opened with; without, it is replaced when that has expired.
    """

    def __init__(
        self,
        dial: Dial,
        state: ClientState,
        clock: Clock,
        pace: Pace | None = None,
        *,
        credential: Credential | None = None,
    ) -> None:
        self.state = state
        self._credential = credential if credential and credential.renews else None
        self._renew_due_s = 0.0
        self._dial = dial
        self._clock = clock
        self._pace = pace or Pace()
        self._stack = ExitStack()
        self._connection: Connection | None = None
        self._known = state.cursor > 0
        self.listening = self._renewing = False
        self._resume_due_s = 0.0
        self._ping_due_s = 0.0
        self._due_s: dict[str, float] = {}
        self._tries: dict[str, int] = {}
        self._trusted = False

    def __enter__(self) -> Self:
        """Connect; a conversation we stand in is resumed."""
        self._connect()
        return self

    def __exit__(self, *_exc: object) -> None:
        """Close the connection."""
        self._stack.close()

    def join(self) -> bool:
        """Stand at the newest event of the conversation, without its history; tell whether it exists.

        Raises DependencyError `no_answer`.
        """
        self._ask({"action": "ping", "conversation": self.state.conversation})
        until = self._clock.monotonic_s() + self._pace.answer_s
        while self._clock.monotonic_s() < until:
            match self._receive():
                case PongFrame(n=n):
                    self.state = replace(self.state, cursor=n)
                    self.listen()
                    return True
                case ErrorFrame(code="not_found"):
                    return False
                case ErrorFrame(code=code, message=message):
                    raise DependencyError(message, code=code)
                case _:
                    continue
        raise DependencyError("the server does not answer", code="no_answer")

    def listen(self) -> None:
        """Ask for everything beyond the cursor, and for what comes."""
        self._known = True
        self._resume()

    def say(self, text: str, *, message_id: str = "") -> str:
        """Send a message and return its id. Raises LimitError `message_too_large` before anything is sent."""
        message_id = message_id or f"m_{secrets.token_hex(8)}"
        # Bytes of an argument or a pipe that are no UTF-8 arrive as lone surrogates, which no JSON can carry.
        noted = note_message(self.state, message_id, text.encode(errors="replace").decode())
        encode_request(send_request(noted, message_id))
        self.state = noted
        self._say_again(message_id)
        return message_id

    def effects(self) -> Iterator[Effect]:
        """Yield what changes, for as long as the caller iterates.

        Raises:
            AuthError: the gateway does not take our token.
            DependencyError: `socket_unreachable`, after the last try to connect; `format_newer`, update the client.
        """
        while True:
            yield from self._do_what_is_due()
            frame = self._receive()
            if frame is None:
                continue
            self.state, effects = fold_frame(self.state, frame)
            for effect in effects:
                if self._note(effect):
                    yield effect

    def _note_answer(self, frame: Frame) -> None:
        """Believe in the token that the server has answered us by."""
        if isinstance(frame, AckFrame | AuthFrame | PongFrame | SyncFrame):
            self._trusted = True
        if isinstance(frame, AuthFrame):
            self._renewing = False
            self._plan_renewal(frame.expires_at)

    def _note(self, effect: Effect) -> bool:
        """Draw the session's own conclusions; tell whether the effect is for the caller."""
        match effect:
            case Synced():
                self._resume_due_s = self._clock.monotonic_s() + self._pace.resume_every_s
            case Acknowledged():
                self._settle(effect.frame.message_id)
                # Whoever speaks in a conversation listens to it from then on.
                self._known = self.listening = True
                if effect.frame.duplicate:
                    self.listen()  # what followed the first time may have passed us by
            case Refused(frame=frame) if frame.code in EXPIRED and self._trusted:
                self._trusted = False
                self._reconnect()
                return False
            case Refused(frame=frame) if frame.code not in EXPIRED and frame.message_id in self.state.unacked:
                self._put_off(frame.message_id)
                return False
            case Refused(frame=frame) if self._renewing and frame.code in PASSING and not frame.conversation:
                self._renewing = False  # it is asked for again when its answer is due
                return False
            case Refused(frame=frame) if frame.code in BROKEN and self.state.unacked:
                for message_id in self.state.unacked:
                    self._put_off(message_id)
                return False
            case Refused(frame=frame):
                self._give_up(frame.message_id)
            case _:
                pass
        return True

    def _do_what_is_due(self) -> Iterator[Effect]:
        now_s = self._clock.monotonic_s()
        if self._credential and now_s >= self._renew_due_s:
            self._renew(self._credential)
        if self.state.behind() and now_s >= self._resume_due_s:
            self._resume()
        if self.state.open and now_s >= self._ping_due_s:
            self._ping_due_s = now_s + self._pace.ping_every_s
            self._ask({"action": "ping", "conversation": self.state.conversation})
        for message_id in [known for known, due_s in self._due_s.items() if now_s >= due_s]:
            if self._tries.get(message_id, 0) < self._pace.tries:
                self._say_again(message_id)
                continue
            self._give_up(message_id)
            yield Refused(frame=_no_answer(self.state.conversation, message_id))

    def _renew(self, credential: Credential) -> None:
        """Put a fresh token behind this connection; where that fails, the server will say that ours has expired."""
        self._renew_due_s = self._clock.monotonic_s() + self._pace.answer_s
        try:
            ticket = credential.ticket()
        except SteplineError:
            return
        self._renewing = True
        self._ask({"action": "auth", "ticket": ticket})

    def _plan_renewal(self, expires_at: float) -> None:
        left_s = expires_at - self._clock.now().timestamp()
        self._renew_due_s = self._clock.monotonic_s() + self._pace.renew_after * left_s

    def _say_again(self, message_id: str) -> None:
        self._tries[message_id] = self._tries.get(message_id, 0) + 1
        self._due_s[message_id] = self._clock.monotonic_s() + self._pace.answer_s
        self._ask(send_request(self.state, message_id))

    def _put_off(self, message_id: str) -> None:
        """Say a message again a little later each time: the server is busy."""
        tries = self._tries.get(message_id, 1)
        self._due_s[message_id] = self._clock.monotonic_s() + self._pace.resume_every_s * 2 ** (tries - 1)

    def _give_up(self, message_id: str) -> None:
        self.state = forget_message(self.state, message_id)
        self._settle(message_id)

    def _settle(self, message_id: str) -> None:
        self._due_s.pop(message_id, None)
        self._tries.pop(message_id, None)

    def _resume(self) -> None:
        self.listening = True
        self._resume_due_s = self._clock.monotonic_s() + self._pace.resume_answer_s
        self._ask(resume_request(self.state))

    def _ask(self, request: dict[str, Any]) -> None:
        message = encode_request(request)
        try:
            self._open_connection().send(message)
        except ConnectionClosed:
            # Resumes, and says every unanswered message again; a lost ping comes again by itself.
            self._reconnect()

    def _receive(self) -> Frame | None:
        """Return the next frame, or nothing if none came within a tick."""
        try:
            text = self._open_connection().recv(timeout=self._pace.tick_s)
        except TimeoutError:
            return None
        except ConnectionClosed:
            self._reconnect()
            return None
        frame = read_frame(text)
        if frame:
            self._note_answer(frame)
        return frame

    def _open_connection(self) -> Connection:
        if self._connection is None:
            raise DependencyError("the session is not connected", code="socket_unreachable")
        return self._connection

    def _connect(self) -> None:
        self._stack.close()
        self._connection = None
        self._connection = self._stack.enter_context(self._dial())
        self.listening = self._renewing = False
        if self._credential:
            self._plan_renewal(self._credential.expires_at)
        self._ping_due_s = self._clock.monotonic_s() + self._pace.ping_every_s
        if self._known:
            self._resume()

    def _reconnect(self) -> None:
        for delay_s in self._pace.reconnect_delays_s:
            self._clock.pause(delay_s)
            try:
                self._connect()
            except AuthError:
                raise
            except DependencyError:
                continue
            for message_id in self.state.unacked:
                self._due_s[message_id] = 0.0
            return
        raise DependencyError("the connection broke and does not come back", code="socket_unreachable")


def _no_answer(conversation: str, message_id: str) -> ErrorFrame:
    text = "the server did not answer"
    return ErrorFrame(code="no_answer", message=text, message_id=message_id, conversation=conversation)
