"""A deterministic search engine over a fixed collection of documents, without a network.

A collection is JSON lines, each `{"url", "title", "text"}` and, if known, `published`, `modified` (ISO 8601)
and `author`. Pages are ranked by BM25 over words, with the words of a title weighted threefold.

Source: docs/concepts/sources.md#the-collection.
"""

from __future__ import annotations

import math
import re
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Final
from unicodedata import normalize

import msgspec

from stepline.errors import DependencyError
from stepline.model.base import Value
from stepline.model.source import normalise_url, web_url
from stepline.ports.search import Hit, Page, WebPages, WebSearchQuery

BUILT_IN: Final = Path(__file__).parent / "documents"
"""The library's built-in collection."""

CORPUS_BYTES_MAX: Final = 16 * 1024 * 1024

SNIPPET_CHARS: Final = 400
RELEVANCE_MIN, SHARE_MIN = 0.1, 0.25
"""Minimum relevance, absolute and as a share of the best page's; pages below it are not results."""

_SATURATION, _LENGTH, _TITLE_WEIGHT = 1.2, 0.75, 3
_DAYS: Final = {"day": 1, "week": 7, "month": 31, "year": 366}
_WORD: Final = re.compile(r"[^\W_]+")
_SENTENCE: Final = re.compile(r"(?<=[.!?])\s+")
_STOP_WORDS = (
    "a about an and any are as at be but by can could did do does for from had has have how i if in into is it its "
    "me my no not of on or our should so some such than that the their them then there these they this those to us "
    "was we were what when where which while who why will with would you your"
)
_STOP: Final = frozenset(_STOP_WORDS.split())


class CorpusDocument(Value):
    """One page of a collection."""

    url: str
    title: str
    text: str
    published: str = ""
    modified: str = ""
    author: str = ""


class CorpusSearch:
    """Searches a file of JSON lines, or all `*.jsonl` of a folder, read on the first search."""

    about = "a fixed collection of documents; not the web, and nothing newer than its documents"

    def __init__(self, place: Path | None = None) -> None:
        """Search the collection at `place`, or the library's built-in one."""
        self._place = place or BUILT_IN
        self._lock = threading.Lock()

    def search(self, query: WebSearchQuery) -> tuple[Hit, ...]:
        """Return the best pages. Raises DependencyError `corpus_unreadable` if the collection cannot be read."""
        with self._lock:
            index = self._index
        since = query.at - timedelta(days=_DAYS[query.freshness]) if query.freshness else None
        words = split_words(query.text)
        found = [
            (score, page) for score, page in index.rank(words) if since is None or _is_since(page, since)
        ]
        judged = {page.url: score for score, page in index.rank(split_words(query.objective))}
        return tuple(
            _hit(page, score, words, judged.get(page.url, 0.0) if query.objective else None)
            for score, page in found[: query.n]
        )

    def find(self, url: str) -> CorpusDocument | None:
        """Return the page at an address; None if the collection has none. Raises DependencyError `corpus_unreadable`."""
        with self._lock:
            return self._index.pages.get(normalise_url(url))

    @cached_property
    def _index(self) -> Index:
        return Index(read_documents(self._place))


class CorpusPages:
    """The pages of a collection by address, without a network; `beyond` fetches any other page."""

    def __init__(self, corpus: CorpusSearch, beyond: WebPages) -> None:
        """Look in the collection first."""
        self._corpus, self._beyond = corpus, beyond

    def fetch(self, url: str) -> Page:
        page = self._corpus.find(url)
        if page is None:
            return self._beyond.fetch(url)
        return Page(
            url=url,
            final_url=url,
            title=page.title,
            text=page.text,
            mime="text/html",
            published_time_iso=page.published,
            author=page.author,
        )


