"""The reader of a release: what the code of today makes of the files that a release has recorded.

python -m tests.contract.release.read_release                        writes the digests of every release anew
python -m tests.contract.release.read_release 0.1.0 "an answer"      prints the texts that the digests are made of
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from stepline.events.derive import derive
from stepline.log.importing.import_document import Document
from stepline.log.timeline_cache import open_segment
from stepline.model.batch import decode_batch
from stepline.model.ids import Lane
from stepline.model.step import read_step
from stepline.model.wire.client_message import parse_message
from stepline.model.wire.event import decode_frame
from stepline.ports.log import Listing
from stepline.ports.model import ModelRequest, Part
from stepline.rendering.text_form import STANDARD
from stepline.timeline.export import export_conversation
from stepline.timeline.fold import Timeline
from stepline.timeline.memory_rows import turn_rows
from tests.contract.release.courses import APPROVED, COURSES, ORIGIN, answer
from tests.support.conversation import LANE, Conversation
from tests.support.exported_log import moved
from tests.support.generation import answered
from tests.support.moved_conversation import hydrated

RELEASES: Final = Path(__file__).parents[2] / "data" / "releases"
LATER_S: Final = 600
"""Seconds after the newest batch of a conversation at which it continues."""
MESSAGES: Final = "messages"
"""The name of the clients' messages, beside the conversations."""
DIGESTS: Final = "digests"
PLAIN_MAX_BYTES: Final = 64 * 1024


class Recorded:
    """A conversation of a release, as its file has it."""

    def __init__(self, folder: Path, name: str) -> None:
        found = read_json(file_of(folder, name))
        self.course = COURSES[name]
        self.items = [{key: _attribute(value) for key, value in row.items()} for row in found["items"]]
        self.objects = {row["key"]: (whole_body(row), row["mime"]) for row in found["objects"]}
        self.steps: list[dict[str, Any]] = found["steps"]
        self.frames: list[Any] = found["frames"]
        self.documents: list[dict[str, Any]] = found["documents"]

    def rows(self, pk: str, sk: str = "", lane: Lane = LANE) -> Iterator[dict[str, Any]]:
        """Yield the items of one of the conversation's partitions whose sort key begins so."""
        at = f"{pk}#{lane.key()}"
        yield from (row for row in self.items if row["pk"]["S"] == at and row["sk"]["S"].startswith(sk))


def restored(recorded: Recorded, restore: Callable[[Conversation, Recorded], Conversation]) -> Conversation:
    """Return a recorded conversation a while later; its agent has no system prompt, whose text is no format."""
    conversation = restore(recorded.course.reader(), recorded)
    conversation.agent = replace(conversation.agent, system="")
    for key, (body, mime) in recorded.objects.items():
        conversation.ports.artifacts.put(key, body, mime=mime)
    tail = conversation.ports.log.tail(LANE, consistent=True)
    assert tail is not None
    past = datetime.fromisoformat(tail.at) - conversation.clock.now()
    conversation.clock.pause(max(past.total_seconds(), 0) + LATER_S)
    return conversation


def into_memory(conversation: Conversation, recorded: Recorded) -> Conversation:
    """Put the recorded batches, and what is stored with them, into the memory twin."""
    for lane in (ORIGIN, LANE):
        _lane_into_memory(conversation, recorded, lane)
    return conversation


def _lane_into_memory(conversation: Conversation, recorded: Recorded, lane: Lane) -> None:
    messages = {
        row["n"]["N"]: row["sk"]["S"].removeprefix("MSG#") for row in recorded.rows("CONV", "MSG#", lane)
    }
    heads = list(recorded.rows("CONV", "HEAD", lane))
    marked = {row["lane_open"]["N"] for row in heads if "lane_open" in row}
    for row in recorded.rows("LOG", lane=lane):
        if "reserved" in row:  # holds the first number of a fork, whose batches begin later
            continue
        number, batch = row["n"]["N"], decode_batch(row["body"]["B"])
        name = messages.get(number, "")
        conversation.log.put(lane, batch, message_id=name, marks_open=number in marked)
    for row in heads:
        if "body" in row:
            conversation.log.project(msgspec.json.decode(row["body"]["B"], type=Listing))


def facts_of(recorded: Recorded, conversation: Conversation) -> dict[str, str]:
    """Return what this release makes of a conversation, as texts: of its log, of what is derived from it, and what follows."""
    batches = hydrated(conversation.ports)
    timeline = Timeline.empty(LANE).extended(batches)
    facts = {
        "fold": _fold(timeline),
        "segment": _segment(conversation, timeline),
        "events": _lines(event for batch in batches for event in derive(batch, LANE)),
        "export": _lines(export_conversation(timeline, ttl_s=300)),
        "next": _next(conversation, recorded),
        "steps": _lines(read_step(step, attempt=0) for step in recorded.steps),
        "frames": _lines(decode_frame(json.dumps(frame)) for frame in recorded.frames),
        "import": _import(recorded),
    }
    return {name: text for name, text in facts.items() if text}


def _fold(timeline: Timeline) -> str:
    memory = (row for turn in timeline.turns for row in turn_rows(timeline, turn))
    shown = "".join(piece.text for piece in timeline.pieces)
    return _lines([*timeline.sources.values(), *timeline.blocks(), *memory, shown])


