"""A provider that is asked a log's requests, and keeps a prompt cache by the published rules."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate
from typing import Any

import pytest

from stepline.context.media import render_media
from stepline.context.request import Rendered, render
from stepline.context.rules import ContextRules
from stepline.local.scripted import cache
from stepline.local.scripted.messages_request import Prompt, count_tokens, parse_prompt
from stepline.model.entry import Decided
from stepline.ports.model import Content, Media, Part
from stepline.timeline.fold import Timeline
from tests.support.log_builder import LogBuilder

SYSTEM = "the rules of the house " * 4
TTL_S = 300.0


@contextmanager
def exact_rules(*, minimum: int = 1, look_back: int = 1) -> Iterator[None]:
    """Let a cache keep any prefix, and find it at the very place of a mark only."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cache, "DEFAULT_MINIMUM", minimum)
        patch.setattr(cache, "LOOK_BACK", look_back)
        yield


def prompt_of(rendered: Rendered) -> Prompt:
    """Return the request as it goes over the wire."""
    return parse_prompt(
        {
            "model": "any",
            "max_tokens": 1,
            "system": [_block(part) for part in rendered.system],
            "messages": [{"role": "user", "content": [_block(part) for part in rendered.content]}],
        }
    )


def _block(part: Content) -> dict[str, Any]:
    if isinstance(part, Media):
        # The bytes are read later; the hash of a file represents them.
        data = base64.b64encode(b"\x89PNG\r\n\x1a\n" + part.body.sha256.encode()).decode()
        return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}
    mark = {"cache_control": {"type": "ephemeral"}} if part.cache else {}
    return {"type": "text", "text": part.text, **mark}


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One request: its timeline, its parts, its time, the tokens read from and held by a cache, and its `boundary` at `seen_part`."""

    timeline: Timeline
    rendered: Rendered
    at: datetime
    read: int
    held: int
    boundary: int

    @property
    def marks(self) -> list[int]:
        parts = enumerate(self.rendered.content)
        return [index for index, part in parts if isinstance(part, Part) and part.cache]


def text_of(part: Content) -> str:
    """Return the text of a part; a picture is represented by its path."""
    return part.text if isinstance(part, Part) else part.path


def ask_all(log: LogBuilder) -> list[Asked]:
    """Return every request of a log whose decision was recorded, and the one that would come next."""
    now = [0.0]
    held = cache.PromptCache(now_s=lambda: now[0])
    timeline, asked = log.timeline(0), []
    for upto, at in [*_asks(log), (len(log.batches), log.at)]:
        timeline = timeline.extended(log.batches[timeline.n : upto])
        media = render_media(timeline.media, ContextRules())
        rendered = render(timeline, system=SYSTEM, announce="now", media=media)
        now[0] = datetime.fromisoformat(at).timestamp()
        use = held.look(prompt_of(rendered), workspace="w")
        held.commit(use)
        sums = [0, *accumulate(count_tokens(text_of(part)) for part in rendered.content)]
        asked.append(
            Asked(
                timeline=timeline,
                rendered=rendered,
                at=datetime.fromisoformat(at),
                read=use.read,
                held=use.read + use.write_5m,
                boundary=count_tokens(SYSTEM) + sums[timeline.parts.seen_part],
            )
        )
    return asked


def _asks(log: LogBuilder) -> list[tuple[int, str]]:
    starts = [e.started_at for batch in log.batches for e in batch.entries if isinstance(e, Decided)]
    return list(zip(log.asks, starts, strict=True))
