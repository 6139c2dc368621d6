"""Searching and citing: what is told of a search comes from its result, and every sentence names its source."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from stepline.local.scripted.goal import Goal
from stepline.local.scripted.reading import Call
from stepline.local.scripted.speech import quote
from stepline.model.base import Value

SHOWN: Final = 3
SENTENCE_CHARS: Final = 220


class Hit(Value):
    """One row of a search's result."""

    sid: int
    title: str
    text: str


def search_params(goal: Goal) -> dict[str, Any]:
    """Return the parameters of a search."""
    return {"queries": [goal.query], "objective": quote(goal.message, limit_chars=200), "n": SHOWN}


def find_hits(call: Call) -> list[Hit]:
    """Return the rows of a result that have a number to cite, in its order."""
    rows = [row for _, text in call.blocks for value in _values(text) for row in _rows(value)]
    return [
        Hit(sid=row["sid"], title=str(row.get("title", "")), text=str(row.get("text") or ""))
        for row in rows
        if isinstance(row["sid"], int) and row["sid"] > 0
    ][:SHOWN]


def report_search(goal: Goal, call: Call) -> str:
    """Return what was found, each sentence with its source, and all of them together."""
    hits = find_hits(call)
    if not hits:
        return f"I searched for “{goal.query}” and found nothing."
    rows = "\n".join(f"- {_sentence(hit)} [[S:{hit.sid}]]" for hit in hits)
    together = ",".join(str(hit.sid) for hit in hits)
    return f"What I found about “{goal.query}”:\n\n{rows}\n\nAll of it is in these sources: [[S:{together}]]"


def _sentence(hit: Hit) -> str:
    first, stop, _ = " ".join(hit.text.split()).partition(". ")
    said = quote(f"{first}." if stop else first, limit_chars=SENTENCE_CHARS)
    return f"“{said}”" if said else hit.title


def _values(text: str) -> Iterator[Any]:
    """Yield the JSON values in a text: the whole of it, or its lines."""
    for part in (text, *text.split("\n")):
        try:
            yield json.loads(part)
        except ValueError:
            continue
        if part is text:
            return


def _rows(value: Any) -> Iterator[dict[str, Any]]:
    match value:
        case {"sid": _}:
            yield value
        case dict():
            for inner in value.values():
                yield from _rows(inner)
        case list():
            for inner in value:
                yield from _rows(inner)
