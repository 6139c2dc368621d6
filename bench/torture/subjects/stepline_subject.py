"""Stepline on the local stage: its agent by `stepline up`, its clients by their websocket.

A cell has its own conversation. The stage is deployed by the first cell, and stays as it is for the others; `close_stage`
deploys what was there before.
"""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from typing import Final

from bench.peer import NoPeerError
from bench.row import MeasureError
from bench.torture.subject import Event, Message, Place, RefusedError, Release, Transcript
from bench.torture.subjects.stepline_agent import THROTTLED, bundle_text
from stepline.adapters.system import SystemClock
from stepline.errors import DependencyError, SteplineError
from stepline.local.caller import Caller, find_caller, open_api
from stepline.local.client.change import (
    Acknowledged,
    Effect,
    EventsApplied,
    Refused,
    StreamReset,
    TextAppended,
    TurnEnded,
)
from stepline.local.client.outgoing import Said
from stepline.local.client.reducer import fold_frame
from stepline.local.client.session import Session
from stepline.local.client.state import ClientState
from stepline.local.client.websocket import dial_gateway
from stepline.local.stage.deployed import HOME, REPOSITORY, install_environment
from stepline.local.stage.lifecycle import stage_status
from stepline.model.wire.event import ClientEvent
from tests.e2e.release import Releases
from tests.e2e.stage import STEPLINE, Stage

FOLDER: Final = HOME / "torture"
BUNDLE: Final = "tortured"
FUNCTIONS: Final = ("socket", "decide", "act", "close", "sweeper", "api")
STATES_MAX: Final = 200
ACK_S: Final = 60.0
UP_S: Final = 600
ANSWER: Final = "answer."
ABSENT: Final = ("not_found",)
_DEPLOYED: dict[str, str] = {}
"""The address of the model and the release that this process has deployed."""


def versions() -> str:
    """Return this release's version."""
    return f"stepline {version('stepline')}"


def open_subject(place: Place) -> SteplineSubject:
    """Return the subject. Raises NoPeerError without a local stage."""
    return SteplineSubject(place)


def deploy(model_url: str, release: Release) -> None:
    """Deploy a release of the bundle with the model at this address, as its user does. Raises NoPeerError."""
    (FOLDER / "project").mkdir(parents=True, exist_ok=True)
    text = bundle_text(str(FOLDER / "effects"), release)
    (FOLDER / "project" / f"{BUNDLE}.py").write_text(text, encoding="utf-8")
    _run("up", "--bundle", BUNDLE, "--model", f"{model_url}/v1")
    _DEPLOYED.update(model_url=model_url, release=release)


def close_stage() -> None:
    """Deploy the default bundle with the stage's own model."""
    if _DEPLOYED:
        _run("up")
        _DEPLOYED.clear()


def _run(*arguments: str) -> None:
    done = subprocess.run(
        [STEPLINE, *arguments],
        cwd=FOLDER / "project",
        capture_output=True,
        text=True,
        timeout=UP_S,
        check=False,
        stdin=subprocess.DEVNULL,
        env=install_environment(),
    )
    if done.returncode:
        raise NoPeerError(f"no local stage: {done.stderr.strip().splitlines()[-1]}")


