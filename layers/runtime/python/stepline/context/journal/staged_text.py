"""Staged contents as text: skills in the system part, artifacts behind the session log.

Both stand in the one request behind the decision that asked for them. Source: docs/concepts/journal.md#staging.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stepline.context.journal.staged import Shown
from stepline.rendering.excerpt import render_text
from stepline.rendering.piece import byte_length
from stepline.rendering.quote import clip
from stepline.timeline.compacted import share

SKILLS: Final = "[ACTIVE SKILLS]"
ARTIFACTS: Final = "[FULL CONTEXT ARTIFACTS (show_artifacts)]"
MEDIA_FORMATS: Final = frozenset({"image", "document"})
FACT_CHARS: Final = 200
TEXT_MIN_BYTES: Final = 200


def render_skills(skills: Sequence[Shown]) -> str:
    """Return the staged skills, whole; "" for none."""
    return "".join([f"{SKILLS}\n", *(_staged(one, "skill") for one in skills)]) if skills else ""


def render_shown(shown: Sequence[Shown], most_bytes: int) -> str:
    """Return the staged artifacts; the longest are cut if their texts have more than `most_bytes` together. "" for none."""
    if not shown:
        return ""
    sizes = [byte_length(one.text) for one in shown]
    most = max(TEXT_MIN_BYTES, share(sizes, most_bytes)) if sum(sizes) > most_bytes else 0
    return "".join([f"\n{ARTIFACTS}\n", *(_staged(one, "artifact", most) for one in shown)])


def _staged(one: Shown, what: str, most_bytes: int = 0) -> str:
    """Return one content below its path and its facts; 0 is no limit."""
    facts = {
        "time": one.ts,
        "kind": one.kind,
        "format": one.format,
        "mime": one.mime,
        "filename": one.filename,
        "type": one.type,
    }
    meta = ", ".join(f"{name}={clip(value, FACT_CHARS) or 'none'}" for name, value in facts.items())
    head = f"### {clip(one.path, 2 * FACT_CHARS)} [{what}]\nmeta: {meta}\n"
    if one.why:
        return f"{head}content: not shown: {clip(one.why, FACT_CHARS)}\n"
    if one.format in MEDIA_FORMATS and not one.text:
        return f"{head}content: attached behind this text\n"
    size = byte_length(one.text)
    text = render_text(one.text, what.upper(), most_bytes or 4 * size + 4)
    return f"{head}content:\n```text\n{text}```\n"