def _segment(conversation: Conversation, timeline: Timeline) -> str:
    """Return the fold from the newest segment on, which a reader of a later format does not open."""
    n = timeline.state.segment
    opened = open_segment(conversation.ports, LANE, n, STANDARD) if n else None
    if opened is None:
        return ""
    whole = replace(opened, load=timeline.since)
    return _fold(whole.extended(timeline.since(n)))


def _import(recorded: Recorded) -> str:
    """Return the log that an import makes of the recorded export, if it has a turn that ended."""
    documents = [Document(kind=row["kind"], payload=row["payload"]) for row in recorded.documents]
    ended = any(document.payload.get("end_ts") for document in documents)
    return _lines(moved(documents).batches) if ended else ""


def _next(conversation: Conversation, recorded: Recorded) -> str:
    """Go on where the conversation is, and then with another message; return the requests and the events."""
    ports, begun = conversation.ports, len(hydrated(conversation.ports))
    conversation.model.add(*[answered("So be it.")] * 4)
    state = hydrated(ports)[-1].state
    if state.parked:
        answer(conversation, APPROVED)
    elif state.status == "open" and recorded.steps:
        step = read_step(recorded.steps[-1], attempt=0)
        conversation.drive(conversation.states[step.route](step))
    conversation.send("go on, please", id="later")
    conversation.run()
    requests = [_request(request) for request in conversation.model.requests]
    events = [event for batch in hydrated(ports)[begun:] for event in derive(batch, LANE)]
    return _lines([*requests, *events])


def _request(request: ModelRequest) -> list[str]:
    """Return what a request asks after its system part, and where its cache marks are."""
    return [
        f"{part.text}{'[mark]' if part.cache else ''}" if isinstance(part, Part) else f"[{part.path}]"
        for part in request.content
    ]


def _lines(values: Iterable[Any]) -> str:
    return "\n".join(msgspec.json.encode(value).decode() for value in values)


# --- the files of a release


def releases() -> list[Path]:
    """Return the folders of all recorded releases."""
    return sorted(RELEASES.iterdir())


def recordings(folder: Path) -> dict[str, Recorded]:
    """Return the recorded conversations of a release, by name."""
    return {name: Recorded(folder, name) for name in COURSES if _is_there(file_of(folder, name))}


def digests_of(folder: Path) -> dict[str, dict[str, str]]:
    """Return the digests of what this release makes of a recorded one, by conversation and fact."""
    facts = {
        name: facts_of(recorded, restored(recorded, into_memory))
        for name, recorded in recordings(folder).items()
    }
    return {name: digests(found) for name, found in {**facts, MESSAGES: message_facts(folder)}.items()}


def message_facts(folder: Path) -> dict[str, str]:
    """Return what this release reads in the recorded messages of clients."""
    rows = read_json(file_of(folder, MESSAGES))[MESSAGES]
    return {"frames": _lines(parse_message(json.dumps(row)) for row in rows)}


def digests(facts: dict[str, str]) -> dict[str, str]:
    return {name: hashlib.sha256(text.encode()).hexdigest()[:16] for name, text in facts.items()}


def file_of(folder: Path, name: str) -> Path:
    """Return the file of a recorded conversation."""
    return folder / f"{name.replace(',', '').replace(' ', '_')}.json"


def write_json(path: Path, rows: dict[str, Any]) -> None:
    """Write JSON that a person may read: a line for each row of a list or an object; a large file compressed."""
    parts = []
    for name, held in rows.items():
        listed = [_text(one) for one in held] if isinstance(held, list) else []
        named = [f"{_text(key)}: {_text(one)}" for key, one in held.items()] if isinstance(held, dict) else []
        begin, end = "[]" if isinstance(held, list) else "{}"
        parts.append(f"{_text(name)}: {begin}\n" + ",\n".join(listed + named) + f"\n{end}")
    body = ("{\n" + ",\n".join(parts) + "\n}\n").encode()
    if len(body) > PLAIN_MAX_BYTES:
        _packed(path).write_bytes(gzip.compress(body, mtime=0))
    else:
        path.write_bytes(body)


def read_json(path: Path) -> Any:
    """Return the value of such a file."""
    return json.loads(path.read_bytes() if path.exists() else gzip.decompress(_packed(path).read_bytes()))


def _packed(path: Path) -> Path:
    return path.with_name(f"{path.name}.gz")


def _is_there(path: Path) -> bool:
    return path.exists() or _packed(path).exists()


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def whole_body(row: dict[str, Any]) -> bytes:
    """Return the bytes of a recorded body."""
    if "base64" in row:
        return base64.b64decode(row["base64"])
    text: str = row["text"] if "text" in row else _text(row["json"])
    return text.encode()


def _attribute(value: dict[str, Any]) -> dict[str, Any]:
    """Return an attribute of an item as the table has it."""
    return {"B": whole_body(value["B"])} if "B" in value else value


if __name__ == "__main__":
    if sys.argv[1:]:
        asked = Recorded(RELEASES / sys.argv[1], sys.argv[2])
        for fact, text in facts_of(asked, restored(asked, into_memory)).items():
            print(f"--- {fact}\n{text}")  # noqa: T201 - a command
    else:
        for one in releases():
            write_json(file_of(one, DIGESTS), digests_of(one))
