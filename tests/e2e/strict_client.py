"""A conversation as a strict client hears it: whatever is missing or refused breaks it, and nothing is asked again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from typing import Any

import msgspec
from websockets.exceptions import ConnectionClosed, InvalidHandshake
from websockets.sync.client import connect

from stepline.errors import SteplineError
from stepline.local.client.change import (
    Acknowledged,
    Effect,
    EventsApplied,
    Refused,
    Synced,
    TextAppended,
    TurnEnded,
)
from stepline.local.client.credential import fetch_ticket
from stepline.local.client.reducer import ClientState, fold_frame, resume_request
from stepline.local.client.websocket import OPEN_TIMEOUT_S, dial_gateway, encode_request
from stepline.local.stage.deployed import client
from stepline.local.stage.issuer.signing import sign_token
from stepline.model.wire.event import (
    AuthFrame,
    ClientEvent,
    ErrorFrame,
    Frame,
    NoticeFrame,
    WatchingFrame,
    decode_frame,
)
from stepline.ports.channel import Role
from tests.e2e.http_user import HttpUser, submit
from tests.e2e.stage import a_word

SILENCE_S = 1.0
VERDICT_S = 30
"""So long a file may be judged, with a function that starts and what is tried again."""
FAREWELL_S = 30
POLL_S = 0.3
PATIENT = 4
"""The factor of every time limit where a result is expected; where a failure is expected, it is 1."""


class BrokenTurnError(AssertionError):
    """Something did not happen as it must."""


class Talk:
    """One conversation on one connection. `running` returns True while another process may send something."""

    def __init__(
        self, connection, conversation: str, running: Callable[[], bool], patience: int = PATIENT
    ) -> None:
        self._patience = patience
        self.state = ClientState(conversation=conversation)
        self._overtaken = False
        self.begin()
        self._connection = connection
        self._frames = self._receive(running)

    def say(self, text: str) -> None:
        request = {"action": "send", "conversation": self.state.conversation, "message_id": f"m{a_word()}"}
        self.begin()
        self._connection.send(encode_request({**request, "text": text}))

    def begin(self, *, overtaken: bool = False) -> None:
        """Take what is heard from now on as that of another turn.

        What opens it may be `overtaken` by what follows, where another function than the turn's own sends it; nothing
        that comes is heard before the hole is filled.
        """
        self.events, self.text, self.printed, self.acknowledged = [], "", "", 0
        self._overtaken = self._overtaken or overtaken

    def renew(self, ticket: str) -> None:
        """Give the connection another token."""
        self._connection.send(encode_request({"action": "auth", "ticket": ticket}))
        if not isinstance(next(self._frames), AuthFrame):
            raise BrokenTurnError("the connection was not renewed")

    def resume(self) -> None:
        """Ask for everything, as one who comes late; what is new may overtake what is old."""
        self._overtaken = True
        self._connection.send(encode_request(resume_request(self.state)))
        self.hear(Synced)

    def hear(self, kind: type[Effect]) -> Effect:
        """Return the first thing of a kind that happens."""
        for frame in self._frames:
            effects = self._fold(frame)
            if found := next((effect for effect in effects if isinstance(effect, kind)), None):
                return found
        raise AssertionError("frames do not end")

    def hear_title(self, title: str) -> None:
        """Wait until the conversation has a title."""
        while not any(event.data.get("title") == title for event in self.events):
            self.hear(EventsApplied)

    def hear_of_its_end(self) -> None:
        """Wait until the conversation is heard to be deleted."""
        while not self.state.deleted:
            self.state, _ = fold_frame(self.state, next(self._frames))

    def watch(self) -> None:
        """Listen to what happens in all of the person's conversations."""
        self._connection.send(encode_request({"action": "watch"}))
        if not any(isinstance(frame, WatchingFrame) for frame in self._frames):
            raise BrokenTurnError("no connection watches")

    def hear_farewell(self, code: str) -> None:
        """Wait until the connection is closed, after a frame with this code."""
        has_code, until_s = False, time.monotonic() + FAREWELL_S * self._patience
        try:
            while time.monotonic() < until_s:
                with suppress(TimeoutError):
                    frame = decode_frame(self._connection.recv(timeout=SILENCE_S))
                    has_code = has_code or (isinstance(frame, ErrorFrame) and frame.code == code)
        except ConnectionClosed:
            if has_code:
                return
        raise BrokenTurnError(f"not closed, or without the code: {has_code}")

    def hear_notice(self) -> ClientEvent:
        """Return the next notice."""
        for frame in self._frames:
            if isinstance(frame, NoticeFrame):
                return frame.event
            self._fold(frame)
        raise AssertionError("frames do not end")

    def _fold(self, frame: Frame) -> tuple[Effect, ...]:
        self.state, effects = fold_frame(self.state, frame)
        for effect in effects:
            self._note(effect)
        if self.state.newest > self.state.cursor and not self.state.parts and not self._overtaken:
            raise BrokenTurnError(f"a hole after batch {self.state.cursor}")
        return effects

    @property
    def turn(self) -> str:
        """The id of the turn that was heard of last."""
        return next(event.turn_id for event in reversed(self.events) if event.turn_id)

    def answer(self) -> str:
        """Return the answer of the turn, heard to its end."""
        end = self.hear(TurnEnded)
        if end.outcome != "completed":
            raise BrokenTurnError(f"the turn ended with {end.code}: {end.message}")
        if not self.text:
            raise BrokenTurnError("no text came while the model wrote")
        return end.answer

    def _note(self, effect: Effect) -> None:
        match effect:
            case Refused(frame=frame):
                raise BrokenTurnError(f"refused with {frame.code}: {frame.message}")
            case EventsApplied(events=events):
                self.events += events
            case TextAppended(lane=lane, text=text) if lane.endswith(".log"):
                self.printed += text
            case TextAppended(text=text):
                self.text += text
            case Acknowledged():
                self.acknowledged += 1

    def _receive(self, running: Callable[[], bool]) -> Iterator[Frame]:
        over = False
        while True:
            try:
                text = self._connection.recv(timeout=SILENCE_S * self._patience)
            except TimeoutError:
                if over:
                    raise BrokenTurnError("nothing comes any more") from None
                over = not running()
                continue
            try:
                yield decode_frame(text)
            except msgspec.ValidationError as error:
                raise BrokenTurnError(f"the gateway answers for the function: {text}") from error


