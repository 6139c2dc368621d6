"""The write units of a minute of text through the relay. Time is simulated, the relay is the real one."""

from __future__ import annotations

import queue

from bench.conversation import LANE
from bench.meter import metered_store
from bench.row import MeasureError, Row
from stepline.adapters.aws.delta import DynamoDeltas
from stepline.adapters.memory.channel import MemoryPublisher, MemorySubscriptions
from stepline.adapters.memory.clock import MemoryClock
from stepline.adapters.relay import ThreadedRelay, ThreadedRelayStream

TOKENS_A_SECOND = 60
TOKEN = "four"
SECONDS = 60
TICK_S = 0.001  # reading the clock takes time: on a frozen one, a wait of a rounding error never ends


class PacedQueue(queue.SimpleQueue[tuple[str, str]]):
    """The relay's queue as filled by a model: a token per sixtieth of a second, on a clock moved by waiting."""

    def __init__(self, clock: MemoryClock) -> None:
        """Start now."""
        super().__init__()
        self._clock = clock
        self._told = 0

    def get(self, block: bool = True, timeout: float | None = None) -> tuple[str, str]:
        """Wait for the next token, or for the caller's timeout."""
        if self._told == TOKENS_A_SECOND * SECONDS:
            return super().get()
        wait_s = max(0.0, self._told / TOKENS_A_SECOND - self._clock.monotonic_s())
        patience_s = timeout or 0.0
        if wait_s > patience_s:
            self._clock.pause(max(patience_s, TICK_S))
            raise queue.Empty
        self._clock.pause(wait_s)
        self._told += 1
        return ("answer.0", TOKEN)

    def get_nowait(self) -> tuple[str, str]:
        """Return the next token if it is due."""
        if self._told == TOKENS_A_SECOND * SECONDS:
            return super().get_nowait()
        return self.get(timeout=0)


def rows() -> list[Row]:
    """Return `wru_per_stream_minute`."""
    clock, publisher = MemoryClock(), MemoryPublisher()
    subscriptions = MemorySubscriptions(clock)
    inbox = publisher.open("c1")
    subscriptions.subscribe(LANE, "c1", 2**40, "ada")
    with metered_store() as store:
        deltas = DynamoDeltas(store.table, clock)
        relay = ThreadedRelay(deltas=deltas, subscriptions=subscriptions, publisher=publisher, clock=clock)
        stream = ThreadedRelayStream(relay, LANE, 1, _queue=PacedQueue(clock)).start()
        stream.close()
        units, puts = store.meter.write_units.total(), store.meter.calls["put_item"]
        told = sum(len(delta.text) for delta in deltas.since(LANE, 1))
    if told != TOKENS_A_SECOND * SECONDS * len(TOKEN):
        raise MeasureError(f"the stream stored {told} characters")
    note = f"{TOKENS_A_SECOND} tokens/s in one lane, simulated clock: {puts} rows stored, {len(inbox)} posts to one client"
    return [Row(metric="wru_per_stream_minute", value=units, unit="WRU", note=note)]
