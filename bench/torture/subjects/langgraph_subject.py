"""LangGraph's server as `langgraph dev` runs it: threads, background runs with resumable streams, interrupts, cancel.

Source: docs.langchain.com/langsmith (double texting, streaming, background runs, human in the loop using server API) and
the server's own openapi.json.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from bench.torture.http_json import EventSource, ask
from bench.torture.subject import (
    Event,
    Message,
    NotRunError,
    Place,
    RefusedError,
    Release,
    Stream,
    Transcript,
)
from bench.torture.worker_process import WorkerProcess, free_port, python_environment, python_versions

PEER: Final = Path(__file__).parents[1] / "peers" / "langgraph"
FILES: Final = ("agent.py", "checkpointer.py", "langgraph.json")
GRAPH: Final = "agent"
ACTIVE: Final = ("pending", "running")


def _environment() -> Path:
    return python_environment("langgraph", PEER / "requirements.txt")


def versions() -> str:
    """Return the versions of the server and the libraries."""
    names = (
        "langgraph-api",
        "langgraph-runtime-inmem",
        "langgraph",
        "langchain",
        "langgraph-checkpoint-sqlite",
    )
    return python_versions(_environment(), *names)


def open_subject(place: Place) -> LangGraphSubject:
    """Return the subject. Raises NoPeerError."""
    return LangGraphSubject(place, _environment())


class LangGraphSubject:
    """A server in a folder of its own."""

    def __init__(self, place: Place, environment: Path) -> None:
        """Copy the application into the folder."""
        for name in FILES:
            shutil.copy(PEER / name, place.folder / name)
        port = free_port()
        self._url = f"http://127.0.0.1:{port}"
        command = [
            str(environment / "bin/langgraph"),
            "dev",
            "--no-browser",
            "--no-reload",
            "--port",
            str(port),
        ]
        variables = {
            "TORTURE_EFFECTS": str(place.effects.folder),
            "TORTURE_MODEL": place.model_url,
            "PATH": f"{environment / 'bin'}:/usr/bin:/bin",
            "LANGSMITH_TRACING": "false",
            "LANGGRAPH_CLI_NO_ANALYTICS": "1",
        }
        self._worker = WorkerProcess(command, place.folder, variables, f"{self._url}/ok")

    def start(self) -> None:
        """Start the server."""
        self._worker.start()

    def close(self) -> None:
        """Kill it."""
        self._worker.kill()

    def kill(self) -> None:
        """Kill it."""
        self._worker.kill()

    def restart(self, release: Release = "one") -> None:
        """Start it in the same folder; it continues its queue by itself."""
        self._worker.start({"TORTURE_RELEASE": release})

    def deploy(self, release: Release) -> None:
        """End it, and start the other release in the same folder."""
        self._worker.end()
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
        ask("POST", f"{self._url}/threads/{thread}/runs", {**settings, **asked})

    def connect(self, thread: str, after: str = "") -> Stream:
        """Join the thread's stream after an event's id."""
        ask("POST", f"{self._url}/threads", {"thread_id": thread, "if_exists": "do_nothing"})
        headers = {"Last-Event-ID": after} if after else {}
        url = f"{self._url}/threads/{thread}/stream"
        return LangGraphStream(EventSource(url, headers))

    def read(self, thread: str) -> Transcript:
        """Return the thread's state, the runs' status included."""
        try:
            state = ask("GET", f"{self._url}/threads/{thread}/state")
            runs = ask("GET", f"{self._url}/threads/{thread}/runs?limit=100")
            status = ask("GET", f"{self._url}/threads/{thread}")
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
        for run in ask("GET", f"{self._url}/threads/{thread}/runs?limit=100"):
            if run["status"] in ACTIVE:
                ask(
                    "POST",
                    f"{self._url}/threads/{thread}/runs/{run['run_id']}/cancel?action=interrupt&wait=false",
                )

    def throttle(self, seconds: float) -> None:
        """Lock the checkpoints for writers and readers: see `WorkerProcess`; threads and runs are in memory."""
        raise NotRunError("its threads and runs are in the process's memory, which cannot be throttled")


class LangGraphStream:
    """A thread's stream as events."""

    def __init__(self, source: EventSource) -> None:
        """Keep the connection."""
        self._source = source

    def close(self) -> None:
        """Disconnect."""
        self._source.close()

    def __iter__(self) -> Iterator[Event]:
        """Yield the pieces of answers, interrupts and ends."""
        yield Event("ready")
        for one in self._source:
            data = json.loads(one.data) if one.data else None
            for event in _events_of(one.event, data):
                yield event._replace(cursor=one.id)


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
