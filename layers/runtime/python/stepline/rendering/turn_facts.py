"""Turns, events, requests and feedback as facts of the log, their logical paths, and the blocks of events there.

The path of an event is below the turn in which it arrived; an event that opens a turn is that turn's prompt, of any
kind. Its files are next to it under their own names. The log refers to their bytes; nothing is copied.
Source: docs/concepts/timeline.md#paths, and #events-from-outside.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from stepline.model.base import Row, Value
from stepline.model.batch import Batch
from stepline.model.block import Block, Body
from stepline.model.entry import Decided, Dropped, Feedback, Inbound, Opened, SteeredEntry
from stepline.model.file.attachment import Attachment
from stepline.model.ids import Lane
from stepline.model.path import AttachmentPath, parse_path, physical
from stepline.model.traversal import Names, find_ambiguity
from stepline.model.usage import Usage
from stepline.model.version import LAYOUTS


class Turn(Row):
    """A turn. `opened`, `closed` and `prompts`, which began it, are batch numbers; `closed` is 0 while it runs.

    `home` is the conversation in which it ended, if that is an origin of this one; "" for this one.
    """

    id: str
    started_at: str
    opened: int
    prompts: tuple[int, ...]
    closed: int = 0
    outcome: str = ""
    reason: str = ""
    home: str = ""


class AdmittedEvent(Value):
    """An inbound event and the batch that admitted it. `path` is empty while it waits for a turn to open."""

    n: int
    inbound: Inbound
    path: str = ""


class RequestFacts(Value):
    """The newest request: when it was sent, what the provider counted, and its facts.

    `tokens` is the whole request, `cached` the part of it that a cache holds from then on; both are 0 without
    a count by the provider. `size` are the bytes of the timeline in it, `system` is the digest of its system
    part, and `overhead_bytes` are the bytes of everything but the timeline; 0 if they were not recorded. The cache
    lives `lives_s` after its last use, according to the tokens that the provider counted as written.
    """

    at: str = ""
    size: int = 0
    tokens: int = 0
    cached: int = 0
    system: str = ""
    model: str = ""
    overhead_bytes: int = 0
    lives_s: float = 300.0

    def idle_s(self, at: str) -> float:
        """Return the seconds from this request to a time of the log; 0 if there was no request."""
        return (
            (datetime.fromisoformat(at) - datetime.fromisoformat(self.at)).total_seconds() if self.at else 0.0
        )

    def after(self, entry: Decided, at: str, *, size: int, rewritten: bool = False) -> RequestFacts:
        """Return the newest request once a decision is recorded at `at`; `size` bytes of timeline were sent.

        A call that was interrupted before the provider counted it was sent nevertheless: the known values stay, but the
        cached tokens stay only if the call has the same prefix as the previous one and was not `rewritten`. For a request
        in the layout `journal`, a cache serves the promised tokens, and its count says nothing about the timeline.
        """
        usage, sent = entry.usage, entry.sent
        counted = usage is not None and not usage.estimated
        if entry.interrupted and not (counted and usage and usage.prompt_tokens):
            system, model = entry.system or self.system, entry.model or self.model
            alike = not rewritten and (system, model) == (self.system, self.model)
            began = entry.started_at or at
            return replace(self, at=began, system=system, model=model, cached=self.cached if alike else 0)
        cached = usage.prompt_tokens - usage.input_tokens if counted and usage else 0
        shown = sent is None or LAYOUTS[sent.layout].shows_timeline
        if sent and not shown:
            cached = min(cached, sent.promised_tokens)
        return RequestFacts(
            at=entry.started_at or at,
            size=size,
            tokens=usage.prompt_tokens if counted and usage and shown else 0,
            cached=cached,
            system=entry.system or self.system,
            model=entry.model,
            overhead_bytes=entry.overhead_bytes,
            lives_s=self._life_s(usage),
        )

    def _life_s(self, usage: Usage | None) -> float:
        if usage is None or not (usage.cache_write_1h_tokens or usage.cache_write_5m_tokens):
            return self.lives_s
        return 3600.0 if usage.cache_write_1h_tokens else 300.0


NEVER_ASKED = RequestFacts()


def prompt_path(turn: str, index: int, message_id: str) -> str:
    """Return the path of the `index`-th message that opened a turn; the first has the plain path."""
    plain = f"ar:{turn}.user.prompt"
    return f"{plain}.{message_id}" if index else plain


def event_path(turn: str, event: Inbound) -> str:
    """Return the path of an event that arrived while `turn` was open, or that waited for it."""
    return f"ar:{turn}.external.{event.event}.{event.message_id}"


def steered_path(entry: SteeredEntry) -> str:
    """Return the path of the message about an applied steer."""
    return f"ar:{entry.turn}.system.message.steered_{entry.n}"


def steer_path(entry: SteeredEntry) -> str:
    """Return the path of the applied steer."""
    return f"ar:{entry.turn}.external.steer.{entry.message_id}"


def feedback_path(turn: str) -> str:
    """Return the logical path of a turn's feedback."""
    return f"ar:{turn}.feedback.latest"


def feedback_key(entry: Feedback) -> str:
    """Return the key of a feedback, its turn and its origin: a newer one replaces an older one with the same key."""
    return f"{entry.turn}/{entry.origin}"


def feedback_block(entry: Feedback) -> Block:
    """Return the newest feedback of one origin as a block of its turn, also if it was withdrawn."""
    meta: dict[str, Any] = {
        "origin": entry.origin,
        "reaction": entry.reaction,
        "confidence": entry.confidence,
    }
    if entry.withdrawn:
        meta["withdrawn"] = True
    if entry.given_at:
        meta["given_at"] = entry.given_at
    facts = {name: value for name, value in {**meta, "text": entry.text}.items() if value not in (None, "")}
    return Block(
        type="turn.feedback",
        author="user" if entry.origin == "user" else "system",
        ts=entry.at,
        turn_id=entry.turn,
        path=feedback_path(entry.turn),
        mime="application/json",
        text=msgspec.json.encode(facts).decode(),
        meta=meta,
    )


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


class EventPaths(NamedTuple):
    """The paths of an event: its own, and those of its files, in order."""

    path: str
    files: tuple[str, ...] = ()


def event_place(turn: str, event: Inbound) -> EventPaths:
    """Return the paths of an event that arrived while `turn` was open, or that waited for it."""
    names = name_files(attachment.filename for attachment in event.attachments)
    files = (
        AttachmentPath(turn=turn, name=name, kind=event.event, message_id=event.message_id) for name in names
    )
    return EventPaths(event_path(turn, event), tuple(map(str, files)))


def prompt_places(turn: str, events: Sequence[Inbound]) -> list[EventPaths]:
    """Return the paths of the events that opened a turn. Their files share a folder and have unique names."""
    names = iter(name_files(attachment.filename for event in events for attachment in event.attachments))
    return [
        EventPaths(
            prompt_path(turn, index, event.message_id),
            tuple(str(AttachmentPath(turn=turn, name=next(names))) for _ in event.attachments),
        )
        for index, event in enumerate(events)
    ]


def name_files(filenames: Iterable[str]) -> list[str]:
    """Return each file's name as a segment of a path: its last part, numbered if that name exists already."""
    names = Names()
    found: list[str] = []
    for filename in filenames:
        name = candidate = _segment(filename)
        number = 1
        while names.take(candidate) is not None:
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
    lane: Lane, turn: str, event: Inbound, place: EventPaths, *, kind: str = "", **about: Any
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
    message = Block(
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
    return [message, *(block for file, path in files for block in _file(lane, turn, event, file, path))]


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
        key=attachment.key(lane),
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
