"""A client with a screen: it drops once, reconnects, and merges replay and live frames as the real one does."""

from __future__ import annotations

from typing import Any

from stepline.model.wire.event import DeltaFrame, EventFrame, SyncFrame, decode_frame
from tests.contract.explorer.process import Process
from tests.contract.explorer.simulation import LANE, USER, Simulation


class Client:
    """Applies frames by their numbers and offsets; `got` is what it applied, in order."""

    def __init__(self, simulation: Simulation, *, syncs: bool = True) -> None:
        self.simulation = simulation
        self.syncs = syncs
        self.cursor = 0
        self.got: list[int] = []
        self.claim = 0
        self.text: dict[int, str] = {}

    def run(self, me: Process) -> None:
        simulation = self.simulation
        me.wait(lambda: simulation.tail().n > 0 or simulation.quiet)
        for life in range(2):
            connection = f"screen{life}"
            simulation.publisher.open(connection)
            self._ask(me, connection)
            frames = 0
            while life or frames < 6:
                me.wait(lambda c=connection: simulation.publisher.inboxes.get(c) or simulation.quiet)
                inbox = simulation.publisher.inboxes.get(connection, [])
                if not inbox:
                    break
                frames += 1
                if self._apply(inbox.pop(0)):
                    self._ask(me, connection)
            if simulation.quiet:
                break
            simulation.publisher.close(connection)
        if self.syncs:
            self._ask(me, "screen1")
        for frame in simulation.publisher.inboxes.get("screen1", []):
            self._apply(frame)

    def _ask(self, me: Process, connection: str) -> None:
        if self.simulation.tail().n:
            self.simulation.publisher.open(connection)
            have = {"answer": len(self.text.get(self.claim, ""))}
            self.simulation.resume(me, connection, self.cursor, self.claim, have)

    def _apply(self, body: bytes) -> bool:
        """Apply one frame; true if something before it is missing."""
        match decode_frame(body):
            case EventFrame(n=n, prev=prev, claim=claim):
                if n <= self.cursor:
                    return False
                if prev > self.cursor:
                    return True
                self.cursor = n
                self.got.append(n)
                self.claim = max(self.claim, claim)
            case DeltaFrame(claim=claim, off=off, text=text):
                have = self.text.get(claim, "")
                if claim < self.claim:
                    return False
                if off > len(have):
                    return True
                self.claim = claim
                self.text[claim] = have + text[len(have) - off :]
            case SyncFrame():
                pass
        return False


class LossyWay:
    """The way to the client's screen: every third frame is taken and never arrives, but for what it asked for itself."""

    def __init__(self) -> None:
        self._posts = 0

    def __call__(self, process: Process, publisher: Any) -> Any:
        return publisher if process.name == "client" else _Losing(self, publisher)

    def takes(self) -> bool:
        self._posts += 1
        return self._posts % 3 == 0


class _Losing:
    def __init__(self, way: LossyWay, publisher: Any) -> None:
        self._way = way
        self._publisher = publisher

    def post(self, connection: str, frame: bytes) -> None:
        if not self._way.takes():
            self._publisher.post(connection, frame)


__all__ = ["LANE", "USER", "Client", "LossyWay"]
