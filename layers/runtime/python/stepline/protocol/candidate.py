"""The JSON object in an instance's body.

Accepts what models write around it: nothing, a fence with or without its end, prose before and after. Exactly
one object has to be there. One that does not parse is read once more without its trailing commas; nothing
else is mended, because a guess would run.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

from stepline.errors import DecisionError
from stepline.protocol.field import mend_surrogates

_FENCE = re.compile(r"^[ \t]*```", re.MULTILINE)
_OBJECT = re.compile(r'\{(?=\s*["}])')
_TRAILING_COMMA = re.compile(r'("(?:[^"\\]|\\.)*+")|,(?=\s*[}\]])', re.DOTALL)
_DEPTH_MAX = 64
_COUNT_MAX = 9  # nobody needs to know how many more there are


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _first_wins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for key, value in pairs:
        made.setdefault(key, value)
    return made


_DECODER = json.JSONDecoder(strict=False, parse_constant=_no_constant, object_pairs_hook=_first_wins)


def read_object(body: str) -> dict[str, Any]:
    """Return the one JSON object in `body`, keys in their order.

    Raises DecisionError `no_json_candidate`, `expected_single_json_candidate` or `json_decode_error`.
    """
    found = _OBJECT.search(body, _start(body))
    if found is None:
        raise DecisionError("the channel holds no JSON object", code="no_json_candidate")
    value, rest = _decode(body[found.start() :])
    count = 1
    while count < _COUNT_MAX and (more := _OBJECT.search(rest)):
        count += 1
        try:
            rest = _decode(rest[more.start() :])[1]
        except DecisionError:
            break
    if count > 1:
        raise DecisionError(
            "the channel holds more than one JSON object", code="expected_single_json_candidate", count=count
        )
    mended: dict[str, Any] = _mended(value, _DEPTH_MAX)
    return mended


def _start(body: str) -> int:
    """Return where to look for the object: behind the first fence, if the body does not begin with it."""
    if body.lstrip().startswith("{"):
        return 0
    fence = _FENCE.search(body)
    return fence.end() if fence else 0


def _decode(text: str) -> tuple[dict[str, Any], str]:
    """Return the object that `text` begins with and the text after it."""
    try:
        value, end = _DECODER.raw_decode(text)
    except (ValueError, RecursionError) as strict:
        text = _TRAILING_COMMA.sub(r"\1", text)
        try:
            value, end = _DECODER.raw_decode(text)
        except (ValueError, RecursionError):
            # the first complaint is about what the model wrote
            raise DecisionError(_complaint(strict), code="json_decode_error") from strict
    return value, text[end:]


def _complaint(error: Exception) -> str:
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at line {error.lineno}, column {error.colno}"
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)


def _mended(value: Any, depth_left: int) -> Any:
    """Return `value` with every string fit to be encoded. Raises DecisionError for what JSON cannot carry on."""
    match value:
        case str():
            return value if value.isascii() else mend_surrogates(value)
        case float() if not math.isfinite(value):
            raise DecisionError("a number is too large", code="json_decode_error")
        case list() | dict() if not depth_left:
            raise DecisionError("nested too deeply", code="json_decode_error")
        case list():
            return [_mended(one, depth_left - 1) for one in value]
        case dict():
            return {_mended(key, 0): _mended(one, depth_left - 1) for key, one in value.items()}
        case _:
            return value
