"""Client events of a turn's end: citations, followups, totals, and the terminal event.

Source: docs/reference/events.md#the-end-of-a-turn.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from stepline.events.derive_round import link_citations
from stepline.events.types import (
    Citations,
    CitedSource,
    ConversationStatus,
    ErrorType,
    Followups,
    TurnAnswered,
    TurnCompleted,
    TurnCompletion,
    TurnFailed,
    TurnSummary,
    TurnUsage,
    UsageLine,
)
from stepline.model.entry import Closed
from stepline.model.source import Citation, web_url
from stepline.model.tenancy.price import dollars
from stepline.model.usage import ModelCall, Usage
from stepline.model.wire.event import ClientEvent, EventData, Status, make_event

INTERRUPTED: Final = "execution_lost"
ERROR_TYPES: Final[Mapping[str, ErrorType]] = {
    INTERRUPTED: "turn_interrupted",
    "step_timeout": "task_watchdog_timeout",
}
FINAL: Final = frozenset({"context_limit", "model_refused", "model_declined", "model_token_limit"})
"""Codes of turns that would fail again if retried."""
TOKEN_WEIGHTS: Final = {
    "input_tokens": 1.0,
    "cache_read_tokens": 0.1,
    "cache_write_5m_tokens": 1.25,
    "cache_write_1h_tokens": 2.0,
    "output_tokens": 5.0,
}
"""The cost of a token relative to one of plain input, by the provider's published prices."""

_PARTS: Final[Mapping[str, str]] = {
    "starting_ms": "starting programs",
    "collecting_ms": "collecting what they left",
    "preparing_ms": "title, summaries, hooks",
    "waiting_ms": "waiting for the provider",
    "between_ms": "between steps",
}
"""The parts of a turn's time that are short in most turns."""


def closing_events(entry: Closed, next_turn: str) -> list[ClientEvent]:
    """Return the events of a turn's end; `next_turn` is opened by the same batch, if it is not empty.

    The terminal event is the last but one; the status of the conversation is the last.
    """
    ok = entry.outcome == "completed"
    status: Status = "completed" if ok else "error"
    closing: list[EventData] = []
    texts = [source for source in entry.citations if _is_text(source)] if ok else []
    cited = [_cited(source) for source in sorted(texts, key=lambda source: source.sid)]
    if cited:
        closing.append(Citations(count=len(cited), items=cited))
    if ok and entry.followups:
        closing.append(Followups(items=list(entry.followups)))
    closing += [
        TurnCompleted(
            elapsed_ms=entry.elapsed_ms, produced_file_count=entry.files, citation_count=len(cited)
        ),
        _summary(entry),
    ]
    if entry.usage is not None:
        closing.append(turn_usage(entry, entry.usage))
    closing.append(_answered(entry) if ok else _failed(entry))
    closing.append(_status(entry, next_turn))
    return [make_event(data, entry.at, entry.turn, status) for data in closing]


def weigh(usage: Usage) -> int:
    """Return the usage of a turn, in tokens of plain input."""
    return round(sum(float(getattr(usage, name)) * weight for name, weight in TOKEN_WEIGHTS.items()))


def turn_usage(entry: Closed, usage: Usage) -> TurnUsage:
    """Return the usage of a turn as event data."""
    return TurnUsage(
        rounds=entry.rounds,
        input_tokens=usage.input_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_5m_tokens=usage.cache_write_5m_tokens,
        cache_write_1h_tokens=usage.cache_write_1h_tokens,
        output_tokens=usage.output_tokens,
        total_input_tokens=usage.prompt_tokens,
        weighted_tokens=weigh(usage),
        model=entry.model,
        estimated=usage.estimated,
        lines=[usage_line(call) for call in entry.bill],
        usd=dollars(sum(call.nanos for call in entry.bill)),
        priced=bool(entry.bill) and all(call.priced for call in entry.bill),
    )


def usage_line(call: ModelCall) -> UsageLine:
    """Return a line of a bill as event data."""
    used = call.usage
    return UsageLine(
        role=call.role,
        model=call.model,
        calls=call.count,
        input_tokens=used.input_tokens,
        cache_read_tokens=used.cache_read_tokens,
        cache_write_5m_tokens=used.cache_write_5m_tokens,
        cache_write_1h_tokens=used.cache_write_1h_tokens,
        output_tokens=used.output_tokens,
        estimated=used.estimated,
        usd=dollars(call.nanos),
        priced=call.priced,
    )


def _is_text(source: Citation) -> bool:
    """Return True for a page of the web and for a document of the agent."""
    return bool(web_url(source.url)) or source.path.startswith("ks:")


def _cited(source: Citation) -> CitedSource:
    path = source.path if source.path.startswith("ks:") else ""
    return CitedSource(sid=source.sid, title=source.title, url=source.url, path=path)


def _answered(entry: Closed) -> TurnAnswered:
    answer, used, unresolved = link_citations(entry.answer, entry)
    return TurnAnswered(
        final_answer=answer,
        answer=answer,
        followups=list(entry.followups),
        suggested_followups=list(entry.followups),
        reason=entry.reason,
        used_sources=sorted(used),
        unresolved_sids=sorted(unresolved),
        selected_model=entry.model,
        message=entry.message if entry.message != entry.answer else "",
        value=read_value(entry.value),
    )


def read_value(text: str) -> Any:
    """Return the value of a turn's result from its JSON text; None without one, and a text that is no JSON unchanged."""
    try:
        return msgspec.json.decode(text) if text else None
    except (msgspec.DecodeError, RecursionError):
        return text


def _failed(entry: Closed) -> TurnFailed:
    return TurnFailed(
        code=entry.code,
        error=entry.message,
        retryable=entry.code not in FINAL,
        error_type=ERROR_TYPES.get(entry.code, ""),
        retry_after_s=entry.retry_after_s,
    )


def _status(entry: Closed, next_turn: str) -> ConversationStatus:
    ok = entry.outcome == "completed"
    failed: TurnCompletion = "interrupted" if entry.code == INTERRUPTED else "error"
    done: TurnCompletion = "queued_next" if next_turn else "success"
    return ConversationStatus(
        state="in_progress" if next_turn else "idle" if ok else "error",
        updated_at=entry.at,
        current_turn_id=next_turn or entry.turn,
        completion=done if ok else failed,
    )


def _summary(entry: Closed) -> TurnSummary:
    rows = {
        "rounds": str(entry.rounds),
        "model": seconds(entry.model_ms),
        "tools": seconds(entry.tools_ms),
        **{words: seconds(ms) for name, words in _PARTS.items() if (ms := getattr(entry, name))},
        "whole turn": seconds(entry.elapsed_ms),
    }
    lines = ["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows.items())]
    return TurnSummary(
        markdown="\n".join(lines),
        rounds=entry.rounds,
        elapsed_ms=entry.elapsed_ms,
        model_ms=entry.model_ms,
        tools_ms=entry.tools_ms,
        starting_ms=entry.starting_ms,
        collecting_ms=entry.collecting_ms,
        preparing_ms=entry.preparing_ms,
        waiting_ms=entry.waiting_ms,
        between_ms=entry.between_ms,
    )


def seconds(ms: int) -> str:
    """Return a duration for display: `0.4 s`."""
    return f"{ms / 1000:.1f} s"
