"""The request of a round in the layout `journal`, rendered again from the log, its facts, and the stored contents.

Source: docs/concepts/context.md#the-recorded-request.
"""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec.structs import replace

from stepline.context.journal.current_turn import SECTIONS
from stepline.context.journal.render_journal import render_journal
from stepline.context.journal.staged import JournalText, Staged
from stepline.context.journal.staged_text import ARTIFACTS
from stepline.context.request import Rendered
from stepline.model.decision import RoundFacts, Sent
from stepline.timeline.fold import Timeline


def render_sent_journal(
    timeline: Timeline, sent: Sent, facts: RoundFacts, *, system: str, staged: bytes
) -> Rendered:
    """Return the parts of the request; its message has the texts first, then the files."""
    contents = msgspec.json.decode(staged, type=Staged) if staged else Staged()
    media = [replace(one, why=why) for one, why in zip(contents.media, sent.files, strict=False)]
    return render_journal(
        timeline,
        text=JournalText.unpack(system),
        skills=contents.skills,
        shown=contents.shown,
        media=media,
        facts=facts,
        minimum_tokens=sent.minimum_tokens,
    )


_HEADINGS: Final = (
    "=== PRIOR TURN ",
    "=== CURRENT TURN ",
    "[SESSION LOG ",
    f"{ARTIFACTS}\n",
    "[LOOP ROUNDS]\n",
)


def split_digest(text: str) -> list[str]:
    """Return the sections of a digest, in order; joined, they are its text.

    Foreign text is indented, so it cannot begin a section.
    """
    heads = (*_HEADINGS, *(f"[{title}]\n" for title in SECTIONS))
    parts = [""]
    for line in text.splitlines(keepends=True):
        if line.startswith(heads):
            parts.append("")
        parts[-1] += line
    return [part for part in parts if part]
