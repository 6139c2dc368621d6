"""The relay's own thread on a clock that waiting moves, fed as a model writes."""

from __future__ import annotations

import queue
from typing import Final

from bench.conversation import LANE
from bench.meter import metered_store
from bench.row import MeasureError
from stepline.adapters.aws.delta import DynamoDeltas
from stepline.adapters.memory.channel import MemoryPublisher, MemorySubscriptions
from stepline.adapters.memory.clock import MemoryClock, MemoryMeter
from stepline.adapters.relay import ThreadedRelay, ThreadedRelayStream
from stepline.model.wire.event import DeltaFrame, decode_frame

TOKENS_A_SECOND: Final = 60
TOKEN: Final = "four"
SECOND_CHARS: Final = TOKENS_A_SECOND * len(TOKEN)
TICK_S: Final = 0.001  # reading the clock takes time: on a frozen one, a wait of a rounding error never ends


class PacedQueue(queue.SimpleQueue[tuple[str, str]]):
    """The relay's queue as filled by a model: a token per sixtieth of a second, on a clock moved by waiting."""

    def __init__(self, clock: MemoryClock, seconds: float) -> None:
        """Start now."""
        super().__init__()
        self._clock = clock
        self._all = round(TOKENS_A_SECOND * seconds)
        self._sent = 0

    def get(self, block: bool = True, timeout: float | None = None) -> tuple[str, str]:
        """Wait for the next token, or for the caller's timeout."""
        if self._sent == self._all:
            return super().get()
        wait_s = max(0.0, self._sent / TOKENS_A_SECOND - self._clock.monotonic_s())
        patience_s = timeout or 0.0
        if wait_s > patience_s:
            self._clock.pause(max(patience_s, TICK_S))
            raise queue.Empty
        self._clock.pause(wait_s)
        self._sent += 1
        return ("answer.0", TOKEN)

    def get_nowait(self) -> tuple[str, str]:
        """Return the next token if it is due."""
        if self._sent == self._all:
            return super().get_nowait()
        return self.get(timeout=0)


def stream_for(seconds: float) -> tuple[int, int, int]:
    """Return the posts to one client, the rows stored and their write units, of a stream of this many seconds."""
    clock, publisher = MemoryClock(), MemoryPublisher()
    subscriptions = MemorySubscriptions(clock)
    inbox = publisher.open("c1")
    subscriptions.subscribe(LANE, "c1", 2**40, "ada")
    with metered_store() as store:
        deltas = DynamoDeltas(store.table, clock)
        relay = ThreadedRelay(
            deltas=deltas, subscriptions=subscriptions, publisher=publisher, clock=clock, meter=MemoryMeter()
        )
        stream = ThreadedRelayStream(relay, LANE, 1, _queue=PacedQueue(clock, seconds)).start()
        stream.settle()
        stream.close()
        units, puts = store.meter.write_units.total(), store.meter.calls["put_item"]
    posted = sum(len(frame.text) for frame in map(decode_frame, inbox) if isinstance(frame, DeltaFrame))
    if posted != round(TOKENS_A_SECOND * seconds) * len(TOKEN):
        raise MeasureError(f"the stream posted {posted} characters")
    return len(inbox), puts, units
