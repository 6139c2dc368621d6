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
    """An event, how many blocks it and its files take, and blocks about files whose bytes are not there."""

    event: Inbound
    end: int
    missing: tuple[Block, ...]


def read_inbound(
    telling: ImportState, blocks: Sequence[Block], turn: str, *, named: bool = True
) -> ParsedInbound:
    """Return the event at the beginning of these blocks.

    Files have the names that their sender gave them, or, unless `named`, those that they have in paths: with one of
    them missing, the others would be numbered otherwise.
    """
    said, findings = blocks[0], telling.findings
    kind = read_kind(said)
    text, payload = _content(said, findings)
    files, missing = list[Attachment](), list[Block]()
    end = 1
    while end + 1 < len(blocks) and (file := _attachment(blocks[end], blocks[end + 1], findings)) is not None:
        body = blocks[end + 1].body
        if body is not None and not telling.has(body):
            missing.append(telling.without_bytes(blocks[end], body))
        else:
            whole = replace(file, size_bytes=telling.files[file.sha256])
            files.append(whole if named else replace(whole, filename=blocks[end].path.rpartition("/")[2]))
        end += 2
    if len(files) > ATTACHMENTS_MAX:
        findings.leave_out("attachments", len(files) - ATTACHMENTS_MAX)
        files = files[:ATTACHMENTS_MAX]
    told = said.meta.get("reactive")
    reactive = _FIXED.get(kind, told if isinstance(told, bool) else kind in REACTIVE_KINDS)
    seed = f"{turn}/{said.path}/{said.ts}"
    event = Inbound(
        message_id=message_of(read_message(said), seed, findings),
        event=kind,
        text=text,
        user=telling.user,
        at=said.ts,
        reactive=reactive,
        payload=payload,
        attachments=tuple(files),
        source=source_of(said.meta.get("source")),
    )
    return ParsedInbound(event, end, tuple(missing))


def read_kind(said: Block) -> str:
    """Return the kind of an event by what its block says, or else by the block's type."""
    default = _KIND_OF_TYPE.get(said.type, "event")
    return kind_of_event(said.meta.get("event_kind") or _kind_in_path(said.path), default)


def kind_of_event(told: object, default: str = "event") -> str:
    """Return the kind of an event as it is stored; the default for what can be none."""
    if told == STOP:
        return STEER
    return told if isinstance(told, str) and KIND.fullmatch(told) else default


def read_message(said: Block) -> object:
    """Return the message's id as its block says it, or else the end of its path."""
    named = said.meta.get("message_id") or said.meta.get("event_id")
    if named is None:
        _, _, rest = said.path.partition(".")
        named = rest.rpartition(".")[2] if rest.startswith(("external.", "user.prompt.")) else None
    return named


def _kind_in_path(path: str) -> str:
    _, external, rest = path.partition(".external.")
    return rest.partition(".")[0] if external else ""


def _content(said: Block, findings: Findings) -> tuple[str, dict[str, object]]:
    """Return the text and the payload of an event, whose block shows both."""
    payload = said.meta.get("payload")
    if not isinstance(payload, dict) or not payload:
        return said.text, {}
    payload = json_of(payload, said.path[:80], findings, largest=STORED_MAX)
    shown = msgspec.json.format(msgspec.json.encode(payload), indent=2).decode()
    if said.text == shown:
        return "", payload
    if said.text.endswith(f"\n\n{shown}"):
        return said.text[: -len(shown) - 2], payload
    findings.change("payload")
    return said.text, {}


def _attachment(facts: Block, file: Block, findings: Findings) -> Attachment | None:
    """Return the file that two blocks tell of; None if they tell of none."""
    if facts.type != f"{ATTACHMENT}.meta" or file.type != ATTACHMENT or file.body is None:
        return None
    if facts.path != file.path:
        return None
    digest = object_of(facts.text) or {}
    told = facts.meta.get("name") or digest.get("filename") or digest.get("name")
    filename = name_of(told, findings, most=NAME_CHARS) or file.path.rpartition("/")[2][:NAME_CHARS] or "file"
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
