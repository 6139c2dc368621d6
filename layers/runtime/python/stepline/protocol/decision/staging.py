"""Staging: the content that a decision requests in full for the next round, in the layout `journal`.

`show_artifacts` names paths and `show_skills` skills; both accompany a call. An invalid name costs a notice and is
left out, because the call counts all the same. If a path has no content, the next round reports that in its place.
Source: docs/concepts/journal.md.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, TypeAlias

from stepline.errors import PathError
from stepline.model.decision import Notice
from stepline.model.path import SkillPath, parse_path
from stepline.protocol.decision.notice import cap, make_notice

SHOW_ARTIFACTS: Final = "show_artifacts"
SKILLS: Final = "show_skills"
STAGED_MAX: Final = 8
"""The maximum number of paths, and of skills, that one round stages."""
LISTED_MAX: Final = 5
"""The maximum number of invalid names that a notice lists."""
LISTED_CHARS: Final = 120

NamePath: TypeAlias = Callable[[str], str]
"""Returns the canonical form of a path as the model wrote it. Raises PathError."""


def name_artifact(written: str, namespaces: Collection[str] = ()) -> str:
    """Return the canonical path of an artifact; `namespaces` are those of the bundle. Raises PathError."""
    return str(parse_path(written.strip(), namespaces))


def name_skill(written: str) -> str:
    """Return the id of a skill, which may be written as its path. Raises PathError."""
    found = parse_path(f"sk:{written.strip().removeprefix('sk:')}")
    if not isinstance(found, SkillPath):
        raise PathError("it is no skill")
    return str(found).removeprefix("sk:")


def read_staging(
    fields: Mapping[str, Any], key: str, name: NamePath, notices: list[Notice]
) -> tuple[str, ...]:
    """Return the canonical names in a field of a decision, each once, and add a notice about the others."""
    value = fields.get(key) or []
    items = value if isinstance(value, list) else [value]
    found: dict[str, None] = {}
    odd: list[str] = []
    for item in items:
        try:
            found[name(item) if isinstance(item, str) else _refuse(item)] = None
        except PathError as refused:
            odd.append(f"{cap(str(item), LISTED_CHARS)}: {refused}")
    if odd:
        dropped = "; ".join(odd[:LISTED_MAX])
        message = f"The call counts. {key} named what is none, which the next round does not show: {dropped}."
        notices.append(make_notice("staging_invalid", message, field=key, dropped=len(odd)))
    if len(found) > STAGED_MAX:
        message = f"A round stages at most {STAGED_MAX} of {key}; the first ones count. Ask for the others in a later round."
        notices.append(make_notice("staging_too_many", message, field=key, dropped=len(found) - STAGED_MAX))
    return tuple(found)[:STAGED_MAX]


def _refuse(item: object) -> str:
    raise PathError(f"it is a {type(item).__name__}")
