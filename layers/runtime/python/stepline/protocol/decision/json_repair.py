"""The JSON object in an instance's body, parsed strictly, and otherwise repaired as `lenient_json` reads it.

Around the object, models write nothing, a fence with or without its end, or prose before and after; all are
accepted. There must be exactly one object. An object that only a repair can read, because its first key is in other
quotes or follows a comment, counts if the body begins with it, or holds no other.

The stream and the final validation call the same function, so both see the same object.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, NamedTuple

from stepline.errors import DecisionError
from stepline.protocol.decision.lenient_json import (
    COMMENT,
    JSON_DEPTH_MAX,
    QUOTES,
    BeyondRepairError,
    LenientReader,
)
from stepline.protocol.parser.field import mend_surrogates

_FENCE = re.compile(r"^[ \t]*```[A-Za-z0-9]*", re.MULTILINE)
_LEAD = re.compile(r"[\s\ufeff\[]*")
_OBJECT = re.compile(r'\{(?=\s*["}])')
_KEYS = "|".join(quote.key.pattern for quote in dict.fromkeys(QUOTES.values()))
_LENIENT_OBJECT = re.compile(rf"\{{(?=\s*(?:(?:{COMMENT.pattern})\s*){{0,4}}(?:{_KEYS}))")
_GOES_ON = re.compile(r'[\s,}\]]*"')


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _first_wins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key, value in pairs:
        made.setdefault(key, value)
    return made


_DECODER = json.JSONDecoder(strict=False, parse_constant=_no_constant, object_pairs_hook=_first_wins)


class ParsedObject(NamedTuple):
    """The object of a body, keys in order, and whether the start of another object follows it."""

    fields: dict[str, Any]
    trailed: bool = False


def read_object(body: str) -> ParsedObject:
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
        return ParsedObject(_clean(fields))
    try:
        decode_at(body, more)
    except DecisionError:
        return ParsedObject(_clean(fields), trailed=True)
    raise DecisionError("the channel holds more than one JSON object", code="multi_decision_in_one_channel")


def find_object(body: str, at: int = -1) -> int:
    """Return the start of the next object, -1 if there is none.

    Without `at`, of the first one: after the first fence, unless the body begins with an object.
    """
    if at >= 0:
        found = _OBJECT.search(body, at)
        return found.start() if found else -1
    fence = None if body.lstrip().startswith("{") else _FENCE.search(body)
    at = fence.end() if fence else 0
    plain = _OBJECT.search(body, at)
    lenient = _LENIENT_OBJECT.search(body, at, plain.start() if plain else len(body))
    found = lenient if lenient and (not plain or _LEAD.fullmatch(body, at, lenient.start())) else plain
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


def _clean(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the object with every string encodable.

    Raises DecisionError `json_decode_error` for values JSON cannot carry.
    """
    cleaned: dict[str, Any] = _cleaned(fields, JSON_DEPTH_MAX)
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


class Repaired(NamedTuple):
    """The object, and whether the repair was a guess: its meaning was not certain."""

    fields: dict[str, Any]
    guessed: bool


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
        reader = LenientReader(body, at)
        try:
            fields = reader.read()
        except BeyondRepairError:
            return None
        end, guessed = reader.at, reader.guessed
    more = find_object(body, end)
    if more >= 0 and _parses(body, more):
        return None
    try:
        return Repaired(_clean(fields), guessed)
    except DecisionError:
        return None


def _parses(body: str, at: int) -> bool:
    try:
        decode_at(body, at)
    except DecisionError:
        return False
    return True
