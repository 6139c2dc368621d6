"""Strands Agents in a FastAPI server with snapshot sessions in files: `peers/strands/app.py`."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

from bench.torture.subject import Message, Place, Release, Stream, Transcript
from bench.torture.subjects.json_api import JsonApi, free_port
from bench.torture.subjects.peer_process import PEERS, PeerApp
from bench.torture.subjects.python_peer import install_python, python_versions
from bench.torture.subjects.response_stream import ResponseClients


def versions() -> str:
    """Return the versions of the library and its server."""
    return python_versions("strands", "strands-agents", "fastapi", "uvicorn")


def open_subject(place: Place) -> StrandsSubject:
    """Return the subject. Raises NoPeerError."""
    return StrandsSubject(place, install_python("strands"))


class StrandsSubject:
    """A server in a folder of its own."""

    def __init__(self, place: Place, environment: Path) -> None:
        """Copy the application into the folder."""
        for source in (PEERS / "strands" / "app.py", PEERS / "effects.py"):
            shutil.copy(source, place.folder / source.name)
        port = free_port()
        self._api = JsonApi(port)
        self._folder = place.folder
        self._variables = {
            **os.environ,  # noqa: TID251 - a server gets this process's variables
            "TORTURE_EFFECTS": str(place.effects.folder),
            "TORTURE_MODEL": place.model_url,
        }
        command = [str(environment / "bin/uvicorn"), "app:app", "--port", str(port)]
        self._app = PeerApp(command, place.folder / "log", self._api, "/ok")
        self._clients = ResponseClients(self._api)

    def start(self) -> None:
        """Start the server."""
        self._app.start(self._folder, self._variables)

    def close(self) -> None:
        """Kill it."""
        self._app.kill()

    kill = close

    def restart(self, release: Release = "one") -> None:
        """Start it in the same folder; sessions are restored when they are used."""
        self._app.kill()  # one that killed itself is waited for
        self._app.start(self._folder, {**self._variables, "TORTURE_RELEASE": release})

    def deploy(self, release: Release) -> None:
        """End it, and start the other release."""
        self._app.terminate()
        self.restart(release)

    def send(self, thread: str, text: str, message_id: str) -> None:
        """Send a message, with its id as the invocation's `idempotency_token`."""
        self._clients.post(thread, f"/threads/{thread}/messages", {"text": text, "id": message_id})

    def steer(self, thread: str, text: str, message_id: str) -> None:
        """Send a message as any other."""
        self.send(thread, text, message_id)

    def connect(self, thread: str, after: str = "") -> Stream:
        """Return a client that is shown its own invocations."""
        return self._clients.connect(thread)

    def read(self, thread: str) -> Transcript:
        """Return the session."""
        found = self._api.call("GET", f"/threads/{thread}")
        messages = tuple(Message(one["role"], one["text"]) for one in found["messages"])
        error = self._clients.errors.get(thread, "")
        state = "failed" if error and found["state"] == "idle" else found["state"]
        return Transcript(messages=messages, state=state, pending=tuple(found["pending"]), error=error)

    def answer(self, thread: str, call: str, *, approve: bool) -> None:
        """Answer the interrupt."""
        self._clients.post(thread, f"/threads/{thread}/answers", {"call": call, "approve": approve})

    def stop(self, thread: str) -> None:
        """Cancel the agent."""
        self._api.call("POST", f"/threads/{thread}/stop")

    def throttle(self, seconds: float) -> None:
        """Let its storage raise OSError."""
        (self._folder / "throttled").write_text(str(time.time() + seconds))
