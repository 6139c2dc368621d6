"""Understands a handful of requests by their wording, and what each still needs."""

from __future__ import annotations

import re
from typing import Final, Literal

from stepline.local.scripted.speech import quote
from stepline.local.scripted.table import sales_table
from stepline.model.base import Value

QUERY_CHARS: Final = 120
PLANS_MAX: Final = 4
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
    "twelve": 12,
}
_FILE: Final = r"(?P<name>[\w.-]+\.(?:md|markdown|txt|json|html?|ya?ml|csv|xml|mmd|mermaid))\b"
_STEPS: Final = re.compile(rf"\b(?P<n>\d{{1,2}}|{'|'.join(_NUMBERS)})[- ]steps?\b", re.IGNORECASE)
_PLAN: Final = re.compile(
    rf"\b(make|create|draw up|write|give me|propose)\b.{{0,40}}?\b(?:(?P<n>{'|'.join(_NUMBERS)})\s+)?plans?\b",
    re.IGNORECASE,
)
_WRITE: Final = re.compile(
    r"\b(write|save|store|put|create)\b.{0,80}?(\bfile\b|\b[\w-]+\.(md|markdown|txt|json|html?|ya?ml|csv|xml)\b)",
    re.IGNORECASE | re.DOTALL,
)
_NAME: Final = re.compile(_FILE, re.IGNORECASE)
_COUNT: Final = rf"(?P<n>\d{{1,4}}|{'|'.join(_NUMBERS)})"
_TABLE: Final = re.compile(
    r"\b(?:write|create|make|generate|save|produce)\b.{0,60}?(?:\bcsv\b.{0,40}\bsales\b|\bsales\b.{0,40}\bcsv\b)",
    re.IGNORECASE | re.DOTALL,
)
_MONTHS: Final = re.compile(rf"\b{_COUNT}[- ]months?\b", re.IGNORECASE)
_TOTALS: Final = re.compile(
    r"\bmonthly\s+(?:totals?|sums?)\b|\b(?:totals?|sums?)\s+(?:per|by|(?:of|for)\s+each)\s+month\b",
    re.IGNORECASE,
)
_DATA: Final = re.compile(r"fi:\S+\.csv\b|\b[\w.-]+\.csv\b", re.IGNORECASE)
_FENCE: Final = re.compile(r"```[a-zA-Z]*[ \t]*\n(?P<code>.*?)```", re.DOTALL)
_RUN: Final = re.compile(r"\b(?:run|execute|try)\b", re.IGNORECASE)
_TIMEOUT: Final = re.compile(rf"\btime\s?-?out\b\D{{0,20}}?\b{_COUNT}\s*s(?:ec|\b)", re.IGNORECASE)
_OUTPUT: Final = re.compile(r"(?<![\w./-])(?:outputs|files)/[\w./-]*[\w-]\.\w{1,8}\b")
# A program that holds tags of the protocol would end the channel it stands in, or be refused as contaminated.
_TAGS: Final = re.compile(r"</?\s*(?:channel\s*:|thinking\b)", re.IGNORECASE)
_WORD: Final = re.compile(r"\bthe word\s+[<\"'`“«]?(?P<word>[^\s<>\"'`”»,;:!?]+)", re.IGNORECASE)
_QUOTED: Final = re.compile(
    r"\b(?:with|containing|contains|saying|text)\b\s*(?:the\s+)?(?:(?:text|content|words?)\s*)?(?::\s*)?"
    r"[\"“«`](?P<text>.+?)[\"”»`]",
    re.IGNORECASE | re.DOTALL,
)
_QUOTED_FIRST: Final = re.compile(
    r"\b(?:write|save|put|store)\s+[\"“«`](?P<text>.+?)[\"”»`]", re.IGNORECASE | re.DOTALL
)
_BARE: Final = re.compile(
    r"\b(?:with|containing|saying)\b\s+(?:the\s+(?:text|content)\s+)?(?P<text>.+?)"
    r"(?<!\s)(?=\s*(?:[.!?]?\s*$|\band\s+(?:then\s+)?(?:read|show|tell|make)\b|,\s*(?:then|and|read|make|all\s+in)\b))",
    re.IGNORECASE | re.DOTALL,
)
_READ_BACK: Final = re.compile(
    r"\bread\s+(?:it|that|them|the file|this)\b|\bread\s+back\b|\bread\s+\S+\s+back\b", re.IGNORECASE
)
_READ: Final = re.compile(
    rf"\b(?:read|open|show me)\s+(?:the file\s+)?(?P<path>[a-z]{{2}}:\S+|{_FILE})", re.IGNORECASE
)
_OLDER: Final = re.compile(
    r"\bread\s+(?:an?|the|some)\s+(?:older|earlier|previous|last)\s+(?:file|one)\b", re.IGNORECASE
)
_ATTACHED: Final = re.compile(
    r"\bread\s+(?:the|this|my|an?)\s+(?:attachment|attached\s+file|file\s+(?:attached|I\s+(?:attached|sent)))\b",
    re.IGNORECASE,
)
_SEARCH: Final = re.compile(
    r"\b(?:search\s+(?:the\s+web\s+|online\s+)?(?:for|about)|look\s+up|find\s+out\s+about)\s+(?P<query>.+?)"
    r"(?<!\s)(?=\s*(?:[.!?,;](?:\s|$)|\band\s+(?:then\s+)?(?:answer|cite|make|put|read|report|save|say|show|store|sum|tell|"
    r"write)\b|$))",
    re.IGNORECASE | re.DOTALL,
)
_TOGETHER: Final = re.compile(r"\bin\s+(?:one|a\s+single|the\s+same)\s+(?:round|response)\b", re.IGNORECASE)
_INSISTS: Final = re.compile(r"\b(?:even\s+if|no\s+matter|regardless|whatever)\b", re.IGNORECASE)
_BREAK: Final = re.compile(r"\b(?:break|violate)\b.{0,20}\bprotocol\b", re.IGNORECASE)
_UNESCAPED: Final = re.compile(r"\bforget\b.{0,20}\bescape\b.{0,20}\bquotes?\b", re.IGNORECASE)
_RECALL: Final = re.compile(
    r"\b(do you (still )?(remember|recall|know)|what did (i|we|you)\b|what (have|had) (i|we)\b|"
    r"remind me|my (last|previous|first|earlier) (message|question|request)|earlier (i|you) said)",
    re.IGNORECASE,
)

