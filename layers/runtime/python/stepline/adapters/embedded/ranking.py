"""Ranks the rows for a query: by words (BM25), by meaning (cosines), and both lists by reciprocal rank.

The search is exact, over every row. The cosine that orders rows uses vectors minus the mean of all rows, because the
shared part does not describe a single row. Words that many rows have are omitted, and a row found by words is weighted
by the square of its share of the query's words: a rephrased question would otherwise match on "where" and "does".
Source: Robertson and Zaragoza, The Probabilistic Relevance Framework: BM25 and Beyond; Cormack et al., Reciprocal Rank
Fusion; Mu and Viswanath, All-but-the-Top. Measured: docs/reference/bench.md, `memory_found_*`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from stepline.adapters.embedded.packed_rows import SCALE, Packed, current, words_of
from stepline.adapters.embedded.static_embedding import embed
from stepline.model.memory_row import MEMORY_TEXT_CHARS, MemoryRow
from stepline.ports.memory_index import MemoryHit, MemoryQuery

if TYPE_CHECKING:
    from numpy.typing import NDArray

K1, B = 1.2, 0.75
RANK: Final = 60
"""The constant of reciprocal rank fusion."""
COMMON: Final = 0.1
"""The share of rows above which a word is omitted, if there are at least `FEW` rows."""
FEW: Final = 200
LISTED: Final = 200
"""The length of each list that is fused."""
BLOCK: Final = 4_096
"""The number of rows whose vectors are converted to 8-byte numbers at a time."""
LEAST: Final = 0.15
"""The minimum cosine of a row that is found only by its meaning."""


class Scores(NamedTuple):
    """Per row, over all parts: BM25, the share of the query's weight that it has, the ordering and the plain cosine."""

    lexical: NDArray[np.float64]
    coverage: NDArray[np.float64]
    centred: NDArray[np.float64]
    cosine: NDArray[np.float64]


def rank(
    parts: Sequence[Packed], query: MemoryQuery, *, words: bool = True, meaning: bool = True
) -> tuple[MemoryHit, ...]:
    """Return the best rows of the parts by words and meaning, best first, without rows that another row replaces."""
    text = query.text[:MEMORY_TEXT_CHARS]
    asked = list(dict.fromkeys(words_of(text)))
    rows = [row for part in parts for row in part.rows]
    if not asked or not rows or query.limit <= 0:
        return ()
    places = current(rows) if len(parts) > 1 else range(len(rows))  # a part has each row once
    wanted = np.zeros(len(rows), bool)
    wanted[_unrepeated(rows, [at for at in places if _is_wanted(rows[at], query)])] = True
    lexical, coverage = _by_words(parts, asked)
    scores = Scores(lexical, coverage, *_by_meaning(parts, text))
    most = max(LISTED, query.limit)
    by_words = _best(scores.lexical, wanted & (scores.lexical > 0), most, rows) if words else []
    by_meaning = _best(scores.centred, wanted & (scores.cosine >= LEAST), most, rows) if meaning else []
    return _fused(rows, scores, by_words, by_meaning)[: query.limit]


def _is_wanted(row: MemoryRow, query: MemoryQuery) -> bool:
    """Return True if a row is within the limits of a query."""
    return (
        (not query.conversation or row.conversation == query.conversation)
        and (not query.kinds or row.kind in query.kinds)
        and row.at >= query.since
        and (not query.before or row.at < query.before)
    )


def _unrepeated(rows: Sequence[MemoryRow], places: Sequence[int]) -> list[int]:
    """Return the indexes without range summaries that only repeat another row: summaries include older ones."""
    ranges = sorted((at for at in places if rows[at].kind == "range"), key=lambda at: rows[at].n)
    if not ranges:
        return list(places)
    said = {(rows[at].conversation, rows[at].text) for at in places if rows[at].kind != "range"}
    repeats: set[int] = set()
    for at in ranges:
        about = (rows[at].conversation, rows[at].text)
        if about in said:
            repeats.add(at)
        said.add(about)
    return [at for at in places if at not in repeats]


