"""The AI SDK's chat with resumable streams: `streamText` in a handler, chats and streams in Redis."""

from __future__ import annotations

import json
import queue
import shutil
from collections.abc import Iterator
from typing import Any, Final

from bench.torture.subject import (
    INSTRUCTIONS,
    NEXT_INSTRUCTIONS,
    Event,
    Message,
    NotOfferedError,
    Place,
    RefusedError,
    Release,
    Transcript,
)
from bench.torture.subjects import peer_process
from bench.torture.subjects.json_api import JsonApi, Lines, free_port
from bench.torture.subjects.store_process import StoreProcess, start_redis

NAME: Final = "ai_sdk"
POLL_S: Final = 0.1
REPLAY_S: Final = 5.0
_REPLAY: Final = "replay"


def versions() -> str:
    """Return the versions that run."""
    return peer_process.versions(NAME, "ai", "resumable-stream")


def open_subject(place: Place) -> AiSdk:
    """Return the app with its Redis. Raises NoPeerError."""
    return AiSdk(place)


class AiSdk:
    """The app and its Redis."""

    def __init__(self, place: Place) -> None:
        """Install it. Raises NoPeerError."""
        self._place = place
        self._folder = peer_process.install(NAME)
        shutil.copy(peer_process.PEERS / "effects.mjs", self._folder)
        self._port = free_port()
        self._api = JsonApi(self._port)
        self._server = peer_process.PeerApp(
            ["node", "app.mjs"], place.folder / "server.log", self._api, "/health"
        )
        self._redis: StoreProcess | None = None
        self._streams: dict[str, list[AiSdkStream]] = {}
        self._posts = 0

    def start(self) -> None:
        """Start Redis and the app."""
        self._redis = start_redis()
        self.restart()

    def close(self) -> None:
        """End both."""
        self._server.kill()
        if self._redis is not None:
            self._redis.close()

    def kill(self) -> None:
        """Kill the app."""
        self._server.kill()

    def restart(self, release: Release = "one") -> None:
        """Start the app."""
        assert self._redis is not None
        self._server.kill()
        next_one = {"INSTRUCTIONS": NEXT_INSTRUCTIONS, "LOOKS": "yes"}
        environment = {
            **peer_process.node_environment(),
            **({"INSTRUCTIONS": INSTRUCTIONS} if release == "one" else next_one),
            "REDIS_URL": self._redis.url,
            "MODEL_URL": self._place.model_url,
            "TORTURE_EFFECTS": str(self._place.effects.folder),
            "PORT": str(self._port),
        }
        self._server.start(self._folder, environment)

    def deploy(self, release: Release) -> None:
        """Replace the release."""
        self._server.terminate()
        self.restart(release)

    def send(self, thread: str, text: str, message_id: str) -> None:
        """Post the user's message; its stream is read by those who resume it."""
        self._post(thread, {"id": message_id, "role": "user", "parts": [{"type": "text", "text": text}]})

    def _post(self, thread: str, message: dict[str, Any]) -> None:
        """Post a message; a client of the thread receives the answer's stream, each the next one."""
        answer = self._api.open("POST", "/api/chat", {"id": thread, "message": message})
        clients = [stream for stream in self._streams.get(thread, ()) if not stream.is_closed]
        if not clients:
            answer.close()
            return
        self._posts += 1
        clients[self._posts % len(clients)].receive(answer)

    def connect(self, thread: str, after: str = "") -> AiSdkStream:
        """Open a client of the chat; one that returns loads the stored messages first."""
        stream = AiSdkStream(self._api, f"/api/chat/{thread}", loads=bool(after))
        self._streams.setdefault(thread, []).append(stream)
        return stream

    def read(self, thread: str) -> Transcript:
        """Return the stored chat."""
        chat = self._api.call("GET", f"/api/chat/{thread}")
        messages = tuple(_messages(chat["messages"]))
        pending = tuple(part["approval"]["id"] for part in _asked(chat["messages"]))
        if pending:
            return Transcript(messages=messages, state="waiting", pending=pending)
        running = chat["activeStreamId"] is not None and self._is_streaming(thread)
        return Transcript(messages=messages, state="running" if running else "idle")

    def _is_streaming(self, thread: str) -> bool:
        """Report whether the chat's active stream can be resumed: the stored id may be one that is over, or was cut."""
        try:
            with self._api.open("GET", f"/api/chat/{thread}/stream", wait_s=REPLAY_S) as lines:
                return next(iter(lines), "") != ""
        except (RefusedError, TimeoutError):
            return False

    def answer(self, thread: str, call: str, *, approve: bool) -> None:
        """Post the assistant's message with the response in its part, as `addToolApprovalResponse` does."""
        message = self._api.call("GET", f"/api/chat/{thread}")["messages"][-1]
        for part in _asked([message]):
            if part["approval"]["id"] == call:
                part.update(state="approval-responded", approval={"id": call, "approved": approve})
        self._post(thread, message)

    def steer(self, thread: str, text: str, message_id: str) -> None:
        """Refuse."""
        raise NotOfferedError(
            "no act adds a message to a turn that runs: its page on `useChat` lets the client wait for the status `ready`"
        )

    def stop(self, thread: str) -> None:
        """Post to the stop endpoint."""
        self._api.call("POST", f"/api/chat/{thread}/stop")

    def throttle(self, seconds: float) -> None:
        """Stop Redis for a while."""
        assert self._redis is not None
        self._redis.throttle(seconds)


