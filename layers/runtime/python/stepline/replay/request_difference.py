"""The first difference between two requests, named by its part. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Final, NamedTuple

from stepline.model.base import Value
from stepline.model.visible_text import shorten_line
from stepline.ports.model import Content, ModelRequest, Part

EXCERPT_CHARS: Final = 80
BEFORE_CHARS: Final = 20


class RequestDifference(Value):
    """The first difference: its part, the character where it begins, and both texts from shortly before it.

    `part` is `system`, `timeline`, `file`, `sources`, `announce`, `journal`, `limits` or `marks`; a text of several of
    a kind has its number.
    """

    part: str
    at_char: int = 0
    recorded: str = ""
    replayed: str = ""

    @property
    def sentence(self) -> str:
        """The difference as a clause of a sentence."""
        where = f"{self.part} at character {self.at_char}" if self.at_char else self.part
        return f"{where}: recorded {self.recorded!r}, now {self.replayed!r}"


class RequestText(NamedTuple):
    """One part of a request as a text: its role, its content, and whether a cache mark follows."""

    role: str
    text: str
    mark: bool = False


def texts_of(request: ModelRequest, roles: Sequence[str] = ()) -> Iterator[RequestText]:
    """Yield the parts of a request; `roles` name them, first those of the system part."""
    parts = (*request.system, *request.content)
    named = roles or (*["system"] * len(request.system), *map(_role, request.content))
    for part, role in zip_longest(parts, named[: len(parts)], fillvalue="text"):
        if isinstance(part, Part):
            yield RequestText(role, part.text, part.cache)
        elif not isinstance(part, str):
            yield RequestText(role, f"{part.path} {part.body.sha256} {part.body.mime}")


def _role(content: Content) -> str:
    return "text" if isinstance(content, Part) else "file"


def limits_of(request: ModelRequest) -> str:
    """Return the limits of a request's answer, as a text."""
    return f"max_tokens {request.max_tokens}, temperature {request.temperature}, declined {request.declined}"


def first_difference(
    recorded: Sequence[RequestText], replayed: Sequence[RequestText], limits: tuple[str, str] = ("", "")
) -> RequestDifference | None:
    """Return the first difference between two requests; None if they are equal. `limits` are those of their answers."""
    nothing = RequestText("", "")
    for at, (old, new) in enumerate(zip_longest(recorded, replayed, fillvalue=nothing)):
        if old.text != new.text:
            return _in_text(
                _name(at, recorded or replayed) if old.role else f"text {at + 1}", old.text, new.text
            )
    if limits[0] != limits[1]:
        return RequestDifference(part="limits", recorded=limits[0], replayed=limits[1])
    for at, (old, new) in enumerate(zip(recorded, replayed, strict=True)):
        if old.mark != new.mark:
            part = f"the mark after {_name(at, recorded)}"
            return RequestDifference(part=part, recorded=_mark(old.mark), replayed=_mark(new.mark))
    return None


def _name(at: int, texts: Sequence[RequestText]) -> str:
    """Return the name of a part; one of several of its role has a number."""
    role = texts[at].role
    of_role = [number for number, one in enumerate(texts) if one.role == role]
    return role if len(of_role) == 1 else f"{role} {of_role.index(at) + 1}"


def _in_text(part: str, old: str, new: str) -> RequestDifference:
    pairs = enumerate(zip(old, new, strict=False))
    at = next((at for at, (a, b) in pairs if a != b), min(len(old), len(new)))
    begin = max(0, at - BEFORE_CHARS)
    excerpts = [shorten_line(text[begin : begin + 4 * EXCERPT_CHARS], EXCERPT_CHARS) for text in (old, new)]
    return RequestDifference(part=part, at_char=at, recorded=excerpts[0], replayed=excerpts[1])


def _mark(has: bool) -> str:
    return "a mark" if has else "no mark"