class SteplineSubject:
    """A conversation's clients, and the stage that they talk to."""

    def __init__(self, place: Place) -> None:
        """Use the stage of this machine."""
        self._place = place
        self._user = f"torture{secrets.token_hex(4)}"
        self._states: dict[str, ClientState] = {}
        self._releases: Releases | None = None

    def start(self) -> None:
        """Deploy release `one`, and link the ledger of this cell."""
        FOLDER.mkdir(parents=True, exist_ok=True)
        (FOLDER / "effects").unlink(missing_ok=True)
        (FOLDER / "effects").symlink_to(self._place.effects.folder)
        wanted = {"model_url": self._place.model_url, "release": "one"}
        if wanted != _DEPLOYED:
            deploy(self._place.model_url, "one")
        found = stage_status().stage
        if found is None:
            raise NoPeerError("no local stage is deployed")
        self._stage = Stage(found)
        self._caller: Caller = find_caller("", self._user, token="", token_command="")
        self._api = open_api(self._caller)

    def close(self) -> None:
        """Take the throttling away."""
        if self._releases is not None:
            self._releases.undo()

    def kill(self) -> None:
        """Kill every process of the stage's functions."""
        pids = self._stage.worker_pids()
        if not pids:
            raise MeasureError("no process of a function was there to be killed")
        for pid in pids:
            os.kill(pid, signal.SIGKILL)

    def restart(self, release: Release = "one") -> None:
        """Do nothing: the emulator starts a function's process for its next invocation, as AWS does."""

    def deploy(self, release: Release) -> None:
        """Deploy by `stepline up`."""
        deploy(self._place.model_url, release)

    def send(self, thread: str, text: str, message_id: str) -> None:
        """Send by a connection of its own."""
        self._say(thread, Said(text=text), message_id)

    def steer(self, thread: str, text: str, message_id: str) -> None:
        """Steer the turn."""
        self._say(thread, Said(kind="steer", text=text), message_id)

    def stop(self, thread: str) -> None:
        """Stop the turn."""
        self._say(thread, Said(kind="stop"), f"stop-{secrets.token_hex(4)}")

    def answer(self, thread: str, call: str, *, approve: bool) -> None:
        """Answer for the person."""
        said = Said(verdict="approve" if approve else "deny", call_id=call)
        self._say(thread, said, f"answer-{secrets.token_hex(4)}")

    def _say(self, thread: str, said: Said, message_id: str) -> None:
        with self._session(ClientState(conversation=thread)) as session:
            session._send(said, message_id)  # noqa: SLF001 - a message's id, which the scenario chooses, has no other way in
            deadline_s = time.monotonic() + ACK_S
            while time.monotonic() < deadline_s:
                for effect in session.step(0.1):
                    if isinstance(effect, Acknowledged) and effect.frame.message_id == message_id:
                        return
                    if isinstance(effect, Refused):
                        raise RefusedError(f"{effect.frame.code}: {effect.frame.message}")
        raise ConnectionError("the message was not acknowledged")

    @contextmanager
    def _session(self, state: ClientState) -> Iterator[Session]:
        try:
            dial = dial_gateway(self._caller.url, self._caller.token)
            with Session(dial, state, SystemClock()) as session:
                yield session
        except DependencyError as error:
            raise ConnectionError(str(error)) from error
        except SteplineError as error:
            raise RefusedError(f"{error.reason}: {error}") from error

    def connect(self, thread: str, after: str = "") -> SteplineStream:
        """Return a client that continues from another one's state."""
        state = self._states.get(after) or ClientState(conversation=thread)
        return SteplineStream(self._session, state, self._keep)

    def _keep(self, state: ClientState) -> str:
        """Keep a client's state; return its name. Only the first ones of a conversation are kept, for they hold the text."""
        if len(self._states) >= STATES_MAX:
            return ""
        name = f"{len(self._states) + 1}"
        self._states[name] = state
        return name

    def read(self, thread: str) -> Transcript:
        """Return the conversation from the HTTP API."""
        state, events = self._stored(thread)
        messages, failed = list[Message](), ""
        for event in events:
            match event.type:
                case "chat.conversation.accepted":
                    messages.append(Message("user", event.data.get("text", "")))
                    failed = ""
                case "chat.complete":
                    messages.append(Message("assistant", event.data.get("answer", "")))
                case "chat.step" if "answer" in event.data:
                    messages.append(Message("assistant", event.data["answer"]))
                case "chat.error":
                    failed = f"{event.data['code']}: {event.data['error']}"
                case _:
                    pass
        pending = (state.approval,) if state.approval else ()
        kind = "waiting" if pending else "running" if state.open else "failed" if failed else "idle"
        return Transcript(messages=tuple(messages), state=kind, pending=pending, error=failed)

    def _stored(self, thread: str) -> tuple[ClientState, Sequence[ClientEvent]]:
        state, events = ClientState(conversation=thread), list[ClientEvent]()
        try:
            page = self._api.read_events(thread)
            frames = [*page.events]
            while page.more:
                page = self._api.read_events(thread, before=page.first_n)
                frames = [*page.events, *frames]
        except SteplineError as error:
            if error.reason in ABSENT:
                return state, events
            raise ConnectionError(str(error)) from error
        for frame in frames:
            state, effects = fold_frame(state, frame)
            events += [event for one in effects if isinstance(one, EventsApplied) for event in one.events]
        return state, events

    def throttle(self, seconds: float) -> None:
        """Let the functions' clients of the table get the answer of a throttled one, by a release of each function."""
        flag = FOLDER / "throttled"
        flag.unlink(missing_ok=True)
        self._releases = Releases(self._stage)
        source = THROTTLED.replace("{repository!r}", repr(str(REPOSITORY))).replace(
            "{flag!r}", repr(str(flag))
        )
        for function in FUNCTIONS:
            self._releases.publish(function, source)
        flag.write_text(str(time.time() + seconds))


class SteplineStream:
    """A client's session, in the thread that iterates."""

    def __init__(
        self, session: Callable[[ClientState], object], state: ClientState, keep: Callable[[ClientState], str]
    ) -> None:
        """Create the client; it connects when it is iterated."""
        self._open, self._state, self._keep = session, state, keep
        self._closed = threading.Event()

    def close(self) -> None:
        """Let the connection end at the next step."""
        self._closed.set()

    def __iter__(self) -> Iterator[Event]:
        """Listen from the state on; a conversation that does not exist yet is asked for again."""
        with self._open(self._state) as session:
            yield Event("ready")
            session.listen()
            while not self._closed.is_set():
                for effect in session.step(0.05):
                    if isinstance(effect, Refused) and effect.frame.code in ABSENT:
                        time.sleep(0.2)
                        session.listen()
                    elif events := _events_of(effect):
                        cursor = self._keep(session.state)
                        yield from (event._replace(cursor=cursor) for event in events)


def _events_of(effect: Effect) -> Sequence[Event]:
    match effect:
        case TextAppended(lane=lane, text=text) if ANSWER in lane:
            return [Event("text", text)]
        case StreamReset():
            return [Event("reset")]
        case TurnEnded(answer=answer, reason=reason, code=code):
            return [Event("answer", answer), Event("end", code or reason)]
        case EventsApplied(events=events):
            asked = [event for event in events if event.type == "approval.requested"]
            return [Event("approval", call=event.data["call_id"]) for event in asked]
        case _:
            return []