def _asked(messages: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the parts of the last message that wait for a person."""
    for message in messages[-1:]:
        for part in message["parts"]:
            if part.get("state") == "approval-requested":
                yield part


def _messages(stored: list[dict[str, Any]]) -> Iterator[Message]:
    for message in stored:
        if text := "\n".join(part["text"] for part in message["parts"] if part["type"] == "text"):
            yield Message(message["role"], text)


class AiSdkStream:
    """A client of a chat: it receives the stream of what it posts, and resumes one that runs from its beginning."""

    def __init__(self, api: JsonApi, path: str, *, loads: bool) -> None:
        """Keep where the chat is, and whether its messages are loaded first."""
        self._api, self._path, self._loads = api, path, loads
        self._posted: queue.Queue[Lines] = queue.Queue()
        self._open: Lines | None = None
        self._done: set[str] = set()
        self.is_closed = False

    def receive(self, answer: Lines) -> None:
        """Let the client read the answer to what it posted."""
        self._posted.put(answer)

    def __iter__(self) -> Iterator[Event]:
        yield Event("ready", cursor=_REPLAY)
        if self._loads:
            stored = list(_messages(self._api.call("GET", self._path)["messages"]))
            if stored and stored[-1].role == "assistant":
                yield Event("answer", stored[-1].text, cursor=_REPLAY)
        while not self.is_closed:
            with self._next() as self._open:
                yield from self._events(self._open)

    def _next(self) -> Lines:
        try:
            return self._posted.get(timeout=POLL_S)
        except queue.Empty:
            return self._api.open("GET", f"{self._path}/stream")

    def _events(self, lines: Lines) -> Iterator[Event]:
        message, answer = "", ""
        for line in lines:
            chunk = json.loads(line.removeprefix("data: ")) if line.startswith("data: {") else {"type": ""}
            kind = chunk["type"]
            message = chunk["messageId"] if kind == "start" else message
            if message in self._done:
                continue
            match kind:
                case "start" | "text-start":
                    answer = ""
                    yield Event("reset", cursor=_REPLAY)
                case "text-delta":
                    answer += chunk["delta"]
                    yield Event("text", chunk["delta"], cursor=_REPLAY)
                case "text-end":
                    yield Event("answer", answer, cursor=_REPLAY)
                case "tool-approval-request":
                    yield Event("approval", call=chunk["approvalId"], cursor=_REPLAY)
                case "finish" | "abort" | "error":
                    yield Event("end", chunk.get("errorText", kind), cursor=_REPLAY)
        if message:
            self._done.add(message)

    def close(self) -> None:
        """Disconnect."""
        self.is_closed = True
        if self._open is not None:
            self._open.close()
