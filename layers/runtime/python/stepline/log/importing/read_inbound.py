"""Events from outside, read back from their blocks: an event, and two blocks for each of its files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec
from msgspec.structs import replace

from stepline.errors import InputError
from stepline.log.importing.foreign_value import (
    NAME_CHARS,
    STORED_MAX,
    Findings,
    count_of,
    json_of,
    message_of,
    name_of,
    object_of,
    source_of,
)
from stepline.log.importing.import_state import ImportState
from stepline.model.block import Block
from stepline.model.entry import Inbound
from stepline.model.file.attachment import (
    ATTACHMENTS_MAX,
    FILENAME_MAX_BYTES,
    Attachment,
    check_attachment,
)
from stepline.model.file.charset import charset_of, with_charset
from stepline.model.wire.live_event import FOLLOWUP, KIND, PROMPT, REACTIVE_KINDS, STEER, STOP
from stepline.rendering.turn_facts import ATTACHMENT, EVENT_TYPES

_FIXED: Final = {PROMPT: True, FOLLOWUP: True, STEER: False}
_KIND_OF_TYPE: Final = {kind: event for event, kind in EVENT_TYPES.items()} | {"user.prompt": PROMPT}


class ParsedInbound(NamedTuple):
    """An event, the number of blocks of it and its files, and blocks about files whose bytes are missing."""

    event: Inbound
    end: int
    missing: tuple[Block, ...]


def read_inbound(
    import_state: ImportState, blocks: Sequence[Block], turn: str, *, named: bool = True
) -> ParsedInbound:
    """Return the event at the beginning of these blocks.

    Files have the names that their sender gave them, or, unless `named`, the names in their paths: if one file
    is missing, the others would get other numbers.
    """
    block, findings = blocks[0], import_state.findings
    kind = read_kind(block)
    text, payload = _content(block, findings)
    files, missing = list[Attachment](), list[Block]()
    end = 1
    while end + 1 < len(blocks) and (file := _attachment(blocks[end], blocks[end + 1], findings)) is not None:
        body = blocks[end + 1].body
        if body is not None and not import_state.has(body):
            missing.append(import_state.without_bytes(blocks[end], body))
        else:
            whole = replace(file, size_bytes=import_state.files[file.sha256])
            files.append(whole if named else replace(whole, filename=blocks[end].path.rpartition("/")[2]))
        end += 2
    if len(files) > ATTACHMENTS_MAX:
        findings.leave_out("attachments", len(files) - ATTACHMENTS_MAX)
        files = files[:ATTACHMENTS_MAX]
    reactive_flag = block.meta.get("reactive")
    reactive = _FIXED.get(kind, reactive_flag if isinstance(reactive_flag, bool) else kind in REACTIVE_KINDS)
    seed = f"{turn}/{block.path}/{block.ts}"
    event = Inbound(
        message_id=message_of(read_message(block), seed, findings),
        event=kind,
        text=text,
        user=import_state.user,
        at=block.ts,
        reactive=reactive,
        payload=payload,
        attachments=tuple(files),
        source=source_of(block.meta.get("source")),
    )
    return ParsedInbound(event, end, tuple(missing))


def read_kind(block: Block) -> str:
    """Return the kind of an event that its block names, or else that of the block's type."""
    default = _KIND_OF_TYPE.get(block.type, "event")
    return kind_of_event(block.meta.get("event_kind") or _kind_in_path(block.path), default)


def kind_of_event(value: object, default: str = "event") -> str:
    """Return the kind of an event in its stored form, or the default for an invalid one."""
    if value == STOP:
        return STEER
    return value if isinstance(value, str) and KIND.fullmatch(value) else default


def read_message(block: Block) -> object:
    """Return the message's id in its block, or else the end of its path."""
    named = block.meta.get("message_id") or block.meta.get("event_id")
    if named is None:
        _, _, rest = block.path.partition(".")
        named = rest.rpartition(".")[2] if rest.startswith(("external.", "user.prompt.")) else None
    return named


def _kind_in_path(path: str) -> str:
    _, external, rest = path.partition(".external.")
    return rest.partition(".")[0] if external else ""


def _content(block: Block, findings: Findings) -> tuple[str, dict[str, object]]:
    """Return the text and the payload of an event, whose block shows both."""
    payload = block.meta.get("payload")
    if not isinstance(payload, dict) or not payload:
        return block.text, {}
    payload = json_of(payload, block.path[:80], findings, largest=STORED_MAX)
    shown = msgspec.json.format(msgspec.json.encode(payload), indent=2).decode()
    if block.text == shown:
        return "", payload
    if block.text.endswith(f"\n\n{shown}"):
        return block.text[: -len(shown) - 2], payload
    findings.change("payload")
    return block.text, {}


def _attachment(facts: Block, file: Block, findings: Findings) -> Attachment | None:
    """Return the file that two blocks describe; None if they describe none."""
    if facts.type != f"{ATTACHMENT}.meta" or file.type != ATTACHMENT or file.body is None:
        return None
    if facts.path != file.path:
        return None
    digest = object_of(facts.text) or {}
    given = facts.meta.get("name") or digest.get("filename") or digest.get("name")
    filename = (
        name_of(given, findings, most=NAME_CHARS) or file.path.rpartition("/")[2][:NAME_CHARS] or "file"
    )
    filename = filename.encode()[:FILENAME_MAX_BYTES].decode(errors="ignore")
    mime = with_charset(file.body.mime.partition(";")[0].strip(), charset_of(file.body.mime))
    attachment = Attachment(
        filename=filename, mime=mime, size_bytes=count_of(file.body.size_bytes), sha256=file.body.sha256
    )
    try:
        check_attachment(attachment)
    except InputError:
        return None
    return attachment
