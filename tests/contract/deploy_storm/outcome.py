"""What a course came to, in facts that do not depend on ids and times: two releases that play it alone agree in them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from stepline.model.entry import Closed
from stepline.model.ids import make_lane
from stepline.timeline.fold import Timeline
from tests.contract.deploy_storm.storm import Played

_ID: Final = re.compile(
    r"turn_\w+|tc_[0-9a-f]{12}|\b[0-9a-f]{16,64}\b|\b\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d)?"
)
_MEASURED: Final = re.compile(
    r"\b\d+(?:\.\d+)? ?s\b|(?<=_ms\":)\d+|(?<=tokens\":)\d+|\b\d+ in \(|(?<=steered_)\d+"
)
"""Durations, tokens and numbers of batches: another attempt at a step changes them."""
_RETRIED: Final = frozenset({"round.restarted"})
"""Events of another attempt at a step."""
_QUEUED: Final = frozenset({"turn.queued", "turn.begun"})
"""Events that depend on the order in which turns begin."""


class Facts(msgspec.Struct, frozen=True):
    """`thread` are the blocks of each conversation, `events` what its client saw, `effects` how often each was had."""

    thread: dict[str, list[tuple[str, str]]]
    ends: dict[str, list[tuple[str, str, str]]]
    events: dict[str, list[str]]
    effects: dict[str, int]


def facts_of(played: Played, *, ordered: bool = True) -> Facts:
    """Return the facts of a course; unless `ordered`, those that do not depend on which queued turn began first."""
    ignored = _RETRIED if ordered else _RETRIED | _QUEUED
    return Facts(
        thread={name: [*_thread(name, played)] for name in sorted(played.batches)},
        ends={
            name: [
                (entry.outcome, entry.reason, entry.code)
                for batch in batches
                for entry in batch.entries
                if isinstance(entry, Closed)
            ]
            for name, batches in sorted(played.batches.items())
        },
        events={name: [*_events(client.applied, ignored)] for name, client in sorted(played.clients.items())},
        effects={f"{tool} {what}": count for (tool, what), count in sorted(played.effects.items())},
    )


def _thread(name: str, played: Played) -> Iterator[tuple[str, str]]:
    lane = make_lane("acme", "support", name)
    known: dict[str, str] = {}
    for block in Timeline.empty(lane).extended(played.batches[name]).blocks():
        yield _nameless(block.path, known), _nameless(block.text, known)


def _events(applied: list[tuple[int, tuple[Any, ...]]], ignored: frozenset[str]) -> Iterator[str]:
    known: dict[str, str] = {}
    for _, events in applied:
        for event in events:
            if event.type in ignored:
                continue
            words = sorted(f"{name}={value}" for name, value in event.data.items() if isinstance(value, str))
            yield _nameless(" ".join([event.type, *words]), known)


def _nameless(text: str, known: dict[str, str]) -> str:
    """Return a text whose ids, hashes and times are numbered in the order in which they occur."""
    named = _ID.sub(lambda found: known.setdefault(found[0], f"<{len(known)}>"), text)
    return _MEASURED.sub("#", named)
