"""The syntax check after a patch: Python, JSON, JavaScript, TypeScript and HTML, by file extension.

Python and JSON are parsed, by Python's own parsers. In scripts the brackets, strings and comments are checked, in pages
the tags: a patch breaks those first, and each is read once from left to right. Nothing is run.
Source: https://html.spec.whatwg.org/multipage/syntax.html#optional-tags.
"""

from __future__ import annotations

import ast
import json
import posixpath
import re
import warnings
from collections import Counter
from typing import Final, NamedTuple

CHECKED_MAX_BYTES: Final = 512 * 1024

_SCRIPTS: Final = frozenset({".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".mts", ".cts"})
_PAGES: Final = frozenset({".html", ".htm"})


class SyntaxFlaw(NamedTuple):
    """The first position at which a text breaks its language's syntax; the line counts from 1."""

    line: int
    message: str


def find_syntax_flaw(name: str, text: str) -> SyntaxFlaw | None:
    """Return the flaw of a file's text; None for a valid one, one of another language, and one too large to check."""
    if len(text.encode()) > CHECKED_MAX_BYTES:
        return None
    ending = posixpath.splitext(name)[1].lower()
    if ending in (".py", ".pyi"):
        return _check_python(text)
    if ending == ".json":
        return _check_json(text)
    if ending in _SCRIPTS:
        return _Script(text, markup="</" in text or "/>" in text).check()
    return _check_page(text) if ending in _PAGES else None


def _check_python(text: str) -> SyntaxFlaw | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except SyntaxError as error:
        return SyntaxFlaw(error.lineno or 1, error.msg)
    except ValueError as error:
        return SyntaxFlaw(1, f"it cannot be compiled: {error}")
    except (RecursionError, MemoryError):
        return SyntaxFlaw(1, "it is nested too deeply to be compiled")
    return None


def _check_json(text: str) -> SyntaxFlaw | None:
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return SyntaxFlaw(error.lineno, error.msg)
    except (ValueError, RecursionError):  # a number of too many digits, or lists of lists
        return SyntaxFlaw(1, "its numbers or its nesting are too much to be read")
    return None


_OPENS: Final = {")": "(", "]": "[", "}": "{"}
_MARK: Final = re.compile(r"""[()\[\]{}'"`/\n]""")
_STRING: Final = {q: re.compile(rf"[^{q}\\\n]*(?:\\[\s\S][^{q}\\\n]*)*{q}") for q in "'\""}
_SAME_LINE: Final = {q: re.compile(rf"[^{q}\n]*{q}?") for q in "'\""}
_EXPRESSION: Final = re.compile(r"(?:[^/\\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*\])+/")
EXPRESSION_CHARS: Final = 300
_TEMPLATE: Final = re.compile(r"[^`\\$]*(?:(?:\\[\s\S]|\$(?!\{))[^`\\$]*)*(`|\$\{)")
_BEFORE_EXPRESSION: Final = frozenset("(,=:[!&|?{};+-*%<>~^\n")
_WORDS: Final = ("return", "typeof", "case", "of", "in", "do", "else", "void", "delete", "await", "yield")


class _Script:
    """The brackets of a script. With markup in it (JSX) its prose may hold any sign but braces, so only those count."""

    def __init__(self, text: str, *, markup: bool) -> None:
        self._text, self._markup = text, markup
        self._open: list[tuple[str, int]] = []

    def check(self) -> SyntaxFlaw | None:
        at = 0
        while found := _MARK.search(self._text, at):
            where, sign = found.start(), found[0]
            end = self._read(sign, where)
            if isinstance(end, str):
                return self._flaw(where, end)
            at = end
        if self._open:
            bracket, where = self._open[-1]
            return self._flaw(where, f"{bracket!r} is never closed")
        return None

    def _read(self, sign: str, where: int) -> int | str:
        """Return the position after the token that a sign begins, or its error."""
        if sign in _OPENS:
            return self._close(sign, where)
        if sign == "`":
            return self._template(where)
        if sign in _STRING:
            return self._quoted(sign, where)
        if sign == "/":
            return self._slash(where)
        if sign != "\n" and (sign == "{" or not self._markup):
            self._open.append((sign, where))
        return where + 1

    def _quoted(self, sign: str, where: int) -> int | str:
        if self._markup:  # prose has single quotes
            string = _SAME_LINE[sign].match(self._text, where + 1)
            return string.end() if string and string[0].endswith(sign) else where + 1
        string = _STRING[sign].match(self._text, where + 1)
        return string.end() if string else "the text in quotes is never closed"

    def _close(self, sign: str, where: int) -> int | str:
        if self._markup and sign != "}":
            return where + 1
        if self._open and self._open[-1][0] == "`" and sign == "}":
            self._open.pop()
            return self._template(where)
        if not self._open or self._open[-1][0] != _OPENS[sign]:
            return (
                f"{sign!r} closes nothing"
                if not self._open
                else f"{sign!r} does not close {self._open[-1][0]!r}"
            )
        self._open.pop()
        return where + 1

    def _template(self, where: int) -> int | str:
        """Read a template's text up to its end, or to the code in it."""
        found = _TEMPLATE.match(self._text, where + 1)
        if found is None:
            return "the template is never closed"
        if found[1] == "${":
            self._open.append(("`", where))
        return found.end()

    def _slash(self, where: int) -> int | str:
        """Read a comment, a regular expression or a division."""
        if self._text.startswith("//", where):
            if self._markup and self._text.startswith(":", where - 1):  # an address in prose
                return where + 2
            end = self._text.find("\n", where)
            return len(self._text) if end < 0 else end
        if self._text.startswith("/*", where):
            end = self._text.find("*/", where + 2)
            return "the comment is never closed" if end < 0 else end + 2
        before = self._text[max(0, where - 40) : where].rstrip(" \t")
        if before and before[-1] not in _BEFORE_EXPRESSION and not before.endswith(_WORDS):
            return where + 1
        if before.endswith("<"):
            return where + 1
        found = _EXPRESSION.match(self._text, where + 1, where + EXPRESSION_CHARS)
        return found.end() if found else where + 1

    def _flaw(self, where: int, message: str) -> SyntaxFlaw:
        return SyntaxFlaw(self._text.count("\n", 0, where) + 1, message)


_TAG: Final = re.compile(r"<(?:!--|(/?)([A-Za-z][A-Za-z0-9:-]*))")
_IN_TAG: Final = re.compile(r"""["'>]""")
_VOID: Final = frozenset(
    (
        *("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source"),
        *("track", "wbr"),
    )
)
_OPTIONAL: Final = frozenset(
    (
        *("html", "head", "body", "p", "li", "dt", "dd", "rt", "rp", "optgroup", "option", "colgroup"),
        *("caption", "thead", "tbody", "tfoot", "tr", "td", "th"),
    )
)
"""Elements whose end may be left out; they end together with their parent."""
_RAW: Final = frozenset({"script", "style", "textarea", "title"})


def _check_page(text: str) -> SyntaxFlaw | None:
    found = _Page(text).check()
    return SyntaxFlaw(text.count("\n", 0, found[0]) + 1, found[1]) if found else None


class _Page:
    """The tags of a page."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._open: list[tuple[str, int]] = []
        self._counts: Counter[str] = Counter()

    def check(self) -> tuple[int, str] | None:
        """Return the position and the message of the first error."""
        text, at = self._text, 0
        while found := _TAG.search(text, at):
            where, name = found.start(), (found[2] or "").lower()
            end = _tag_end(text, found.end()) if name else text.find("-->", found.end())
            if end < 0:
                return where, "the tag or comment is never closed"
            at = end + 1
            if found[1]:
                if flaw := self._close(name, where):
                    return flaw
            elif name and name not in _VOID and text[end - 1] != "/":
                self._open.append((name, where))
                self._counts[name] += 1
                if name in _RAW and (at := text.find(f"</{found[2]}", at)) < 0:
                    return where, f"<{name}> is never closed"
        left = next((one for one in self._open if one[0] not in _OPTIONAL), None)
        return (left[1], f"<{left[0]}> is never closed") if left else None

    def _close(self, name: str, where: int) -> tuple[int, str] | None:
        if not self._counts[name]:
            return None if name in ("p", "br") else (where, f"</{name}> closes nothing")
        while (inner := self._open.pop())[0] != name:
            self._counts[inner[0]] -= 1
            if inner[0] not in _OPTIONAL:
                return inner[1], f"<{inner[0]}> is not closed before </{name}>"
        self._counts[name] -= 1
        return None


def _tag_end(text: str, at: int) -> int:
    """Return the position of the `>` that ends a tag; -1 if there is none."""
    while found := _IN_TAG.search(text, at):
        if found[0] == ">":
            return found.start()
        at = text.find(found[0], found.end()) + 1
        if not at:
            return -1
    return -1
