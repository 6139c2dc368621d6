"""The bytes of a memory segment, and the removal of a conversation from them; neither needs the search packages.

told      the rows and the vocabulary, compressed
vectors   one of a fixed size per row
words, counts, lengths   the words of each row, as numbers in the vocabulary, and how often each occurs
"""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from stepline.errors import DependencyError
from stepline.model.base import Value
from stepline.model.memory_row import MemoryRow

MEMORY_SEGMENT_FORMAT: Final = 1
SEGMENT_UNREAD: Final = "memory_segment_unread"
NUMBER_BYTES: Final = 4


class Stored(Value):
    """A segment's bytes: rows and vocabulary are compressed, arrays are stored little-endian."""

    v: int
    told: bytes
    vectors: bytes
    words: bytes
    counts: bytes
    lengths: bytes


_Texts = tuple[list[MemoryRow], list[str]]
_ENCODER = msgspec.msgpack.Encoder()
_STORED = msgspec.msgpack.Decoder(Stored)
_TEXTS = msgspec.msgpack.Decoder(_Texts)


def encode_texts(rows: Sequence[MemoryRow], vocabulary: Sequence[str]) -> bytes:
    """Return the segment's form of rows and vocabulary."""
    return zlib.compress(_ENCODER.encode((list(rows), list(vocabulary))), 6)


def encode_stored(stored: Stored) -> bytes:
    """Return the bytes of a segment."""
    return _ENCODER.encode(stored)


def decode_stored(body: bytes) -> tuple[Stored, list[MemoryRow], list[str]]:
    """Return a segment's parts. Raises msgspec.MsgspecError, zlib.error."""
    stored = _STORED.decode(body)
    rows, vocabulary = _TEXTS.decode(zlib.decompress(stored.told))
    return stored, rows, vocabulary


class ReducedSegment(NamedTuple):
    """A segment without a conversation: its bytes, empty if no row is left, and the counts of kept and removed rows."""

    body: bytes
    rows: int
    removed: int


def drop_conversation(body: bytes, conversation: str) -> ReducedSegment:
    """Return a segment without the rows of a conversation, and without the words that only these rows had.

    Raises DependencyError `memory_segment_unread` if it is damaged or of another format.
    """
    try:
        stored, rows, vocabulary = decode_stored(body)
        kept = [at for at, row in enumerate(rows) if row.conversation != conversation]
        if len(kept) == len(rows):
            return ReducedSegment(body, len(rows), 0)
        return _reduce(stored, rows, vocabulary, kept)
    except (msgspec.MsgspecError, zlib.error, ValueError, IndexError) as error:
        raise DependencyError("a segment cannot be read", code=SEGMENT_UNREAD) from error


def _reduce(stored: Stored, rows: list[MemoryRow], vocabulary: list[str], kept: list[int]) -> ReducedSegment:
    """Return the segment with the rows at these indexes. Raises ValueError if its parts do not match."""
    lengths, words = _numbers(stored.lengths), _numbers(stored.words)
    if stored.v != MEMORY_SEGMENT_FORMAT or len(lengths) != len(rows) or sum(lengths) != len(words):
        raise ValueError("it does not fit together")
    if not kept:
        return ReducedSegment(b"", 0, len(rows))
    begins = [0]
    for length in lengths:
        begins.append(begins[-1] + length)
    size = len(stored.vectors) // len(rows)
    numbers: dict[int, int] = {}
    renumbered, counts, vectors = array("I"), bytearray(), bytearray()
    for at in kept:
        begin, end = begins[at], begins[at + 1]
        renumbered.extend(numbers.setdefault(word, len(numbers)) for word in words[begin:end])
        counts += stored.counts[begin:end]
        vectors += stored.vectors[at * size : (at + 1) * size]
    left = Stored(
        v=MEMORY_SEGMENT_FORMAT,
        told=encode_texts([rows[at] for at in kept], [vocabulary[word] for word in numbers]),
        vectors=bytes(vectors),
        words=_bytes(renumbered),
        counts=bytes(counts),
        lengths=_bytes(array("I", [lengths[at] for at in kept])),
    )
    return ReducedSegment(encode_stored(left), len(kept), len(rows) - len(kept))


def _numbers(body: bytes) -> array[int]:
    """Return numbers of four bytes each. Raises ValueError for a partial number."""
    if len(body) % NUMBER_BYTES:
        raise ValueError("a number is cut off")
    return array("I", [int.from_bytes(body[at : at + 4], "little") for at in range(0, len(body), 4)])


def _bytes(numbers: array[int]) -> bytes:
    return b"".join(number.to_bytes(NUMBER_BYTES, "little") for number in numbers)
