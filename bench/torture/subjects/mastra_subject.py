"""Mastra, by its HTTP routes: durable agents, threads, signals, and the streams of runs by index."""

from __future__ import annotations

import itertools
import json
import queue
import shutil
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, Literal

from bench.torture.subject import (
    INSTRUCTIONS,
    NEXT_INSTRUCTIONS,
    Event,
    Message,
    Place,
    RefusedError,
    Release,
    Transcript,
)
from bench.torture.subjects import peer_process
from bench.torture.subjects.json_api import JsonApi, Lines, free_port
from bench.torture.subjects.store_process import StoreProcess, start_postgres, start_redis

NAME: Final = "mastra"
_AGENT: Final = "/api/agents/bench"
_OWNER: Final = "user"
_ENDS: Final = ("finish", "abort", "error")
GLANCE_S: Final = 0.3


def versions() -> str:
    """Return the versions that run."""
    return peer_process.versions(NAME, "@mastra/core", "@mastra/redis")


def open_subject(place: Place) -> Mastra:
    """Return the app with its state in Redis. Raises NoPeerError."""
    return Mastra(place, with_postgres=False)


class Mastra:
    """The app, its stores, and the run of each thread that was started last."""

    def __init__(self, place: Place, *, with_postgres: bool) -> None:
        """Install it. Raises NoPeerError."""
        self._place, self._with_postgres = place, with_postgres
        self._folder = peer_process.install(NAME)
        shutil.copy(peer_process.PEERS / "effects.mjs", self._folder)
        self._port = free_port()
        self._api = JsonApi(self._port)
        node = ["node", "app.mjs"]
        self._server = peer_process.PeerApp(node, place.folder / "server.log", self._api, "/api/agents")
        self._stores: list[StoreProcess] = []
        self._urls: dict[str, str] = {}
        self._runs: dict[str, Run] = {}

    def start(self) -> None:
        """Start the stores and the app."""
        redis = start_redis()
        self._stores.append(redis)
        self._urls["REDIS_URL"] = redis.url
        if self._with_postgres:
            postgres = start_postgres()
            self._stores.append(postgres)
            self._urls["POSTGRES_URL"] = postgres.url
        self.restart()

    def close(self) -> None:
        """End the app and the stores."""
        self._server.kill()
        for store in self._stores:
            store.close()

    def kill(self) -> None:
        """Kill the app."""
        self._server.kill()

    def restart(self, release: Release = "one") -> None:
        """Start the app, which recovers the runs of its durable agents."""
        self._server.kill()
        instructions = {"INSTRUCTIONS": INSTRUCTIONS}
        if release == "next":
            instructions = {"INSTRUCTIONS": NEXT_INSTRUCTIONS, "LOOKS": "yes"}
        environment = {
            **peer_process.node_environment(),
            **self._urls,
            **instructions,
            "MODEL_URL": self._place.model_url,
            "TORTURE_EFFECTS": str(self._place.effects.folder),
            "PORT": str(self._port),
            "MASTRA_TELEMETRY_DISABLED": "1",
        }
        self._server.start(self._folder, environment)

    def deploy(self, release: Release) -> None:
        """Replace the release."""
        self._server.terminate()
        self.restart(release)

    def send(self, thread: str, text: str, message_id: str) -> None:
        """Send a message to the thread; it has no id of the client's."""
        del message_id
        body = {"message": text, "threadId": thread, "resourceId": _OWNER}
        run = self._api.call("POST", f"{_AGENT}/send-message", body)["runId"]
        if thread not in self._runs or self._runs[thread].name != run:
            self._runs[thread] = Run(self._api, run)

    def connect(self, thread: str, after: str = "") -> MastraStream:
        """Subscribe to the thread's runs, and observe each of them by index."""
        body = {"threadId": thread, "resourceId": _OWNER}
        stream = MastraStream(self._api, self._api.open("POST", f"{_AGENT}/threads/subscribe", body), after)
        if after and not self._runs[thread].has_events():
            stream.stored = self._stored(thread)
        return stream

    def _stored(self, thread: str) -> tuple[Message, ...]:
        path = f"/api/memory/threads/{thread}/messages?agentId=bench&resourceId={_OWNER}&perPage=1000"
        return tuple(_messages(self._api.call("GET", path)["messages"]))

    def read(self, thread: str) -> Transcript:
        """Return the thread's messages from its memory, and the state of its last run."""
        messages: tuple[Message, ...] = ()
        waiting: tuple[str, ...] = ()
        whose = f"threadId={thread}&resourceId={_OWNER}"
        try:
            messages = self._stored(thread)
            suspended = self._api.call("GET", f"{_AGENT}/suspended-runs?{whose}")["runs"]
            waiting = tuple(call["toolCallId"] for run in suspended for call in run["toolCalls"])
        except RefusedError as error:
            if "not found" not in str(error):
                raise
        if waiting:
            return Transcript(messages=messages, state="waiting", pending=waiting)
        run = self._runs.get(thread)
        if run is None:
            return Transcript(messages=messages)
        if run.is_running():
            return Transcript(messages=messages, state="running")
        return Transcript(messages=messages, state="failed" if run.error else "idle", error=run.error)

    def answer(self, thread: str, call: str, *, approve: bool) -> None:
        """Approve or decline a call; the run continues in the thread's stream."""
        body = {"threadId": thread, "resourceId": _OWNER, "toolCallId": call, "approved": approve}
        self._api.call("POST", f"{_AGENT}/send-tool-approval", body)

    def steer(self, thread: str, text: str, message_id: str) -> None:
        """Send a message: a run that is active receives it."""
        self.send(thread, text, message_id)

    def stop(self, thread: str) -> None:
        """Abort the thread's active run."""
        self._api.call("POST", f"{_AGENT}/threads/abort", {"threadId": thread, "resourceId": _OWNER})

    def throttle(self, seconds: float) -> None:
        """Stop the stores for a while."""
        for store in self._stores:
            store.throttle(seconds)


