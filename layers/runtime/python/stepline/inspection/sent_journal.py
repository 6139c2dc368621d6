"""The request of a round in the layout `journal`, rendered again: from the log, its facts, and the stored contents it showed.

Source: docs/concepts/context.md#what-was-sent.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from stepline.context.journal.render_journal import render_journal
from stepline.context.journal.staged import JournalFacts, JournalText, Staged
from stepline.context.request import Rendered, spell_files
from stepline.model.entry import Sent
from stepline.ports.model import DECISION_ROLE, ModelRequest, Part
from stepline.timeline.fold import Timeline


def render_sent_journal(
    timeline: Timeline, sent: Sent, *, system: str, staged: bytes
) -> tuple[ModelRequest, int, int]:
    """Return the request, and how many of its parts are the system's and the texts of its message."""
    contents = msgspec.json.decode(staged, type=Staged) if staged else Staged()
    media = [replace(one, why=why) for one, why in zip(contents.media, sent.files, strict=False)]
    rendered = render_journal(
        timeline,
        text=JournalText.unpack(system),
        skills=contents.skills,
        shown=contents.shown,
        media=media,
        facts=msgspec.json.decode(sent.facts, type=JournalFacts),
        minimum_tokens=sent.minimum_tokens,
    )
    request = _request(rendered, sent, declined=timeline.state.declined > 0)
    texts = sum(isinstance(part, Part) for part in rendered.content)
    return request, len(rendered.system), texts


def _request(rendered: Rendered, sent: Sent, *, declined: bool) -> ModelRequest:
    request = ModelRequest(
        role=DECISION_ROLE,
        system=rendered.system,
        content=rendered.content,
        max_tokens=sent.max_tokens,
        temperature=sent.temperature,
        declined=declined,
    )
    return spell_files(request)
