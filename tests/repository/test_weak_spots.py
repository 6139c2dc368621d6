"""Weak spots that streaming agents are known for: each has a test here that names it by its number.

A test names one by `test_w07_…`, or by `Weak spot W7` in a comment above it.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
NAMED = re.compile(r"^def test_w(\d\d)_|^# Weak spot W(\d{1,2})\b", re.MULTILINE)
WEAK_SPOTS = {
    1: "an unknown channel, or one in another case, stops the stream",
    2: "a stray backtick hides every tag behind it",
    3: "a tag in a string or in a program splits it",
    4: "a text that ends like the beginning of a token loses its end",
    5: "dashes and brackets change as soon as there are sources",
    6: "joiners and marks without width are taken out of what is stored",
    7: "an escaped emoji becomes two halves that nothing can encode",
    8: "a title or an address of a source acts as markup",
    9: "a range of citations is walked before anybody asks what is there",
    11: "everything is shown a tag's length too late",
    12: "reading a generation takes the square of its length",
    13: "a lane that was opened is never closed",
    16: "with several actions off, the second one is shown all the same",
    17: "a program and a write produce the same file",
    18: "parameters that a tool does not have go through",
    20: "what comes while a gate opens overtakes what waited",
    22: "a listener that fails is never heard of",
    23: "a quote that was not escaped ends the answer",
    25: "a filter of events that fails lets everything through",
    27: "one word before the first channel costs a whole call, without a choice",
}


def named_spots() -> set[int]:
    """Return the numbers that tests name."""
    texts = (path.read_text(encoding="utf-8") for path in TESTS.rglob("test_*.py") if path != Path(__file__))
    return {int(name or word) for text in texts for name, word in NAMED.findall(text)}


@pytest.mark.parametrize("number", WEAK_SPOTS, ids=WEAK_SPOTS.get)
def test_a_weak_spot_has_a_test_that_names_it(number: int) -> None:
    assert number in named_spots()
