"""The rows of the memory index: texts of a conversation, each with the path of its whole text."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from stepline.model.base import Value

RowKind: TypeAlias = Literal[
    "summary", "prompt", "event", "answer", "note", "plan", "source", "attachment", "range"
]
"""`prompt` is a user's message that opened a turn; `event` every later one: followup, steer, or a service's."""

MEMORY_TEXT_CHARS: Final = 2_000
"""The most characters of one row; a longer text has several rows at one path."""


class MemoryScope(Value):
    """The conversations that one search may see: those of one user in one project of one tenant."""

    tenant: str
    project: str
    user: str


class MemoryRow(Value):
    """A piece of text of a closed turn, or of a compaction.

    `path` is canonical and resolves in the row's conversation. `part` numbers the rows at one path, from 0. `tags` are
    those of a note's lines (`P D S A K`). `covers` are the ids of the turns that a range summary covers and no older
    one did. `at` is ISO-8601, `n` the batch that closed the turn or ended the compaction.
    """

    conversation: str
    turn: str
    kind: RowKind
    path: str
    text: str
    at: str
    n: int
    part: int = 0
    tags: tuple[str, ...] = ()
    covers: tuple[str, ...] = ()
