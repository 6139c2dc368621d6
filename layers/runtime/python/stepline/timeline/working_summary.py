"""The working summary of a turn: the title in the model's summary, and a summary for a turn without one.

The model writes one as it finishes. A turn that failed, or whose model wrote none, is summarised from its
blocks on demand, so that it can always be found.
Source: docs/concepts/turn.md#working-summary.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from stepline.model.block import Block
from stepline.model.entry import TITLE_CHARS
from stepline.model.visible_text import has_visible, shorten
from stepline.rendering.quote import inline

TITLE_WORDS: Final = 6
TEXT_CHARS: Final = 600
REFS_MAX: Final = 20

_TITLE = re.compile(r"[ \t*_#>-]*title[*_]*[ \t]*[:\uff1a][*_]*[ \t]*(?P<title>.+)", re.IGNORECASE)
_QUOTES: Final = "\"'`*_\u201c\u201d\u2018\u2019«»"
_BEFORE: Final = f"{_QUOTES}#[- "
_BEHIND: Final = f"{_QUOTES}].,;:\u2026\u2013\u2014- "


def parse_title(summary: str) -> str:
    """Return the title in the first line of a summary, or "" if there is none."""
    lines = summary.strip().splitlines()
    found = _TITLE.fullmatch(lines[0]) if lines else None
    return fit_title(found["title"]) if found else ""


def fit_title(text: str) -> str:
    """Return a title in its stored form: one line of six words at most, without quotes or a full stop; "" if all is invisible."""
    words = inline(text).lstrip(_BEFORE).split()[:TITLE_WORDS]
    title = " ".join(words).rstrip(_BEHIND)
    if not has_visible(title):
        return ""
    return title if len(title) <= TITLE_CHARS else title[: TITLE_CHARS - 1].rstrip() + "…"


def summarize_turn(blocks: Sequence[Block]) -> str:
    """Return a summary of a closed turn from its blocks, in the fields that the model uses."""
    goals = [inline(block.text) for block in blocks if block.type in ("user.prompt", "user.followup")]
    answers = [block for block in blocks if block.type == "assistant.completion"]
    calls = _unique(block.tool_id for block in blocks if block.type == "react.tool.call")
    lines = [
        f"Goal: {shorten(' / '.join(goal for goal in goals if goal), TEXT_CHARS) or 'not said'}",
        f"Outcome: {shorten(inline(answers[-1].text), TEXT_CHARS) if answers else 'the turn ended without an answer'}",
    ]
    if calls:
        lines.append(f"Tools: {', '.join(calls)}")
    if refs := _refs(blocks, answers):
        lines.append(f"Refs: {', '.join(refs)}")
    return "\n".join(lines) + "\n"


def _refs(blocks: Sequence[Block], answers: Sequence[Block]) -> list[str]:
    files = _unique(block.path for block in blocks if block.path.startswith("fi:"))
    messages = [block.path for block in blocks if block.type == "user.prompt"][:1]
    return [*files[:REFS_MAX], *messages, *(block.path for block in answers[-1:])]


def _unique(texts: Iterable[str]) -> list[str]:
    return [text for text in dict.fromkeys(texts) if text]
