"""String fields of a JSON object while it is still being written.

Follows one decision: hands out the text of chosen top-level strings piece by piece, and who the decision is
(`action`, `tool_call.tool_id`) as soon as that is known. What stands before the object, such as ```json, is
skipped, and what follows it. The JSON is taken strictly: a quote ends a string, and after the first thing
that is not JSON nothing more is handed out (`broken`). Raw line breaks in strings are let through, and half a
surrogate pair becomes U+FFFD, as in `candidate.py`, so the pieces joined are the value that is recorded.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from json.decoder import scanstring  # type: ignore[attr-defined]  # the C scanner, which the stubs omit
from typing import Literal, TypeAlias

from stepline.model.base import Value

_HEX = "[0-9a-fA-F]"
_HIGH = rf"\\u[dD][89abAB]{_HEX}{{2}}"
# As much of a string as can be decoded: half a pair only once it is known what follows it.
_BODY = re.compile(
    rf"""[^"\\]*+(?:(?:\\["\\/bfnrt]|(?!{_HIGH})\\u{_HEX}{{4}}|{_HIGH}(?=[^\\]|\\[^u]|\\u{_HEX}{{4}}))[^"\\]*+)*+"""
)
_CUT_ESCAPE = re.compile(rf"(?:{_HIGH})?(?:\\(?:u{_HEX}{{0,3}})?)?")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_MARK = re.compile(r'["{}\[\]:,]')
_DEEP_MARK = re.compile(r'["{}\[\]]')
_IDENTITY = {("action",): "action", ("tool_call", "tool_id"): "tool_id"}
_DEPTH_OF_KEYS = 2


class Delta(Value, kw_only=False, gc=False):
    """The next piece of a field's value, decoded and never empty."""

    field: str
    text: str


class Ended(Value, kw_only=False, gc=False):
    """A field's value is complete."""

    field: str


class Known(Value, kw_only=False, gc=False):
    """Who the decision is, as far as it has been read."""

    fact: Literal["action", "tool_id"]
    value: str


FieldEvent: TypeAlias = Delta | Ended | Known


_Role: TypeAlias = Literal[
    "none",  # between strings
    "key",  # a key that may matter
    "fact",  # who the decision is
    "field",  # text to hand out
    "skip",  # anything else
]
"""What the string at hand is for."""


class FieldStream:
    """Reads one decision. `feed` every piece of the instance's body; each character is looked at once.

    Of a key that comes twice the first value counts.
    """

    def __init__(self, fields: Collection[str] = ("notes", "final_answer")) -> None:
        self.broken = False
        self._wanted = set(fields)
        self._held = ""
        self._open: list[str] = []  # the brackets around us
        self._path: list[str] = []  # the keys around us, two levels deep
        self._value_next = False
        self._behind_string = False
        self._role: _Role = "none"
        self._pieces: list[str] = []  # of the key or fact at hand
        self._seen: set[tuple[str, ...]] = set()
        self._over = False

    def feed(self, text: str) -> list[FieldEvent]:
        """Take the next piece of the body, return what it tells."""
        if self._held:
            text, self._held = self._held + text, ""
        if self._over or not text:
            return []
        role = self._role
        if role in {"field", "skip"} and '"' not in text and "\\" not in text:
            return [Delta(self._path[0], text)] if role == "field" else []
        events: list[FieldEvent] = []
        at = self._begin(text) if not self._open else 0
        while at < len(text) and not self._over:
            between = self._role == "none"
            at = self._between(text, at) if between else self._string(text, at, events)
        return events

    def _begin(self, text: str) -> int:
        brace = text.find("{")
        if brace < 0:
            return len(text)
        self._open.append("{")
        self._path = [""]
        return brace + 1

    def _between(self, text: str, at: int) -> int:
        """Go to the next string of interest, return where its body begins."""
        shallow = len(self._open) <= _DEPTH_OF_KEYS or self._behind_string
        mark = _MARK if shallow else _DEEP_MARK
        found = mark.search(text, at)
        if self._behind_string:
            gap = text[at : found.start()] if found else text[at:]
            if gap.strip() or (found and found[0] in '"{['):
                self._break()
        if found is None:
            return len(text)
        self._behind_string = False
        match found[0]:
            case '"':
                self._role = self._role_of_string()
                self._value_next = False
            case "{" | "[" as bracket:
                self._open.append(bracket)
                self._value_next = False
                if len(self._open) <= _DEPTH_OF_KEYS:
                    self._path.append("")
            case ":":
                self._value_next = True
            case ",":
                self._value_next = False
            case _:
                self._shut(found[0])
        return found.end()

    def _shut(self, bracket: str) -> None:
        if (self._open.pop() == "{") != (bracket == "}"):
            self._break()
        self._over = self._over or not self._open
        if len(self._open) < _DEPTH_OF_KEYS:
            self._path = self._path[: len(self._open)]
        self._value_next = False

    def _role_of_string(self) -> _Role:
        depth = len(self._open)
        if depth > _DEPTH_OF_KEYS or self._open[-1] != "{":
            return "skip"
        if not self._value_next:
            return "key"
        if tuple(self._path) in _IDENTITY:
            return "fact"
        return "field" if depth == 1 and self._path[0] in self._wanted else "skip"

    def _string(self, text: str, at: int, events: list[FieldEvent]) -> int:
        """Read on in a string, return where to go on."""
        body = _BODY.match(text, at)
        assert body is not None
        end = body.end()
        if end > at and self._role != "skip":
            decoded = _decode(body[0])
            if self._role == "field":
                events.append(Delta(self._path[0], decoded))
            else:
                self._pieces.append(decoded)
        if end < len(text) and text[end] == '"':
            self._end_string(events)
            return end + 1
        if end < len(text):
            if _CUT_ESCAPE.fullmatch(text, end):
                self._held = text[end:]
            else:
                self._break()
        return len(text)

    def _end_string(self, events: list[FieldEvent]) -> None:
        role, self._role = self._role, "none"
        self._behind_string = True
        value, self._pieces = "".join(self._pieces), []
        if role == "key":
            self._path[-1] = value
            path = tuple(self._path)
            if path in self._seen:
                self._path[-1] = ""
            self._seen.add(path)
        elif role == "field":
            events.append(Ended(self._path[0]))
        elif role == "fact":
            fact = _IDENTITY[tuple(self._path)]
            events.append(Known("action" if fact == "action" else "tool_id", value))

    def _break(self) -> None:
        self.broken = self._over = True


def _decode(escaped: str) -> str:
    if "\\" not in escaped:
        return escaped
    text: str = scanstring(f'{escaped}"', 0, False)[0]
    return mend_surrogates(text) if "\\u" in escaped else text


def mend_surrogates(text: str) -> str:
    """Return `text` with halves of surrogate pairs, which no encoding can carry, as U+FFFD."""
    return _LONE_SURROGATE.sub("\ufffd", text)
