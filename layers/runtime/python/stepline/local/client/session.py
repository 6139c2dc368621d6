"""A session of one conversation over a websocket that may break.

It feeds the fold, reconnects and resumes automatically, and repeats a message under the same id until the server has
answered it. `Catchup` schedules resumes, `Outbox` schedules unanswered messages. All due times are checked between
frames; the session starts no thread.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, Final, Literal, Self

from msgspec.structs import replace
from websockets.exceptions import ConnectionClosed

from stepline.errors import DependencyError, SteplineError
from stepline.local.client.change import Acknowledged, Effect, PutOff, Refused, Synced
from stepline.local.client.credential import Credential
from stepline.local.client.outgoing import Said, well_formed
from stepline.local.client.pace import Pace
from stepline.local.client.reducer import BEYOND_END, EXPIRED, fold_frame, is_passing, resume_request
from stepline.local.client.state import ClientState, forget_message, note_message, send_request
from stepline.local.client.websocket import Dial, WebsocketConnection, encode_request, read_frame
from stepline.model.decision import Reaction
from stepline.model.wire.event import AckFrame, AuthFrame, ErrorFrame, Frame, PongFrame, SyncFrame
from stepline.model.wire.live_event import STEER, STOP
from stepline.ports.clock import Clock

_DOUBLINGS = 6
UNKNOWN_ZONE: Final = "bad_timezone"


class Catchup:
    """Schedules resumes.

    `synced` is true if the last resume was answered; `tries` counts resumes since the last progress.
    """

    def __init__(self, clock: Clock, pace: Pace, cursor: int) -> None:
        """Start at event `cursor`, with no resume pending."""
        self._clock = clock
        self._pace = pace
        self._due_s = 0.0
        self._was_incomplete = False
        self._cursor = cursor
        self.synced = True
        self.tries = 0

    def note(self) -> None:
        """Record that a resume is being sent."""
        self.synced = False
        self.tries += 1
        self._due_s = self._clock.monotonic_s() + self._pace.resume_answer_s

    def is_due(self, state: ClientState) -> bool:
        """Return True if a resume is due. A new gap first gets time to close on its own."""
        now_s, incomplete = self._clock.monotonic_s(), state.behind()
        if incomplete and not self._was_incomplete:
            self._due_s = max(self._due_s, now_s + self._pace.gap_s)
        self._was_incomplete = incomplete
        if state.cursor != self._cursor or (not incomplete and self.synced):
            self._cursor, self.tries = state.cursor, 0
        return (incomplete or not self.synced) and now_s >= self._due_s

    @property
    def is_spent(self) -> bool:
        """Return True if too many resumes in a row made no progress."""
        return self.tries >= self._pace.resumes

    def put_off(self) -> None:
        """Delay the next resume, longer each time: the events may not be stored yet, or the server is busy."""
        wait_s = self._pace.resume_every_s * 2 ** min(self.tries, _DOUBLINGS)
        self._due_s = self._clock.monotonic_s() + wait_s / 2

    def give_up(self) -> None:
        """Start over, after a pause."""
        self.put_off()
        self.synced, self.tries = True, 0


class Outbox:
    """Due times, tries and refusals of unanswered messages, by message id."""

    def __init__(self, clock: Clock, pace: Pace) -> None:
        """Start without messages."""
        self._clock = clock
        self._pace = pace
        self._due_s: dict[str, float] = {}
        self._tries: dict[str, int] = {}
        self._connections: dict[str, int] = {}
        self._not_before_s: dict[str, float] = {}
        self._refusals: dict[str, ErrorFrame] = {}

    def due(self) -> list[str]:
        """Return the ids of messages to repeat or to give up now."""
        now_s = self._clock.monotonic_s()
        return [known for known, due_s in self._due_s.items() if now_s >= due_s]

    def is_spent(self, message_id: str) -> bool:
        """Return True if a message has used up its tries on this connection, or its connections."""
        said, broken = self._tries.get(message_id, 0), self._connections.get(message_id, 0)
        return said >= self._pace.tries or broken >= self._pace.connections

    def note(self, message_id: str) -> None:
        """Record that a message is being sent."""
        self._tries[message_id] = self._tries.get(message_id, 0) + 1
        self._due_s[message_id] = self._clock.monotonic_s() + self._pace.answer_s

    def refuse(self, frame: ErrorFrame) -> None:
        """Delay a message that the server refuses for now, at least for the time that it asks for."""
        known = frame.message_id
        self._refusals[known] = frame
        self._not_before_s[known] = self._clock.monotonic_s() + frame.retry_after_s
        self.put_off(known)

    def last_word(self, conversation: str, message_id: str) -> ErrorFrame:
        """Return the reason for giving up a message: the server's last refusal, or `no_answer`."""
        return self._refusals.get(message_id) or no_answer(conversation, message_id)

    def put_off(self, message_id: str) -> None:
        """Delay a message, longer each time: the server is busy."""
        wait_s = self._pace.resume_every_s * 2 ** (self._tries.get(message_id, 1) - 1)
        self._plan(message_id, self._clock.monotonic_s() + wait_s)

    def put_off_all(self) -> None:
        """Delay every message: the error did not name one."""
        for message_id in self._due_s:
            self.put_off(message_id)

    def say_all_again(self) -> None:
        """Make every message due now, or at the time that the server asked for.

        A lost connection counts against the message; the tries on that connection do not.
        """
        self._tries.clear()
        for message_id in self._due_s:
            self._connections[message_id] = self._connections.get(message_id, 0) + 1
            self._plan(message_id, self._clock.monotonic_s())

    def settle(self, message_id: str) -> None:
        """Forget a message that is answered or given up."""
        for known in (self._due_s, self._tries, self._connections, self._not_before_s, self._refusals):
            known.pop(message_id, None)

    def _plan(self, message_id: str, at_s: float) -> None:
        self._due_s[message_id] = max(at_s, self._not_before_s.get(message_id, 0.0))


