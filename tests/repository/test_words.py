"""Words: one concept has one word, and a sentence names its subject. Source: the glossary, `docs/glossary.md`."""

import ast
import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.repository.test_house import ROOT, modules

INSTEAD: Mapping[str, str] = {
    "told": "reported, shown, sent",
    "tell": "say, show, distinguish",
    "tells": "says, shows",
    "telling": "reporting",
    "stand": "be, remain, apply",
    "stands": "is, is stored, remains, applies",
    "stood": "was",
    "standing": "current, state",
    "whoever": "the client, the user, the caller",
    "nobody": "no client, no user",
    "somebody": "a user, another client",
    "anybody": "any client, any user",
    "everybody": "every user",
    "brought": "imported, included",
    "behind": "after, below, through",
    "trouble": "failure, problem",
    "duty": "task token",
    "depot": "artifacts",
    "vigil": "heartbeat",
    "so many": "the number's name",
    "waits in line": "is queued",
    "wait in line": "be queued",
    "line up": "enqueue",
    "comes to nothing": "has no effect, is discarded",
}
"""Words that a reader stumbles over, and words to write instead."""
NAMES = ("GuardDuty",)
"""Names of others that end in such a word."""
_WORD = re.compile(
    "|".join(
        f"[{word[0]}{word[0].upper()}]{word[1:]}".replace(" ", "[ _]")
        for word in sorted(INSTEAD, key=len, reverse=True)
    )
)
_RIDDLE = re.compile(
    r"test_(what|whatever|who|whoever|whose|whether|nobody|nothing|somebody|where|how|so|as|if)(_|$)"
)
_PROSE = re.compile(r"\.(py|md|ts|tsx|css|html|toml|sh)$|(^|/)Makefile$|^\.ci/")
_APART = ("tests/data/", "web/src/api/", "web/package-lock.json", "tests/repository/test_words.py")
KEPT: Mapping[str, Mapping[str, int]] = json.loads((ROOT / "tests/repository/kept_words.json").read_text())
"""How many such words a file keeps, by the reason: a model reads them, they are stored or sent, or they are a test's input."""
_COUNTS = {path: count for files in KEPT.values() for path, count in files.items()}


def odd_words(text: str) -> list[str]:
    """List the odd words of a text, in prose, in names, and as parts of names."""
    return [
        found.group()
        for found in _WORD.finditer(text)
        if _is_whole(text, found) and not text.endswith(NAMES, 0, found.end())
    ]


def _is_whole(text: str, found: re.Match[str]) -> bool:
    """Report whether a match is a word, or a part of a name such as `is_told`, `isTold` or `ToldTurn`."""
    before, after = text[max(found.start() - 1, 0) : found.start()], text[found.end() : found.end() + 1]
    begins = not before.isalpha() or (before.islower() and found.group()[0].isupper())
    return begins and not ("a" <= after <= "z")


def written() -> Iterator[tuple[str, str]]:
    """Yield every file that people wrote, by its path."""
    done = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    for path in done.stdout.splitlines():
        if _PROSE.search(path) and not path.startswith(_APART) and (ROOT / path).is_file():
            yield path, (ROOT / path).read_text(encoding="utf-8")


def riddles(paths: list[Path]) -> list[str]:
    """List the test names that begin with a clause in place of a subject."""
    return [
        f"{path.name}::{node.name}"
        for path in paths
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and _RIDDLE.match(node.name)
    ]


def test_every_text_uses_the_common_word():
    found = {path: words for path, text in written() if (words := odd_words(text))}
    assert {path: words for path, words in found.items() if len(words) > _COUNTS.get(path, 0)} == {}
    assert {path: count for path, count in _COUNTS.items() if count > len(found.get(path, ()))} == {}


def test_an_odd_word_is_found_in_prose_and_in_names():
    text = "The client is told. Nobody\nstands_here; isTold(ToldTurn); outstanding, understand, toldest, Vigilant"
    assert odd_words(text) == ["told", "Nobody", "stands", "Told", "Told"]
    assert odd_words("GuardDuty scans; a GuardDuty plan, OwnDuty") == ["Duty"]
    assert odd_words("They wait in line, so_many of them.") == ["wait in line", "so_many"]


def test_every_test_name_has_a_subject():
    assert riddles(modules(ROOT / "tests")) == []


def test_a_riddle_is_found(tmp_path):
    names = (
        "test_what_is_lost",
        "test_whatever",
        "test_a_lost_event_is_sent_again",
        "test_so_far",
        "test_sorted",
    )
    (tmp_path / "test_a.py").write_text("".join(f"def {name}(): pass\n" for name in names))
    assert riddles([tmp_path / "test_a.py"]) == [f"test_a.py::{name}" for name in (*names[:2], "test_so_far")]
