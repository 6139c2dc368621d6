"""Skills: instructions that the agent reads only when a task needs them.

The system text lists them, one line each; `react.read` at `sk:<id>` shows the text. A skill is a value of a module
(`SKILLS`), or a folder (`stepline.bundle.skills.skill_folder`). Source: docs/how-to/skills.md.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from stepline.errors import InputError, PathError
from stepline.model.base import Value
from stepline.model.path import SkillPath, parse_path
from stepline.model.source import Source

INTERNAL = "internal."
"""The namespace of skills that only other skills import."""


class Skill(Value):
    """A skill. `id` is `<namespace>.<name>`, or a bare name in the namespace `public`.

    `title` states its purpose, unless `description` does. `imports` are the ids of skills that are read before it, and
    `requires` the tools without which an agent does not have it. `text` cites `sources` by their numbers. A `hidden`
    skill is read and never listed. `folder` holds its further files, and `at` is that folder below BUNDLE_ROOT,
    where programs find it.
    """

    id: str
    title: str
    text: str
    description: str = ""
    imports: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()
    sources: tuple[Source, ...] = ()
    hidden: bool = False
    folder: str = ""
    at: str = ""

    @property
    def path(self) -> str:
        """The path of the skill's id. Raises InputError `skill_invalid` for an id that is invalid in a path."""
        return f"sk:{full_id(self.id)}"

    @property
    def is_listed(self) -> bool:
        """True if the catalogue names the skill, and it is read by its id."""
        return not self.hidden and not full_id(self.id).startswith(INTERNAL)

    @property
    def shown_path(self) -> str:
        """The path under which the skill is shown: that of its id, or one that does not reveal it."""
        if self.is_listed:
            return self.path
        return f"sk:hidden-guidance-{hashlib.sha256(self.path.encode()).hexdigest()[:10]}"


def full_id(skill_id: str) -> str:
    """Return an id with its namespace. Raises InputError `skill_invalid`."""
    try:
        found = parse_path(f"sk:{skill_id}")
    except PathError as error:
        raise InputError(f"no skill can be called {skill_id[:80]!r}", code="skill_invalid") from error
    # a number of the list, a hidden one's path, and a file of a skill are not ids
    if not isinstance(found, SkillPath) or "." not in found.skill or found.rel or found.skill == CATALOGUE:
        raise InputError(f"no skill can be called {skill_id[:80]!r}", code="skill_invalid")
    return found.skill


CATALOGUE = "public.catalog"
"""The reserved id: its path is that of the whole catalogue."""


def check_skills(skills: Sequence[Skill]) -> None:
    """Refuse invalid and duplicate ids. Raises InputError `skill_invalid`."""
    paths = [skill.path for skill in skills]
    if twice := sorted({path for path in paths if paths.count(path) > 1}):
        raise InputError(f"two skills have the path {twice[0]}", code="skill_invalid")
