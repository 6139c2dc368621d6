"""The skills of one agent: those that its bundle provides, and whose tools it has."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final, TypeAlias

from stepline.bundle.skills.skill import Skill, full_id
from stepline.errors import InputError
from stepline.ports.model import DECISION_ROLE

CONSUMER: Final = DECISION_ROLE
"""The agent's name in `AGENTS_CONFIG`."""

Patterns: TypeAlias = Mapping[str, Sequence[str]]
"""`enabled` or `disabled`: ids with `*`, `?` and `[…]`."""


def merge_skills(*roots: Iterable[Skill]) -> tuple[Skill, ...]:
    """Return the skills of all roots by path; of two at one path the later.

    Raises InputError `skill_invalid` for an import that is not a skill.
    """
    merged = {skill.path: skill for skills in roots for skill in skills}
    for skill in merged.values():
        for one in skill.imports:
            if f"sk:{full_id(one)}" not in merged:
                raise InputError(f"{skill.path} imports {one}, which is no skill", code="skill_invalid")
    return tuple(merged[path] for path in sorted(merged))


def choose_skills(skills: Iterable[Skill], patterns: Patterns, tools: Collection[str]) -> tuple[Skill, ...]:
    """Return the skills that the patterns admit and whose required tools exist.

    `enabled` decides alone if it names any.
    """
    enabled, disabled = patterns.get("enabled", ()), patterns.get("disabled", ())
    return tuple(
        skill
        for skill in skills
        if (_fits(skill, enabled) if enabled else not _fits(skill, disabled))
        and all(tool in tools for tool in skill.requires)
    )


def patterns_of(config: Any, module: str) -> Patterns:
    """Return the patterns of `AGENTS_CONFIG` for this agent. Raises InputError `skills_module_invalid`."""
    for patterns in config.values() if isinstance(config, Mapping) else [None]:
        if not isinstance(patterns, Mapping) or not all(map(_is_texts, patterns.values())):
            raise InputError(
                f"AGENTS_CONFIG of {module} has no lists `enabled` or `disabled` by consumer",
                code="skills_module_invalid",
            )
    found: Patterns = config.get(CONSUMER, {})
    return found


def _is_texts(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(one, str) for one in value)


def _fits(skill: Skill, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(full_id(skill.id), pattern) for pattern in patterns)
