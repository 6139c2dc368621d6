"""The reads of a round in two processes without caches: calls and bytes, as a conversation grows; and a fork of it.

The model counts its input, so the conversation is kept within its budget as in production. The log and the
store are the memory twins, each with a meter; a query counts once for each page of a megabyte, as in
DynamoDB.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import mean
from typing import Final

import msgspec

from bench.budget import BUDGETS
from bench.conversation import (
    LANE,
    USER,
    Driver,
    InstantModel,
    InstantStream,
    make_agent,
    prose,
    say_answer,
    say_call,
)
from bench.row import MeasureError, Row
from stepline.adapters.memory.artifacts import MemoryArtifacts
from stepline.adapters.memory.log import MemoryLog
from stepline.bootstrap.memory_wiring import in_memory
from stepline.ingress.fork import ForkPoint, fork_conversation
from stepline.local.scripted.messages_request import count_tokens
from stepline.log.bindings import Ports
from stepline.log.timeline_cache import History
from stepline.loop.close import close
from stepline.model.batch import Batch, encode_batch
from stepline.model.entry import Decided, Inbound, Resulted
from stepline.model.ids import Lane
from stepline.model.usage import Usage
from stepline.ports.log import Listing, Put, Slots
from stepline.ports.model import Completion, ModelRequest
from stepline.settings import Settings

SIZES: Final = (100, 1000, 5000)
PAGE_BYTES: Final = 1024 * 1024
ROUNDS_A_TURN: Final = 4
DECIDES: Final = "solver."
SUMMARY_CHARS: Final = 2_000
SPREAD: Final = {100: 0, 1000: 75, 5000: 75}
"""The number of blocks between the measured rounds before a size.

The size of requests repeatedly rises to the budget and falls to its target; eight rounds over six hundred
blocks cover that, and one would be random.
"""
ROUNDS: Final = 8
FORK: Final = msgspec.structs.replace(LANE, conversation="fork")


def rows(sizes: Sequence[int] = SIZES) -> list[Row]:
    """Return `reads_per_round_cold` and `read_bytes_per_round_cold` of the last size, `_1000` of both, and a fork's."""
    conversation = Conversation()
    found = conversation.measured(sizes)
    return [*(row for size in sizes[1:] for row in _rows(size, found)), *_fork_rows(conversation, sizes[-1])]


def _fork_rows(conversation: Conversation, size: int) -> list[Row]:
    """Return the writes of a fork, and how much more its first round reads than the next one of its origin."""
    writes, origin, fork = conversation.fork()
    note = f"of a conversation of {size} blocks"
    return [
        Row(metric="fork_writes", value=writes, unit="writes", note=note),
        Row(
            metric="fork_reads_more",
            value=fork[0] - origin[0],
            unit="calls",
            peers={"a round of its origin": float(origin[0])},
            note=note,
        ),
        Row(
            metric="fork_read_bytes_x",
            value=round(fork[1] / origin[1], 3),
            unit="x",
            peers={"a round of its origin": float(origin[1])},
            note=note,
        ),
    ]


def _rows(size: int, found: Mapping[int, tuple[int, int]]) -> list[Row]:
    suffix = "" if size == SIZES[-1] else f"_{size}"
    calls, read_bytes = found[size]
    return [
        Row(
            metric=metric,
            value=value,
            unit=unit,
            peers={f"at {other} blocks": float(found[other][at]) for other in found if other < size},
            goal=BUDGETS[metric].aim,
            note=f"at {size} blocks, which the budget holds to those that fit",
        )
        for at, (metric, unit, value) in enumerate(
            (
                (f"reads_per_round_cold{suffix}", "calls", calls),
                (f"read_bytes_per_round_cold{suffix}", "B", read_bytes),
            )
        )
    ]


class MeteredLog(MemoryLog):
    """Counts its reads and writes."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = self.read_bytes = self.writes = 0

    def put(
        self,
        lane: Lane,
        batch: Batch,
        *,
        message_id: str = "",
        marks_open: bool = False,
        slots: Slots | None = None,
    ) -> Put:
        self.writes += 1
        return super().put(lane, batch, message_id=message_id, marks_open=marks_open, slots=slots)

    def project(self, listing: Listing) -> None:
        self.writes += 1
        super().project(listing)

    def tail(self, lane: Lane, *, consistent: bool = False) -> Batch | None:
        found = super().tail(lane, consistent=consistent)
        self._count([found] if found else [])
        return found

    def since(self, lane: Lane, n: int, *, upto: int | None = None, consistent: bool = False) -> list[Batch]:
        found = super().since(lane, n, upto=upto, consistent=consistent)
        self._count(found)
        return found

    def _count(self, found: list[Batch]) -> None:
        size = sum(len(encode_batch(batch)) for batch in found)
        self.calls += max(1, -(-size // PAGE_BYTES))
        self.read_bytes += size


class MeteredArtifacts(MemoryArtifacts):
    """Counts its reads and writes."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = self.read_bytes = self.writes = 0

    def put(self, key: str, body: bytes, *, mime: str) -> bool:
        self.writes += 1
        return super().put(key, body, mime=mime)

    def get(self, key: str) -> bytes:
        body = super().get(key)
        self.calls += 1
        self.read_bytes += len(body)
        return body


