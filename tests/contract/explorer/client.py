"""A client with a screen: it drops once, reconnects, and merges replay and live frames as the real one does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from stepline.local.client.change import EventsApplied, Reported, Synced
from stepline.local.client.reducer import fold_frame, resume_request
from stepline.local.client.state import ClientState
from stepline.model.wire.event import DeltaFrame, EventFrame, SyncFrame, decode_frame, newest_report_lane
from tests.contract.explorer.process import Process
from tests.contract.explorer.simulation import LANE, USER, Simulation


class Client:
    """Applies frames by their numbers and offsets; `got` is what it applied, in order.

    It drops a connection after `frames` frames; its `lives`-th is the last.
    """

    lives = 2
    frames = 6

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
        last = self.lives - 1
        for life in range(self.lives):
            connection = f"screen{life}"
            simulation.publisher.open(connection)
            self._ask(me, connection)
            frames = 0
            while life == last or frames < self.frames:
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
            self._ask(me, f"screen{last}")
        for frame in simulation.publisher.inboxes.get(f"screen{last}", []):
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


class Report(NamedTuple):
    """A report of a running tool as it was shown: the stream and lane, the call, and the run that says how much is done."""

    claim: int
    lane: str
    call: str
    run: str
    done: float


class Watcher(Client):
    """Folds its frames with the real reducer, which shows the reports of running tools too, and drops often."""

    lives = 5
    frames = 4

    def __init__(self, simulation: Simulation, *, syncs: bool = True) -> None:
        super().__init__(simulation, syncs=syncs)
        self.state = ClientState(conversation=LANE.conversation)
        self.shown: list[Report] = []
        self.settled: set[str] = set()
        self.wrong: list[str] = []
        self._asked: list[tuple[str, dict[str, float]]] = []
        """What was reported before each request that is not answered yet."""

    def _ask(self, me: Process, connection: str) -> None:
        if self.simulation.tail().n:
            self.simulation.publisher.open(connection)
            before = [one for one in self._asked if one[0] == connection]
            self._asked = [*before, (connection, dict(self.simulation.reported))]
            asked = resume_request(self.state)
            stream = asked.get("stream", {"claim": 0, "off": {}})
            self.simulation.resume(me, connection, asked["after"], stream["claim"], stream["off"])

    def _apply(self, body: bytes) -> bool:
        self.state, effects = fold_frame(self.state, decode_frame(body))
        for effect in effects:
            match effect:
                case EventsApplied(n=n, events=events):
                    self.got.append(n)
                    self.settled |= {e.data["call_id"] for e in events if e.type == "react.tool.result"}
                case Reported(claim=claim, lane=lane, events=events):
                    facts = [event.data for event in events]
                    if any(fact["call_id"] in self.settled for fact in facts):
                        self.wrong.append("reports of a call after its result")
                    self.shown += [Report(claim, lane, f["call_id"], f["text"], f["done"]) for f in facts]
                case Synced():
                    self._compare(self._asked.pop(0)[1])
        return self.state.behind()

    def _compare(self, reported: dict[str, float]) -> None:
        """After a resume nothing that was reported before is missing; of a call that failed there may be two runs."""
        shown = {report.call: report.done for report in self.shown}
        running = reported.keys() - self.settled
        if self.simulation.faultless and any(shown.get(call, 0) < reported[call] for call in running):
            self.wrong.append(UNSEEN)


def misreported(client: Client) -> Iterator[str]:
    """Yield what a client shows wrong: each run's reports once, from the first on, on a lane and a stream of its own."""
    if not isinstance(client, Watcher):
        return
    runs: dict[tuple[int, str], list[tuple[str, str, float]]] = {}
    for claim, lane, call, run, done in client.shown:
        if newest_report_lane([lane, *(other for at, other in runs if at == claim)]) != lane:
            yield "reports of an older attempt after those of a newer one"
        runs.setdefault((claim, lane), []).append((call, run, done))
    for steps in runs.values():
        call, run, _ = steps[0]
        if steps != [(call, run, done) for done in range(1, len(steps) + 1)]:
            yield MIXED
    if max(Counter(steps[0][1] for steps in runs.values()).values(), default=1) > 1:
        yield "the reports of a run shown twice"
    yield from client.wrong


MIXED: Final = "missed, repeated or mixed reports"
UNSEEN: Final = "a resume without the reports of the running call"


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


__all__ = ["LANE", "USER", "Client", "LossyWay", "Watcher", "misreported"]
