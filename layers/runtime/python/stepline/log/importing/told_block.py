"""Told blocks: the blocks of a document, read into ours, with the bytes or the hash that they name.

An object's key in a document is never read: bytes are found by their hash, below the conversation that is imported into.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping
from typing import Any, Final

from stepline.log.importing.foreign_value import (
    NAME_CHARS,
    Findings,
    count_of,
    json_of,
    meta_of,
    name_of,
    refuse,
    text_of,
    time_of,
)
from stepline.model.block import Block, Body
from stepline.model.file.attachment import ATTACHMENT_MAX_BYTES, MIME, SHA256
from stepline.model.ids import TURN

BLOCKS_MAX: Final = 20_000
"""The most blocks of an import."""
TYPE_CHARS: Final = 64
ITERATION_MAX: Final = 100_000
PLAIN: Final = "text/markdown"
_UNNAMED: Final = "application/octet-stream"


def read_block(raw: Any, where: str, findings: Findings, *, at: str) -> Block:
    """Return a block of a document, without a key and with its path as it was told; `at` is its time if it has none.

    Raises InputError `import_bad_value`, `import_bad_block`, `import_too_deep`, `import_too_large`.
    """
    if not isinstance(raw, Mapping):
        refuse("import_bad_block", where, "a block is an object")
    kind = name_of(raw.get("type"), findings, most=TYPE_CHARS)
    if not kind:
        refuse("import_bad_block", where, "a block has a `type`")
    meta = meta_of(raw.get("meta"), where, findings)
    if isinstance(
        raw.get("payload"), dict
    ):  # the existing system keeps the whole parameters of a call beside its text
        meta.setdefault("payload", json_of(raw["payload"], f"{where}.payload", findings))
    if raw.get("hidden"):
        findings.change("hidden")
    turn = raw.get("turn_id") or meta.get("turn_id")
    call = raw.get("call_id") or meta.get("tool_call_id")
    iteration = raw.get("iteration") if raw.get("iteration") is not None else meta.get("iteration")
    return Block(
        type=kind,
        author=name_of(raw.get("author"), findings, most=TYPE_CHARS) or "react",
        ts=time_of(raw.get("ts"), findings, default=at),
        turn_id=turn if isinstance(turn, str) and TURN.fullmatch(turn) else "",
        path=text_of(raw.get("path"), where, most=4_096).removeprefix("conv:"),
        mime=_mime(raw.get("mime"), PLAIN),
        text=text_of(raw.get("text"), where),
        body=_body(raw, where, findings),
        call_id=text_of(call, where, most=TYPE_CHARS * 4) if isinstance(call, str) else "",
        tool_id=name_of(raw.get("tool_id") or meta.get("tool_id"), findings, most=TYPE_CHARS * 2),
        iteration=count_of(iteration, most=ITERATION_MAX),
        meta=meta,
    )


def inline_bytes(raw: Any) -> bytes | None:
    """Return the bytes that stand in a block as base64; None if there are none. Raises InputError `import_bad_base64`."""
    told = raw.get("base64") if isinstance(raw, Mapping) else None
    if not isinstance(told, str) or not told:
        return None
    try:
        return base64.b64decode(told, validate=True)
    except (binascii.Error, ValueError) as error:
        refuse("import_bad_base64", "a block", str(error)[:100])


def _body(raw: Mapping[str, Any], where: str, findings: Findings) -> Body | None:
    body = raw.get("body")
    if body is not None and not isinstance(body, Mapping):
        refuse("import_bad_value", where, "`body` is an object")
    if body:
        sha, size, mime = body.get("sha256"), body.get("size_bytes"), body.get("mime")
        if not isinstance(sha, str) or not SHA256.fullmatch(sha):
            refuse("import_bad_hash", where, "a body is named by the 64 hex digits of its SHA-256")
        if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= ATTACHMENT_MAX_BYTES:
            refuse("import_bad_value", where, f"a body has at most {ATTACHMENT_MAX_BYTES} bytes")
        return Body(key="", sha256=sha, size_bytes=size, mime=_mime(mime, _UNNAMED))
    data = inline_bytes(raw)
    if data is None:
        return None
    findings.change("base64")
    digest = hashlib.sha256(data).hexdigest()
    return Body(key="", sha256=digest, size_bytes=len(data), mime=_mime(raw.get("mime"), _UNNAMED))


def _mime(value: Any, default: str) -> str:
    """Return a type, perhaps with parameters; the default for what is none."""
    if (
        not isinstance(value, str)
        or len(value) > NAME_CHARS
        or not value.isascii()
        or not value.isprintable()
    ):
        return default
    return value if MIME.fullmatch(value.partition(";")[0].strip()) else default
