"""The course of the open turn: its entries with their times, its messages, and the shown detail of each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from msgspec.structs import replace

from stepline.context.summary_text import cut_middle
from stepline.model.block import Block
from stepline.model.entry import Decided, Entry, Inbound, Opened
from stepline.rendering.piece import byte_length
from stepline.rendering.render_entry import render_text
from stepline.rendering.turn_facts import EventPaths, Turn, event_place, prompt_places
from stepline.timeline.fold import Timeline


@dataclass(frozen=True, kw_only=True)
class Detail:
    """Limits of what is shown: bytes of a message or an answer, characters of a result and of a row, and rows.

    `events` are the messages and events of the turn that are shown in addition to the newest rows.
    """

    text_bytes: int
    read_chars: int
    preview_chars: int
    chars: int
    rows: int
    events: int = 1_000

    def text(self, text: str, what: str) -> str:
        """Return a text as lines of data; a long one as beginning and end."""
        return render_text(text, what, self.text_bytes)

    def fit(self, rendered: str) -> str:
        """Return a rendered text, without its middle if it does not fit; its path leads to the whole text."""
        return cut_middle(rendered, 2 * self.text_bytes)

    def event(self, event: Inbound, place: EventPaths, render: Callable[..., str]) -> str:
        """Return an event with its path; a long one without its payload, and with the beginning and the end of its text."""
        text = render(event, place.path, files=place.files)
        if byte_length(text) <= 2 * self.text_bytes:
            return text
        short = render(replace(event, attachments=(), payload={}), place.path, most=self.text_bytes)
        files = [f"{len(event.attachments)} files"] if event.attachments else []
        left_out = " and ".join([*(["a payload"] if event.payload else []), *files])
        return f"{short}...[truncated]: {place.path} has {left_out}\n" if left_out else short

    def keep_events(self, rows: Sequence[tuple[str, bool]]) -> str:
        """Return the newest rows, and before them the earlier events, after a line that counts the omitted rows.

        Each row has True if it is an event.
        """
        earlier = rows[: -self.rows]
        events = [text for text, is_event in earlier if is_event][-self.events :]
        newest = [text for text, _ in rows[-self.rows :]]
        return "".join([*self.more(len(earlier) - len(events)), *events, *newest])

    def rows_of(self, rows: Sequence[str]) -> str:
        """Return the newest rows, after a line that counts the earlier ones; "" for none."""
        return "".join([*self.more(len(rows) - self.rows), *rows[-self.rows :]])

    def more(self, count: int) -> tuple[str, ...]:
        """Return the line that counts the omitted rows."""
        return (f"- … {count} more\n",) if count > 0 else ()


DETAILS: Final = (
    Detail(text_bytes=12_000, read_chars=6_000, preview_chars=1_600, chars=400, rows=80),
    Detail(text_bytes=6_000, read_chars=2_400, preview_chars=600, chars=240, rows=40),
    Detail(text_bytes=2_000, read_chars=800, preview_chars=240, chars=160, rows=20),
    Detail(text_bytes=800, read_chars=240, preview_chars=80, chars=80, rows=8),
    Detail(text_bytes=400, read_chars=80, preview_chars=40, chars=60, rows=3),
    Detail(text_bytes=160, read_chars=80, preview_chars=40, chars=60, rows=3),
    Detail(text_bytes=160, read_chars=80, preview_chars=40, chars=60, rows=3, events=100),
    Detail(text_bytes=160, read_chars=80, preview_chars=40, chars=60, rows=3, events=10),
)
"""The degrees of detail, the whole one first. Events are omitted only if their beginnings do not fit."""


@dataclass(frozen=True, kw_only=True)
class Course:
    """The open turn of a timeline. `rows` are its entries in order, each with its batch and the time of the batch."""

    timeline: Timeline
    turn: Turn

    @cached_property
    def rows(self) -> tuple[tuple[int, str, Entry], ...]:
        return tuple(self._rows())

    def _rows(self) -> Iterator[tuple[int, str, Entry]]:
        """Yield the entries after the one that opened the turn."""
        begun = False
        for batch in self.timeline.since(self.turn.opened - 1):
            for entry in batch.entries:
                if begun:
                    yield batch.n, batch.at, entry
                begun = begun or (isinstance(entry, Opened) and entry.turn == self.turn.id)

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        """The blocks of the turn."""
        return self.timeline.turn_blocks(self.turn.id)

    @cached_property
    def prompts(self) -> tuple[tuple[Inbound, EventPaths], ...]:
        """The messages that opened the turn, with their paths."""
        wanted = self.turn.prompts
        batches = self.timeline.since(min(wanted, default=1) - 1, max(wanted, default=0))
        found = {batch.n: entry for batch in batches for entry in batch.entries if isinstance(entry, Inbound)}
        messages = [found[n] for n in wanted]
        return tuple(zip(messages, prompt_places(self.turn.id, messages), strict=True))

    @cached_property
    def waited(self) -> tuple[tuple[Inbound, EventPaths], ...]:
        """The events that waited for the turn and did not open it, with their paths."""
        events = [event.inbound for event in self.timeline.arrived.values() if event.n <= self.turn.opened]
        return tuple((event, event_place(self.turn.id, event)) for event in events)

    @property
    def answers(self) -> int:
        """The number of accepted answers."""
        return sum(
            isinstance(entry, Decided) and entry.accepted and bool(entry.answer) for _, _, entry in self.rows
        )