class CountingModel(InstantModel):
    """Answers with given text and counts its input tokens; a request for a summary gets some text."""

    def stream(self, request: ModelRequest) -> InstantStream:
        parts = (*request.system, *request.content)
        usage = Usage(input_tokens=sum(count_tokens(part.text) for part in parts))
        text = self.text if request.role.startswith(DECIDES) else prose(SUMMARY_CHARS)
        return CountedStream(text, usage)


@dataclass
class CountedStream(InstantStream):
    """One answer of it."""

    usage: Usage

    def completion(self) -> Completion:
        return msgspec.structs.replace(super().completion(), usage=self.usage)


class Conversation:
    """One growing conversation, measured at each of its sizes."""

    def __init__(self) -> None:
        self._log, self._artifacts = MeteredLog(), MeteredArtifacts()
        app = in_memory(Settings.from_env({}), log=self._log)
        ports: Ports = replace(app.ports, artifacts=self._artifacts)
        self._model = CountingModel()
        self._driver = Driver(ports=ports, agent=make_agent(), model=self._model)
        self._history = History()
        self._blocks = 0
        self._seen = 0

    def measured(self, sizes: Sequence[int]) -> dict[int, tuple[int, int]]:
        """Return the most calls of a cold round before each of the sizes, and the mean of its bytes."""
        found: dict[int, list[tuple[int, int]]] = {size: [] for size in sizes}
        due = [
            (size - SPREAD[size] * before, size)
            for size in sizes
            for before in reversed(range(ROUNDS if SPREAD[size] else 1))
        ]
        turn = 0
        while due:
            turn += 1
            self._driver.receive(f"m{turn}")
            for _ in range(ROUNDS_A_TURN):
                self._model.text = say_call(thinking_chars=150, argument_chars=350)
                if due and self._count() >= due[0][0]:
                    found[due.pop(0)[1]].append(self._cold_round())
                else:
                    self._driver.round(lambda: self._history)
            self._model.text = say_answer()
            close(self._driver.ports, self._driver.round(lambda: self._history))
        return {
            size: (max(calls for calls, _ in rounds), round(mean(read for _, read in rounds)))
            for size, rounds in found.items()
        }

    def fork(self) -> tuple[int, tuple[int, int], tuple[int, int]]:
        """Fork the conversation at its end; return the writes, and the calls and bytes of the next round of both."""
        tail = self._log.tail(LANE, consistent=True)
        assert tail is not None
        before = self._log.writes + self._artifacts.writes
        point, ports = ForkPoint(kind="batch", at=str(tail.n)), self._driver.ports
        fork_conversation(ports, LANE, point, user=USER, conversation=FORK.conversation)
        writes = self._log.writes + self._artifacts.writes - before
        self._model.text = say_call(thinking_chars=150, argument_chars=350)
        found = []
        for driver in (self._driver, replace(self._driver, lane=FORK)):
            driver.receive("next")
            found.append(self._cold_round(driver))
        return writes, found[0], found[1]

    def _cold_round(self, driver: Driver | None = None) -> tuple[int, int]:
        driver = driver or self._driver
        step = driver.step()  # passed on by the state machine; reading it is not part of the round
        calls_before, bytes_before = self._read()
        left = [History(), History()]
        after = driver.round(lambda: left.pop(0), step)
        if after.route != "decide" or left:
            raise MeasureError(f"not one tool round: {after.route}")
        calls, size = self._read()
        return calls - calls_before, size - bytes_before

    def _read(self) -> tuple[int, int]:
        return (
            self._log.calls + self._artifacts.calls,
            self._log.read_bytes + self._artifacts.read_bytes,
        )

    def _count(self) -> int:
        """Return the blocks so far."""
        new = MemoryLog.since(self._log, LANE, self._seen)
        self._seen += len(new)
        self._blocks += sum(
            isinstance(entry, Inbound | Decided | Resulted) for batch in new for entry in batch.entries
        )
        return self._blocks
