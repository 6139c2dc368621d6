"""docs/how-to/port-a-bundle.md: each name that it gives is there, and no renamed thing is left out."""

import re

import pytest

import stepline
from stepline import testing
from tests.unit.docs.source import DOCS, LIBRARY, files

PAGE = DOCS / "how-to/port-a-bundle.md"
CODE = re.compile(r"`([^`]+)`")


def rows():
    cells = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in PAGE.read_text().splitlines()
        if line[:2] == "| "
    ]
    return [row for row in cells if row[0] != "there"]


def names(column):
    return [name for row in rows() for name in CODE.findall(row[column])]


def source():
    """Return all that the library's modules and texts say."""
    found = [
        path
        for path in files()
        if path.is_relative_to(LIBRARY) and "local" not in path.relative_to(LIBRARY).parts
    ]
    return "\n".join(path.read_text(encoding="utf-8") for path in found if path.suffix in (".py", ".md"))


SOURCE = source()


def is_defined(part):
    """Look for a word; its letters come first in the pattern, for which the search jumps ahead."""
    return re.search(rf"{part}(?!\w)(?<!\w{part})", SOURCE)


def is_there(name):
    """Return True for a name of the public face with its attributes; any other has to be in the library."""
    first, *others = name.split(".")
    owner = next((module for module in (stepline, testing) if first in module.__all__), None)
    if owner is None:
        fixed = re.split(r"<\w+>|\(\w*\)|…|\[[\d,]+\]", name)
        return all(is_defined(re.escape(part)) for part in fixed if part.strip("."))
    thing = getattr(owner, first)
    for other in others:
        if not hasattr(thing, other) and other not in getattr(thing, "__annotations__", {}):
            return False
        thing = getattr(thing, other, None)
    return True


def test_every_row_has_two_names_and_a_note():
    assert len(rows()) > 50
    assert [row for row in rows() if len(row) != 3 or not CODE.search(row[1])] == []


def test_the_page_lists_each_name_once():
    there = [row[0] for row in rows()]
    assert sorted(set(there)) == sorted(there)


def test_each_name_of_the_middle_column_exists():
    assert [name for name in names(1) if not is_there(name)] == []


@pytest.mark.parametrize(
    "name",
    ["ToolContext.say", "BaseWorkflow.run_react", "react.stroll", "STEPLINE_NOTHING", "fi:<turn>.drawers"],
)
def test_a_missing_name_is_reported(name):
    assert not is_there(name)
