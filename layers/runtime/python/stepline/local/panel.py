"""A panel below the lines that stay, redrawn by a clock so that its spinner turns.

rich can redraw by itself, but its thread counts the panel's lines while ours prints, and a line printed in that
moment is erased. Here both draw under one lock.
"""

from __future__ import annotations

import threading
from typing import Final

from rich.console import Console, RenderableType
from rich.live import Live

REDRAW_S: Final = 1 / 12


class Panel:
    """Drawn from `start` to `stop`; before and after, lines are printed all the same."""

    def __init__(self, console: Console) -> None:
        """Draw on `console`."""
        self._console = console
        self._lock = threading.Lock()
        self._live: Live | None = None
        self._over = threading.Event()
        self._clock = threading.Thread(target=self._redraw, name="panel", daemon=True)

    def start(self, content: RenderableType) -> None:
        """Show the panel; once."""
        self._live = Live(content, console=self._console, auto_refresh=False, transient=True)
        self._live.start(refresh=True)
        self._clock.start()

    def stop(self) -> None:
        """Take the panel away."""
        self._over.set()
        if self._live is None:
            return
        self._clock.join()
        self._live.stop()
        self._live = None

    def update(self, content: RenderableType) -> None:
        """Show something else, from the next redrawing on."""
        if self._live is not None:
            with self._lock:
                self._live.update(content)

    def print(self, line: RenderableType) -> None:
        """Print above the panel."""
        with self._lock:
            self._console.print(line)

    def _redraw(self) -> None:
        while not self._over.wait(REDRAW_S):
            with self._lock:
                if self._live is not None:
                    self._live.refresh()