class Person:
    """A new user of a stage."""

    def __init__(self, stage, home, *, role: Role = "user", patience: int = PATIENT) -> None:
        self._patience = patience
        self._stage = stage
        self._home = home
        self._role = role
        self.name = f"u{a_word()}"
        self._states = client("stepfunctions", stage)

    def ticket(self) -> str:
        with broken_by(SteplineError):
            return fetch_ticket(self._stage.api_url, self._token())

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """Return what the HTTP API answers."""
        answer = self._http().ask(method, path, json=body)
        if not answer.ok:
            raise BrokenTurnError(f"{method} {path}: {answer.status_code} {answer.text}")
        return answer.json() if answer.content else None

    def upload(self, conversation: str, data: bytes, filename: str) -> str:
        """Upload a file; return its slot's id once there is a verdict."""
        with broken_by(AssertionError):
            grant = self._http().begin(conversation, data, filename)
        if (answer := submit(grant, data)).status_code != HTTPStatus.CREATED:
            raise BrokenTurnError(f"the form was not taken: {answer.status_code} {answer.text}")
        url = f"/v1/conversations/{conversation}/uploads/{grant['upload']}"
        until_s = time.monotonic() + VERDICT_S * self._patience
        while self.ask("GET", url)["state"] in ("waiting", "checking"):
            if time.monotonic() > until_s:
                raise BrokenTurnError("no verdict about the file")
            time.sleep(POLL_S)
        return grant["upload"]

    def _http(self) -> HttpUser:
        return HttpUser(self._stage.api_url, self._token())

    @contextmanager
    def enter(self, conversation: str, ticket: str = "") -> Iterator[Talk]:
        """Connect as a browser does with a ticket, or as a program with a token."""
        with broken_by(SteplineError, InvalidHandshake, OSError), self._dial(ticket) as connection:
            yield Talk(connection, conversation, self._running, self._patience)

    def _dial(self, ticket: str):
        if not ticket:
            return dial_gateway(self._stage.socket_url, self._token)()
        url = f"{self._stage.socket_url}?ticket={ticket}"
        return connect(url, compression=None, proxy=None, open_timeout=OPEN_TIMEOUT_S, legacy=False)

    def _token(self) -> str:
        return sign_token(self.name, issuer_url=self._stage.issuer_url, home=self._home, role=self._role)

    def _running(self) -> bool:
        arn = self._stage.machine_arn
        return bool(self._states.list_executions(stateMachineArn=arn, statusFilter="RUNNING")["executions"])


@contextmanager
def broken_by(*errors: type[Exception]) -> Iterator[None]:
    try:
        yield
    except errors as error:
        raise BrokenTurnError(f"no way in: {error}") from error
