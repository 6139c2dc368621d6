"""eve, by its HTTP API: a session is a durable workflow on the local world, which `eve start` uses by default."""

from __future__ import annotations

import base64
import json
import shutil
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from bench.torture.subject import (
    INSTRUCTIONS,
    NEXT_INSTRUCTIONS,
    Event,
    Message,
    NotRunError,
    Place,
    RefusedError,
    Release,
    Transcript,
)
from bench.torture.subjects import peer_process
from bench.torture.subjects.json_api import JsonApi, Lines, free_port

NAME: Final = "eve"
LEASE_S: Final = 1
"""For how long a step of a process that has died is not started again; the default is 860 s."""
READY_S: Final = 20
SETTLED_S: Final = 3
State: TypeAlias = Literal["idle", "running", "waiting", "failed"]
_ENDED: Final = ("session.waiting", "session.completed")
_STATES: Final[Mapping[str, State]] = {
    "turn.started": "running",
    "step.started": "running",
    "turn.waiting": "waiting",
    "session.waiting": "idle",
    "session.completed": "idle",
}
_BASIC: Final = {"Authorization": f"Basic {base64.b64encode(b'bench:bench').decode()}"}


def versions() -> str:
    """Return the versions that run."""
    return peer_process.versions(NAME, "eve", "ai")


def open_subject(place: Place) -> Eve:
    """Return the app in a folder, both of its releases built. Raises NoPeerError."""
    return Eve(place, _built())


def _built() -> Path:
    """Return the folder of the builds `one` and `next`; make them if the sources or the packages have changed."""
    installed = peer_process.install(NAME)
    shutil.copy(peer_process.PEERS / "effects.mjs", installed / "agent" / "effects.mjs")
    sources = [
        path
        for path in sorted([peer_process.PEERS / "effects.mjs", *(peer_process.PEERS / NAME).rglob("*")])
        if path.is_file()
    ]
    made_from = b"".join(path.read_bytes() for path in sources)
    stamp = installed / "built-from"
    if stamp.exists() and stamp.read_bytes() == made_from:
        return installed
    for release, instructions in (("one", INSTRUCTIONS), ("next", NEXT_INSTRUCTIONS)):
        app = installed / "builds" / release
        shutil.rmtree(app, ignore_errors=True)
        shutil.copytree(installed / "agent", app / "agent")
        (app / "agent" / "lib").mkdir()
        (app / "agent" / "effects.mjs").rename(app / "agent" / "lib" / "effects.mjs")
        if release == "next":
            shutil.copytree(installed / "next", app / "agent", dirs_exist_ok=True)
        (app / "agent" / "instructions.md").write_text(f"{instructions}\n", encoding="utf-8")
        shutil.copy(installed / "package.json", app)
        peer_process.run(["npx", "eve", "build"], app, _environment("http://127.0.0.1:9", installed, 9))
    stamp.write_bytes(made_from)
    return installed


def _environment(model_url: str, effects: Path, port: int) -> dict[str, str]:
    return {
        **peer_process.node_environment(),
        "MODEL_URL": model_url,
        "TORTURE_EFFECTS": str(effects),
        "PORT": str(port),
        "WORKFLOW_INLINE_OWNERSHIP_LEASE_SECONDS": str(LEASE_S),
        "EVE_TELEMETRY_DISABLED": "1",
    }


