"""The view of pool rows: JSON whose texts share one budget, from the first row on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from stepline.model.usage import BYTES_PER_TOKEN, estimate_tokens
from stepline.tools.content import render_rows
from stepline.tools.context import ReadCaps
from stepline.tools.read.shown_content import TRUNCATED, ContentView

TEXT_FIELDS: Final = ("content", "text", "snippet", "summary", "preview")
"""Fields that use the budget, in this order in every row."""

ITEMS_SHOWN: Final = 50


def show_sources(
    rows: Sequence[Mapping[str, Any]], caps: ReadCaps, *, max_chars: int | None
) -> ContentView | None:
    """Return the view of rows, their texts cut to `max_chars` in all; None if not even the titles fit."""
    most_bytes = min(caps.max_bytes, int(caps.max_tokens * BYTES_PER_TOKEN))
    budget = min(caps.max_chars, max_chars or caps.max_chars)
    while True:
        shown, cut = fit_rows(rows, budget)
        text = render_rows(shown)
        if len(text.encode()) <= most_bytes and len(text) <= caps.max_chars:
            break
        if not budget:
            return None
        budget //= 2
    row: dict[str, Any] = {"visible_tokens": estimate_tokens(text), "items_stats": items_stats(rows)}
    if cut:
        row["status"] = TRUNCATED
    return ContentView(text=text, row=row, whole=not cut, meta={"items_stats": row["items_stats"]})


def fit_rows(rows: Sequence[Mapping[str, Any]], budget: int) -> tuple[list[dict[str, Any]], bool]:
    """Return the rows with at most `budget` characters of text, and whether any text was cut."""
    shown, cut = [], False
    for row in rows:
        fitted = {name: value for name, value in row.items() if name not in TEXT_FIELDS}
        for name in TEXT_FIELDS:
            text = row.get(name)
            if not isinstance(text, str):
                continue
            fitted[name] = text[:budget]
            if len(text) > budget:
                cut = True
                fitted |= {
                    f"{name}_truncated_for_visible_context": True,
                    f"{name}_original_symbols": len(text),
                    f"{name}_visible_symbols": budget,
                }
            budget -= len(fitted[name])
        shown.append(fitted)
    return shown, cut


def items_stats(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the number of rows and the lengths of their texts; of the first rows, one by one."""
    sizes = [
        {f"{name}_symbols": len(row[name]) for name in TEXT_FIELDS if isinstance(row.get(name), str)}
        for row in rows
    ]
    totals = {
        f"total_{name}_symbols": sum(size.get(f"{name}_symbols", 0) for size in sizes)
        for name in ("text", "content")
    }
    return {
        "kind": "sources",
        "items_count": len(rows),
        "sids": [row["sid"] for row in rows],
        "content_rows": sum("content" in row for row in rows),
        **totals,
        "items": [
            {"sid": row["sid"], **size}
            for row, size in zip(rows[:ITEMS_SHOWN], sizes[:ITEMS_SHOWN], strict=True)
        ],
    }