def no_answer(conversation: str, message_id: str = "") -> ErrorFrame:
    """Return the error frame for a server that did not answer."""
    text = "the server did not answer"
    return ErrorFrame(code="no_answer", message=text, message_id=message_id, conversation=conversation)


def silent(conversation: str) -> ErrorFrame:
    """Return the error frame for a turn that has been silent for too long."""
    text = "the turn has sent nothing for longer than a turn may take"
    return ErrorFrame(code="turn_silent", message=text, conversation=conversation)


_RANDOM: Final = secrets.SystemRandom()


class Session:
    """Send messages, and iterate over `effects`; `state` is the client's current state.

    `whole` is true once all effects of that state have been yielded. `listening` is true once this connection has
    requested events. With a `credential` that renews, the connection outlives the token it was opened with; without
    one, it is replaced when the token has expired. Every message names the user's `timezone`, if it is set and the
    server knows it, and the `bundle`, if it is set. `on_connection` gets False for a lost connection, then True.
    """

    def __init__(
        self,
        dial: Dial,
        state: ClientState,
        clock: Clock,
        pace: Pace | None = None,
        *,
        credential: Credential | None = None,
        timezone: str = "",
        bundle: str = "",
        uniform: Uniform = _RANDOM.uniform,
    ) -> None:
        self.state = state
        self.listening, self.whole = False, True
        self.on_connection: Callable[[bool], None] = lambda _: None
        self._pace = pace or Pace()
        self._clock = clock
        self._link = Link(dial, clock, self._pace, uniform)
        self._outbox = Outbox(clock, self._pace)
        self._catchup = Catchup(clock, self._pace, state.cursor)
        self._timezone, self._bundle = timezone, bundle
        self._credential = credential if credential and credential.renews else None
        self._renewing = self._trusted = self._expired = False
        self._renew_due_s = 0.0
        self._known = state.cursor > 0
        self._pinged_s, self._unheard = 0.0, 0
        self._heard_s = clock.monotonic_s()

    def __enter__(self) -> Self:
        """Connect; resume the conversation if it is known."""
        self._link.open()
        self._start_connection()
        return self

    def __exit__(self, *_exc: object) -> None:
        """Close the connection."""
        self._link.close()

    def join(self) -> bool:
        """Move to the newest event of the conversation without its history; return whether the conversation exists.

        Raises DependencyError `no_answer`.
        """
        ping = {"action": "ping", "conversation": self.state.conversation}
        self._ask(ping)
        until = self._clock.monotonic_s() + self._pace.answer_s
        while self._clock.monotonic_s() < until:
            if self._link.broken:
                self._reconnect()
                self._ask(ping)
            match self._receive(self._pace.tick_s):
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
        """Ask for all events after the cursor, and for new ones as they happen."""
        self._known = True
        self._resume()

    def say(self, text: str, *, message_id: str = "", uploads: tuple[str, ...] = ()) -> str:
        """Send a message with the files of `uploads`, and return its id.

        Raises LimitError `message_too_large` before anything is sent.
        """
        return self._send(Said(text=text, uploads=uploads), message_id)

    def tell(self, kind: str, payload: dict[str, Any] | None = None, **fields: Any) -> str:
        """Send an event of this kind and return its id; `fields` are those of `Said`.

        Raises LimitError as `say` does.
        """
        return self._send(Said(kind=kind, payload=payload or {}, **fields))

    def steer(self, text: str) -> str:
        """Interrupt the open turn, have it finish according to this text, and return the message's id.

        Raises LimitError as `say` does.
        """
        return self._send(Said(kind=STEER, text=text))

    def stop(self) -> str:
        """End the open turn, and return the message's id."""
        return self._send(Said(kind=STOP))

    def answer(self, verdict: Literal["approve", "deny", "edit"], call_id: str, **fields: Any) -> str:
        """Answer whether a call may run, and return the message's id; `fields` are those of `Said`."""
        return self._send(Said(verdict=verdict, call_id=call_id, **fields))

    def rate(self, reaction: Reaction | None, text: str = "", *, turn: str = "") -> str:
        """Rate a turn, by default the newest that has ended, or withdraw a rating; return the message's id."""
        return self._send(Said(rates=True, reaction=reaction, text=text, turn=turn))

    def effects(self, meanwhile: Callable[[], None] | None = None) -> Iterator[Effect]:
        """Yield effects for as long as the caller iterates; call `meanwhile` between frames.

        Raises:
            AuthError: the gateway refuses our token.
            DependencyError: `socket_unreachable`, after the last try to connect; `format_newer`, update the
                client.
        """
        while True:
            if meanwhile:
                meanwhile()
            yield from self.step(self._pace.tick_s)

    def step(self, wait_s: float = 0.0) -> Iterator[Effect]:
        """Do what is due, receive one frame within `wait_s`, and yield its effects. Raises as `effects` does."""
        yield from self._run_due_tasks()
        frame = self._receive(wait_s)
        if frame is None or self._has_dropped_zone(frame):
            return
        self.state, effects = fold_frame(self.state, frame)
        for left, effect in zip(reversed(range(len(effects))), effects, strict=True):
            self.whole = not left
            if noted := self._note(effect):
                yield noted

    def _send(self, said: Said, message_id: str = "") -> str:
        message_id = message_id or f"m_{secrets.token_hex(8)}"
        # An argument or a pipe that is not UTF-8 contains lone surrogates.
        said = replace(well_formed(said), timezone=said.timezone or self._timezone, bundle=self._bundle)
        noted = note_message(self.state, message_id, said)
        encode_request(send_request(noted, message_id))
        self.state = noted
        self._send_again(message_id)
        return message_id

    def _has_dropped_zone(self, frame: Frame) -> bool:
        """Send a message again without its time zone if the server does not know the zone; return True if so.

        The server's database may be older than ours, or missing. Later messages name no zone either.
        """
        if not isinstance(frame, ErrorFrame) or frame.code != UNKNOWN_ZONE:
            return False
        said = self.state.unacked.get(frame.message_id)
        if said is None or not said.timezone:
            return False
        self._timezone = ""
        self.state = note_message(self.state, frame.message_id, replace(said, timezone=""))
        self._send_again(frame.message_id)
        return True

    def _note_answer(self, frame: Frame) -> None:
        """An answer proves that the connection works and, for most frames, that the token was accepted."""
        self._unheard = 0
        if isinstance(frame, AckFrame | AuthFrame | PongFrame | SyncFrame):
            self._trusted = True
        if not isinstance(frame, PongFrame | SyncFrame):
            self._heard_s = self._clock.monotonic_s()
        if isinstance(frame, AuthFrame):
            self._renewing = False
            self._plan_renewal(frame.expires_at)

    def _note(self, effect: Effect) -> Effect | None:
        """Update the session by an effect; return the effects that the caller gets."""
        match effect:
            case Synced():
                self._catchup.synced = True
                self._catchup.put_off()
            case Acknowledged():
                self._outbox.settle(effect.frame.message_id)
                # A sender receives the events of its conversation from then on.
                self._known = self.listening = True
                if effect.frame.duplicate:
                    self.listen()  # events that followed the first delivery may have been missed
            case Refused():
                return self._note_refusal(effect.frame)
            case _:
                pass
        return effect

    def _note_refusal(self, frame: ErrorFrame) -> Effect | None:
        if frame.code in EXPIRED and self._trusted:
            self._trusted = False
            self._link.broken = self._expired = True
            return None
        if frame.message_id in self.state.unacked and self._may_be_accepted(frame):
            self._outbox.refuse(frame)
            return PutOff(frame=frame) if frame.retry_after_s else None
        if self._renewing and is_passing(frame) and not frame.conversation:
            self._renewing = False  # requested again when its answer is due
            return None
        if frame.retryable and not frame.message_id and self._catchup.tries < self._pace.tries:
            self._outbox.put_off_all()
            self._catchup.put_off()
            return None
        self._give_up(frame.message_id)
        if not frame.message_id:
            self._catchup.synced = True  # a permanent refusal is not retried
        if frame.code == BEYOND_END:
            self.listen()  # from the beginning
        if self.state.deleted:
            self._known = False  # there is nothing to request
        return Refused(frame=frame)

    def _may_be_accepted(self, refusal: ErrorFrame) -> bool:
        """Return True if the refused message should be sent again later."""
        soon = refusal.retry_after_s <= self._pace.retry_after_max_s
        return refusal.retryable and soon and not self._outbox.is_spent(refusal.message_id)

    def _run_due_tasks(self) -> Iterator[Effect]:
        if self._link.broken:
            self._reconnect()
        if self._link.replace():
            self._start_connection()
        now_s = self._clock.monotonic_s()
        if self._credential and now_s >= self._renew_due_s:
            self._renew(self._credential)
        if self._known and now_s >= self._ping_due_s():
            self._ping(now_s)
        if self._catchup.is_due(self.state):
            yield from self._request_missing()
        for message_id in self._outbox.due():
            if not self._outbox.is_spent(message_id):
                self._send_again(message_id)
                continue
            last_word = self._outbox.last_word(self.state.conversation, message_id)
            self._give_up(message_id)
            yield Refused(frame=last_word)
        waits = self.state.approval or self.state.place
        if self.state.open and not waits and now_s >= self._heard_s + self._pace.silent_s:
            self._heard_s = now_s
            yield Refused(frame=silent(self.state.conversation))

    def _request_missing(self) -> Iterator[Effect]:
        if not self._catchup.is_spent:
            self._resume()
            return
        self._catchup.give_up()
        yield Refused(frame=no_answer(self.state.conversation))

    def _ping_due_s(self) -> float:
        every_s = self._pace.ping_every_s if self.state.open else self._pace.idle_ping_every_s
        return self._pinged_s + (self._pace.answer_s if self._unheard else every_s)

    def _ping(self, now_s: float) -> None:
        """Request the newest event number; after several pings without any answer, reconnect."""
        self._pinged_s = now_s
        if self._unheard >= self._pace.pings:
            self._link.broken = True
            return
        self._unheard += 1
        self._ask({"action": "ping", "conversation": self.state.conversation})

    def _renew(self, credential: Credential) -> None:
        """Renew this connection with a fresh token. If that fails, the server reports the expiry later."""
        self._renew_due_s = self._clock.monotonic_s() + self._pace.answer_s
        try:
            ticket = credential.ticket()
        except SteplineError:
            return
        self._renewing = True
        self._ask({"action": "auth", "ticket": ticket})

    def _plan_renewal(self, expires_at: float) -> None:
        left_s = expires_at - self._clock.now().timestamp()
        # The clock of this machine may be wrong, which must not cause requests without a pause.
        wait_s = max(self._pace.renew_after * left_s, self._pace.answer_s)
        self._renew_due_s = self._clock.monotonic_s() + wait_s

    def _send_again(self, message_id: str) -> None:
        self._outbox.note(message_id)
        self._ask(send_request(self.state, message_id))

    def _give_up(self, message_id: str) -> None:
        self.state = forget_message(self.state, message_id)
        self._outbox.settle(message_id)

    def _resume(self) -> None:
        self.listening = True
        self._catchup.note()
        self._ask(resume_request(self.state))

    def _ask(self, request: dict[str, Any]) -> None:
        self._link.send(encode_request(request))

    def _receive(self, wait_s: float) -> Frame | None:
        """Return the next frame, or None if there was none within this time."""
        text = None if self._link.broken else self._link.receive(wait_s)
        frame = None if text is None else read_frame(text)
        if frame:
            self._note_answer(frame)
        return frame

    def _reconnect(self) -> None:
        """Connect again; a connection that was closed for a fresh token does not count as lost."""
        expired, self._expired = self._expired, False
        if not expired:
            self.on_connection(False)
        self._link.reopen()
        if not expired:
            self.on_connection(True)
        self._start_connection()

    def _start_connection(self) -> None:
        """Start on a new connection: resume, and send all unanswered messages again."""
        self.listening = self._renewing = False
        if self._credential:
            self._plan_renewal(self._credential.expires_at)
        # The silence of a lost connection says nothing about the turn.
        self._pinged_s = self._heard_s = self._clock.monotonic_s()
        self._unheard = 0
        self._outbox.say_all_again()
        if self._known:
            self._resume()