SAID_CHARS_MAX: Final = 4_000
"""So much of a message is read for what it asks for: the wordings look far, and from many places."""

Step = Literal["plan", "search", "write", "read", "pull", "exec", "recall", "chat"]
Slip = Literal["", "prefix", "quote"]


class Goal(Value):
    """What one message asks for: the steps in order, and their particulars.

    `totals` asks for the totals of the table `data`, a path or a name, empty for any; `code` is a program to run
    as it stands, with the files that the message or the program names as its `outputs`. `older` asks to read the
    newest file of the turns before, `attached` the newest one that came from outside. `together` asks for all that can
    be done in one round, `insists` for it where the instructions allow one action only. `slip` asks for a mistake in
    the protocol.
    """

    message: str
    steps: tuple[Step, ...]
    plan_steps: int = 3
    file_name: str = ""
    text: str = ""
    word: str = ""
    read_path: str = ""
    totals: bool = False
    data: str = ""
    code: str = ""
    outputs: tuple[str, ...] = ()
    timeout_s: int = 0
    query: str = ""
    older: bool = False
    attached: bool = False
    together: bool = False
    insists: bool = False
    slip: Slip = ""

    @property
    def reads_another(self) -> bool:
        """Whether what it reads is not what it writes."""
        return "write" in self.steps and bool(self.read_path or self.older or self.attached)