def _messages(stored: list[dict[str, Any]]) -> Iterator[Message]:
    for message in stored:
        role: Literal["user", "assistant"] = "assistant" if message["role"] == "assistant" else "user"
        texts = [part["text"] for part in message["content"]["parts"] if part["type"] == "text"]
        if texts:
            yield Message(role, "\n".join(texts))


class Run:
    """A run, as a reader sees it who observes it for a moment: whether it has ended, and with which error."""

    def __init__(self, api: JsonApi, name: str) -> None:
        """Keep its name."""
        self._api, self.name = api, name
        self._next, self.error = 0, ""
        self._ended = False

    def is_running(self) -> bool:
        """Read its events since the last time; report whether it has events, and none of them is the last."""
        if not self._ended:
            last = self._read(self._next)
            if last is None and not self.has_events():
                self._ended = True
            elif last is not None and last["type"] in _ENDS:
                self._ended = True
                self.error = _error(last)
        return not self._ended

    def has_events(self) -> bool:
        """Report whether the server has events of the run: some time after its end it has none."""
        return self._read(0, most=1) is not None

    def _read(self, index: int, most: int = sys.maxsize) -> Mapping[str, Any] | None:
        """Return the last event that is there after an index."""
        last = None
        with observe(self._api, self.name, index, GLANCE_S) as lines, suppress(TimeoutError):
            for last in itertools.islice(events_of(lines), most):
                self._next = max(self._next, last["index"] + 1)
                if last["type"] in _ENDS:
                    break
        return last


def observe(api: JsonApi, run: str, index: int, wait_s: float | None = None) -> Lines:
    """Open a run's events from an index on. Raises RefusedError, OSError."""
    return api.open("POST", f"{_AGENT}/observe", {"runId": run, "offset": index}, wait_s)


def events_of(lines: Lines) -> Iterator[dict[str, Any]]:
    """Yield the JSON values of server-sent events."""
    for line in lines:
        if line.startswith("data: {"):
            yield json.loads(line.removeprefix("data: "))


def _error(event: Mapping[str, Any]) -> str:
    return str(event["data"]["error"]["message"]) if event["type"] == "error" else ""


class MastraStream:
    """The events of a thread's runs: the subscription names each run, which is then observed by index.

    A cursor is the run's name and the index of its next event. A client that returns to a run whose events are removed
    is shown the stored messages.
    """

    stored: tuple[Message, ...] = ()

    def __init__(self, api: JsonApi, subscription: Lines, after: str) -> None:
        """Keep the open subscription, and begin after a cursor if there is one."""
        self._api, self._subscription = api, subscription
        self._runs: queue.Queue[tuple[str, int] | OSError] = queue.Queue()
        self._known: set[str] = set()
        self._open: Lines | None = None
        self._closed = False
        if after:
            run, _, index = after.partition(" ")
            self._known.add(run)
            self._runs.put((run, int(index)))
        threading.Thread(target=self._subscribe, daemon=True).start()

    def _subscribe(self) -> None:
        """Note each run that the subscription names."""
        try:
            for chunk in events_of(self._subscription):
                if chunk.get("runId") and chunk["runId"] not in self._known:
                    self._known.add(chunk["runId"])
                    self._runs.put((chunk["runId"], 0))
            self._runs.put(ConnectionError("the subscription ended"))
        except OSError as error:
            self._runs.put(error)

    def __iter__(self) -> Iterator[Event]:
        yield Event("ready")
        for message in self.stored[-1:]:
            yield Event("answer" if message.role == "assistant" else "reset", message.text)
        while not self._closed:
            found = self._runs.get()
            if isinstance(found, OSError):
                raise found
            run, index = found
            with observe(self._api, run, index) as self._open:
                yield from self.client_events(run, events_of(self._open))

    @staticmethod
    def client_events(run: str, events: Iterator[dict[str, Any]]) -> Iterator[Event]:
        """Yield the events of a run; an answer is whole if its beginning was received here."""
        answer: str | None = None
        for event in events:
            chunk = event["data"] if event["type"] == "chunk" else event
            cursor = f"{run} {event['index'] + 1}"
            match chunk["type"]:
                case "text-start":
                    answer = ""
                    yield Event("reset", cursor=cursor)
                case "text-delta":
                    answer = None if answer is None else answer + chunk["payload"]["text"]
                    yield Event("text", chunk["payload"]["text"], cursor=cursor)
                case "text-end" if answer is not None:
                    yield Event("answer", answer, cursor=cursor)
                case "suspended":
                    yield Event("approval", call=event["data"]["toolCallId"], cursor=cursor)
                case "finish" | "abort" | "error":
                    yield Event("end", _error(event) or chunk["type"], cursor=cursor)

    def close(self) -> None:
        """Disconnect."""
        self._closed = True
        self._subscription.close()
        self._runs.put(ConnectionError("closed"))
        if self._open is not None:
            self._open.close()
