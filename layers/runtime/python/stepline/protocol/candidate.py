"""The JSON object in an instance's body.

Accepts what models write around it: nothing, a fence with or without its end, prose before and after. Exactly
one object has to be there; it is read strictly here, and `repair.py` is asked about one that does not parse.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final, NamedTuple

from stepline.errors import DecisionError
from stepline.protocol.field import mend_surrogates

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
    """The object of a body, keys in their order, and whether the beginning of another one stands behind it."""

    fields: dict[str, Any]
    trailed: bool = False


def read_object(body: str) -> Found:
    """Return the one JSON object in `body`.

    Raises DecisionError `no_json_candidate`, `multi_decision_in_one_channel` or `json_decode_error`. An object
    that is whole counts though the beginning of another one follows it. One that stands behind an object that
    does not parse never does: it may be part of that one's text.
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
    """Return where the next object begins, -1 if there is none.

    Without `at` the first: behind the first fence, if the body does not begin with it.
    """
    if at < 0:
        fence = None if body.lstrip().startswith("{") else _FENCE.search(body)
        at = fence.end() if fence else 0
    found = _OBJECT.search(body, at)
    return found.start() if found else -1


def decode_at(body: str, at: int) -> tuple[dict[str, Any], int]:
    """Return the object that begins at `at`, and where it ends. Raises DecisionError `json_decode_error`."""
    try:
        value, end = _DECODER.raw_decode(body, at)
    except (ValueError, RecursionError) as error:
        raise DecisionError(_complaint(error, body, at), code="json_decode_error") from error
    if _GOES_ON.match(body, end):
        # a quote that was meant as text has ended a string, and the object with it
        raise DecisionError("a quote stands behind the object's end", code="json_decode_error")
    return value, end


def _complaint(error: Exception, body: str, at: int) -> str:
    """Say what is wrong, with lines and columns counted from the object's beginning."""
    if isinstance(error, json.JSONDecodeError):
        line = body.count("\n", at, error.pos) + 1
        column = error.pos - max(body.rfind("\n", at, error.pos), at - 1)
        return f"{error.msg} at line {line}, column {column}"
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)


def clean(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the object with every string fit to be encoded. Raises DecisionError `json_decode_error` for what JSON cannot carry on."""
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
