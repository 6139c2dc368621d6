"""docs/reference/http-api.md: every endpoint of the HTTP API, by area."""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus
from itertools import groupby
from typing import Any, Final

import msgspec

from docs.build import DOCS
from stepline.api.endpoint import Endpoint
from stepline.api.endpoint_table import ENDPOINTS
from stepline.api.openapi import codes_of
from stepline.api.router import COMMON, OF_BODIES

PATH: Final = DOCS / "reference/http-api.md"

HEAD: Final = """# Endpoints of the HTTP API

Generated from the table of endpoints; a test compares them. [openapi.json](openapi.json) has all types, and
[the concept](../concepts/http-api.md) explains how they work together. Any endpoint may refuse with {common}; one that takes a
body also with {bodies}. [Codes](errors.md) are stable.
"""


def render() -> str:
    """Return the page."""
    lines = [HEAD.format(common=_codes(COMMON), bodies=_codes(OF_BODIES))]
    for area, rows in groupby(ENDPOINTS, key=lambda row: row.run.__module__.rpartition(".")[2]):
        lines += [
            f"## `{area}`",
            "",
            "| call | query | body | answer | its own codes | |",
            "|---|---|---|---|---|---|",
        ]
        lines += [_row(row) for row in rows]
        lines.append("")
    return "\n".join(lines)


def _row(row: Endpoint) -> str:
    answer = _answer(row)
    summary = (row.run.__doc__ or "").strip().partition("\n")[0]
    own = {status: row.codes.get(status, ()) for status in codes_of(row)}
    call = f"`{row.method} {row.path}`"
    return f"| {call} | {_names(row.query)} | {_names(row.body)} | {answer} | {_codes(own)} | {summary} |"


def _answer(row: Endpoint) -> str:
    if row.streams:
        return "frames; 204, 304" if row.answer else "headers"
    return "302" if row.redirects else _names(row.answer) or "204"


def _names(kind: Any) -> str:
    if not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
        return "" if kind is None else "an object"
    return ", ".join(f"`{name}`" for name in _fields(kind))


def _fields(kind: type[msgspec.Struct]) -> Iterator[str]:
    for one in msgspec.structs.fields(kind):
        yield one.encode_name


def _codes(codes: dict[HTTPStatus, tuple[str, ...]] | Any) -> str:
    return ", ".join(f"{int(status)} `{code}`" for status, names in codes.items() for code in names)
