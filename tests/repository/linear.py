"""Feeds hard texts to the readers of foreign text, each within a limit of CPU seconds; a separate program.

Reads a JSON list of cases, and says on each line what it is at, so that who started it knows that when the limit
of the processor ends it. No tests here.
"""

from __future__ import annotations

import json
import re
import resource
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple

from tests.repository.hard_text import Text, hard_texts
from tests.repository.reader import READERS

SCREEN_CHARS = {"reader": 8 << 10}  # what a reader finds hard may be long
SCREEN_CHARS_DEFAULT = 2 << 10
WHOLE_CHARS = 1 << 20
WORST = 2


class Case(NamedTuple):
    """What reads: an expression in one of the ways that it is asked, or the reader of that name.

    `chars` is how long the longest text is, `seconds` what one may cost. `sources` are the expressions, with their
    flags, from which the texts are made; a reader has texts of its own besides.
    """

    name: str
    way: str
    chars: int
    seconds: int
    sources: list[tuple[str, int]]


def prove(case: Case) -> None:
    """Feed what costs most while it is short in its full length."""
    read, texts = _reader(case)
    short = min(SCREEN_CHARS.get(case.way, SCREEN_CHARS_DEFAULT), case.chars)
    costs = [(_cost(case, read, text, short), text) for text in texts]
    costs.sort(key=lambda one: one[0], reverse=True)
    for _, text in costs[:WORST]:
        _cost(case, read, text, case.chars)


def _reader(case: Case) -> tuple[Callable[[str], object], Iterable[Text]]:
    texts = dict.fromkeys(text for pattern, flags in case.sources for text in hard_texts(pattern, flags))
    if case.way == "reader":
        reader = READERS[case.name]
        return reader.read, [*texts, *reader.texts]
    pattern = re.compile(*case.sources[0])
    if case.way == "scan":
        return (lambda text: deque(pattern.finditer(text), maxlen=0)), texts
    return (pattern.match if case.way == "match" else pattern.fullmatch), texts


def _cost(case: Case, read: Callable[[str], object], text: Text, chars: int) -> float:
    """Return the CPU seconds for a text of this many characters; end if they are too many."""
    soft = int(time.process_time()) + 1 + case.seconds
    resource.setrlimit(resource.RLIMIT_CPU, (soft, resource.RLIM_INFINITY))
    sys.stdout.write(f"{case.name}, {case.way}: {chars} characters of {tuple(text)}\n")
    sys.stdout.flush()
    made = text.of(chars)
    begun = time.process_time()
    read(made)
    return time.process_time() - begun


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for one in json.load(sys.stdin):
        prove(Case(*one))
