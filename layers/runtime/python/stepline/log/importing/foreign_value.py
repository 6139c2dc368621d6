"""Foreign values: texts, numbers, times, names and JSON of a document, converted to a form that is safe to store and read.

A bad value is either refused, with its position, or changed and counted. Nothing here decides how a value is used.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

import msgspec

from stepline.errors import InputError, PathError
from stepline.model.ids import CALL, SEGMENT, TURN, read_utc
from stepline.model.path import PATH_FAMILIES, FilePath, is_namespace, parse_path

TEXT_CHARS: Final = 2_000_000
"""The longest text of a block."""
NAME_CHARS: Final = 256
DEPTH_MAX: Final = 64
"""The most levels of a value within a value."""
VALUES_MAX: Final = 200_000
"""The most values within one value."""
INT_MAX: Final = 10**200
"""The largest number in JSON."""
STORED_MAX: Final = 2**63
"""The largest number that every encoding supports, which limits the numbers of a segment."""
COUNT_MAX: Final = 10**12
"""The largest count, size or number of milliseconds."""
BEGIN: Final = "1970-01-01T00:00:00.000Z"

_SURROGATES: Final = re.compile("[\ud800-\udfff]")
_HIDDEN: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_OWN: Final = re.compile(rf"[a-z]{{2}}:({TURN.pattern})\.(.+)", re.DOTALL)
_ADDRESS: Final = re.compile(r"[a-z][a-z0-9_-]{1,31}:.+", re.DOTALL)
_EXTENT: Final = re.compile(r"[0-9a-z ]{1,40}")
_LINES: Final = re.compile(r"[0-9,/ \[\]-]{0,200}")
PATH_CHARS: Final = 2_048


@dataclass
class Findings:
    """The counts so far, by kind or reason, of what was kept, changed and left out."""

    kept: Counter[str] = field(default_factory=Counter)
    changed: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)

    def change(self, reason: str) -> None:
        """Count a change."""
        self.changed[reason] += 1

    def leave_out(self, reason: str, count: int = 1) -> None:
        """Count values that are left out."""
        self.left_out[reason] += count


def refuse_import(code: str, where: str, why: str) -> NoReturn:
    """Refuse an import with an error that names the document and the position."""
    raise InputError(f"{where[:200]}: {why}", code=code)


def text_of(value: Any, where: str, *, most: int = TEXT_CHARS) -> str:
    """Return a text; None is an empty one. Raises InputError `import_bad_value`, `import_too_large`."""
    if value is None:
        return ""
    if not isinstance(value, str):
        refuse_import("import_bad_value", where, f"a text is wanted, not {type(value).__name__}")
    if len(value) > most:
        refuse_import("import_too_large", where, f"a text has at most {most} characters")
    return value if value.isascii() else _SURROGATES.sub("\ufffd", value)


def source_of(value: Any) -> str:
    """Return the name of a service, cut to the length of a name; empty for a value that is not a text."""
    return text_of(value[:NAME_CHARS], "source") if isinstance(value, str) else ""


def name_of(value: Any, findings: Findings, *, most: int = NAME_CHARS) -> str:
    """Return a short text on one line; empty for a value that is not a text."""
    if not isinstance(value, str):
        return ""
    clean = _HIDDEN.sub("_", _SURROGATES.sub("\ufffd", value[:most]))
    if clean != value:
        findings.change("name")
    return clean


def count_of(value: Any, *, most: int = COUNT_MAX) -> int:
    """Return a count, or 0 for a value that is not a count."""
    return min(value, most) if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def is_time(text: str) -> bool:
    """Return True for a time of ISO 8601 on one line."""
    if len(text) > NAME_CHARS or _HIDDEN.search(text):
        return False
    try:
        return bool(read_utc(text, "ts"))
    except InputError:
        return False


def time_of(value: Any, findings: Findings, *, default: str) -> str:
    """Return a time in the stored format, or the default for a value that is not a time."""
    if isinstance(value, str) and 0 < len(value) <= NAME_CHARS:
        try:
            normal = read_utc(value, "ts")
        except InputError:
            normal = ""
        if normal == value:
            return value
        if normal:
            findings.change("time_spelled")
            return normal
    elif isinstance(value, float | int) and not isinstance(value, bool):
        normal = _from_epoch(value)
        if normal:
            findings.change("time_spelled")
            return normal
    findings.change("time")
    return default


def turn_of(value: Any, where: str) -> str:
    """Return a turn's id. Raises InputError `import_bad_turn`."""
    if not isinstance(value, str) or not TURN.fullmatch(value):
        refuse_import("import_bad_turn", where, f"a turn's id matches {TURN.pattern}")
    return value


def call_of(value: Any, turn: str, findings: Findings) -> str:
    """Return a call's id; an id of another form is replaced by a hash of it."""
    if isinstance(value, str) and CALL.fullmatch(value):
        return value
    findings.change("call_id")
    return f"tc_{_hash(f'{turn}/{value!r:.200}')[:12]}"


