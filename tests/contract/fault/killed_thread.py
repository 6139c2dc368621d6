"""Recorded conversations whose worker is killed: those of `recorded_thread`, with one death before a write.

Either the state machine tries the step again at once, or the execution is lost and the sweeper takes the turn over.
The frames are those of a client that watches, and that resumes where it misses something.

`python -m tests.contract.fault.killed_thread` prints every recording as JSON, for the doors in `web/tests/door`; with
`sample` it writes those that a landing plays.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final, Literal

import msgspec

from stepline.adapters.memory.relay import MemoryRelay
from stepline.delivery.posting import GatewayBroadcast
from stepline.delivery.resume import resume
from stepline.events.derive import newest_event
from stepline.local.client.reducer import fold_frame, resume_request
from stepline.local.client.state import ClientState
from stepline.log.bindings import Ports
from stepline.loop.sweep import sweep_lane
from stepline.model.entry import Decided
from stepline.model.step import Step
from stepline.model.wire.event import decode_frame
from tests.contract.fault.boundary import interruptible_ports
from tests.support.conversation import FAR, LANE, USER, Conversation
from tests.support.recorded_thread import FOLDER, RECIPES, Frames, store_thread
from tests.support.small_context import SmallContext

WATCHER: Final = "watcher"
LOST_S: Final = 2 * 3600
"""After this time the sweeper takes an execution for lost."""
SAMPLE: Final = (
    ("an answer", 9, "taken over"),
    ("a program", 12, "retried"),
    ("a plan and two files", 20, "taken over"),
    ("a steer", 9, "retried"),
    ("a stop", 8, "taken over"),
    ("a call that is approved", 24, "taken over"),
)
"""What a landing plays: a story, the write before which its worker dies, and the sequel."""
STORED: Final = FOLDER / "killed.json"

Sequel = Literal["retried", "taken over"]
SEQUELS: Final[tuple[Sequel, ...]] = ("retried", "taken over")


class KilledError(BaseException):
    """The process is gone; nothing of ours catches that."""


class KilledConversation(Conversation):
    """A conversation whose worker dies once, before write number `at` of its turns, counted from 0.

    `writes` counts them, `on_write` is called before each, and `frames` has what the watcher received.
    """

    at: int
    sequel: Sequel
    writes: int
    on_write: Callable[[], None]
    inbox: list[bytes]
    received: list[bytes]
    watched: ClientState

    @classmethod
    def of(
        cls, made: Conversation, at: int, sequel: Sequel, on_write: Callable[[], None] = lambda: None
    ) -> KilledConversation:
        """Turn a conversation that has not begun into one whose worker dies; -1 for one that lives."""
        own = type(made)
        made.__class__ = type(f"Killed{own.__name__}", (cls, own), {})
        killed: Any = made
        killed.at, killed.sequel, killed.on_write, killed.writes = at, sequel, on_write, 0
        killed.inbox, killed.received = made.listen(WATCHER), []
        killed.watched = ClientState(conversation=LANE.conversation)
        return killed  # type: ignore[no-any-return]  # its class says so now

    @property
    def own_ports(self) -> Ports:
        ports = super().own_ports
        ports = replace(ports, **interruptible_ports(ports, self._reach))
        subscriptions, publisher = ports.subscriptions, ports.publisher
        return replace(
            ports,
            relay=MemoryRelay(deltas=ports.deltas, subscriptions=subscriptions, publisher=publisher),
            broadcast=GatewayBroadcast(
                subscriptions=subscriptions, publisher=publisher, meter=ports.meter, clock=ports.clock
            ),
        )

    @property
    def states(self) -> dict[str, Callable[[Step], Step]]:
        return {name: self._attempts(name, run) for name, run in super().states.items()}

    def take(self) -> tuple[str, Step]:
        self._execution, step = super().take()
        return self._execution, step

    def drive(self, step: Step) -> None:
        try:
            super().drive(step)
        except KilledError:
            self.machine.end(self._execution)
            self.clock.pause(LOST_S)
            sweep_lane(self.ports, LANE)
        self.catch_up()

    def play(self) -> Frames:
        """Run to the end; return the watcher's frames."""
        if self.batches():
            self._resume()
        else:
            self.send("go")
        self.run()
        self.catch_up()
        return [json.loads(body) for body in self.received]

    def catch_up(self) -> None:
        """Let the watcher read, and request what it misses."""
        self._read()
        if self.watched.cursor < newest_event(self.tail):
            self._resume()
            self._read()

    def _attempts(self, name: str, run: Callable[[Step], Step]) -> Callable[[Step], Step]:
        def attempt(step: Step) -> Step:
            if name == "decide":
                self._asked = self._model_place()
            try:
                following = run(step)
            except KilledError:
                self._say_again()
                if self.sequel == "taken over":
                    raise
                self.catch_up()
                following = run(msgspec.structs.replace(step, attempt=step.attempt + 1))
            self.catch_up()
            return following

        return attempt

    def _model_place(self) -> tuple[list[Any], int, int]:
        model: Any = self.model
        return list(model._steps), len(model.requests), len(self.entries(Decided))

    def _say_again(self) -> None:
        """Let the model say what it said in this round, if that is in no decision."""
        model: Any = self.model
        script, asked, decided = self._asked
        if len(self.entries(Decided)) == decided:
            model._steps[:], model.requests[asked:] = script, []

    def _reach(self, _boundary: str, call: Callable[[], Any]) -> Any:
        self.writes += 1
        self.on_write()
        if self.writes - 1 == self.at:
            raise KilledError
        return call()

    def _read(self) -> None:
        while self.inbox:
            self.received.append(self.inbox.pop(0))
            self.watched, _ = fold_frame(self.watched, decode_frame(self.received[-1]))

    def _resume(self) -> None:
        asked = resume_request(self.watched)
        stream = asked.get("stream", {"claim": 0, "off": {}})
        about: dict[str, Any] = {"user": USER, "connection": WATCHER, "until_s": FAR}
        have, claim = stream["off"], stream["claim"]
        resume(self.ports, LANE, after=self.watched.cursor, have=have, claim=claim, **about)


def stories() -> dict[str, Callable[[], Conversation]]:
    """Return the recipes whose worker may die. A compaction is left out: its frames are no recording."""
    return {name: make for name, make in RECIPES.items() if not isinstance(make(), SmallContext)}


def count_writes(make: Callable[[], Conversation]) -> int:
    """Return the number of writes of a conversation whose worker lives."""
    conversation = KilledConversation.of(make(), -1, "retried")
    conversation.play()
    return conversation.writes


def recordings() -> Iterator[dict[str, Any]]:
    """Yield the recordings: each story, with a death before each of its writes and each sequel."""
    seen: set[str] = set()
    for name, make in stories().items():
        for at in range(count_writes(make)):
            for sequel in SEQUELS:
                found = recording(name, at, sequel)
                text = json.dumps(found["frames"])
                if text not in seen:
                    seen.add(text)
                    yield found


def recording(name: str, at: int, sequel: Sequel) -> dict[str, Any]:
    """Return the recording of a story whose worker dies before a write."""
    frames = KilledConversation.of(RECIPES[name](), at, sequel).play()
    return {"name": f"{name}, killed before write {at}, {sequel}", "frames": frames}


if __name__ == "__main__":
    if sys.argv[1:] == ["sample"]:
        store_thread(STORED.name, [recording(*row) for row in SAMPLE])
    else:
        sys.stdout.write(json.dumps(list(recordings())))
