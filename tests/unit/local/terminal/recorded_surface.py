"""A simulated terminal: the lines that a view printed, and the content shown below."""

from __future__ import annotations

import io

from rich.console import Console

from stepline.local.terminal.surface import Clean


class RecordedSurface:
    def __init__(self, width=300, height=30):
        self.width, self.height = width, height
        self._console = self._new()
        self._content = None

    def print(self, what):
        self._console.print(Clean(what))

    def show(self, content):
        self._content = content

    def printed(self):
        return self._console.file.getvalue()

    def shown(self):
        """Return the content shown now, or nothing."""
        console = self._new()
        if self._content is not None:
            console.print(Clean(self._content))
        return console.file.getvalue()

    def _new(self):
        size = {"width": self.width, "height": self.height}
        return Console(file=io.StringIO(), color_system=None, markup=False, **size)
