"""Skills: instructions that the agent reads only when a task needs them.

The system text lists them, one line each; `react.read` at `sk:<id>` shows the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stepline.errors import InputError, PathError
from stepline.model.base import Value
from stepline.model.path import SkillPath, parse_path
from stepline.tools.context import Shelf, Shelved

HEAD: Final = (
    "[SKILLS] Instructions for certain tasks. When a task is one of these, read its skill first, with react.read, and "
    "do as it says."
)
TITLE_CHARS: Final = 200


class Skill(Value):
    """A skill. `id` is `<namespace>.<name>`, or a bare name in the namespace `public`.

    `title` says its purpose.
    """

    id: str
    title: str
    text: str

    @property
    def path(self) -> str:
        """The one path of the skill. Raises InputError `skill_invalid` for an id that is invalid in a path."""
        try:
            found = parse_path(f"sk:{self.id}")
        except PathError as error:
            raise InputError(f"no skill can be called {self.id[:80]!r}", code="skill_invalid") from error
        if (
            not isinstance(found, SkillPath) or "." not in found.skill
        ):  # a number of the list, or a hidden one's path
            raise InputError(f"no skill can be called {self.id[:80]!r}", code="skill_invalid")
        return str(found)


def check_skills(skills: Sequence[Skill]) -> None:
    """Refuse invalid and duplicate ids. Raises InputError `skill_invalid`."""
    paths = [skill.path for skill in skills]
    if twice := sorted({path for path in paths if paths.count(path) > 1}):
        raise InputError(f"two skills stand at {twice[0]}", code="skill_invalid")


def render_skills(skills: Sequence[Skill]) -> str:
    """Return the list for the system text, "" for no skills. `SK<n>` is short for the path."""
    if not skills:
        return ""
    rows = [
        f"SK{n} {skill.path}: {' '.join(skill.title.split())[:TITLE_CHARS]}"
        for n, skill in enumerate(skills, 1)
    ]
    return "\n".join([HEAD, *rows])


def skill_shelf(skills: Sequence[Skill]) -> Shelf:
    """Return the shelf of skills: by path, and by number in the list."""
    by_path = {skill.path: skill for skill in skills} | {
        f"sk:SK{n}": skill for n, skill in enumerate(skills, 1)
    }

    def read(path: str) -> Shelved | None:
        skill = by_path.get(path)
        return Shelved(text=f"# {skill.title}\n\n{skill.text}", path=skill.path) if skill else None

    return read
