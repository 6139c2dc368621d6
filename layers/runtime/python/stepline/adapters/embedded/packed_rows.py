"""Packed rows: rows with their search data, as arrays in memory and as the bytes of a segment.

A row's vector has 256 signed bytes. Its words are numbers in the segment's vocabulary, each with its count: a list that
is merged and searched in one pass. Source: docs/concepts/memory.md.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from stepline.adapters.embedded.static_embedding import DIMENSIONS, embed
from stepline.adapters.embedded.stored_segment import (
    MEMORY_SEGMENT_FORMAT,
    Stored,
    decode_stored,
    encode_stored,
    encode_texts,
)
from stepline.errors import DependencyError
from stepline.model.memory_row import MemoryRow

if TYPE_CHECKING:
    from numpy.typing import NDArray

SCALE: Final = 127
WORD: Final = re.compile(r"[^\W_]+")
"""A word; an underscore separates words, as in names of files."""

Key = tuple[str, str, int]


@dataclass(frozen=True, kw_only=True)
class Packed:
    """Rows, each with its vector, and the words of all of them: `lengths[i]` entries of `words` belong to row i."""

    rows: Sequence[MemoryRow]
    vectors: NDArray[np.int8]
    vocabulary: Sequence[str]
    words: NDArray[np.uint32]
    counts: NDArray[np.uint8]
    lengths: NDArray[np.uint32]

    @cached_property
    def number_of(self) -> dict[str, int]:
        """The number of each word."""
        return {word: number for number, word in enumerate(self.vocabulary)}

    @cached_property
    def row_of(self) -> NDArray[np.intp]:
        """The row of each entry of `words`."""
        return np.repeat(np.arange(len(self.rows)), self.lengths)

    @cached_property
    def sizes(self) -> NDArray[np.float64]:
        """The number of words of each row, repetitions included."""
        return np.bincount(self.row_of, self.counts, len(self.rows)).astype(np.float64)


def words_of(text: str) -> list[str]:
    """Return the words of a text, in lower case."""
    return WORD.findall(text.casefold())


def _row_key(row: MemoryRow) -> Key:
    """Return the key of a row: a newer row with the same key replaces it."""
    return row.conversation, row.path, row.part


def pack(rows: Sequence[MemoryRow]) -> Packed:
    """Return rows with their vectors and words."""
    vocabulary: dict[str, int] = {}
    words, counts, lengths = [], [], []
    for row in rows:
        found = Counter(words_of(row.text))
        words += [vocabulary.setdefault(word, len(vocabulary)) for word in found]
        counts += [min(count, 255) for count in found.values()]
        lengths.append(len(found))
    vectors = np.rint(embed([row.text for row in rows]) * SCALE).astype(np.int8)
    return Packed(
        rows=rows,
        vectors=vectors,
        vocabulary=list(vocabulary),
        words=np.array(words, np.uint32),
        counts=np.array(counts, np.uint8),
        lengths=np.array(lengths, np.uint32),
    )


def merge(parts: Iterable[Packed]) -> Packed:
    """Return all rows of the parts; of several with one key, the one of the newest batch, else of the last part."""
    found = [part for part in parts if part.rows]
    vocabulary: dict[str, int] = {}
    renumbered = []
    for part in found:
        numbers = [vocabulary.setdefault(word, len(vocabulary)) for word in part.vocabulary]
        renumbered.append(np.array(numbers, np.uint32)[part.words])
    rows = [row for part in found for row in part.rows]
    whole = Packed(
        rows=rows,
        vectors=np.concatenate([np.zeros((0, DIMENSIONS), np.int8), *(part.vectors for part in found)]),
        vocabulary=list(vocabulary),
        words=np.concatenate([np.zeros(0, np.uint32), *renumbered]),
        counts=np.concatenate([np.zeros(0, np.uint8), *(part.counts for part in found)]),
        lengths=np.concatenate([np.zeros(0, np.uint32), *(part.lengths for part in found)]),
    )
    kept = current(rows)
    return whole if len(kept) == len(rows) else _only(whole, kept)


def current(rows: Sequence[MemoryRow]) -> list[int]:
    """Return the indexes of the rows that no other row replaces, in order."""
    newest: dict[Key, int] = {}
    for at, row in enumerate(rows):
        other = newest.get(_row_key(row))
        if other is None or rows[other].n <= row.n:
            newest[_row_key(row)] = at
    return sorted(newest.values())


def _only(packed: Packed, kept: Sequence[int]) -> Packed:
    chosen = np.zeros(len(packed.rows), bool)
    chosen[list(kept)] = True
    entries = chosen[packed.row_of]
    return Packed(
        rows=[packed.rows[at] for at in kept],
        vectors=packed.vectors[chosen],
        vocabulary=packed.vocabulary,
        words=packed.words[entries],
        counts=packed.counts[entries],
        lengths=packed.lengths[chosen],
    )


def encode_packed(packed: Packed) -> bytes:
    """Return the bytes of a segment."""
    stored = Stored(
        v=MEMORY_SEGMENT_FORMAT,
        told=encode_texts(packed.rows, packed.vocabulary),
        vectors=packed.vectors.tobytes(),
        words=packed.words.astype("<u4").tobytes(),
        counts=packed.counts.tobytes(),
        lengths=packed.lengths.astype("<u4").tobytes(),
    )
    return encode_stored(stored)


def decode_packed(body: bytes) -> Packed:
    """Read a segment. Raises DependencyError `memory_segment_unread` if it is damaged or of another format."""
    try:
        stored, rows, vocabulary = decode_stored(body)
        packed = Packed(
            rows=rows,
            vectors=np.frombuffer(stored.vectors, np.int8).reshape(len(rows), DIMENSIONS),
            vocabulary=vocabulary,
            words=np.frombuffer(stored.words, "<u4"),
            counts=np.frombuffer(stored.counts, np.uint8),
            lengths=np.frombuffer(stored.lengths, "<u4"),
        )
        whole = (
            stored.v == MEMORY_SEGMENT_FORMAT
            and len(packed.lengths) == len(rows)
            and packed.lengths.sum() == len(packed.words) == len(packed.counts)
            and (not len(packed.words) or packed.words.max() < len(vocabulary))
        )
    except (msgspec.MsgspecError, zlib.error, ValueError) as error:
        raise DependencyError("a segment cannot be read", code="memory_segment_unread") from error
    if not whole:
        raise DependencyError("a segment does not fit together", code="memory_segment_unread")
    return packed
