"""LangGraph's server as `langgraph dev` runs it: threads, background runs with resumable streams, interrupts, cancel.

Source: docs.langchain.com/langsmith (double texting, streaming, background runs, human in the loop using server API) and
the server's own openapi.json.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from bench.torture.subject import (
    Event,
    Message,
    Place,
    RefusedError,
    Release,
    Stream,
    Transcript,
)
from bench.torture.subjects.json_api import JsonApi, Lines, free_port
from bench.torture.subjects.peer_process import PEERS, PeerApp
from bench.torture.subjects.python_peer import install_python, python_versions

FILES: Final = ("langgraph/agent.py", "langgraph/checkpointer.py", "langgraph/langgraph.json", "effects.py")
GRAPH: Final = "agent"
LOCK_S: Final = 30.0
ACTIVE: Final = ("pending", "running")


def versions() -> str:
    """Return the versions of the server and the libraries."""
    names = (
        "langgraph-api",
        "langgraph-runtime-inmem",
        "langgraph",
        "langchain",
        "langgraph-checkpoint-sqlite",
    )
    return python_versions("langgraph", *names)


def open_subject(place: Place) -> LangGraphSubject:
    """Return the subject. Raises NoPeerError."""
    return LangGraphSubject(place, install_python("langgraph"))


class LangGraphSubject:
    """A server in a folder of its own."""

    def __init__(self, place: Place, environment: Path) -> None:
        """Copy the application into the folder."""
        for name in FILES:
            shutil.copy(PEERS / name, place.folder)
        port = free_port()
        self._port, self._api = port, JsonApi(port)
        self._folder = place.folder
        self._variables = {
            **os.environ,  # noqa: TID251 - a server gets this process's variables
            "TORTURE_EFFECTS": str(place.effects.folder),
            "TORTURE_MODEL": place.model_url,
            "LANGSMITH_TRACING": "false",
            "LANGGRAPH_CLI_NO_ANALYTICS": "1",
        }
        command = [
            str(environment / "bin/langgraph"),
            "dev",
            "--no-browser",
            "--no-reload",
            "--port",
            str(port),
        ]
        self._app = PeerApp(command, place.folder / "log", self._api, "/ok")

    def start(self) -> None:
        """Start the server."""
        self._app.start(self._folder, self._variables)

    def close(self) -> None:
        """Kill it."""
        self._app.kill()

    def kill(self) -> None:
        """Kill it."""
        self._app.kill()

    def restart(self, release: Release = "one") -> None:
        """Start it in the same folder; it continues its queue by itself."""
        self._app.kill()  # one that killed itself is waited for
        self._app.start(self._folder, {**self._variables, "TORTURE_RELEASE": release})

    def deploy(self, release: Release) -> None:
        """End it, and start the other release in the same folder."""
        self._app.terminate()
        self.restart(release)

    def send(self, thread: str, text: str, message_id: str) -> None:
        """Create a background run with the message's id, as its reducer of messages knows them."""
        message = {"role": "user", "content": text, "id": message_id}
        self._run(thread, {"input": {"messages": [message]}})

    steer = send
    """Double texting with `enqueue`, the default: the message waits for the end of the run."""

    def _run(self, thread: str, asked: dict[str, Any]) -> None:
        settings = {
            "assistant_id": GRAPH,
            "stream_mode": ["messages-tuple", "updates"],
            "stream_resumable": True,
            "durability": "sync",
            "multitask_strategy": "enqueue",
            "if_not_exists": "create",
        }
        self._api.call("POST", f"/threads/{thread}/runs", {**settings, **asked})

    def connect(self, thread: str, after: str = "") -> Stream:
        """Join the thread's stream after an event's id."""
        self._api.call("POST", "/threads", {"thread_id": thread, "if_exists": "do_nothing"})
        headers = {"Accept": "text/event-stream", **({"Last-Event-ID": after} if after else {})}
        return LangGraphStream(Lines(self._port, ("GET", f"/threads/{thread}/stream", None), headers, None))

    def read(self, thread: str) -> Transcript:
        """Return the thread's state, the runs' status included."""
        try:
            state = self._api.call("GET", f"/threads/{thread}/state")
            runs = self._api.call("GET", f"/threads/{thread}/runs?limit=100")
            status = self._api.call("GET", f"/threads/{thread}")
        except RefusedError as error:
            if str(error).startswith("404"):
                return Transcript()
            raise
        messages = tuple(
            Message("user" if one["type"] == "human" else "assistant", _text_of(one))
            for one in (state["values"] or {}).get("messages", ())
            if one["type"] in ("human", "ai") and _text_of(one)
        )
        pending = tuple(one["id"] for task in state["tasks"] for one in task.get("interrupts", ()))
        newest = max(runs, key=lambda run: run["created_at"]) if runs else {"status": ""}
        if any(run["status"] in ACTIVE for run in runs):
            return Transcript(messages=messages, state="running")
        if pending:
            return Transcript(messages=messages, state="waiting", pending=pending)
        if newest["status"] in ("error", "timeout") or status["status"] == "error":
            return Transcript(
                messages=messages, state="failed", error=f"the run's status is {newest['status']}"
            )
        return Transcript(messages=messages)

    def answer(self, thread: str, call: str, *, approve: bool) -> None:
        """Resume the thread with the person's decision."""
        decision = {"type": "approve"} if approve else {"type": "reject", "message": "no"}
        self._run(thread, {"command": {"resume": {call: {"decisions": [decision]}}}})

    def stop(self, thread: str) -> None:
        """Cancel the running run."""
        for run in self._api.call("GET", f"/threads/{thread}/runs?limit=100"):
            if run["status"] in ACTIVE:
                run_path = f"/threads/{thread}/runs/{run['run_id']}"
                self._api.call("POST", f"{run_path}/cancel?action=interrupt&wait=false")

    def throttle(self, seconds: float) -> None:
        """Hold an exclusive transaction of its checkpoints' database; threads and runs are in memory."""
        locked = threading.Event()

        def hold() -> None:
            with closing(sqlite3.connect(self._folder / "checkpoints.db", timeout=LOCK_S)) as connection:
                connection.execute("BEGIN EXCLUSIVE")
                locked.set()
                time.sleep(seconds)

        threading.Thread(target=hold, daemon=True).start()
        locked.wait(LOCK_S)


