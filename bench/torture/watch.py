"""A client of one thread: receives events in a thread of its own, and folds what a person would see."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import Final, Self

from bench.torture.cell import CellError
from bench.torture.subject import Event, NotOfferedError, RefusedError, Stream, Subject

READY_S: Final = 60.0


class Watch:
    """A connection. `shown` is what a person sees: the pieces since the last reset, or the whole answer that replaced them.

    `streamed` has the pieces alone; `answers` are the whole answers, `ends` the ends of turns.
    """

    def __init__(self, subject: Subject, thread: str, *, after: str = "", shown: str = "") -> None:
        """Create a client; one that continues another has its cursor and its text."""
        self._subject, self._thread, self._after = subject, thread, after
        self._queue: queue.Queue[Event | Exception | None] = queue.Queue()
        self._stream: Stream | None = None
        self.cursor, self.shown, self.streamed = after, shown, shown
        self.pieces = 0
        self.answers: list[str] = []
        self.approvals: list[str] = []
        self.ends: list[str] = []

    def __enter__(self) -> Self:
        """Connect."""
        self._stream = self._subject.connect(self._thread, self._after)
        threading.Thread(target=self._read, args=(self._stream,), daemon=True).start()
        self.until(lambda event: event.kind == "ready", READY_S, "the client was not connected")
        return self

    def __exit__(self, *_: object) -> None:
        """Disconnect without a notice; events that arrive later are not read."""
        if self._stream is not None:
            self._stream.close()

    def _read(self, stream: Stream) -> None:
        try:
            for event in stream:
                self._queue.put(event)
            self._queue.put(None)
        except (OSError, NotOfferedError, RefusedError) as error:
            self._queue.put(error)

    def until(self, wanted: Callable[[Event], bool], wait_s: float, missing: str) -> Event:
        """Return the next event that is wanted. Raises CellError `stuck` at the deadline, `lost` if the stream ends."""
        deadline_s = time.monotonic() + wait_s
        while True:
            try:
                event = self._queue.get(timeout=max(0.0, deadline_s - time.monotonic()))
            except queue.Empty:
                raise CellError("stuck", f"{missing} within {wait_s:.0f} s") from None
            if isinstance(event, NotOfferedError | RefusedError):
                raise event
            if isinstance(event, OSError) or event is None:
                why = f" ({event})" if event else ""
                raise CellError("lost", f"{missing}: the stream ended{why}")
            self._fold(event)
            if wanted(event):
                return event

    def until_pieces(self, number: int, wait_s: float) -> None:
        """Receive this number of pieces of an answer."""
        if self.pieces < number:
            self.until(
                lambda _: self.pieces >= number, wait_s, f"{number} pieces of an answer did not arrive"
            )

    def drain(self) -> None:
        """Fold what has arrived."""
        while True:
            try:
                event = self._queue.get_nowait()
            except queue.Empty:
                return
            if isinstance(event, Event):
                self._fold(event)

    def _fold(self, event: Event) -> None:
        self.cursor = event.cursor or self.cursor
        match event.kind:
            case "text":
                self.pieces += 1
                self.shown += event.text
                self.streamed += event.text
            case "reset":
                self.shown = self.streamed = ""
            case "answer":
                self.shown = event.text
                self.answers.append(event.text)
            case "approval":
                self.approvals.append(event.call)
            case "end":
                self.ends.append(event.text)
            case "ready":
                pass
