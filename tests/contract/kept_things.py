"""Everything that a backend keeps, by its place: rows and versions of objects in AWS, and what the memory twins hold."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from msgspec.structs import replace as changed

from stepline.adapters.upload.upload_rows import DynamoUploads
from stepline.bootstrap.memory_wiring import in_memory
from stepline.log.bindings import Ports
from stepline.log.erase_conversation import CLASSES
from stepline.model.batch import Batch, State
from stepline.model.decision import Action
from stepline.model.entry import Decided, Feedback, Inbound, Opened, Owner
from stepline.model.file.attachment import Attachment
from stepline.model.file.upload_slot import Upload
from stepline.model.ids import Lane, utc
from stepline.model.tenancy.consumption import Consumption, InvocationCost
from stepline.model.usage import ModelCall, Usage
from stepline.ports.log import Listing
from stepline.ports.relay import Delta
from stepline.settings import Settings

OWNER = "ada"
COUNTERS = ("ACCOUNT#", "account ")
"""What a tenant has used is counted with what was deleted, too."""


def ports_of(backend: Any) -> Ports:
    """Return the ports of a backend, with those that it has not in memory."""
    ports = in_memory(Settings.from_env({})).ports
    names = ("log", "artifacts", "subscriptions", "deltas", "accounts", "costs", "clock", "erasure")
    own = {name: getattr(backend, name) for name in names}
    uploads = getattr(backend, "uploads", None) or DynamoUploads(backend.table)
    return replace(ports, **own, uploads=uploads)


def everything(backend: Any) -> dict[str, Any]:
    """Return all that is kept, by its place, versions and delete markers of objects included."""
    found = _rows(backend) if hasattr(backend, "table") else _twins(backend)
    return {place: what for place, what in found.items() if not place.startswith(COUNTERS)}


def _rows(backend: Any) -> dict[str, Any]:
    pages = backend.table.client.get_paginator("scan").paginate(TableName=backend.name)
    rows = {f"{row['pk']['S']} {row['sk']['S']}": row for page in pages for row in page["Items"]}
    versions = backend.artifacts.client.get_paginator("list_object_versions").paginate(Bucket=backend.name)
    objects = {
        f"{one['Key']} {one['VersionId']}": one["LastModified"]
        for page in versions
        for one in (*page.get("Versions", ()), *page.get("DeleteMarkers", ()))
    }
    return {**rows, **objects}


def _twins(backend: Any) -> dict[str, Any]:
    log = backend.log
    held = {
        "log": {name: list(bodies) for name, bodies in log.batches.items()},
        "message": log._messages,
        "feedback": log._feedback,
        "open": log._open,
        "listing": log._listings,
        "read": log._read,
        "unlisted": log._unlisted,
        "tomb": log.tombstones,
        "object": backend.artifacts.objects,
        "tomb/": backend.erasure.stored,
        "delta": backend.deltas._streams,
        "note": backend.deltas._notes,
        "upload": backend.uploads._rows,
        "cost": backend.costs._rows,
        "socket": {name: heard for name, heard in backend.subscriptions._listeners.items() if heard},
    }
    return {f"{kind} {name}": what for kind, rows in held.items() for name, what in rows.items()}


def fill_conversation(backend: Any, ports: Ports, lane: Lane) -> None:
    """Have a conversation with something in every place: its turn is open, and its first batch is old."""
    now = backend.clock.now()
    old, new = utc(now - timedelta(hours=30)), utc(now)
    state = State(owner=OWNER, begun_ms=1)
    first = Inbound(message_id="m-1", event="prompt", text="hello", user=OWNER, at=old)
    rated = Feedback(turn="turn_1", at=new, reaction="ok", text="good", turn_at=old)
    second = changed(first, message_id="m-2", at=new)
    batches = [
        (Batch(n=1, by="a", at=old, entries=(Owner(user=OWNER), first), state=state), "m-1"),
        (Batch(n=2, by="b", at=new, entries=(rated,), state=state), ""),
        (Batch(n=3, by="c", at=new, entries=(second, _opened(new)), state=_open(state, 3)), "m-2"),
        (Batch(n=4, by="d", at=new, entries=(_decided(new),), state=_open(state, 3)), ""),
    ]
    for batch, message_id in batches:
        put = ports.log.put(lane, batch, message_id=message_id, marks_open=batch.n == 3)
        assert type(put).__name__ == "Written"
    ports.log.project(Listing(lane=lane, owner=OWNER, title="hello", last_at=new, applied_n=3))
    ports.log.mark_read(lane, 2)
    for claim in (1, 4):
        ports.deltas.put(lane, claim, Delta("answer", 0, "text"), Delta("answer", 4, "more"))
        ports.deltas.note(lane, claim, ModelCall(role="r", model="m", usage=Usage(), id="c"))
    ports.subscriptions.subscribe(lane, "socket-1", int(now.timestamp()) + 3600, OWNER)
    file = Attachment(filename="a.txt", mime="text/plain", size_bytes=1, sha256="0" * 64)
    ports.uploads.begin(lane, Upload(upload_id="up_1", user=OWNER, file=file, until_s=int(now.timestamp())))
    ports.costs.put(lane, InvocationCost(turn="turn_1", function="decide", at=new, used=Consumption()))
    for kind in CLASSES:
        key = f"{kind}/{lane.prefix()}/turn_1/body"
        ports.artifacts.put(key, b"one", mime="text/plain")
        ports.artifacts.replace(key, b"two", mime="text/plain")
        if hasattr(backend, "table"):
            ports.artifacts.put(f"{key}-gone", b"three", mime="text/plain")
            backend.artifacts.client.delete_object(Bucket=backend.name, Key=f"{key}-gone")


def _opened(at: str) -> Opened:
    return Opened(turn="turn_2", at=at, prompts=(3,))


def _decided(at: str) -> Decided:
    action = Action(call_id="tc_0123456789ab", tool_id="test.write", params={})
    return Decided(iteration=0, claim=3, action="call_tool", started_at=at, actions=(action,))


def _open(state: State, n: int) -> State:
    return changed(state, status="open", turn="turn_2", opened=n, epoch=n, claim=n, rendered=n)