class Index:
    """The frequency of each word in each page."""

    def __init__(self, pages: Iterable[CorpusDocument]) -> None:
        """Count the words; a duplicate page counts once."""
        self.pages = {normalise_url(page.url): page for page in pages}
        self._pages = list(self.pages.values())
        self._counts = [
            Counter(split_words(page.title) * _TITLE_WEIGHT + split_words(page.text)) for page in self._pages
        ]
        self._lengths = [counts.total() for counts in self._counts]
        self._mean = sum(self._lengths) / max(1, len(self._lengths)) or 1.0
        self._holders: Mapping[str, int] = Counter(word for counts in self._counts for word in counts)

    def rank(self, words: Iterable[str]) -> list[tuple[float, CorpusDocument]]:
        """Return the pages that match enough of the words, best first, each with its relevance from 0 to 1."""
        weights = {word: self._weight(word) for word in words}
        most = sum(weights.values()) * (_SATURATION + 1)
        if not most:
            return []
        scored = [
            (sum(weight * self._share(number, word) for word, weight in weights.items()) / most, page)
            for number, page in enumerate(self._pages)
        ]
        least = max(RELEVANCE_MIN, SHARE_MIN * max((score for score, _ in scored), default=0))
        kept = [(score, page) for score, page in scored if score >= least]
        return sorted(kept, key=lambda one: (-one[0], one[1].url))

    def _weight(self, word: str) -> float:
        """Return the weight of a word: the rarer, the higher."""
        holders = self._holders.get(word, 0)
        return math.log(1 + (len(self._pages) - holders + 0.5) / (holders + 0.5))

    def _share(self, number: int, word: str) -> float:
        count = self._counts[number][word]
        length = self._lengths[number] / self._mean
        return count * (_SATURATION + 1) / (count + _SATURATION * (1 - _LENGTH + _LENGTH * length))


def read_documents(place: Path) -> Iterator[CorpusDocument]:
    """Yield the pages of a file, or of a folder's files by name. Raises DependencyError `corpus_unreadable`.

    A function holds the whole collection in memory, so one larger than CORPUS_BYTES_MAX is refused.
    """
    files = sorted(place.glob("*.jsonl")) if place.is_dir() else [place]
    if not files:
        raise DependencyError(f"no *.jsonl in {place}", code="corpus_unreadable")
    left = CORPUS_BYTES_MAX
    for file in files:
        try:
            left -= file.stat().st_size
            if left < 0:
                raise DependencyError(f"{place} is too large", code="corpus_unreadable")
            lines = file.read_text(encoding="utf-8-sig").split("\n")
        except (OSError, UnicodeDecodeError) as error:
            raise DependencyError(f"{file} cannot be read: {error}", code="corpus_unreadable") from error
        for number, line in enumerate(lines, start=1):
            if line.strip():
                yield _read_line(line, f"{file}, line {number}")


def split_words(text: str) -> list[str]:
    """Return the significant words, in normalised Unicode, lower case and singular."""
    words = _WORD.findall(normalize("NFKC", text).casefold())
    return [_singular(word) for word in words if word not in _STOP]


def cut_snippet(text: str, words: Iterable[str]) -> str:
    """Return the run of whole sentences with the most of the words, the earliest of several."""
    wanted = set(words)
    sentences = _SENTENCE.split(" ".join(text.split()))
    best, most = "", -1
    for start in range(len(sentences)):
        piece = sentences[start][:SNIPPET_CHARS]
        for sentence in sentences[start + 1 :]:
            if len(piece) + 1 + len(sentence) > SNIPPET_CHARS:
                break
            piece = f"{piece} {sentence}"
        hits = len(wanted.intersection(split_words(piece)))
        if hits > most:
            best, most = piece, hits
    return best


def _read_line(line: str, where: str) -> CorpusDocument:
    try:
        page = msgspec.json.decode(line, type=CorpusDocument)
        for moment in filter(None, (page.published, page.modified)):
            datetime.fromisoformat(moment)
    except (msgspec.DecodeError, ValueError) as error:
        raise DependencyError(f"{where}: {error}", code="corpus_unreadable") from error
    if not web_url(page.url):
        raise DependencyError(f"{where}: the address is none of http(s)", code="corpus_unreadable")
    return page


def _singular(word: str) -> str:
    if len(word) > 4 and word.endswith("ies"):
        return f"{word[:-3]}y"
    return (
        word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")) else word
    )


def _is_since(page: CorpusDocument, since: datetime) -> bool:
    if not page.published:
        return False
    at = datetime.fromisoformat(page.published)
    return (at if at.tzinfo else at.replace(tzinfo=UTC)) >= since


def _hit(page: CorpusDocument, relevance: float, words: Iterable[str], judged: float | None) -> Hit:
    return Hit(
        title=page.title,
        url=page.url,
        text=cut_snippet(page.text, words),
        content=page.text,
        mime="text/html",
        published_time_iso=page.published,
        modified_time_iso=page.modified,
        author=page.author,
        relevance=round(relevance, 3),
        objective_relevance=None if judged is None else round(judged, 3),
    )
