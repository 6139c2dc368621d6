"""Strict parsing of YAML written by people; errors show none of it, since it may hold secrets."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import yaml

from stepline.errors import InputError

_MERGE = "tag:yaml.org,2002:merge"


def parse_document(name: str, text: str, *, bare: str = "") -> Mapping[str, Any]:
    """Return a document's mapping; an empty document is an empty mapping.

    With `bare`, a document that is a list is the value of that key.

    A duplicate key, a type beyond the plain ones and a value within itself are refused. Raises InputError
    `bad_descriptor` with `name` and a line, and nothing else of the text.
    """
    try:
        read = yaml.load(text, Loader=_Loader)  # noqa: S506 - the loader is a safe one
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f" at line {mark.line + 1}" if mark else ""
        what = "duplicate key" if isinstance(error, _TwiceError) else "unsupported YAML"
        raise InputError(f"{name}{where}: {what}", code="bad_descriptor") from None
    except (yaml.YAMLError, RecursionError, ValueError):
        raise InputError(
            f"{name} is not valid YAML, or uses an unsupported feature", code="bad_descriptor"
        ) from None
    if read is None:
        return {}
    if bare and isinstance(read, list):
        read = {bare: read}
    if not isinstance(read, Mapping):
        raise InputError(f"{name} is not a mapping", code="bad_descriptor")
    if _is_endless(read, frozenset(), set()):
        raise InputError(f"{name} contains itself", code="bad_descriptor")
    return read


def render_document(content: Mapping[str, Any]) -> str:
    """Return a mapping as YAML, its keys in order."""
    return yaml.safe_dump(dict(content), sort_keys=False, allow_unicode=True)


class _TwiceError(yaml.constructor.ConstructorError):
    """A key is duplicate within one mapping."""


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # the C one, where it was built
    """The safe loader, which refuses a duplicate key instead of keeping the later one."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != _MERGE:
                if (key.tag, key.value) in seen:
                    raise _TwiceError(problem_mark=key.start_mark)
                seen.add((key.tag, key.value))
        mapping: dict[Hashable, Any] = super().construct_mapping(node, deep=deep)
        return mapping


def _is_endless(value: Any, above: frozenset[int], seen: set[int]) -> bool:
    """Return True if a value contains itself, as YAML aliases allow."""
    if not isinstance(value, dict | list) or id(value) in seen:
        return False
    if id(value) in above:
        return True
    inner = value.values() if isinstance(value, dict) else value
    found = any(_is_endless(item, above | {id(value)}, seen) for item in inner)
    seen.add(id(value))
    return found
