r"""Reads one JSON object leniently, as models write it: missing text is not invented, and ambiguous text is a guess.

Certain are what other notations of the same value write: trailing commas, comments, Python's words, strings in single
or curly quotes, raw line breaks, and a backslash that begins no escape (`\d`). A guess is anything more: a quote
within a string that is not escaped, a missing comma or bracket, an escape that other languages know.

A quote ends a string if the following text can follow a string: another key, another item, or closing brackets with
a valid continuation. A string or a number that just stops is not completed, since the rest is unknown. The text is
read once, each character at most a few times.
"""

from __future__ import annotations

import json
import re
from json.decoder import scanstring  # type: ignore[attr-defined]  # the C scanner, which the stubs omit
from typing import Any, Final, NamedTuple

NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?![\w.+-])")
JSON_DEPTH_MAX: Final = 64

_BLANKS: Final = re.compile(r"[ \t\r\n\u00a0\u2028\u2029\ufeff]*")
COMMENT: Final = re.compile(r"(?://|#)[^\n]{0,400}(?=\n|\Z)|/\*(?:[^*]|\*(?!/)){0,400}\*/")
_COMMENTS_MAX: Final = 8
"""Comments in a row that are skipped to judge a quote, so that each quote costs little."""
_NEXT: Final = re.compile(r'\s*(?:```[a-z]*\s*){0,2}\{\s*"')
_WORD: Final = re.compile(r"(?:true|false|null|none)(?!\w)", re.IGNORECASE)
_WORDS: Final = {"true": True, "false": False, "null": None, "none": None}
_DIGITS: Final = frozenset("-0123456789")
_OPENER: Final = {"}": "{", "]": "["}


class Quote(NamedTuple):
    """A kind of quotes: the characters that may end its string, the plain parts of one, and a whole key."""

    ends: str
    clean: re.Pattern[str]
    key: re.Pattern[str]


def _clean(ends: str) -> str:
    return rf'[^{ends}\\]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{{4}})[^{ends}\\]*)*'


def _key(opens: str, ends: str) -> str:
    return rf"[{opens}]((?:[^{ends}\\\n]|\\[^\n]){{0,100}})[{ends}][ \t\r\n]*:"


_CURLED: Final = "\u201c\u201d\u201e"
_CURLED_SINGLE: Final = "\u2018\u2019"
_PLAIN: Final = Quote('"', re.compile(_clean('"')), re.compile(_key('"', '"')))
_SINGLE: Final = Quote("'", re.compile(_clean("'")), re.compile(_key("'", "'")))
_CURLY: Final = Quote(
    f'{_CURLED}"', re.compile(_clean(f'{_CURLED}"')), re.compile(_key(_CURLED, f'{_CURLED}"'))
)
_CURLY_SINGLE: Final = Quote(
    f"{_CURLED_SINGLE}'",
    re.compile(_clean(f"{_CURLED_SINGLE}'")),
    re.compile(_key(_CURLED_SINGLE, f"{_CURLED_SINGLE}'")),
)
QUOTES: Final = {
    '"': _PLAIN,
    "'": _SINGLE,
    **dict.fromkeys(_CURLED, _CURLY),
    **dict.fromkeys(_CURLED_SINGLE, _CURLY_SINGLE),
}
OTHER_QUOTES: Final = "".join(QUOTES)[1:]