def parse_goal(message: str) -> Goal:
    """Return what a message asks for; `chat` where none of the known wordings fits."""
    code, said = _program(message), _FENCE.sub(" ", message)[:SAID_CHARS_MAX]
    totals, table = not code and bool(_TOTALS.search(said)), bool(_TABLE.search(said))
    together, search = bool(_TOGETHER.search(said)), _SEARCH.search(said)
    write = _TABLE.search(said) or (None if code and not together else _WRITE.search(said))
    plan = _PLAN.search(said)
    read = None if (write and not together) or totals or code else _READ.search(said)
    older = None if read else _OLDER.search(said)
    attached = None if read or older else _ATTACHED.search(said)
    back = write and not (read or older or attached) and _READ_BACK.search(said)
    run = _RUN.search(said) if code else _TOTALS.search(said)
    found: list[tuple[tuple[Step, ...], re.Match[str] | None]] = [
        (_plans(plan), plan),
        (("search",), search),
        (("write",), write),
        (("pull", "exec"), run),
        (("read",), read or older or attached or back or None),
    ]
    asked = [(steps, match) for steps, match in found if match]
    if together:  # in the order of the words; without that, in the order in which things depend on each other
        asked.sort(key=lambda one: one[1].end())
    steps = tuple(step for steps, _ in asked for step in steps)
    word = None if table else _WORD.search(said)
    data, timeout = _DATA.search(said), _TIMEOUT.search(said)
    return Goal(
        message=message,
        steps=steps or ("recall" if _RECALL.search(said) else "chat",),
        plan_steps=max(1, min(_count(_STEPS, said, 3), 12)),
        file_name=_file_name(said, read) or _default_name(plan=bool(plan), table=table),
        text=_text(said, table=table) if write and not word and not search else "",
        word=word["word"].rstrip(".") if word else "",
        read_path=read["path"].rstrip(".,;!?") if read else "",
        totals=totals,
        data=data[0] if data else "",
        code=code,
        outputs=tuple(dict.fromkeys(_OUTPUT.findall(said) or _OUTPUT.findall(code))),
        timeout_s=_count(_TIMEOUT, said, 0) if timeout else 0,
        query=quote(search["query"], limit_chars=QUERY_CHARS) if search else "",
        older=bool(older),
        attached=bool(attached),
        together=together,
        insists=bool(_INSISTS.search(said)),
        slip="prefix" if _BREAK.search(said) else "quote" if _UNESCAPED.search(said) else "",
    )


def _plans(found: re.Match[str] | None) -> tuple[Step, ...]:
    plan: Step = "plan"
    named = (found["n"] or "one").lower() if found else "one"
    return (plan,) * min(_NUMBERS[named], PLANS_MAX)


def _file_name(said: str, read: re.Match[str] | None) -> str:
    """Return the file that a message names first, but for the one it wants read."""
    names = [
        match["name"]
        for match in _NAME.finditer(said)
        if read is None or not (read.start() <= match.start() < read.end())
    ]
    return names[0] if names else ""


def _program(message: str) -> str:
    found = _FENCE.search(message)
    if found is None or not _RUN.search(_FENCE.sub(" ", message)) or _TAGS.search(found["code"]):
        return ""
    return found["code"].rstrip(" \t").strip("\n")


def _default_name(*, plan: bool, table: bool) -> str:
    if table:
        return "sales.csv"
    return "plan.md" if plan else "note.md"


def _count(pattern: re.Pattern[str], message: str, default: int) -> int:
    found = pattern.search(message)
    if not found:
        return default
    word = found["n"].lower()
    return _NUMBERS.get(word) or int(word)


def _text(message: str, *, table: bool) -> str:
    if table:
        return sales_table(seed=message, months=max(1, min(_count(_MONTHS, message, 6), 24)))
    return _wanted_text(message)


def _wanted_text(message: str) -> str:
    found = _QUOTED.search(message) or _QUOTED_FIRST.search(message) or _BARE.search(message)
    return found["text"].strip() if found else message.strip()
