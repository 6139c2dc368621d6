"""Understands a handful of requests by their wording, and what each still needs."""

from __future__ import annotations

import re
from typing import Final, Literal

from stepline.model.base import Value

_NUMBERS: Final = {
    "one": 1,
    "two": 2,
    "three": 3,
    "four": 4,
    "five": 5,
    "six": 6,
    "seven": 7,
    "eight": 8,
    "nine": 9,
}
_FILE: Final = r"(?P<name>[\w.-]+\.(?:md|markdown|txt|json|html?|ya?ml|csv|xml|mmd|mermaid))\b"
_STEPS: Final = re.compile(rf"\b(?P<n>\d{{1,2}}|{'|'.join(_NUMBERS)})[- ]steps?\b", re.IGNORECASE)
_PLAN: Final = re.compile(r"\b(make|create|draw up|write|give me|propose)\b.{0,40}\bplan\b", re.IGNORECASE)
_WRITE: Final = re.compile(
    r"\b(write|save|store|put|create)\b.{0,80}?(\bfile\b|\b[\w-]+\.(md|markdown|txt|json|html?|ya?ml|csv|xml)\b)",
    re.IGNORECASE | re.DOTALL,
)
_NAME: Final = re.compile(_FILE, re.IGNORECASE)
_WORD: Final = re.compile(r"\bthe word\s+[<\"'`“«]?(?P<word>[^\s<>\"'`”»,;:!?]+)", re.IGNORECASE)
_QUOTED: Final = re.compile(
    r"\b(?:with|containing|contains|saying|text)\b\s*(?:the\s+)?(?:text|content|words?)?\s*:?\s*"
    r"[\"“«`](?P<text>.+?)[\"”»`]",
    re.IGNORECASE | re.DOTALL,
)
_QUOTED_FIRST: Final = re.compile(
    r"\b(?:write|save|put|store)\s+[\"“«`](?P<text>.+?)[\"”»`]", re.IGNORECASE | re.DOTALL
)
_BARE: Final = re.compile(
    r"\b(?:with|containing|saying)\b\s+(?:the\s+(?:text|content)\s+)?(?P<text>.+?)"
    r"(?=\s*(?:[.!?]?\s*$|\band\s+(?:then\s+)?(?:read|show|tell)\b|,\s*(?:then|and)\b))",
    re.IGNORECASE | re.DOTALL,
)
_READ_BACK: Final = re.compile(
    r"\bread\s+(?:it|that|them|the file|this)\b|\bread\s+back\b|\bread\s+\S+\s+back\b", re.IGNORECASE
)
_READ: Final = re.compile(
    rf"\b(?:read|open|show me)\s+(?:the file\s+)?(?P<path>[a-z]{{2}}:\S+|{_FILE})", re.IGNORECASE
)
_RECALL: Final = re.compile(
    r"\b(do you (still )?(remember|recall|know)|what did (i|we|you)\b|what (have|had) (i|we)\b|"
    r"remind me|my (last|previous|first|earlier) (message|question|request)|earlier (i|you) said)",
    re.IGNORECASE,
)

Step = Literal["plan", "write", "read", "recall", "chat"]


class Goal(Value):
    """What one message asks for: the steps in order, and their particulars."""

    message: str
    steps: tuple[Step, ...]
    plan_steps: int = 3
    file_name: str = ""
    text: str = ""
    word: str = ""
    read_path: str = ""


def parse_goal(message: str) -> Goal:
    """Return what a message asks for; `chat` where none of the known wordings fits."""
    plan, write = bool(_PLAN.search(message)), bool(_WRITE.search(message))
    back = bool(write and _READ_BACK.search(message))
    read = None if write else _READ.search(message)
    steps: list[Step] = []
    if plan:
        steps.append("plan")
    if write:
        steps.append("write")
    if back or read:
        steps.append("read")
    if not steps:
        steps.append("recall" if _RECALL.search(message) else "chat")
    word, name = _WORD.search(message), _NAME.search(message)
    return Goal(
        message=message,
        steps=tuple(steps),
        plan_steps=_count(message),
        file_name=name["name"] if name else ("plan.md" if plan else "note.md"),
        text=_wanted_text(message) if write and not word else "",
        word=word["word"].rstrip(".") if word else "",
        read_path=read["path"].rstrip(".,;!?") if read else "",
    )


def _count(message: str) -> int:
    found = _STEPS.search(message)
    if not found:
        return 3
    word = found["n"].lower()
    return max(1, min(_NUMBERS.get(word) or int(word), 12))


def _wanted_text(message: str) -> str:
    found = _QUOTED.search(message) or _QUOTED_FIRST.search(message) or _BARE.search(message)
    return found["text"].strip() if found else message.strip()