class LangGraphStream:
    """A thread's stream as events."""

    def __init__(self, lines: Lines) -> None:
        """Keep the connection."""
        self._lines = lines

    def close(self) -> None:
        """Disconnect."""
        self._lines.close()

    def __iter__(self) -> Iterator[Event]:
        """Yield the pieces of answers, interrupts and ends. An event's lines are `event`, `data` and `id`, in any order."""
        yield Event("ready")
        kind = data = ""
        for line in self._lines:
            name, _, value = line.partition(": ")
            if name == "event":
                kind = value
            elif name == "data":
                data = value
            elif name == "id":
                for event in _events_of(kind, json.loads(data or "null")):
                    yield event._replace(cursor=value)


def _events_of(kind: str, data: Any) -> Iterator[Event]:
    match kind.partition("|")[0], data:
        case "messages", [{"type": "AIMessageChunk"} as chunk, _] if text := _text_of(chunk):
            yield Event("text", text)
        case "updates", {"__interrupt__": interrupts}:
            yield from (Event("approval", call=one["id"]) for one in interrupts)
        case "updates", {"model": {"messages": messages}}:
            yield from (Event("answer", _text_of(one)) for one in messages if _text_of(one))
        case "error", _:
            yield Event("end", str(data))
        case _:
            pass


def _text_of(message: dict[str, Any]) -> str:
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "".join(block.get("text", "") for block in content)