def message_of(value: Any, seed: str, findings: Findings) -> str:
    """Return a message's id; an id of another form is replaced by a hash of `seed`."""
    if isinstance(value, str) and SEGMENT.fullmatch(value):
        return value
    if value is not None:
        findings.change("message_id")
    return f"m{_hash(seed)[:16]}"


def path_of(value: Any, turn: str, findings: Findings) -> str:
    """Return a block's path if it is valid in this turn, otherwise an empty one."""
    if not value:
        return ""
    if isinstance(value, str) and len(value) <= PATH_CHARS and _is_path(value, turn):
        return value
    findings.change("path")
    return ""


def json_of(value: Any, where: str, findings: Findings, *, largest: int = INT_MAX) -> Any:
    """Return JSON without surrogates and numbers that are too large.

    Raises InputError `import_too_deep`, `import_too_large`.
    """
    left = VALUES_MAX

    def clean(one: Any, depth: int) -> Any:
        nonlocal left
        left -= 1
        if left < 0:
            refuse_import("import_too_large", where, f"a value has at most {VALUES_MAX} values")
        if depth > DEPTH_MAX:
            refuse_import("import_too_deep", where, f"a value has at most {DEPTH_MAX} levels")
        match one:
            case str():
                return text_of(one, where)
            case bool() | None:
                return one
            case int():
                return one if -largest <= one <= largest else _changed(findings, "number", hex(one))
            case float():
                return one if abs(one) <= 1.8e308 and one == one else _changed(findings, "number", None)  # noqa: PLR0124 - NaN
            case dict():
                return {text_of(str(name), where): clean(item, depth + 1) for name, item in one.items()}
            case list() | tuple():
                return [clean(item, depth + 1) for item in one]
            case _:
                refuse_import("import_bad_value", where, f"JSON is wanted, not {type(one).__name__}")

    return clean(value, 0)


def object_of(text: str) -> dict[str, Any] | None:
    """Return the JSON object in a text; None for any other text."""
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def meta_of(value: Any, where: str, findings: Findings) -> dict[str, Any]:
    """Return a block's metadata without the keys that code reads and that have an unexpected form."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        refuse_import("import_bad_value", where, "`meta` is an object")
    meta: dict[str, Any] = json_of(value, f"{where}.meta", findings)
    for name, fits in _READ.items():
        if name in meta and not fits(meta[name]):
            findings.change("meta")
            del meta[name]
    return meta


def _changed(findings: Findings, reason: str, value: Any) -> Any:
    findings.change(reason)
    return value


def _from_epoch(value: float) -> str:
    from datetime import UTC, datetime  # noqa: PLC0415 - few documents have a time as a number

    from stepline.model.ids import utc  # noqa: PLC0415

    try:
        return utc(datetime.fromtimestamp(value / 1000 if value > 1e11 else value, UTC))
    except (ValueError, OverflowError, OSError):
        return ""


def _is_path(path: str, turn: str) -> bool:
    if own := _OWN.fullmatch(path):
        if own[1] != turn:
            return False
    elif not _ADDRESS.fullmatch(path):
        return False
    if not path.startswith("fi:") and own:
        return not _HIDDEN.search(path) and "/../" not in f"{path}/"
    try:
        found = parse_path(path)
    except PathError:
        return False
    return str(found) == path and (
        not path.startswith("fi:") or not isinstance(found, FilePath) or found.turn == turn
    )


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) and len(one) <= PATH_CHARS for one in value)


def _numbers(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, int) for one in value)


def _media(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("extent"), str)
        and all(_EXTENT.fullmatch(str(value[name])) for name in ("extent", "original") if name in value)
        and isinstance(value.get("tokens"), int)
        and not isinstance(value["tokens"], bool)
        and 0 <= value["tokens"] <= 200_000
    )


def _range(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    counts = [value.get(name, 0) for name in ("offset_text_symbols", "text_symbols")]
    lines = value.get("lines", "")
    is_valid = isinstance(lines, str) and _LINES.fullmatch(lines) is not None
    return is_valid and all(isinstance(one, int) and 0 <= one <= COUNT_MAX for one in counts)


def is_address(value: Any) -> bool:
    """Return True for a path that is valid in any conversation, or in a bundle's namespace."""
    if not isinstance(value, str) or len(value) > PATH_CHARS or _HIDDEN.search(value):
        return False
    family = value.partition(":")[0]
    if family not in PATH_FAMILIES:
        return is_namespace(family)
    try:
        return bool(parse_path(value))
    except PathError:
        return False


def _name(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= PATH_CHARS


_READ: Final[dict[str, Callable[[Any], bool]]] = {
    "pulled": _texts,
    "deleted": _texts,
    "media": _media,
    "read_range": _range,
    "source_path": is_address,
    "source_sha256": _name,
    "physical_path": _name,
    "visibility": _name,
    "sources_used": _numbers,
    "covered_turn_ids": _texts,
    "name": _name,
    "kind": _name,
}
"""Metadata keys that code reads, each with a check of its form."""
