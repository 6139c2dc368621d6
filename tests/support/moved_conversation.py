"""A conversation to move: held in one world, exported there, with the bytes of its files that another world has."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from stepline.ingress.import_conversation import ImportInput, ImportStatus, import_conversation
from stepline.log.bindings import Ports
from stepline.log.importing.import_document import Document, read_document
from stepline.log.journal import Journal
from stepline.log.spill import hydrate
from stepline.model.batch import Batch
from stepline.model.file.attachment import Attachment, attachment_key
from stepline.model.file.upload_slot import Upload
from stepline.model.ids import Lane
from stepline.ports.channel import Principal
from stepline.timeline.export import export_conversation
from stepline.timeline.fold import Timeline
from tests.support.conversation import FAR, LANE, USER, Conversation
from tests.support.generation import answered, called

CSV: Final = b"city,people\nUlm,128000\n"
SENT: Final = Attachment(
    filename="cities.csv", mime="text/csv", size_bytes=len(CSV), sha256=hashlib.sha256(CSV).hexdigest()
)
PADDING: Final = "This answer is longer than a batch can be. ✓✓✓✓✓✓✓✓✓✓ " * 600
"""More bytes than a batch may have."""
WRITTEN: Final = {"path": "outputs/ulm.md", "channel": "canvas", "content": "# Ulm", "kind": "file"}
MOVED: Final = Lane(tenant=LANE.tenant, project=LANE.project, conversation="moved")
ULM: Final = b"# Ulm"
FILE: Final = hashlib.sha256(ULM).hexdigest()


def said() -> Conversation:
    """Return a conversation of two turns: an attachment, a file, a title, an answer too large for a batch."""
    conversation = Conversation(called("react.write", WRITTEN), answered("It is Ulm."), answered(PADDING))
    conversation.ports.artifacts.put(attachment_key(LANE, SENT.sha256), CSV, mime=SENT.mime)
    conversation.send("Which city is the largest?", attachments=(SENT,))
    conversation.run()
    conversation.clock.pause(3600)
    conversation.send("Tell me all about the minster.", id="m2")
    conversation.run()
    return conversation


def hydrated(ports: Ports, lane: Lane = LANE) -> list[Batch]:
    """Return the batches of a conversation, a fork's origin included, with all of their texts."""
    return [hydrate(ports.artifacts, batch) for batch in Journal(ports, lane, "test").since(0)]


def exported(ports: Ports, lane: Lane = LANE) -> tuple[Document, ...]:
    """Return the documents of a conversation, in their form as files."""
    found = export_conversation(Timeline.empty(lane).extended(hydrated(ports, lane)), ttl_s=300)
    return tuple(read_document(msgspec.json.encode(one), f"documents[{at}]") for at, one in enumerate(found))


def principal(user: str = USER, **fields: Any) -> Principal:
    place = {"tenant": LANE.tenant, "project": LANE.project, **fields}
    return Principal(user=user, expires_at=FAR, **place)


def uploaded(ports: Ports, file: Attachment, body: bytes, *, lane: Lane = MOVED, user: str = USER) -> str:
    """Upload a file that is accepted; return the id of its upload."""
    upload_id = f"up_{file.sha256[:32]}"
    ports.artifacts.put(attachment_key(lane, file.sha256), body, mime=file.mime)
    ports.uploads.begin(lane, Upload(upload_id=upload_id, user=user, file=file, until_s=FAR, state="ready"))
    return upload_id


def bring(
    ports: Ports,
    documents: Sequence[Document],
    *,
    conversation: str = MOVED.conversation,
    who: Principal | None = None,
    until_s: float = float("inf"),
    **fields: Any,
) -> ImportStatus:
    """Make one pass of an import."""
    given = ImportInput(documents=tuple(documents), **fields)
    return import_conversation(ports, who or principal(), conversation, given, until_s=until_s)
