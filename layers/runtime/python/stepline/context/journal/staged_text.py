"""Staged contents as text: skills in the system part, artifacts after the session log.

Both are in the one request that follows the decision that requested them. Source: docs/concepts/journal.md#staging.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stepline.context.journal.staged import StagedContent
from stepline.rendering.piece import byte_length
from stepline.rendering.quote import clip, quote
from stepline.rendering.render_entry import render_text
from stepline.timeline.compacted import share

SKILLS: Final = "[ACTIVE SKILLS]"
ARTIFACTS: Final = "[FULL CONTEXT ARTIFACTS (show_artifacts)]"
MEDIA_FORMATS: Final = frozenset({"image", "document"})
FACT_CHARS: Final = 200
TEXT_MIN_BYTES: Final = 200
FRAME_BYTES: Final = 400
"""Bytes reserved for the lines around a cut text."""


def render_skills(skills: Sequence[StagedContent], most_bytes: int) -> str:
    """Return the staged skills; the longest are cut if their total exceeds `most_bytes`. "" for none."""
    return f"{SKILLS}\n{_fitted(skills, 'skill', most_bytes)}" if skills else ""


def render_shown(shown: Sequence[StagedContent], most_bytes: int) -> str:
    """Return the staged artifacts; the longest texts are cut if their total exceeds `most_bytes`. "" for none."""
    return f"\n{ARTIFACTS}\n{_fitted(shown, 'artifact', most_bytes)}" if shown else ""


def _fitted(contents: Sequence[StagedContent], what: str, most_bytes: int) -> str:
    room = most_bytes - sum(byte_length(_head(one, what)) + FRAME_BYTES for one in contents)
    sizes = [byte_length(quote(one.text)) for one in contents]
    most = max(TEXT_MIN_BYTES, share(sizes, room)) if sum(sizes) > room else 0
    return "".join([_staged(one, what, most) for one in contents])


def _head(one: StagedContent, what: str) -> str:
    """Return the path of a content, and its facts."""
    facts = {
        "time": one.ts,
        "kind": one.kind,
        "format": one.format,
        "mime": one.mime,
        "filename": one.filename,
        "type": one.type,
    }
    meta = ", ".join(f"{name}={clip(value, FACT_CHARS) or 'none'}" for name, value in facts.items())
    return f"### {clip(one.path, 2 * FACT_CHARS)} [{what}]\nmeta: {meta}\n"


def _staged(one: StagedContent, what: str, most_bytes: int = 0) -> str:
    """Return one content below its head, cut to `most_bytes`; 0 means no limit."""
    head = _head(one, what)
    if one.why:
        return f"{head}content: not shown: {clip(one.why, FACT_CHARS)}\n"
    if one.format in MEDIA_FORMATS and not one.text:
        return f"{head}content: attached behind this text\n"
    text = render_text(one.text, what.upper(), most_bytes) if most_bytes else f"{quote(one.text)}\n"
    return f"{head}content:\n```text\n{text}```\n"
