"""The scripted model's reply to the text of a request: a function of it.

Users' messages hold commands:

    @say WORD PIECES MS   answer with PIECES pieces, and wait MS milliseconds after each
    @note WORD            call the tool `note` with the word, then answer
    @pay WORD             call the tool `pay` with the word, then answer

A call is made for each command without one, one by one. Then an answer follows: `heard` with the words of all commands of the
request, and the pieces `WORD.1 WORD.2 ...` of each `@say` that no earlier answer has heard.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_WORD: Final = r"w[0-9a-f]{8}\b"
_TOKEN: Final = re.compile(
    rf"@say (?P<say>{_WORD}) (?P<pieces>\d+) (?P<ms>\d+)|@(?P<tool>note|pay) (?P<called>{_WORD})"
    rf"|heard (?P<heard>{_WORD}(?: {_WORD})*):|(?P<word>{_WORD})"
)


def say(word: str, pieces: int, ms: int = 0) -> str:
    """Return the command for an answer of this many pieces."""
    return f"@say {word} {pieces} {ms}"


def pieces_of(word: str, pieces: int) -> str:
    """Return the text of all pieces of an answer."""
    return " ".join(f"{word}.{at}" for at in range(1, pieces + 1))


@dataclass(frozen=True, kw_only=True)
class Reply:
    """Either a call of a tool, or the pieces of an answer with a pause after each."""

    tool: str = ""
    word: str = ""
    pieces: tuple[tuple[str, float], ...] = ()


def plan_reply(text: str, *, quotes: bool = False) -> Reply:
    """Return the reply to a request whose messages, calls included and results not, have this text.

    `quotes`: a request may quote a message in a second place, so each command counts once.
    """
    waiting: list[tuple[str, str, int, int]] = []
    heard: dict[str, None] = {}
    for found in _TOKEN.finditer(text):
        if quotes and (found["say"] or found["called"]) in heard:
            continue
        if found["say"]:
            waiting.append(("say", found["say"], int(found["pieces"]), int(found["ms"])))
            heard[found["say"]] = None
        elif found["tool"]:
            waiting.append((found["tool"], found["called"], 0, 0))
            heard[found["called"]] = None
        elif found["heard"]:
            words = set(found["heard"].split())
            waiting = [one for one in waiting if one[0] != "say" or one[1] not in words]
        else:
            called = [one for one in waiting if one[0] != "say" and one[1] == found["word"]]
            if called:
                waiting.remove(called[0])
    for kind, word, _, _ in waiting:
        if kind != "say":
            return Reply(tool=kind, word=word)
    head = f"heard {' '.join(heard)}:" if heard else "heard no command."
    said = [(f" {word}.{at}", ms / 1000) for _, word, pieces, ms in waiting for at in range(1, pieces + 1)]
    return Reply(pieces=((head, 0.0), *(said or [(" done", 0.0)])))
