"""The channel parser beside its peers: MB/s of CPU time at 8 and 40 characters a piece, from one run.

`str_find_push` is the practical limit: a push object that looks for `<` and knows nothing of escapes, unknown
channels or forgotten tags. `regex_48_holdback` is the usual way: search a trimmed buffer, lag 48 characters.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from typing import Any

from bench.row import Limit, MeasureError, Row
from stepline.protocol.channel import ChannelParser

ROUNDS = 15  # interleaved; the best of each counts
CHARS = 1_000_000
GOAL_RATIO = 1.5

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


def make_stream(chars: int = CHARS) -> str:
    """Return about `chars` characters of realistic rounds: thinking, decisions, program text, answers."""
    thinking = f"<channel:thinking>{_PROSE * 3}</channel:thinking>\n"
    code = f"<channel:code>\n{_CODE * 60}</channel:code>\n"
    empty = "<channel:code></channel:code>\n"
    run = _decision(action="call_tool", notes="", tool_call={"tool_id": "exec_tools.execute_code_python"})
    answer = _decision(
        action="complete", final_answer=_MARKDOWN * 4 + _PROSE * 20, suggested_followups=["Go on"]
    )
    rounds = [
        thinking + _write("files/page.html", _HTML * 60) + empty,
        thinking + _write("files/report.md", _MARKDOWN * 60 + _PROSE * 20) + empty,
        thinking + run + code,
        thinking + answer + empty + f"<channel:summary>{_PROSE * 5}</channel:summary>\n",
    ]
    once = "".join(rounds)
    return once * round(chars / len(once))


class FindSplitter:
    """Push object over `str.find`: exact hold-back, every tag is a tag."""

    def __init__(self) -> None:
        self._held = ""
        self._channel = ""

    def feed(self, text: str) -> list[tuple[str, str]]:
        """Take the next piece, return (channel, text) pairs."""
        if self._held:
            text = self._held + text
            self._held = ""
        i = text.find("<")
        if i < 0:
            return [(self._channel, text)] if self._channel else []
        out: list[tuple[str, str]] = []
        at = 0
        while i >= 0:
            tail = text[i : i + 10]
            if tail.startswith("<channel:") or tail == "</channel:":
                end = text.find(">", i)
                if end < 0:
                    break
                if i > at and self._channel:
                    out.append((self._channel, text[at:i]))
                self._channel = "" if tail[1] == "/" else text[i + 9 : end]
                at = end + 1
                i = text.find("<", at)
            elif len(text) - i < 10 and ("<channel:".startswith(tail) or "</channel:".startswith(tail)):
                break
            else:
                i = text.find("<", i + 1)
        if i >= 0:
            self._held = text[i:]
            text = text[:i]
        if at < len(text) and self._channel:
            out.append((self._channel, text[at:]))
        return out

    def close(self) -> list[tuple[str, str]]:
        """Return what is held."""
        return [(self._channel, self._held)] if self._channel and self._held else []


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
        """Return what is held."""
        return [(self._channel, self._buffer)] if self._channel and self._buffer else []


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


def rows() -> list[Row]:
    """Return `parser_mb_s_<n>` and `parser_ratio_find_<n>` for pieces of 8 and 40 characters."""
    stream = make_stream()
    makers = {"ours": ChannelParser, "str_find_push": FindSplitter, "regex_48_holdback": RegexSplitter}
    found: list[Row] = []
    for size in (8, 40):
        pieces = [stream[i : i + size] for i in range(0, len(stream), size)]
        bodies = {name: _check(make, pieces) for name, make in makers.items()}
        if len({json.dumps(one, sort_keys=True) for one in bodies.values()}) != 1:
            raise MeasureError("the splitters disagree on the bodies")
        best = dict.fromkeys(makers, float("inf"))
        for _ in range(ROUNDS):
            for name, make in makers.items():
                best[name] = min(best[name], _cpu_s(make, pieces))
        speed = {name: round(len(stream) / 1e6 / seconds, 1) for name, seconds in best.items()}
        ours = speed.pop("ours")
        limit = speed.pop("str_find_push")
        found += [
            Row(
                metric=f"parser_mb_s_{size}",
                value=ours,
                unit="MB/s",
                peers=speed,
                limit=Limit("str_find_push", limit),
                goal=round(limit / GOAL_RATIO, 1),
            ),
            Row(
                metric=f"parser_ratio_find_{size}",
                value=round(best["ours"] / best["str_find_push"], 2),
                unit="x",
                peers={name: round(best[name] / best["str_find_push"], 2) for name in speed},
                limit=Limit("str_find_push", 1.0),
                goal=GOAL_RATIO,
            ),
        ]
    return found


def _check(make: Callable[[], Any], pieces: list[str]) -> dict[str, str]:
    splitter = make()
    events = [event for piece in pieces for event in splitter.feed(piece)]
    return _bodies(events + splitter.close())
