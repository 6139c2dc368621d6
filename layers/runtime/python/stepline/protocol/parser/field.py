"""Stream the string values of a JSON object while it is being written.

Every string value, at most three keys deep, is offered by its path, and the text of accepted values is
passed on piece by piece, decoded; a string in a list is offered by the list's path and "". On request other values
are offered, too, and passed on as JSON. Text before the object, such as ```json, and after it is skipped. The JSON
is read strictly: a quote ends a string, and after the first error nothing more is passed on (`broken`). Raw
line breaks in strings are accepted, and half a surrogate pair becomes U+FFFD, as in `json_repair.py`, so the
pieces joined are the recorded value. Only an incomplete escape is held back.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from json.decoder import scanstring  # type: ignore[attr-defined]  # the C scanner, which the stubs omit
from typing import Final, Literal, Protocol, TypeAlias

Path: TypeAlias = tuple[str, ...]
"""The keys that lead to a value, outermost first."""

KEYS_MAX: Final = 3
"""The maximum depth, in keys, of the values offered."""

_HEX = "[0-9a-fA-F]"
_HIGH = rf"\\u[dD][89abAB]{_HEX}{{2}}"
# The longest decodable part of a string: half a surrogate pair only once the next character is known.
_BODY = re.compile(
    rf"""[^"\\]*(?:(?:\\["\\/bfnrt]|(?!{_HIGH})\\u{_HEX}{{4}}|{_HIGH}(?=[^\\]|\\[^u]|\\u{_HEX}{{4}}))[^"\\]*)*"""
)
_CUT_ESCAPE = re.compile(rf"(?:{_HIGH})?(?:\\(?:u{_HEX}{{0,3}})?)?")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_MARK = re.compile(r'["{}\[\]:,]')
_DEEP_MARK = re.compile(r'["{}\[\]]')
_LITERAL = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null", re.ASCII)
_BEGINNINGS = '"{['
_BEHIND_KEY, _BEHIND_VALUE = ":", ",}]"
_BEHIND_ANY = _BEHIND_KEY + _BEHIND_VALUE


class Taker(Protocol):
    """Receives the text of one value."""

    def take(self, text: str, /) -> None:
        """Take the next piece, never empty; that of a string is decoded."""

    def end(self) -> None:
        """End the value, which is complete."""


_Role: TypeAlias = Literal[
    "key",
    "value",  # a value with a taker
    "skip",
]
"""The role of the current string."""


