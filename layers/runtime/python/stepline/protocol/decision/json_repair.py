"""The JSON object in an instance's body, parsed strictly, and repaired if its meaning is certain.

Around the object, models write nothing, a fence with or without its end, or prose before and after; all are
accepted. There must be exactly one object.

Repaired are unescaped quotes within a string, raw line breaks, missing or superfluous commas, unclosed
brackets, and escapes that JSON does not know. A quote ends a string if the following text can follow a
string: another key, another item, or closing brackets with a valid continuation. A string or a number that
just stops is not completed, since the rest is unknown. The text is read once, each character at most a few
times.

The stream and the final validation call the same function, so both see the same object.
"""

from __future__ import annotations

import json
import math
import re
from json.decoder import scanstring  # type: ignore[attr-defined]  # the C scanner, which the stubs omit
from typing import Any, Final, NamedTuple

from stepline.errors import DecisionError
from stepline.protocol.parser.field import mend_surrogates

_FENCE = re.compile(r"^[ \t]*```", re.MULTILINE)
_OBJECT = re.compile(r'\{(?=\s*["}])')
_GOES_ON = re.compile(r'[\s,}\]]*"')
NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
DEPTH_MAX: Final = 64


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _first_wins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key, value in pairs:
        made.setdefault(key, value)
    return made


_DECODER = json.JSONDecoder(strict=False, parse_constant=_no_constant, object_pairs_hook=_first_wins)


class Found(NamedTuple):
    """The object of a body, keys in order, and whether the start of another object follows it."""

    fields: dict[str, Any]
    trailed: bool = False


def read_object(body: str) -> Found:
    """Return the one JSON object in `body`.

    Raises DecisionError `no_json_candidate`, `multi_decision_in_one_channel` or `json_decode_error`. A
    complete object is accepted even if the start of another one follows it. An object after one that does not
    parse is never accepted: it may be part of the first one's text.
    """
    at = find_object(body)
    if at < 0:
        raise DecisionError("the channel holds no JSON object", code="no_json_candidate")
    fields, end = decode_at(body, at)
    more = find_object(body, end)
    if more < 0:
        return Found(clean(fields))
    try:
        decode_at(body, more)
    except DecisionError:
        return Found(clean(fields), trailed=True)
    raise DecisionError("the channel holds more than one JSON object", code="multi_decision_in_one_channel")


def find_object(body: str, at: int = -1) -> int:
    """Return the start of the next object, -1 if there is none.

    Without `at`, of the first one: after the first fence, unless the body begins with an object.
    """
    if at < 0:
        fence = None if body.lstrip().startswith("{") else _FENCE.search(body)
        at = fence.end() if fence else 0
    found = _OBJECT.search(body, at)
    return found.start() if found else -1


def decode_at(body: str, at: int) -> tuple[dict[str, Any], int]:
    """Return the object that begins at `at`, and its end. Raises DecisionError `json_decode_error`."""
    try:
        value, end = _DECODER.raw_decode(body, at)
    except (ValueError, RecursionError) as error:
        raise DecisionError(_complaint(error, body, at), code="json_decode_error") from error
    if _GOES_ON.match(body, end):
        # an unescaped quote has ended a string, and the object with it
        raise DecisionError("a quote stands behind the object's end", code="json_decode_error")
    return value, end


def _complaint(error: Exception, body: str, at: int) -> str:
    """Return the error message, with lines and columns counted from the object's start."""
    if isinstance(error, json.JSONDecodeError):
        line = body.count("\n", at, error.pos) + 1
        column = error.pos - max(body.rfind("\n", at, error.pos), at - 1)
        return f"{error.msg} at line {line}, column {column}"
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)


