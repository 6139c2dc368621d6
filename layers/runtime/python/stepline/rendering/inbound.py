"""Inbound events on the timeline: the paths of an event and its files, and the blocks at these paths.

An event stands below the turn in which it came; one that opens a turn is that turn's prompt, whatever its
kind. Its files stand beside it under names of their own. The log names their bytes, and nothing is copied.
Source: docs/concepts/timeline.md#events-from-outside.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from stepline.model.batch import Batch
from stepline.model.block import Block, Body
from stepline.model.entry import Dropped, Inbound, Opened
from stepline.model.file.attachment import Attachment, attachment_key
from stepline.model.ids import Lane
from stepline.model.path import AttachmentPath, parse_path, physical
from stepline.model.traversal import Names, find_ambiguity
from stepline.rendering.turn_facts import event_path, prompt_path

EVENT_TYPES: Final = {"followup": "user.followup", "steer": "user.steer"}
ATTACHMENT: Final = "user.attachment"
NAME_MAX_BYTES: Final = 160
"""Maximum bytes of a file's name on the timeline, without its number."""
UNNAMED: Final = "file"

_ENDING: Final = re.compile(r"(?<=.)\.[A-Za-z0-9]{1,12}$")
_UNSAFE: Final = re.compile(r'[|<>:"*?\[\]]')
"""Characters that some file systems refuse, or that end a line of facts."""
_EDGE: Final = re.compile(r"(?<![\s.])[\s.]+\Z")
"""Characters that some systems drop from the end of a name."""
_UNSEEN: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


class Place(NamedTuple):
    """The paths of an event: its own, and those of its files, in order."""

    path: str
    files: tuple[str, ...] = ()


def event_place(turn: str, event: Inbound) -> Place:
    """Return the paths of an event that came while `turn` was open, or that waited for it."""
    names = name_files(attachment.filename for attachment in event.attachments)
    files = (
        AttachmentPath(turn=turn, name=name, kind=event.event, message_id=event.message_id) for name in names
    )
    return Place(event_path(turn, event), tuple(map(str, files)))


def prompt_places(turn: str, events: Sequence[Inbound]) -> list[Place]:
    """Return the paths of the events that opened a turn. Their files share a folder and have unique names."""
    names = iter(name_files(attachment.filename for event in events for attachment in event.attachments))
    return [
        Place(
            prompt_path(turn, index, event.message_id),
            tuple(str(AttachmentPath(turn=turn, name=next(names))) for _ in event.attachments),
        )
        for index, event in enumerate(events)
    ]


def name_files(filenames: Iterable[str]) -> list[str]:
    """Return each file's name as a segment of a path: its last part, numbered if that is taken."""
    taken = Names()
    found: list[str] = []
    for filename in filenames:
        name = candidate = _segment(filename)
        number = 1
        while taken.take(candidate) is not None:
            number += 1
            candidate = _numbered(name, number)
        found.append(candidate)
    return found


def whole_text(event: Inbound) -> str:
    """Return the whole content of an event: its text, and its payload as JSON."""
    payload = (
        msgspec.json.format(msgspec.json.encode(event.payload), indent=2).decode() if event.payload else ""
    )
    return "\n\n".join(part for part in (event.text, payload) if part)


def inbound_blocks(
    lane: Lane, turn: str, event: Inbound, place: Place, *, kind: str = "", **about: Any
) -> list[Block]:
    """Return an event as a block of type `kind`, followed by its files; `about` goes into its meta."""
    facts = {
        "payload": event.payload,
        "source": event.source,
        "attachments_count": len(event.attachments),
        **about,
    }
    meta = {
        "event_kind": event.event,
        "message_id": event.message_id,
        "reactive": event.reactive,
        **{name: fact for name, fact in facts.items() if fact},
    }
    said = Block(
        type=kind or EVENT_TYPES.get(event.event, "event.external"),
        author="user",
        ts=event.at,
        turn_id=turn,
        path=place.path,
        mime="application/json" if event.payload and not event.text else "text/markdown",
        text=whole_text(event),
        meta=meta,
    )
    files = zip(event.attachments, place.files, strict=True)
    return [said, *(block for file, path in files for block in _file(lane, turn, event, file, path))]


def fates_of(turn: str, batches: Sequence[Batch]) -> dict[int, dict[str, str]]:
    """Return the settlement of the events that the turn's model has not seen, by their batch numbers."""
    fates: dict[int, dict[str, str]] = {}
    for entry in (entry for batch in batches for entry in batch.entries):
        if isinstance(entry, Dropped):
            fates[entry.n] = {"handed_back": entry.reason}
        elif isinstance(entry, Opened) and entry.turn != turn:
            fates |= {n: {"promoted_to": entry.turn} for n in entry.prompts}
    return fates


def _file(lane: Lane, turn: str, event: Inbound, attachment: Attachment, path: str) -> tuple[Block, Block]:
    """Return the digest of a file, and the file, both at its path."""
    digest = {
        "artifact_path": path,
        "physical_path": physical(parse_path(path)),
        "filename": attachment.filename,
        "mime": attachment.mime,
        "kind": "file",
        "visibility": "external",
        "size_bytes": attachment.size_bytes,
        "ts": event.at,
    }
    about: dict[str, Any] = {"author": "user", "ts": event.at, "turn_id": turn, "path": path}
    text = msgspec.json.encode(digest).decode()
    body = Body(
        key=attachment_key(lane, attachment.sha256),
        sha256=attachment.sha256,
        size_bytes=attachment.size_bytes,
        mime=attachment.mime,
    )
    meta = {
        "name": attachment.filename,
        "event_kind": event.event,
        "message_id": event.message_id,
        "visibility": "external",
    }
    return (
        Block(type=f"{ATTACHMENT}.meta", mime="application/json", text=text, meta=meta, **about),
        Block(type=ATTACHMENT, mime=attachment.mime, body=body, meta=meta, **about),
    )


def _segment(filename: str) -> str:
    """Return the last part of a file's name without characters that a path must not hold."""
    text = unicodedata.normalize("NFC", filename).replace("\\", "/").rstrip("/").rpartition("/")[2]
    seen = "".join("_" if unicodedata.category(char) in _UNSEEN else char for char in text)
    name = unicodedata.normalize("NFC", _UNSAFE.sub("_", seen)).strip()
    stem, ending = _split(name)
    stem = stem.encode()[: NAME_MAX_BYTES - len(ending)].decode(errors="ignore").strip()
    name = f"{stem}{ending}" if stem.strip(".") else f"{UNNAMED}{ending}"
    name = _EDGE.sub("", name)
    return name if find_ambiguity(name) is None else f"_{name}"


def _numbered(name: str, number: int) -> str:
    stem, ending = _split(name)
    return f"{stem}-{number}{ending}"


def _split(name: str) -> tuple[str, str]:
    found = _ENDING.search(name)
    return (name[: found.start()], found[0]) if found else (name, "")