class FieldStream:
    """Reads one object. `feed` every piece of the text that holds it; each character is read once.

    `choose` is called at the start of every string value within reach, and returns its taker; `choose_json`, if
    given, for every other value but null, unless it is within an accepted one. Of a repeated key the
    first value counts.
    """

    def __init__(
        self,
        choose: Callable[[Path], Taker | None],
        choose_json: Callable[[Path], Taker | None] | None = None,
    ) -> None:
        self.broken = False
        """True if the text is no JSON; the text passed on so far is a prefix of the values."""
        self.over = False
        """True if the object is complete, or broken."""
        self._choose = choose
        self._choose_json = choose_json
        self._json: Taker | None = None  # the taker of the current list or object
        self._depth = 0  # the brackets around that
        self._word: list[str] = []  # the pieces of a number, or another bare value
        self._plain = False  # in a string, with nothing held back
        self._take: Callable[[str], None] | None = None  # the taker of the current string
        self._held = ""
        self._inside = False
        self._role: _Role = "skip"
        self._taker: Taker | None = None
        self._open: list[str] = []  # the open brackets
        self._path: list[str] = []  # the current keys
        self._value_next = False
        self._follows = ""  # allowed after a string
        self._bare = False  # something other than strings and brackets came since the last mark
        self._key: list[str] = []  # the pieces of the current key
        self._seen: set[Path] = set()

    def feed(self, text: str) -> None:
        """Take the next piece."""
        if self._plain and '"' not in text and "\\" not in text:
            if self._take:
                self._take(text)
            if self._json:
                self._json.take(text)
            return
        if self._held:
            text, self._held = self._held + text, ""
        at, end = 0, len(text)
        if not self._open:
            at = self._begin(text)
        while at < end and not self.over:
            if not self._inside:
                at = self._between(text, at)
                continue
            start, at = at, self._string(text, at)
            if self._json and (read := text[start : at - len(self._held)]):
                self._json.take(read)
        self._plain = self._inside and not self._held and not self.over

    def _begin(self, text: str) -> int:
        brace = text.find("{")
        if brace < 0 or self.over:
            return len(text)
        self._open.append("{")
        self._path = [""]
        return brace + 1

    def _between(self, text: str, at: int) -> int:
        """Go to the next string, return the start of its body."""
        shallow = len(self._open) <= KEYS_MAX or self._follows
        found = (_MARK if shallow else _DEEP_MARK).search(text, at)
        fits = self._goes_on if self._follows else self._fits
        if shallow and not fits(text, at, found):
            self._break()
        if self._choose_json and not self.over:
            self._copy(text[at : found.start()] if found else text[at:], found[0] if found else "")
        if found is None:
            return len(text)
        self._follows = ""
        match found[0]:
            case '"':
                self._begin_string()
            case "{" | "[" as bracket:
                self._open.append(bracket)
                self._value_next = False
                if len(self._open) <= KEYS_MAX:
                    self._path.append("")
            case ":":
                self._value_next = True
            case ",":
                self._value_next = False
            case _:
                self._shut(found[0])
        return found.end()

    def _goes_on(self, text: str, at: int, found: re.Match[str] | None) -> bool:
        """Return True if a mark, with the text before it, is valid after a string."""
        gap = text[at : found.start()] if found else text[at:]
        return not gap.strip() and (found is None or found[0] in self._follows)

    def _fits(self, text: str, at: int, found: re.Match[str] | None) -> bool:
        """Return True if a mark, with the text before it, is valid where no string has just ended."""
        end = found.start() if found else len(text)
        if end > at and not text[at:end].isspace():
            self._bare = True
        if found is None:
            return True
        bare, self._bare = self._bare, False
        return found[0] != ":" and not (bare and found[0] in _BEGINNINGS)

    def _copy(self, gap: str, mark: str) -> None:
        """Pass on what lies between strings: the next mark, and the text before it."""
        if self._json:
            if gap or mark:
                self._json.take(gap + mark)
            if mark in ("}", "]") and len(self._open) == self._depth + 1:
                self._json.end()
                self._json = None
        elif self._value_next and len(self._open) == len(self._path) and "" not in self._path:
            self._word.append(gap)
            if mark:
                self._begin_json("".join(self._word).strip(), mark)
                self._word.clear()

    def _begin_json(self, word: str, mark: str) -> None:
        """Begin a list or an object, or pass on a whole `word`."""
        assert self._choose_json is not None
        if word and not _LITERAL.fullmatch(word):
            self._break()
        elif mark in ("{", "["):
            self._depth = len(self._open)
            self._json = self._choose_json(tuple(self._path))
            if self._json:
                self._json.take(mark)
        elif word not in ("", "null") and (taker := self._choose_json(tuple(self._path))):
            taker.take(word)
            taker.end()

    def _shut(self, bracket: str) -> None:
        if (self._open.pop() == "{") != (bracket == "}"):
            self._break()
        self.over = self.over or not self._open
        del self._path[len(self._open) :]
        self._value_next = False

    def _begin_string(self) -> None:
        """Set the role of a string. What is deeper in a list is not offered, nor any below a repeated key."""
        self._inside = True
        self._taker = self._take = None
        self._role = "skip"
        if len(self._open) > KEYS_MAX:
            self._follows = _BEHIND_ANY
            return
        self._follows = _BEHIND_VALUE
        listed = self._open[-1] == "["
        if not listed and not self._value_next:
            self._role, self._take, self._follows = "key", self._key.append, _BEHIND_KEY
            return
        self._value_next = False
        keys = self._path[:-1] if listed else self._path
        if keys and "" not in keys and (taker := self._choose(tuple(self._path))):
            self._role, self._taker, self._take = "value", taker, taker.take

    def _string(self, text: str, at: int) -> int:
        """Read more of a string, return where to continue."""
        body = _BODY.match(text, at)
        assert body is not None
        end = body.end()
        if self._take and end > at:
            self._take(_decode(body[0]))
        if end == len(text):
            return end
        if text[end] == '"':
            self._end_string()
            return end + 1
        if _CUT_ESCAPE.fullmatch(text, end):
            self._held = text[end:]
        else:
            self._break()
        return len(text)

    def _end_string(self) -> None:
        self._inside = False
        if self._role == "key":
            self._path[-1] = "".join(self._key)
            self._key.clear()
            path = tuple(self._path)
            if path in self._seen:
                self._path[-1] = ""
            self._seen.add(path)
        elif self._taker:
            self._taker.end()

    def _break(self) -> None:
        self.broken = self.over = True


def _decode(escaped: str) -> str:
    if "\\" not in escaped:
        return escaped
    text: str = scanstring(f'{escaped}"', 0, False)[0]
    return mend_surrogates(text) if "\\u" in escaped else text


def mend_surrogates(text: str) -> str:
    """Return `text` with unpaired surrogates, which no encoding can carry, as U+FFFD."""
    try:
        text.encode()  # ten times as fast as a search, and there are hardly ever any
    except UnicodeEncodeError:
        return _LONE_SURROGATE.sub("\ufffd", text)
    return text
