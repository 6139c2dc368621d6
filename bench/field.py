"""Streaming the text of JSON fields, beside the least work for the same result.

`find_scanstring` is the limit: decode a piece with one call of the C scanner where no string ends in it, look
for the end otherwise, check nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from json.decoder import scanstring  # type: ignore[attr-defined]  # the C scanner, which the stubs omit
from typing import Any

from bench.pipeline import HTML, MARKDOWN, PROSE, SIZES, cpu_s, filled, write
from bench.row import Limit, MeasureError, Row
from stepline.protocol.parser.field import FieldStream, Path

ROUNDS = 36  # interleaved; the best of each counts
FIELD_CHARS = 26_000
GOAL_RATIO = 1.5


class FindScanStream:
    """Top-level and nested strings by their last key; ignores structure beyond quotes and colons."""

    def __init__(self, keys: frozenset[str]) -> None:
        self._keys = keys
        self._inside = self._wanted = False
        self._key = self._last = ""
        self._held = ""
        self._mark = ""
        self.texts: dict[str, list[str]] = {}
        self._pieces: list[str] = []

    def feed(self, text: str) -> None:
        """Take the next piece; in a string without a quote and with whole escapes there is one call of C."""
        if self._held:
            text, self._held = self._held + text, ""
        if self._inside and '"' not in text:
            last = text.rfind("\\")
            if last < 0:
                self._pieces.append(text)
                return
            if text[last + 1 : last + 2] not in ("", "u") and text[last - 1 : last] != "\\":
                self._pieces.append(scanstring(text + '"', 0, False)[0])
                return
        self._walk(text)

    def _walk(self, text: str) -> None:
        at = 0
        while at < len(text):
            if not self._inside:
                quote = text.find('"', at)
                if gap := (text[at:quote] if quote >= 0 else text[at:]).rstrip():
                    self._mark = gap[-1]
                if quote < 0:
                    return
                self._inside, at = True, quote + 1
                self._wanted = self._mark == ":" and self._last in self._keys
                self._pieces = self.texts.setdefault(self._last, []) if self._wanted else []
                continue
            end = text.find('"', at)
            slash = text.find("\\", at)
            if 0 <= slash < end or (slash >= 0 and end < 0):
                at = self._escaped(text, at)
                continue
            if end < 0:
                self._pieces.append(text[at:])
                return
            self._pieces.append(text[at:end])
            self._end()
            at = end + 1

    def _escaped(self, text: str, at: int) -> int:
        """Decode up to the string's end, or up to an escape that may be incomplete."""
        end = at
        while True:
            end = text.find('"', end)
            if end < 0:
                break
            before = end - 1
            while before >= at and text[before] == "\\":
                before -= 1
            if (end - before) % 2:
                self._pieces.append(scanstring(text[at : end + 1], 0, False)[0])
                self._end()
                return end + 1
            end += 1
        last = text.rfind("\\", max(at, len(text) - 12))
        safe = len(text)
        if last >= 0:
            run = last
            while run > at and text[run - 1] == "\\":
                run -= 1
            odd = (last - run) % 2 == 0
            if odd and (last + 1 == len(text) or (text[last + 1] == "u" and last + 6 >= len(text))):
                safe = last
        if safe > at:
            self._pieces.append(scanstring(text[at:safe] + '"', 0, False)[0])
        self._held = text[safe:]
        return len(text)

    def _end(self) -> None:
        self._inside = False
        if self._mark != ":":
            self._last = "".join(self._pieces)
        self._mark = ""


class _Text:
    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.take = self.pieces.append

    def end(self) -> None:
        """Do nothing."""


class _Fields:
    """`FieldStream` with the same result as `FindScanStream`."""

    def __init__(self, keys: frozenset[str]) -> None:
        self.texts: dict[str, list[str]] = {}
        self._keys = keys
        self.feed = FieldStream(self._choose).feed

    def _choose(self, path: Path) -> _Text | None:
        if path[-1] not in self._keys:
            return None
        taker = _Text()
        self.texts[path[-1]] = taker.pieces
        return taker


def _feed_all(make: Callable[[frozenset[str]], Any], pieces: list[str], keys: frozenset[str]) -> Any:
    stream = make(keys)
    feed = stream.feed
    for piece in pieces:
        feed(piece)
    return stream


def rows() -> list[Row]:
    """Return `json_delta_mb_s_<n>`: a call that writes a file of 26,000 characters."""
    content = filled(MARKDOWN + HTML + PROSE * 2, FIELD_CHARS)
    body = write("outputs/report.md", content).partition("```json")[2]
    keys = frozenset({"action", "tool_id", "path", "channel", "content", "notes"})
    makers: dict[str, Any] = {"ours": _Fields, "find_scanstring": FindScanStream}
    found = []
    for size in SIZES:
        pieces = [body[at : at + size] for at in range(0, len(body), size)]
        texts = {name: _feed_all(make, pieces, keys).texts for name, make in makers.items()}
        joined = {name: {key: "".join(one) for key, one in text.items()} for name, text in texts.items()}
        if joined["ours"] != joined["find_scanstring"] or joined["ours"]["content"] != content:
            raise MeasureError("the streams disagree on the fields")
        best = dict.fromkeys(makers, float("inf"))
        for _ in range(ROUNDS):
            for name, make in makers.items():
                best[name] = min(best[name], cpu_s(partial(_feed_all, make, pieces, keys)))
        speed = {name: round(len(body) / 1e6 / seconds, 1) for name, seconds in best.items()}
        found.append(
            Row(
                metric=f"json_delta_mb_s_{size}",
                value=speed["ours"],
                unit="MB/s",
                limit=Limit("find_scanstring", speed["find_scanstring"]),
                goal_times=GOAL_RATIO,
            )
        )
    return found
