"""The drawing surface of a view, and the last filter of its content."""

from __future__ import annotations

from typing import Protocol

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment

from stepline.local.safe_text import clean


class Surface(Protocol):
    """A terminal to draw on."""

    @property
    def width(self) -> int: ...

    @property
    def height(self) -> int: ...

    def print(self, what: RenderableType) -> None:
        """Print permanently."""

    def show(self, content: RenderableType | None) -> None:
        """Show content below the printed text, in place of the previous content."""


class Clean:
    """Wraps content and shows hidden characters at the last moment: Markdown makes some of `&#8238;`."""

    def __init__(self, what: RenderableType) -> None:
        self._what = what

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for segment in console.render(self._what, options):
            yield segment if segment.control else Segment(clean(segment.text), segment.style)