def _by_words(
    parts: Sequence[Packed], words: Sequence[str]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    total = sum(len(part.rows) for part in parts)
    mean = max(1.0, sum(float(part.sizes.sum()) for part in parts) / total)
    numbers = [[part.number_of.get(word, -1) for word in words] for part in parts]
    having = np.zeros(len(words))
    for part, own in zip(parts, numbers, strict=True):
        counted = np.bincount(part.words, minlength=len(part.vocabulary) + 1)
        having += [counted[number] if number >= 0 else 0 for number in own]
    weights = np.log(1 + (total - having + 0.5) / (having + 0.5))
    if total >= FEW:
        weights[having > COMMON * total] = 0
    whole = float(weights.sum()) or math.inf
    found = [_bm25(part, own, weights, mean) for part, own in zip(parts, numbers, strict=True)]
    return np.concatenate([one for one, _ in found]), np.concatenate([two for _, two in found]) / whole


def _bm25(
    part: Packed, numbers: Sequence[int], weights: NDArray[np.float64], mean: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return each row's BM25, and the total weight of the query's words in it."""
    of_word = np.zeros(len(part.vocabulary) + 1)
    for number, weight in zip(numbers, weights, strict=True):
        if number >= 0:
            of_word[number] = weight
    hits = np.flatnonzero(of_word[part.words])
    weight, row, count = of_word[part.words[hits]], part.row_of[hits], part.counts[hits].astype(float)
    gain = weight * count * (K1 + 1) / (count + K1 * (1 - B + B * part.sizes[row] / mean))
    size = len(part.rows)
    return (
        np.bincount(row, gain, size).astype(np.float64),
        np.bincount(row, weight, size).astype(np.float64),
    )


def _by_meaning(parts: Sequence[Packed], text: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    query = embed([text])[0].astype(np.float64)
    total = sum(len(part.rows) for part in parts)
    # The mean of a few rows says little about what all rows share.
    mean = sum(part.vectors.sum(axis=0, dtype=np.float64) for part in parts) / SCALE / (total + FEW)
    both = np.stack([query, mean], axis=1)
    blocks = (part.vectors[at : at + BLOCK] for part in parts for at in range(0, len(part.rows), BLOCK))
    cosine, shared = np.concatenate([block @ both for block in blocks]).T / SCALE
    square = float(mean @ mean)
    apart = np.sqrt(np.maximum(1 - 2 * shared + square, 1e-9)) * max(
        float(np.linalg.norm(query - mean)), 1e-9
    )
    return (cosine - float(mean @ query) - shared + square) / apart, np.clip(cosine, -1, 1)


def _fused(
    rows: Sequence[MemoryRow], scores: Scores, by_words: Sequence[int], by_meaning: Sequence[int]
) -> tuple[MemoryHit, ...]:
    fused: dict[int, float] = {}
    for place, at in enumerate(by_words, 1):
        fused[at] = float(scores.coverage[at]) ** 2 / (RANK + place)
    for place, at in enumerate(by_meaning, 1):
        fused[at] = fused.get(at, 0.0) + 1 / (RANK + place)
    near = set(by_meaning)
    return tuple(
        MemoryHit(row=rows[at], score=fused[at], similarity=float(scores.cosine[at]) if at in near else None)
        for at in sorted(fused, key=_order(rows, lambda at: fused[at]))
    )


def _best(
    scores: NDArray[np.float64], wanted: NDArray[np.bool_], most: int, rows: Sequence[MemoryRow]
) -> list[int]:
    """Return the indexes of the highest scores, best first."""
    found = np.flatnonzero(wanted)
    if len(found) > most:
        least = np.partition(scores[found], -most)[-most]
        found = found[scores[found] >= least]
    return sorted(found.tolist(), key=_order(rows, lambda at: round(float(scores[at]), 9)))[:most]


def _order(
    rows: Sequence[MemoryRow], score: Callable[[int], float]
) -> Callable[[int], tuple[float, str, int, str, int]]:
    """Return a sort key: higher scores first, rows of equal score in a fixed order."""

    def key(at: int) -> tuple[float, str, int, str, int]:
        row = rows[at]
        return -score(at), row.conversation, -row.n, row.path, row.part

    return key
