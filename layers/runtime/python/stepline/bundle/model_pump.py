"""One thread that reads a model's stream, and an asynchronous iterator over what it read.

The port's stream blocks; the pump's thread is the one that waits. What arrives while the consumer is busy is
handed over in one list, so a slow consumer gets fewer and larger pieces and delays nothing.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from types import TracebackType
from typing import Self

from stepline.ports.model import Completion, ModelStream


class ModelPump:
    """Reads `stream` within its `async with`; leaving that stops the call and waits for the thread.

    Leaving waits as long as `abort` takes to end the stream's iteration, also if the waiting task is cancelled.
    """

    def __init__(self, stream: ModelStream) -> None:
        self.completion: Completion | None = None
        """What came of the call, once the iteration ended; None if not even that could be told."""
        self._stream = stream
        self._loop = asyncio.get_running_loop()
        self._pieces: deque[str] = deque()
        self._arrived = asyncio.Event()
        self._signalled = False
        self._ended = False
        self._error: BaseException | None = None
        self._gone = self._loop.create_future()
        self._thread = threading.Thread(target=self._run, name="model-pump", daemon=True)

    async def __aenter__(self) -> Self:
        """Send the request."""
        self._thread.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None:
        """Stop the call if it still runs, and wait for its end."""
        self.abort()
        cancelled: asyncio.CancelledError | None = None
        while not self._gone.done():
            try:
                await asyncio.wait([self._gone])
            except asyncio.CancelledError as again:
                cancelled = again
        self._thread.join()
        if cancelled:
            raise cancelled

    def __aiter__(self) -> Self:
        """Iterate once."""
        return self

    async def __anext__(self) -> list[str]:
        """Return everything that has arrived, waiting for something. Raises what the stream raised, behind its text."""
        while True:
            self._signalled = False
            ended = self._ended  # asked first: what came before the end is there now
            if pieces := self._take():
                return pieces
            if ended:
                if self._error:
                    raise self._error
                raise StopAsyncIteration
            await self._arrived.wait()
            self._arrived.clear()

    def abort(self) -> None:
        """Stop the call; more than once does no harm."""
        if not self._ended:
            self._stream.abort()

    def _take(self) -> list[str]:
        taken: list[str] = []
        while self._pieces:
            taken.append(self._pieces.popleft())
        return taken

    def _run(self) -> None:
        try:
            with self._stream as stream:
                try:
                    for piece in stream:
                        self._pieces.append(piece)
                        self._signal()
                finally:
                    self.completion = stream.completion()
        except BaseException as error:  # noqa: BLE001 - the iterator raises it, in the consumer's task
            self._error = error
        finally:
            self._ended = True
            self._loop.call_soon_threadsafe(self._finish)

    def _signal(self) -> None:
        if not self._signalled:
            self._signalled = True
            self._loop.call_soon_threadsafe(self._arrived.set)

    def _finish(self) -> None:
        self._gone.set_result(None)
        self._arrived.set()
