"""Counting a turn: what the entries of one batch add to what the turn has come to."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from msgspec.structs import replace

from stepline.model.entry import Compacted, Decided, Entry, Opened, Resulted, Titled
from stepline.model.usage import Tally, Usage
from stepline.rendering.result import is_offered


def count_entries(tally: Tally, entries: Iterable[Entry], at: str) -> Tally:
    """Return the tally behind a batch that holds these entries, put at `at`. Pure."""
    for entry in entries:
        match entry:
            case Decided():
                tally = replace(
                    tally,
                    usage=add_usage(tally.usage, entry.usage or Usage()),
                    rounds=tally.rounds + 1,
                    model_ms=tally.model_ms + _between_ms(entry.started_at, at),
                )
            case Resulted():
                tally = replace(
                    tally,
                    files=tally.files + sum(map(is_offered, entry.blocks)),
                    tools_ms=tally.tools_ms + entry.duration_ms,
                )
            case Titled() | Compacted() if entry.usage is not None:
                tally = replace(tally, usage=add_usage(tally.usage, entry.usage))
            case Opened():
                tally = replace(tally, opened_ms=epoch_ms(entry.at))
            case _:
                pass
    return tally


def add_usage(one: Usage, other: Usage) -> Usage:
    """Return what two calls consumed together."""
    return Usage(
        input_tokens=one.input_tokens + other.input_tokens,
        cache_read_tokens=one.cache_read_tokens + other.cache_read_tokens,
        cache_write_5m_tokens=one.cache_write_5m_tokens + other.cache_write_5m_tokens,
        cache_write_1h_tokens=one.cache_write_1h_tokens + other.cache_write_1h_tokens,
        output_tokens=one.output_tokens + other.output_tokens,
        estimated=one.estimated or other.estimated,
    )


def _between_ms(start: str, end: str) -> int:
    return max(0, epoch_ms(end) - epoch_ms(start)) if start else 0


def epoch_ms(at: str) -> int:
    """Return a time of the log in milliseconds of the epoch."""
    return round(datetime.fromisoformat(at).timestamp() * 1000)
