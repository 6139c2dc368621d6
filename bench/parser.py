"""The channel parser beside its peers: MB/s of CPU time at 8 and 40 characters a piece, from one run.

`str_find_push` is the practical limit: the fastest push object with the same result here, which looks for `<`
and ignores escapes, unknown channels and missing tags. `regex_48_holdback` is the usual way: search a trimmed buffer, lag 48 characters.
`regex_whole_buffer` is the naive one: search the whole text again for every piece.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from bench.row import Limit, MeasureError, Row
from stepline.protocol.parser.channel_parser import ChannelParser

ROUNDS = 15  # interleaved; the best of each counts
CHARS = 1_000_000
GOAL_RATIOS = {8: 1.6, 40: 2.0}
SMALL_CHARS = 8_000
GOAL_SHARE = 0.85
GOAL_NAIVE = 100
NAIVE_ROUNDS = 3

Pairs: TypeAlias = list[tuple[str, str]]

_PROSE = (
    "The figures of the last quarter rise by 7 % against the plan, mostly in the north, and the churn falls. "
    "Größere Kunden bleiben länger; see [[S:3]] and `report.md` for the rest 🙂.\n"
)
_HTML = "<section class='kpi'><h2>Umsatz</h2><p>12,4 % &rarr; <b>up</b></p></section>\n"
_MARKDOWN = (
    "## Findings\n\n- churn is down, see [[S:1-3]]\n- `margin` holds\n\n```sql\nSELECT 1 < 2;\n```\n\n"
)
_CODE = (
    "def total(rows):\n    # rows with a price below 1 are free\n"
    "    return sum(r['price'] * r['n'] for r in rows if r['price'] < 1.0 or not r[\"free\"])\n\n"
)


def _decision(**fields: object) -> str:
    text = json.dumps(fields, ensure_ascii=False, indent=1)
    return f"<channel:ReactDecisionOutV2>\n```json\n{text}\n```\n</channel:ReactDecisionOutV2>\n"


def _write(path: str, content: str) -> str:
    params = {"path": path, "channel": "canvas", "content": content, "kind": "file"}
    call = {"tool_id": "react.write", "params": params}
    return _decision(action="call_tool", notes="writing " + path, tool_call=call)


def make_round(lines: int = 60) -> str:
    """Return one realistic round of each kind (thinking, decisions, program text, an answer), about 0.5 KB a line."""
    thinking = f"<channel:thinking>{_PROSE * max(1, lines // 20)}</channel:thinking>\n"
    code = f"<channel:code>\n{_CODE * lines}</channel:code>\n"
    empty = "<channel:code></channel:code>\n"
    run = _decision(action="call_tool", notes="", tool_call={"tool_id": "exec_tools.execute_code_python"})
    answer = _decision(
        action="complete",
        final_answer=_MARKDOWN * max(1, lines // 15) + _PROSE * max(1, lines // 3),
        suggested_followups=["Go on"],
    )
    rounds = [
        thinking + _write("files/page.html", _HTML * lines) + empty,
        thinking + _write("files/report.md", _MARKDOWN * lines + _PROSE * max(1, lines // 3)) + empty,
        thinking + run + code,
        thinking + answer + empty + f"<channel:summary>{_PROSE * max(1, lines // 12)}</channel:summary>\n",
    ]
    return "".join(rounds)


def make_stream(chars: int = CHARS, lines: int = 60) -> str:
    """Return about `chars` characters of rounds."""
    once = make_round(lines)
    return once * max(1, round(chars / len(once)))


class FindSplitter:
    """Push object over `str.find`: exact hold-back, every tag is a tag. `feed` is a closure, not a method."""

    def __init__(self) -> None:
        self.feed, self.close = _push()


_WORD = "channel:"
_BEGINNINGS = frozenset(tag[:size] for tag in (f"<{_WORD}", f"</{_WORD}") for size in range(1, len(tag)))
_BEGINNING_CHARS = max(map(len, _BEGINNINGS))


def _push() -> tuple[Callable[[str], Pairs], Callable[[], Pairs]]:  # noqa: C901 - a call would cost what is saved
    """Return `feed`, which takes the next piece, and `close`, which returns the text held back, as (channel, text) pairs."""
    held = channel = ""

    def feed(text: str) -> Pairs:
        nonlocal held
        if held:
            text = held + text
            held = ""
        if "<" not in text:
            return [(channel, text)] if channel else []
        if _WORD in text:
            return split(text)
        i = text.rfind("<", -_BEGINNING_CHARS)
        if i >= 0 and text[i:] in _BEGINNINGS:
            held = text[i:]
            text = text[:i]
        return [(channel, text)] if channel and text else []

    def split(text: str) -> Pairs:
        nonlocal held, channel
        out: Pairs = []
        at = start = 0
        i = text.find(_WORD)
        while i >= 0:
            closing = text[i - 1 : i] == "/"
            start = i - 1 - closing
            if start < at or text[start] != "<":
                i = text.find(_WORD, i + 1)
                continue
            end = text.find(">", i)
            if end < 0:
                break
            if start > at and channel:
                out.append((channel, text[at:start]))
            channel = "" if closing else text[i + len(_WORD) : end]
            at = end + 1
            i = text.find(_WORD, at)
        else:
            start = max(text.rfind("<", at), at)
            if text[start:] not in _BEGINNINGS:
                start = len(text)
        held = text[start:]
        if at < start and channel:
            out.append((channel, text[at:start]))
        return out

    def close() -> Pairs:
        return [(channel, held)] if channel and held else []

    return feed, close


class RegexSplitter:
    """Search a trimmed buffer for tags and keep 48 characters back."""

    _tag = re.compile(r"<(/?)channel:([A-Za-z0-9_-]+)>")
    _holdback_chars = 48

    def __init__(self) -> None:
        self._buffer = ""
        self._channel = ""

    def feed(self, text: str) -> list[tuple[str, str]]:
        """Take the next piece, return (channel, text) pairs."""
        buffer = self._buffer + text
        out: list[tuple[str, str]] = []
        while tag := self._tag.search(buffer):
            if self._channel and tag.start():
                out.append((self._channel, buffer[: tag.start()]))
            self._channel = "" if tag[1] else tag[2]
            buffer = buffer[tag.end() :]
        cut = len(buffer) - self._holdback_chars
        if cut > 0:
            if self._channel:
                out.append((self._channel, buffer[:cut]))
            buffer = buffer[cut:]
        self._buffer = buffer
        return out

    def close(self) -> list[tuple[str, str]]:
        """Return the text held back."""
        return [(self._channel, self._buffer)] if self._channel and self._buffer else []


class NaiveSplitter:
    """Keep the whole text and search it again for each piece."""

    _channels = re.compile(r"<channel:([A-Za-z0-9_-]+)>(.*?)(?=</channel:\1>|\Z)", re.DOTALL)

    def __init__(self) -> None:
        self._text = ""
        self._returned: list[int] = []

    def feed(self, text: str) -> list[tuple[str, str]]:
        """Take the next piece, return (channel, text) pairs."""
        self._text += text
        out: list[tuple[str, str]] = []
        for at, found in enumerate(self._channels.finditer(self._text)):
            if at == len(self._returned):
                self._returned.append(0)
            if len(found[2]) > self._returned[at]:
                out.append((found[1], found[2][self._returned[at] :]))
                self._returned[at] = len(found[2])
        return out

    def close(self) -> list[tuple[str, str]]:
        """Return nothing: all text was returned, including incomplete tags."""
        return []


def _bodies(events: list[Any]) -> dict[str, str]:
    bodies: dict[str, str] = {}
    for event in events:
        channel, text = event if isinstance(event, tuple) else (event.channel, getattr(event, "text", ""))
        bodies[channel] = bodies.get(channel, "") + text
    return bodies


def _cpu_s(make: Callable[[], Any], pieces: list[str]) -> float:
    splitter = make()
    feed = splitter.feed
    start = time.process_time()
    for piece in pieces:
        feed(piece)
    splitter.close()
    return time.process_time() - start


def _best_s(makers: Mapping[str, Callable[[], Any]], pieces: list[str], rounds: int) -> dict[str, float]:
    best = dict.fromkeys(makers, float("inf"))
    for _ in range(rounds):
        for name, make in makers.items():
            best[name] = min(best[name], _cpu_s(make, pieces))
    return best


def rows() -> list[Row]:
    """Return `splitter_mb_s_<n>`, `splitter_ratio_find_<n>`, and the speed ratio of large to small texts."""
    return [*_speed_rows(), *_size_rows()]


def _speed_rows() -> list[Row]:
    stream = make_stream()
    makers = {"ours": ChannelParser, "str_find_push": FindSplitter, "regex_48_holdback": RegexSplitter}
    found: list[Row] = []
    for size, goal in GOAL_RATIOS.items():
        pieces = _cut(stream, size)
        bodies = {name: _check(make, pieces) for name, make in makers.items()}
        if len({json.dumps(one, sort_keys=True) for one in bodies.values()}) != 1:
            raise MeasureError("the splitters disagree on the bodies")
        best = _best_s(makers, pieces, ROUNDS)
        speed = {name: round(len(stream) / 1e6 / seconds, 1) for name, seconds in best.items()}
        ours = speed.pop("ours")
        limit = speed.pop("str_find_push")
        found += [
            Row(
                metric=f"splitter_mb_s_{size}",
                value=ours,
                unit="MB/s",
                peers=speed,
                limit=Limit("str_find_push", limit),
                goal_times=goal,
            ),
            Row(
                metric=f"splitter_ratio_find_{size}",
                value=round(best["ours"] / best["str_find_push"], 2),
                unit="x",
                peers={name: round(best[name] / best["str_find_push"], 2) for name in speed},
                limit=Limit("str_find_push", 1.0),
                goal=goal,
            ),
        ]
    return found


def _size_rows() -> list[Row]:
    """Measure the same text, 8 characters a piece, as one response of 1 MB and as many of 8 KB."""
    small = make_stream(SMALL_CHARS, lines=6)
    count = round(CHARS / len(small))
    small_pieces, large_pieces = _cut(small, 8), _cut(small * count, 8)
    small_s, large_s, naive_s = [], [], float("inf")
    for number in range(ROUNDS):
        small_s.append(sum(_cpu_s(ChannelParser, small_pieces) for _ in range(count)))
        large_s.append(_cpu_s(ChannelParser, large_pieces))
        if number < NAIVE_ROUNDS:
            naive_s = min(naive_s, _cpu_s(NaiveSplitter, small_pieces))
    ours_s = min(small_s) / count
    return [
        Row(
            metric="throughput_1mb_to_8kb",
            value=round(min(small_s) / min(large_s), 2),
            unit="of the speed",
            goal=GOAL_SHARE,
            note=f"{CHARS / 1e6 / min(large_s):.1f} MB/s at 1 MB, {len(small) / 1e6 / ours_s:.1f} at 8 KB",
        ),
        Row(
            metric="splitter_to_naive_8kb",
            value=round(naive_s / ours_s),
            unit="of the speed",
            peers={"regex_whole_buffer": 1.0},
            goal=GOAL_NAIVE,
        ),
    ]


def _cut(text: str, size: int) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def _check(make: Callable[[], Any], pieces: list[str]) -> dict[str, str]:
    splitter = make()
    events = [event for piece in pieces for event in splitter.feed(piece)]
    return _bodies(events + splitter.close())