class Eve:
    """The app, and which session of eve each thread is."""

    def __init__(self, place: Place, installed: Path) -> None:
        """Make the app's folder below the place's, whose build is exchanged at a deployment."""
        self._place, self._installed = place, installed
        self._app = place.folder / "app"
        self._port = free_port()
        self._api = JsonApi(self._port, _BASIC)
        command = [str(installed / "node_modules" / ".bin" / "eve"), "start", "--host", "127.0.0.1"]
        self._server = peer_process.PeerApp(command, place.folder / "server.log", self._api, "/eve/v1/health")
        self._sessions: dict[str, str] = {}
        self._first: dict[str, dict[str, str]] = {}
        self._contested: set[str] = set()
        self._lock = threading.Lock()

    def start(self) -> None:
        """Start release `one` on an empty store."""
        self._app.mkdir()
        shutil.copy(self._installed / "package.json", self._app)
        self.restart()

    def close(self) -> None:
        """End the server."""
        self._server.kill()

    def kill(self) -> None:
        """Kill the server."""
        self._server.kill()

    def restart(self, release: Release = "one") -> None:
        """Start the release's build on the store of the app's folder."""
        self._server.kill()
        for part in ("agent", ".output"):
            place = self._app / part
            place.unlink(missing_ok=True)
            place.symlink_to(self._installed / "builds" / release / part)
        environment = _environment(self._place.model_url, self._place.effects.folder, self._port)
        self._server.start(self._app, environment)

    def deploy(self, release: Release) -> None:
        """Replace the build."""
        self._server.terminate()
        self.restart(release)

    def send(self, thread: str, text: str, message_id: str) -> None:
        """Create a session with its first message, under the message's id, or send a follow-up."""
        body = {"message": text, "operationId": message_id}
        with self._lock:
            if thread not in self._sessions:
                self._first.setdefault(thread, body)
            first = self._first.get(thread)
        if first != body:
            self._post(self._session(thread), {"message": text})
            return
        created = self._api.call("POST", "/eve/v1/session", body)["sessionId"]
        with self._lock:
            if self._sessions.setdefault(thread, created) != created:
                self._contested.add(thread)

    def _post(self, session: str, body: Mapping[str, Any]) -> None:
        """Deliver to a session; while it is not ready, deliver again, for 20 s as the documented client does."""
        deadline_s = time.monotonic() + READY_S
        while True:
            try:
                self._api.call("POST", f"/eve/v1/session/{session}", body)
            except RefusedError as error:
                if "session_not_ready" not in str(error) or time.monotonic() > deadline_s:
                    raise
                time.sleep(0.25)
            else:
                return

    def _session(self, thread: str) -> str:
        """Return a thread's session; a new one waits for its first message.

        If deliveries of the first message were answered with several ids, the session is the one that its operation
        returns once it has started.
        """
        with self._lock:
            if thread in self._contested:
                time.sleep(SETTLED_S)
                self._contested.remove(thread)
                created = self._api.call("POST", "/eve/v1/session", self._first[thread])
                self._sessions[thread] = created["sessionId"]
            elif thread not in self._sessions:
                self._sessions[thread] = self._api.call("POST", "/eve/v1/session")["sessionId"]
            return self._sessions[thread]

    def connect(self, thread: str, after: str = "") -> EveStream:
        """Open the event stream at an index, or at its end."""
        session = self._session(thread)
        index = int(after) if after else self._tail(session)
        return EveStream(self._api.open("GET", f"/eve/v1/session/{session}/stream?startIndex={index}"), index)

    def _tail(self, session: str) -> int:
        with self._api.open("GET", f"/eve/v1/session/{session}/stream?startIndex=0&follow=false") as recorded:
            return int(recorded.headers["x-eve-stream-tail-index"]) + 1

    def read(self, thread: str) -> Transcript:
        """Fold the recorded events, as the documented client does."""
        path = f"/eve/v1/session/{self._session(thread)}/stream?startIndex=0&follow=false"
        with self._api.open("GET", path) as recorded:
            return fold_events(json.loads(line) for line in recorded)

    def answer(self, thread: str, call: str, *, approve: bool) -> None:
        """Answer a request for input."""
        response = {"requestId": call, "optionId": "approve" if approve else "cancel"}
        self._post(self._session(thread), {"inputResponses": [response]})

    def steer(self, thread: str, text: str, message_id: str) -> None:
        """Send a follow-up: `steer` is the default policy of a turn."""
        del message_id
        self._post(self._session(thread), {"message": text})

    def stop(self, thread: str) -> None:
        """Cancel the turn."""
        self._api.call("POST", f"/eve/v1/session/{self._session(thread)}/cancel")

    def throttle(self, seconds: float) -> None:
        """Refuse: files have no service that could be throttled."""
        raise NotRunError(
            "its store is a folder of this machine; there is no service that could be throttled"
        )


class EveStream:
    """The events of a session after an index."""

    def __init__(self, lines: Lines, index: int) -> None:
        """Keep the open answer."""
        self._lines, self._index = lines, index

    def __iter__(self) -> Iterator[Event]:
        yield Event("ready", cursor=str(self._index))
        for line in self._lines:
            self._index += 1
            event = json.loads(line)
            yield from _client_events(event["type"], event.get("data", {}), str(self._index))

    def close(self) -> None:
        """Disconnect."""
        self._lines.close()


def _client_events(kind: str, data: Mapping[str, Any], cursor: str) -> Iterator[Event]:
    match kind:
        case "step.started":
            yield Event("reset", cursor=cursor)
        case "message.appended":
            yield Event("text", data["messageDelta"], cursor=cursor)
        case "message.completed":
            yield Event("answer", data["message"] or "", cursor=cursor)
        case "input.requested":
            for request in data["requests"]:
                yield Event("approval", call=request["requestId"], cursor=cursor)
        case "turn.completed":
            yield Event("end", "completed", cursor=cursor)
        case "turn.cancelled":
            yield Event("end", "stopped", cursor=cursor)
        case "turn.failed":
            yield Event("end", str(data.get("message")), cursor=cursor)


def fold_events(events: Iterator[dict[str, Any]]) -> Transcript:
    """Return the thread. Events of a step that is done again have its turn and place, and replace those of the first time."""
    messages: dict[tuple[object, ...], Message] = {}
    pending: dict[str, tuple[object, object]] = {}
    state: State = "idle"
    error = ""
    for event in events:
        kind, data = event["type"], event.get("data", {})
        place = (data.get("turnId"), data.get("stepIndex"))
        if kind == "message.received":
            key = ("user", data["turnId"], data["sequence"], data["message"])
            messages.setdefault(key, Message("user", data["message"]))
        elif kind == "message.completed" and data["message"]:
            messages["assistant", *place] = Message("assistant", data["message"])
        error = _error_after(kind, data, error)
        state = "failed" if error and kind in _ENDED else _STATES.get(kind, state)
        _ask(pending, kind, data, place)
    asked = tuple(pending) if state == "waiting" else ()
    return Transcript(messages=tuple(messages.values()), state=state, pending=asked, error=error)


def _error_after(kind: str, data: Mapping[str, Any], before: str) -> str:
    if kind in ("turn.failed", "session.failed"):
        return str(data.get("message"))
    return "" if kind == "turn.started" else before


def _ask(
    pending: dict[str, tuple[object, object]],
    kind: str,
    data: Mapping[str, Any],
    place: tuple[object, object],
) -> None:
    """Add the requests of an event to those that wait, or remove them."""
    if kind == "step.started":
        for request in [request for request, of in pending.items() if of == place]:
            del pending[request]
    elif kind == "input.requested":
        pending.update({request["requestId"]: place for request in data["requests"]})
    elif kind == "input.resolved":
        for resolution in data["resolutions"]:
            pending.pop(resolution["requestId"], None)
