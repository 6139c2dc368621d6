"""Which tests of a parallel run stay in one process: those of a file, for they share what takes long to make."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from xdist.scheduler import LoadScopeScheduling

SPREAD = ("tests/contract/", "tests/security/")
"""Suites whose cases take long: each first parameter, a backend or a scenario, may have a process of its own."""
TOGETHER = ("tests/stacks/",)
"""Suites that share their templates in all files."""
_FIRST_PARAMETER = re.compile(r"\[([^\]-]*)")


class FileScheduling(LoadScopeScheduling):
    """Hands out files in the order of their collection, which begins with the suites that take longest.

    pytest-xdist 3.8 marks the tests of a group in an attribute that pytest 9.2 does not read, so `--dist loadgroup` has
    no groups.
    """

    def __init__(self, config: Any, log: Any = None) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False

    def add_node_collection(self, node: Any, collection: Sequence[str]) -> None:
        super().add_node_collection(node, _Indexed(collection))

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)


class _Indexed(list[str]):
    """A list that finds each of its thousands of tests without a search."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(names)
        self._places = {name: place for place, name in enumerate(names)}

    def index(self, name: str, *_: Any) -> int:
        return self._places[name]


def scope_of(nodeid: str) -> str:
    """Return what the tests of one process have in common: a folder, a file, or a file and a parameter."""
    file, _, name = nodeid.partition("::")
    if file.startswith(TOGETHER):
        return file.rpartition("/")[0]
    if file.startswith(SPREAD):
        found = _FIRST_PARAMETER.search(name)
        return f"{file} {found[1]}" if found else file
    return file