Uniform = Callable[[float, float], float]
"""Draws a random number between two bounds."""


class Link:
    """One connection at a time. `broken` is true once it can no longer be used."""

    def __init__(self, dial: Dial, clock: Clock, pace: Pace, uniform: Uniform) -> None:
        """Create the link without connecting; `uniform` draws the jitter that spreads the clients' reconnects."""
        self._dial = dial
        self._clock = clock
        self._pace = pace
        self._uniform = uniform
        self._stack = ExitStack()
        self._connection: WebsocketConnection | None = None
        self._breaks = 0
        self.broken = False
        self._replace_due_s = float("inf")

    def open(self) -> None:
        """Open a connection, then close the previous one. Raises AuthError, DependencyError."""
        stack = ExitStack()
        connection = stack.enter_context(self._dial())
        self._stack.close()
        self._stack, self._connection, self.broken = stack, connection, False
        self._replace_due_s = self._clock.monotonic_s() + self._uniform(*self._pace.replace_s)

    def replace(self) -> bool:
        """Replace a connection that is due; return True if it was replaced.

        If no new one can be opened, keep the old one for now.
        """
        if self._clock.monotonic_s() < self._replace_due_s:
            return False
        try:
            self.open()
        except SteplineError:
            self._replace_due_s = self._clock.monotonic_s() + self._pace.answer_s
            return False
        return True

    def reopen(self) -> None:
        """Reconnect, with delays that grow until a connection has delivered a frame.

        Raises:
            AuthError: the gateway refuses our token.
            DependencyError: `socket_unreachable`, after the last try.
        """
        for delay_s in self._pace.reconnect_delays_s[self._breaks :]:
            self._breaks += 1
            self._clock.pause(self._uniform(0.0, delay_s))
            try:
                self.open()
            except DependencyError:
                continue
            return
        self._breaks = 0  # a caller may try again
        raise DependencyError("the connection was lost and cannot be restored", code="socket_unreachable")

    def close(self) -> None:
        """Close the connection."""
        self._stack.close()

    def send(self, message: str | list[str]) -> None:
        """Send a message; mark the link broken if that fails."""
        try:
            self._open_connection().send(message)
        except ConnectionClosed:
            self.broken = True

    def receive(self, wait_s: float) -> str | bytes | None:
        """Return the next frame, or None if there was none within this time."""
        try:
            text = self._open_connection().recv(timeout=wait_s)
        except TimeoutError:
            return None
        except ConnectionClosed:
            self.broken = True
            return None
        self._breaks = 0
        return text

    def _open_connection(self) -> WebsocketConnection:
        if self._connection is None:
            raise DependencyError("the session is not connected", code="socket_unreachable")
        return self._connection
