"""Sessions as vectors: the steps of each second, and the connections, requests and effects that follow.

A step is one call (`call`), frame (`frame`), break of the connection (`cut`), or number of dials that fail (`refuse`).
Ids that the session draws are `$1`, `$2`, … in the order in which they are drawn. All intervals are whole seconds, and
nothing happens while a client waits for its next try: Python's client is blocked then.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import msgspec
from msgspec.structs import fields

from docs.build.web_frames import camel
from stepline.adapters.memory.clock import MemoryClock
from stepline.local.client.pace import Pace
from stepline.local.client.session import Session
from stepline.local.client.state import ClientState
from tests.unit.local.client.simulated_connection import Over, RemoteEnd
from tests.unit.local.client.vector_walk import C, plain_effect, plain_state

PACE: Final = Pace(
    tick_s=1.0,
    gap_s=2.0,
    resume_every_s=2.0,
    resume_answer_s=10.0,
    answer_s=20.0,
    retry_after_max_s=60,
    tries=3,
    connections=3,
    resumes=3,
    silent_s=400.0,
    ping_every_s=25.0,
    idle_ping_every_s=60.0,
    pings=2,
    replace_s=(300.0, 410.0),  # at no time of a ping
    reconnect_delays_s=(1.0, 2.0, 4.0, 8.0, 16.0),
)
TICKLESS: Final = ("tick_s",)

Step = dict[str, Any]


def call(at: int, method: str, *args: Any, **given: Any) -> Step:
    return {"at": at, "call": method, "args": list(args), "given": given}


def frame(at: int, tag: str, **given: Any) -> Step:
    conversation = {} if tag == "auth" or given.pop("bare", False) else {"conversation": C}
    return {"at": at, "frame": {"frame": tag, **conversation, **given}}


DELETED: Final = {"type": "conv.status", "route": "conv_status", "ts": "", "data": {"state": "deleted"}}


def sync(at: int, n: int, **given: Any) -> Step:
    return frame(at, "sync", n=n, **given)


def batch(at: int, n: int, kind: str = "chat.step", **given: Any) -> Step:
    events = [{"type": kind, "route": "chat_step", "ts": "", "turn_id": "turn_1"}]
    return frame(at, "events", n=n, prev=n - 1, events=events, **given)


def ack(at: int, message_id: str, n: int, **given: Any) -> Step:
    return frame(at, "ack", message_id=message_id, n=n, kind="prompt", **given)


def refusal(at: int, code: str, **given: Any) -> Step:
    return frame(at, "error", code=code, message="no", **given)


SCRIPTS: Final[dict[str, dict[str, Any]]] = {
    "a message is sent, answered, and its turn followed to the end": {
        "until": 100,
        "timezone": "Europe/Zurich",
        "bundle": "docs",
        "steps": [
            call(1, "say", "héllo 🙂", message_id="m1", uploads=["up_1"]),
            batch(2, 1, "chat.start", claim=1),
            ack(2, "m1", 1),
            frame(3, "delta", claim=1, lane="answer.0", off=0, text="Hi 🙂"),
            frame(30, "pong", n=1),
            batch(40, 2, "chat.complete"),
        ],
    },
    "every kind of message has its request": {
        "until": 12,
        "cursor": 3,
        "steps": [
            sync(1, 3, open=True, turn_id="turn_1"),
            call(2, "steer", "shorter"),
            call(3, "stop"),
            call(4, "tell", "form", {"field": 1}, text="done", reactive=False),
            call(5, "answer", "approve", "tc_1"),
            call(6, "answer", "deny", "tc_1", text="No."),
            call(7, "answer", "edit", "tc_1", params={"to": "anna"}),
            call(8, "rate", "not_ok", "Too long.", turn="turn_1"),
            call(9, "rate", None),
            ack(10, "$1", 4),
            ack(10, "$2", 5, duplicate=True, newest=7),
        ],
    },
    "a message that nobody answers is sent again and given up": {
        "until": 100,
        "steps": [call(1, "say", "hi", message_id="m1")],
    },
    "a message that the server puts off waits as long as it asks": {
        "until": 120,
        "steps": [
            call(1, "say", "hi", message_id="m1"),
            refusal(2, "rate_limited", message_id="m1", retryable=True, retry_after_s=37),
            refusal(41, "rate_limited", message_id="m1", retryable=True, retry_after_s=61),
        ],
    },
    "an unknown time zone is dropped": {
        "until": 15,
        "timezone": "Mars/Olympus",
        "steps": [
            call(1, "say", "hi", message_id="m1"),
            refusal(2, "bad_timezone", message_id="m1"),
            ack(3, "m1", 1),
            batch(3, 1, "chat.start"),
            call(4, "say", "more", message_id="m2"),
        ],
    },
    "a gap gets time to close, and is asked for then": {
        "until": 60,
        "cursor": 1,
        "steps": [sync(1, 1), batch(8, 3), batch(9, 2), batch(9, 3), batch(15, 5), batch(19, 4), sync(19, 5)],
    },
    "resumes that nobody answers are told": {"until": 50, "cursor": 3, "steps": []},
    "a resume that is refused for now is asked for later": {
        "until": 60,
        "cursor": 3,
        "steps": [
            refusal(1, "dependency", retryable=True),
            refusal(6, "dependency", retryable=True),
            refusal(14, "dependency", retryable=True),
        ],
    },
    "a conversation that is shorter than the cursor is read anew": {
        "until": 20,
        "cursor": 30,
        "steps": [refusal(1, "resume_beyond_end"), batch(2, 1, "chat.start"), sync(2, 1, open=True)],
    },
    "nothing more is asked of a conversation that was deleted, also on the next connection": {
        "until": 200,
        "cursor": 1,
        "steps": [
            sync(1, 1),
            frame(2, "events", n=2, prev=1, events=[DELETED]),
            {"at": 90, "cut": True},
            call(100, "say", "hello?", message_id="m1"),
            refusal(101, "conversation_deleted", message_id="m1"),
        ],
    },
    "a broken connection is resumed, and what was unanswered sent again": {
        "until": 40,
        "cursor": 1,
        "steps": [
            sync(1, 1, open=True, claim=1),
            frame(2, "delta", claim=1, lane="answer.0", off=0, text="a🙂b"),
            call(3, "say", "more", message_id="m2"),
            {"at": 5, "cut": True},
            batch(8, 2),
            frame(9, "delta", claim=1, lane="answer.0", off=3, text="c"),
            sync(9, 2, open=True, claim=1),
            ack(10, "m2", 2),
        ],
    },
    "who connects again waits longer each time until something comes": {
        "until": 80,
        "cursor": 3,
        "steps": [
            sync(1, 3),
            {"at": 5, "refuse": 3},
            {"at": 5, "cut": True},
            sync(25, 3),
            {"at": 30, "cut": True},
            sync(35, 3),
        ],
    },
    "a message over which every connection breaks is given up": {
        "until": 40,
        "steps": [
            call(1, "say", "poison", message_id="m1"),
            {"at": 2, "cut": True},
            {"at": 6, "cut": True},
            {"at": 12, "cut": True},
        ],
    },
    "pings that nobody answers lead to a new connection": {
        "until": 150,
        "cursor": 3,
        "steps": [sync(1, 3), sync(110, 3)],
    },
    "an old connection is replaced, also if that fails at first": {
        "until": 520,
        "cursor": 3,
        "steps": [
            *(frame(at, "pong", n=3) for at in range(61, 430, 60)),
            sync(1, 3),
            {"at": 390, "refuse": 2},
            sync(455, 3),
        ],
    },
    "a silent turn is told, and its silence begins anew with each connection": {
        "until": 820,
        "cursor": 3,
        "steps": [
            sync(1, 3, open=True, turn_id="turn_1"),
            *(frame(at, "pong", n=3) for at in range(26, 410, 25)),
            *(frame(at, "pong", n=3) for at in range(436, 810, 25)),
            sync(412, 3, open=True, turn_id="turn_1"),
        ],
    },
    "a turn in line is not silent, however long it waits": {
        "until": 420,
        "cursor": 3,
        "steps": [
            sync(1, 3, open=True, turn_id="turn_1", place=2),
            *(frame(at, "pong", n=3, place=1) for at in range(26, 410, 25)),
        ],
    },
    "a token is renewed at four fifths of its life": {
        "until": 260,
        "expires_in_s": 100,
        "steps": [
            frame(81, "auth", expires_in_s=100),
            refusal(162, "dependency", retryable=True, bare=True),
            frame(182, "auth", expires_in_s=-5),
            frame(203, "auth", expires_in_s=3600),
        ],
    },
    "an expired token leads to a fresh connection": {
        "until": 20,
        "cursor": 1,
        "steps": [
            sync(1, 1),
            call(2, "say", "hi", message_id="m1"),
            refusal(3, "unauthorized", message_id="m1"),
            sync(6, 1),
            ack(6, "m1", 2),
            batch(6, 2, "chat.start"),
        ],
    },
    "joining moves to the newest event": {
        "until": 20,
        "steps": [frame(1, "pong", n=9), call(1, "join"), sync(2, 9)],
    },
    "joining a conversation that is not there changes nothing": {
        "until": 20,
        "steps": [refusal(1, "not_found"), call(1, "join")],
    },
    "text that is no frame repeats what is unanswered": {
        "until": 20,
        "steps": [
            call(1, "say", "hi", message_id="m1"),
            {"at": 2, "text": '{"message": "Internal server error"}'},
            {"at": 3, "text": '{"frame":"news","text":"soon"}'},
            ack(6, "m1", 0),
        ],
    },
}


class _Credential:
    """Tokens of this lifetime, and a ticket for each renewal."""

    renews = True

    def __init__(self, expires_at: float) -> None:
        self.expires_at = expires_at
        self.tickets = 0

    def ticket(self) -> str:
        self.tickets += 1
        return f"ticket-{self.tickets}"


class _Stage(RemoteEnd):
    """A remote end that runs a script, and records what happens."""

    def __init__(self, script: dict[str, Any]) -> None:
        super().__init__(self._take, MemoryClock())
        self.happened: list[list[Any]] = []
        self.left = sorted(script["steps"], key=lambda step: step["at"])
        self.ids: list[str] = []
        self.cursor = script.get("cursor", 0)
        self.begins_s = self.clock.now().timestamp()

    def say(self, kind: str, *what: Any) -> None:
        text = json.dumps([round(self.clock.monotonic_s()), kind, *what])
        for number, drawn in enumerate(self.ids, start=1):
            text = text.replace(drawn, f"${number}")
        self.happened.append(json.loads(text))

    def _take(self, request: dict[str, Any]) -> list[Any]:
        drawn = request.get("message_id", "")
        if len(drawn) == len("m_0123456789abcdef") and drawn not in self.ids:
            self.ids.append(drawn)
        self.say("sent", request)
        return []

    @contextmanager
    def dial(self) -> Iterator[Any]:
        self.say("dialled")
        with super().dial() as wire:
            yield wire

    def go_on(self, session: Session) -> None:
        """Run every step that is due."""
        while self.left and self.left[0]["at"] <= self.clock.monotonic_s():
            self.do(session, self.left.pop(0))

    def do(self, session: Session, step: Step) -> None:
        match step:
            case {"call": method, "args": args, "given": given}:
                given = {name: tuple(one) if isinstance(one, list) else one for name, one in given.items()}
                if "params" in given:
                    given["payload"] = given.pop("params")
                done = getattr(session, method)(*args, **given)
                if method == "join":
                    self.say("joined", done)
            case {"frame": content}:
                self.wires[-1].inbox.append(json.dumps(self.dated(content)))
            case {"text": text}:
                self.wires[-1].inbox.append(text)
            case {"refuse": times}:
                self.refuses = times
            case {"cut": True}:
                self.wires[-1].cut()

    def dated(self, content: dict[str, Any]) -> dict[str, Any]:
        """Return a frame with the ids and the expiry that are known now."""
        text = json.dumps(content)
        for number, drawn in enumerate(self.ids, start=1):
            text = text.replace(f"${number}", drawn)
        known = json.loads(text)
        if "expires_in_s" in known:
            known["expires_at"] = round(self.clock.now().timestamp()) + known.pop("expires_in_s")
        return known


def run(name: str, script: dict[str, Any]) -> dict[str, Any]:
    """Return the vector of a script."""
    stage = _Stage(script)
    ttl_s = script.get("expires_in_s")
    credential: Any = None if ttl_s is None else _Credential(stage.begins_s + ttl_s)
    session = Session(
        stage.dial,
        ClientState(conversation=C, cursor=stage.cursor),
        stage.clock,
        PACE,
        credential=credential,
        timezone=script.get("timezone", ""),
        bundle=script.get("bundle", ""),
        uniform=max,
    )
    with session:
        _drive(session, script["until"], stage)
        state = plain_state(session.state)
    unacked = json.dumps(state["unacked"])
    for number, drawn in enumerate(stage.ids, start=1):
        unacked = unacked.replace(drawn, f"${number}")
    state["unacked"] = sorted(json.loads(unacked))
    return {
        "name": name,
        "conversation": C,
        "begins_s": stage.begins_s,
        "pace": {camel(f.name): getattr(PACE, f.name) for f in fields(PACE) if f.name not in TICKLESS},
        **script,
        "happens": stage.happened,
        "state": state,
    }


def _drive(session: Session, seconds: int, stage: _Stage) -> None:
    """Run a session for this long, and record its effects."""

    def between() -> None:
        if stage.clock.monotonic_s() >= seconds:
            raise Over
        stage.go_on(session)

    with suppress(Over):
        for effect in session.effects(between):
            stage.say("told", plain_effect(effect))


def sessions() -> Iterator[dict[str, Any]]:
    """Yield the vectors of all scripts."""
    for name, script in SCRIPTS.items():
        yield run(name, json.loads(msgspec.json.encode(script)))
