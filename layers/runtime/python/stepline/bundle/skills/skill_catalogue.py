"""The catalogue of skills in the system text: sorted by id, the same bytes every time, and within a budget."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from stepline.bundle.skills.skill import CATALOGUE, Skill
from stepline.model.usage import estimate_tokens
from stepline.rendering.quote import clip

HEAD: Final = (
    "[SKILL CATALOG] Instructions for certain tasks. When a task is one of these, read its skill first, with react.read, "
    "and do as it says."
)
JOURNAL_HEAD: Final = (
    "[SKILL CATALOG] Instructions for certain tasks. When a task is one of these, name its skill in show_skills first, and "
    "do as it says."
)
CATALOGUE_MAX_CHARS: Final = 6_000
DESCRIPTION_CHARS: Final = 400
SHORT_CHARS: Final = 120
"""Maximum characters of a description: if all of them fit, and otherwise."""


def render_skill_catalogue(skills: Sequence[Skill], head: str = HEAD) -> str:
    """Return the catalogue in at most `CATALOGUE_MAX_CHARS`, "" for no skills, below its `head`. `SK<n>` is short for the path.

    If there are too many skills, descriptions are shorter; those that still do not fit are counted.
    """
    listed = listed_skills(skills)
    if not listed:
        return ""
    text = "\n".join([head, *_rows(listed, DESCRIPTION_CHARS)])
    if len(text) <= CATALOGUE_MAX_CHARS:
        return text
    rows = _rows(listed, SHORT_CHARS)
    text = "\n".join([head, *rows])
    if len(text) <= CATALOGUE_MAX_CHARS:
        return text
    room = CATALOGUE_MAX_CHARS - len(head) - len(_more(len(rows))) - 2
    fitting = 0
    while fitting < len(rows) and room >= len(rows[fitting]) + 1:
        room -= len(rows[fitting]) + 1
        fitting += 1
    return "\n".join([head, *rows[:fitting], _more(len(rows) - fitting)])


def render_all(skills: Sequence[Skill]) -> str:
    """Return the catalogue without a budget."""
    return "\n".join(_rows(listed_skills(skills), DESCRIPTION_CHARS))


def listed_skills(skills: Iterable[Skill]) -> tuple[Skill, ...]:
    """Return the skills that the catalogue names, by path; the n-th is `SK<n>`."""
    return tuple(sorted((skill for skill in skills if skill.is_listed), key=lambda skill: skill.path))


def _rows(listed: Sequence[Skill], chars: int) -> list[str]:
    """Return a line for each skill. A description is foreign text: one line, after the path."""
    return [
        f"SK{n} {skill.path}: {clip(skill.description or skill.title, chars)} (~{estimate_tokens(skill.text)} tokens)"
        for n, skill in enumerate(listed, 1)
    ]


def _more(count: int) -> str:
    return f"… {count} more; react.read sk:{CATALOGUE} lists all of them"
