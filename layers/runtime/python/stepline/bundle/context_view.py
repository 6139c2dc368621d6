"""A conversation as the model would read it now, and as other programs keep it: both made for whoever asks."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from datetime import datetime

import msgspec
from msgspec.structs import replace

from stepline.context.announce import announce, render_pool
from stepline.context.request import render_timeline
from stepline.log.bindings import Policy, Ports
from stepline.model.batch import Batch
from stepline.model.block import Body
from stepline.model.entry import Pruned
from stepline.model.ids import utc
from stepline.model.path import out_key
from stepline.ports.model import Part
from stepline.timeline.export import Export, export_sources, export_timeline, export_turn
from stepline.timeline.fold import Timeline

MIME = "application/json"


def render_context(
    timeline: Timeline,
    policy: Policy,
    now: datetime,
    *,
    include_sources: bool,
    include_announce: bool,
    cache_last: bool,
    announced: Sequence[str] = (),
) -> tuple[Part, ...]:
    """Return the parts of a request behind the system part, in their order, with marks where they pay.

    `announced` are the lines that a bundle says in ANNOUNCE. Without `cache_last` the timeline's last part has no mark.
    """
    parts = list(render_timeline(timeline, minimum_tokens=policy.context.cache_minimum_tokens))
    if parts and not cache_last:
        parts[-1] = replace(parts[-1], cache=False)
    rest = [render_pool(timeline.sources, timeline.cited)] if include_sources else []
    if include_announce:
        cursor = timeline.state.cursor
        rounds = policy.max_iterations
        last = cursor.iteration + 1 >= rounds + timeline.state.credits
        said = announce(
            timeline,
            now=now,
            iteration=cursor.iteration,
            max_iterations=rounds,
            last_round=last,
            extra=announced,
        )
        rest.append(said)
    return (*parts, *(Part(text=text) for text in rest if text))


def shorten(timeline: Timeline, now: datetime) -> Timeline:
    """Return the timeline with everything read as short as it can be without a model; the log hears nothing of it.

    Every turn but the newest is a card or rows, and the results of the newest are stubs.
    """
    if not timeline.history:
        return timeline
    turn = timeline.history[-1].id
    entry = Pruned(turn=turn, at=utc(now), cause="budget", keep=1, intact=1, settled=timeline.n)
    return timeline.extended(
        [Batch(n=timeline.n + 1, by="", at=entry.at, entries=(entry,), state=timeline.state)]
    )


def persist_exports(ports: Ports, timeline: Timeline) -> dict[str, Body]:
    """Put the conversation, its sources and its newest turn into the artifact store as documents; return them by kind.

    They are named by what they say: unchanged ones are there already. Nothing is put for an empty conversation.
    """
    put = {}
    for export in _exports(timeline.whole(), ttl_s=ports.policy.context.ttl_s):
        data = msgspec.json.encode(export)
        digest = hashlib.sha256(data).hexdigest()
        key = out_key(timeline.lane, timeline.history[-1].id, digest)
        ports.artifacts.put(key, data, mime=MIME)
        put[export.kind] = Body(key=key, sha256=digest, size_bytes=len(data), mime=MIME)
    return put


def _exports(timeline: Timeline, *, ttl_s: float) -> Iterator[Export]:
    if timeline.history:
        yield export_timeline(timeline, ttl_s=ttl_s)
        yield export_sources(timeline)
        yield export_turn(timeline, timeline.history[-1].id)