def clean(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the object with every string encodable.

    Raises DecisionError `json_decode_error` for values JSON cannot carry.
    """
    cleaned: dict[str, Any] = _cleaned(fields, DEPTH_MAX)
    return cleaned


def _cleaned(value: Any, depth_left: int) -> Any:
    match value:
        case str():
            return value if value.isascii() else mend_surrogates(value)
        case float() if not math.isfinite(value):
            raise DecisionError("a number is too large", code="json_decode_error")
        case list() | dict() if not depth_left:
            raise DecisionError("nested too deeply", code="json_decode_error")
        case list():
            return [_cleaned(one, depth_left - 1) for one in value]
        case dict():
            return {_cleaned(key, 0): _cleaned(one, depth_left - 1) for key, one in value.items()}
        case _:
            return value


_BLANKS: Final = re.compile(r"[ \t\r\n]*")
_CLEAN: Final = re.compile(r'[^"\\]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\]*)*')
_KEY: Final = re.compile(r'"((?:[^"\\\n]|\\[^\n]){0,100})"[ \t\r\n]*:')
_NEXT: Final = re.compile(r'\s*(?:```[a-z]*\s*){0,2}\{\s*"')
_WORD: Final = re.compile(r"true|false|null")
_WORDS: Final = {"true": True, "false": False, "null": None}
_VALUE_STARTS: Final = frozenset('"{[-0123456789tfn')
_OPENER: Final = {"}": "{", "]": "["}


class Repaired(NamedTuple):
    """The object, and whether the repair was a guess: anything more than removing commas."""

    fields: dict[str, Any]
    guessed: bool


class _BeyondRepairError(Exception):
    """The missing part cannot be known."""


def repair_object(body: str) -> dict[str, Any] | None:
    """Return the one object of a body, repaired if needed; None if there is none, or more than one."""
    repaired = repair(body)
    return repaired.fields if repaired else None


def repair(body: str) -> Repaired | None:
    """Return the repaired object, and whether the repair was a guess."""
    at = find_object(body)
    if at < 0:
        return None
    guessed = False
    try:
        fields, end = decode_at(body, at)
    except DecisionError:
        reader = _Reader(body, at)
        try:
            fields = reader.read()
        except _BeyondRepairError:
            return None
        end, guessed = reader.at, reader.guessed
    more = find_object(body, end)
    if more >= 0 and _parses(body, more):
        return None
    try:
        return Repaired(clean(fields), guessed)
    except DecisionError:
        return None


def _parses(body: str, at: int) -> bool:
    try:
        decode_at(body, at)
    except DecisionError:
        return False
    return True


class _Reader:
    """Reads the object that begins at `at`; `guessed` is true if more than dropping commas was needed.

    Quotes or brackets after the object would mean that a wrong guess cut it short, so there may be none.
    """

    def __init__(self, text: str, at: int) -> None:
        self.text = text
        self.at = at
        self.guessed = False
        self._open: list[str] = []
        self._last = max(text.rfind(mark) for mark in '"}]')

    def read(self) -> dict[str, Any]:
        made = self._object()
        if self.at <= self._last:
            raise _BeyondRepairError
        return made

    def _value(self) -> Any:
        char = self._peek()
        if char == "{":
            return self._object()
        if char == "[":
            return self._array()
        if char == '"':
            return self._string()
        return self._literal()

    def _object(self) -> dict[str, Any]:
        made: dict[str, Any] = {}
        self._enter("{")
        while not self._closes("{"):
            key = _KEY.match(self.text, self.at)
            if key is None:
                raise _BeyondRepairError
            self.at = key.end()
            value = self._value()
            made.setdefault(self._decoded(key[1]), value)
            self._separate()
        return made

    def _array(self) -> list[Any]:
        made: list[Any] = []
        self._enter("[")
        while not self._closes("["):
            made.append(self._value())
            self._separate()
        return made

    def _enter(self, bracket: str) -> None:
        if len(self._open) == DEPTH_MAX:
            raise _BeyondRepairError
        self._open.append(bracket)
        self.at += 1

    def _closes(self, bracket: str) -> bool:
        """Return True if the container ends here: by its bracket, an outer bracket, or the end of the text."""
        char = self._peek()
        if char in _OPENER:
            if _OPENER[char] == bracket:
                self.at += 1
            elif _OPENER[char] in self._open:
                self.guessed = True
            else:
                raise _BeyondRepairError
        elif not char:
            self.guessed = True
        else:
            return False
        self._open.pop()
        return True

    def _separate(self) -> None:
        """Skip the comma after a value; a missing one is tolerated, a superfluous one dropped."""
        char = self._peek()
        if char == ",":
            self.at += 1
            if not self._peek():
                raise _BeyondRepairError  # more was to come
        elif char and char not in _OPENER:
            self.guessed = True

    def _literal(self) -> Any:
        if word := _WORD.match(self.text, self.at):
            self.at = word.end()
            return _WORDS[word[0]]
        number = NUMBER.match(self.text, self.at)
        if number is None or number.end() == len(self.text):
            raise _BeyondRepairError
        self.at = number.end()
        try:
            return json.loads(number[0])
        except ValueError as error:  # more digits than Python converts
            raise _BeyondRepairError from error

    def _string(self) -> str:
        pieces: list[str] = []
        at = self.at + 1
        while True:
            run = _CLEAN.match(self.text, at)
            assert run is not None
            pieces.append(self._decoded(run[0]))
            at = run.end()
            if at == len(self.text):
                raise _BeyondRepairError
            if self.text[at] == '"' and self._ends(at + 1):
                self.at = at + 1
                return "".join(pieces)
            pieces.append(self.text[at])
            self.guessed = True
            at += 1

    def _decoded(self, escaped: str) -> str:
        if "\\" not in escaped:
            return escaped
        try:
            text: str = scanstring(f'{escaped}"', 0, False)[0]
        except ValueError as error:
            raise _BeyondRepairError from error
        return text

    def _ends(self, at: int) -> bool:
        """Return True if a quote before `at` ends a string, judged by the following text."""
        at, lines = self._skip(at), self.text.count("\n", at, self._skip(at))
        char = self._char(at)
        if not char:
            return True
        if char == ",":
            return self._goes_on(self._skip(at + 1), self._open)
        if char in _OPENER:
            return self._chain_ends(at, self._open)
        if self._open[-1] == "{":
            return bool(_KEY.match(self.text, at))
        return char == '"' and lines > 0

    def _goes_on(self, at: int, opened: list[str]) -> bool:
        """Return True if the text after a comma is valid there; `opened` are the brackets around it."""
        char = self._char(at)
        if char in _OPENER:
            return _OPENER[char] == opened[-1] and self._chain_ends(at, opened)
        if opened[-1] == "{":
            return bool(_KEY.match(self.text, at))
        return char in _VALUE_STARTS

    def _chain_ends(self, at: int, opened: list[str]) -> bool:
        """Return True if the closing brackets from `at` on match the open ones and a valid text follows.

        Only another object may follow the last of them. Every bracket closes one, so this looks no further
        than containers may be deep.
        """
        left = opened.copy()
        while (char := self._char(at)) in _OPENER:
            while left and left[-1] != _OPENER[char]:
                left.pop()
            if not left:
                return False
            left.pop()
            if not left:
                return at >= self._last or bool(_NEXT.match(self.text, at + 1))
            at = self._skip(at + 1)
        if not char:
            return True
        if char == ",":
            return self._goes_on(self._skip(at + 1), left)
        if left[-1] == "{":
            return bool(_KEY.match(self.text, at))
        return char in "{["

    def _peek(self) -> str:
        """Go to the next non-blank character and return it; "" at the end of the text."""
        self.at = self._skip(self.at)
        return self._char(self.at)

    def _char(self, at: int) -> str:
        """Return the character at `at`; the fence after an object ends the text."""
        return "" if at > self._last and self.text.startswith("```", at) else self.text[at : at + 1]

    def _skip(self, at: int) -> int:
        blanks = _BLANKS.match(self.text, at)
        assert blanks is not None
        return blanks.end()