_RAW_QUOTE: Final = re.compile(r'\\.|"', re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(?:u[0-9a-fA-F]{4}|.(?P<more>(?<=[A-Za-z])[A-Za-z])?)", re.DOTALL)
_FOREIGN: Final = re.compile(r"\\(?:[xu0\n]|U[0-9a-fA-F]{8})")
_DRIVE: Final = re.compile(r"(?<![A-Za-z])[A-Za-z]:\\")


class BeyondRepairError(Exception):
    """The missing part cannot be known."""


class LenientReader:
    """Reads the object that begins at `at`; `guessed` is true if its meaning was not certain.

    Quotes or brackets after the object would mean that a wrong guess cut it short, so there may be none.
    """

    def __init__(self, text: str, at: int) -> None:
        self.text = text
        self.at = at
        self.guessed = False
        self._open: list[str] = []
        self._last = _last_mark(text, at)
        self._root = _PLAIN  # the quotes of the object's first key

    def read(self) -> dict[str, Any]:
        """Return the object. Raises BeyondRepairError."""
        self._root = QUOTES.get(self._char(self._skip(self.at + 1)), _PLAIN)
        made = self._object()
        if self.at <= self._last:
            raise BeyondRepairError
        return made

    def _value(self) -> Any:
        char = self._peek()
        if char == "{":
            return self._object()
        if char == "[":
            return self._array()
        if char in QUOTES:
            return self._string(QUOTES[char])
        return self._literal()

    def _object(self) -> dict[str, Any]:
        made: dict[str, Any] = {}
        self._enter("{")
        while not self._closes("{"):
            quote = QUOTES.get(self._char(self.at))
            key = quote.key.match(self.text, self.at) if quote else None
            if quote is None or key is None:
                raise BeyondRepairError
            self.at = key.end()
            value = self._value()
            made.setdefault(_decode(key[1], quote), value)
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
        if len(self._open) == JSON_DEPTH_MAX:
            raise BeyondRepairError
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
                raise BeyondRepairError
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
                raise BeyondRepairError  # the array or object is incomplete
        elif char and char not in _OPENER:
            self.guessed = True

    def _literal(self) -> Any:
        if word := _WORD.match(self.text, self.at):
            self.at = word.end()
            return _WORDS[word[0].lower()]
        number = NUMBER.match(self.text, self.at)
        if number is None or number.end() == len(self.text):
            raise BeyondRepairError
        self.at = number.end()
        try:
            return json.loads(number[0])
        except ValueError as error:  # more digits than Python converts
            raise BeyondRepairError from error

    def _string(self, quote: Quote) -> str:
        pieces: list[str] = []
        start = at = self.at + 1
        escaped = False
        while True:
            run = quote.clean.match(self.text, at)
            assert run is not None
            pieces.append(_decode(run[0], quote))
            at = run.end()
            if at == len(self.text):
                raise BeyondRepairError
            char = self.text[at]
            if char != "\\":
                if self._ends(at + 1, quote):
                    break
                self.guessed = True
            elif (other := self._char(at + 1)) and other in OTHER_QUOTES:
                at, char = at + 1, other  # escaped, as other notations do
            else:
                escaped = True
            pieces.append(char)
            at += 1
        self.guessed = self.guessed or (escaped and not _is_certain(self.text[start:at]))
        self.at = at + 1
        return "".join(pieces)

    def _ends(self, at: int, quote: Quote) -> bool:
        """Return True if a quote before `at` ends a string, judged by the following text.

        It does not before a comment with such a quote, which may be the rest of the string.
        """
        gap = self.text[at : self._skip(at)]
        if any(end in gap for end in quote.ends):
            return False
        at, lines = at + len(gap), gap.count("\n")
        char = self._char(at)
        if not char:
            return True
        if char == ",":
            return self._goes_on(self._skip(at + 1), self._open, quote)
        if char in _OPENER:
            return self._chain_ends(at, self._open, quote)
        if self._open[-1] == "{":
            return self._is_key(at, quote)
        return char == '"' and lines > 0

    def _is_key(self, at: int, quote: Quote) -> bool:
        """Return True if a key is at `at`, in one of the quotes that are expected after a string in `quote`."""
        found = QUOTES.get(self._char(at))
        expected = (_PLAIN, quote, self._root)
        return found is not None and found in expected and bool(found.key.match(self.text, at))

    def _goes_on(self, at: int, opened: list[str], quote: Quote) -> bool:
        """Return True if the text after a comma is valid there; `opened` are the brackets around it."""
        char = self._char(at)
        if char in _OPENER:
            return _OPENER[char] == opened[-1] and self._chain_ends(at, opened, quote)
        if opened[-1] == "{":
            return self._is_key(at, quote)
        if char in QUOTES:
            return QUOTES[char] in (_PLAIN, quote, self._root)
        return char in "{[" or char in _DIGITS or bool(_WORD.match(self.text, at))

    def _chain_ends(self, at: int, opened: list[str], quote: Quote) -> bool:
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
            return self._goes_on(self._skip(at + 1), left, quote)
        if left[-1] == "{":
            return self._is_key(at, quote)
        return char in "{["

    def _peek(self) -> str:
        """Go to the next character that is neither blank nor in a comment and return it; "" at the end."""
        while (at := self._skip(self.at)) > self.at:
            self.at = at
        return self._char(self.at)

    def _char(self, at: int) -> str:
        """Return the character at `at`; the fence after an object ends the text."""
        return "" if at > self._last and self.text.startswith("```", at) else self.text[at : at + 1]

    def _skip(self, at: int) -> int:
        """Return the position after blanks and comments."""
        for _ in range(_COMMENTS_MAX):
            blanks = _BLANKS.match(self.text, at)
            assert blanks is not None
            comment = COMMENT.match(self.text, blanks.end())
            if comment is None:
                return blanks.end()
            at = comment.end()
        return at


def _last_mark(text: str, at: int) -> int:
    """Return the position of the last quote or bracket, -1 for none; the end of a list around the object is not counted."""
    end = len(text)
    if text[:at].rstrip().endswith("[") and not text[(closing := text.rfind("]")) + 1 :].strip(" \n\t`"):
        end = max(closing, 0)
    return max(text.rfind(mark, 0, end) for mark in '"}]')


def _decode(escaped: str, quote: Quote) -> str:
    """Return a part of a string without its escapes. Raises BeyondRepairError for an invalid escape."""
    if "\\" not in escaped:
        return escaped
    if quote is not _PLAIN:
        escaped = _RAW_QUOTE.sub(lambda mark: '\\"' if mark[0] == '"' else mark[0], escaped)
    try:
        text: str = scanstring(f'{escaped}"', 0, False)[0]
    except ValueError as error:
        raise BeyondRepairError from error
    return text


def _is_certain(raw: str) -> bool:
    r"""Return True if the backslashes of a string that begin no escape are certainly literal.

    They are not if they may be another language's escapes (`\x41`), nor next to escapes that may be literal: in a
    path or in a formula (`C:\Users\new`, `\alpha \frac`) a letter after the backslash begins a name, and in a
    pattern `\b` is not a character.
    """
    names = letters = breaks = controls = False
    for escape in _ESCAPE.finditer(raw):
        mark = escape[0][1]
        if len(escape[0]) == 6 or mark in "nrt":
            breaks = True
        elif mark in "bf":
            controls = True
        elif _FOREIGN.match(raw, escape.start()):
            return False
        elif mark.isalpha():
            letters = True
            names = names or bool(escape["more"])
    names = names or bool(_DRIVE.search(raw))
    return not ((names and (breaks or controls)) or (letters and controls))
