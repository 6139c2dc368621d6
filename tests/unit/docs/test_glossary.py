"""The glossary and the code: each word has one meaning, and a place where the code means it."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
LIBRARY = ROOT / "layers/runtime/python/stepline"
ROW = re.compile(r"^\| \*\*([^*]+)\*\*[^|]*\| ([^|]+) \| `([^`]+)` \|$", re.MULTILINE)
CLASS = re.compile(r"^class (\w+)", re.MULTILINE)
ROWS = ROW.findall((ROOT / "docs/glossary.md").read_text(encoding="utf-8"))
WORDS = [word for word, _, _ in ROWS]


def classes():
    """Count the public classes of the library by name."""
    texts = (path.read_text(encoding="utf-8") for path in LIBRARY.rglob("*.py"))
    return Counter(name for text in texts for name in CLASS.findall(text))


def test_the_glossary_lists_each_word_once_in_order():
    assert len(ROWS) == (ROOT / "docs/glossary.md").read_text(encoding="utf-8").count("| **")
    assert sorted(WORDS, key=str.lower) == WORDS
    assert len(set(map(str.lower, WORDS))) == len(WORDS)


@pytest.mark.parametrize(("word", "where"), [(word, where) for word, _, where in ROWS])
def test_the_module_of_a_glossary_row_uses_the_word(word, where):
    path = next(base / where for base in (LIBRARY, ROOT) if (base / where).exists())
    said = f"{path.stem} {path.read_text(encoding='utf-8')}".lower().replace("_", " ")
    assert any(part[:5] in said for part in re.split(r"[ -]", word.lower()))


def test_a_word_names_one_class():
    named = {word.title().replace(" ", "").replace("-", "") for word in WORDS}
    assert {name: count for name, count in classes().items() if name in named and count > 1} == {}
