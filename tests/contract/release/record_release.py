"""The recorder of a release: what its code stores, hands on and sends, as files that later releases read.

    python -m tests.contract.release.record_release 0.2.0      writes tests/data/releases/0.2.0, and its digests

A release is recorded once, when it is made; its files never change. Each conversation is a file: `items` of the table,
`objects` of the bucket, `steps` of the state machine, `frames` to a client, `documents` of an export. A body that is JSON
is JSON in the file, too, as long as that gives the same bytes again. Objects of system prompts are left out: their text is no
format. A file above 64 KB is compressed.
"""

from __future__ import annotations

import base64
import json
import secrets
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from stepline.adapters.aws.client import connect
from stepline.adapters.aws.log import DynamoLog
from stepline.adapters.aws.table import Table
from stepline.adapters.memory.log import MemoryLog
from stepline.model.entry import Decided
from stepline.ports.log import Written
from stepline.timeline.export import export_conversation
from stepline.timeline.fold import Timeline
from tests.contract.release.courses import COURSES, SENT, Course, watch
from tests.contract.release.read_release import (
    DIGESTS,
    MESSAGES,
    RELEASES,
    digests_of,
    file_of,
    whole_body,
    write_json,
)
from tests.support.aws import create_table, moto
from tests.support.conversation import LANE
from tests.support.moved_conversation import hydrated

TABLE: Final = "release"


def record_release(folder: Path) -> None:
    """Write the conversations of this release, the messages of its clients, and what this release makes of them."""
    folder.mkdir(parents=True)
    for name, course in COURSES.items():
        write_json(file_of(folder, name), record_course(course))
    write_json(file_of(folder, MESSAGES), {MESSAGES: [json.loads(text) for text in SENT]})
    write_json(file_of(folder, DIGESTS), digests_of(folder))


def record_course(course: Course) -> dict[str, list[Any]]:
    """Return what one conversation leaves: always the same."""
    with _no_chance() as patch, moto():
        create_table(TABLE)
        _store_twice(patch, DynamoLog(Table(TABLE)))
        conversation = course.world()
        inbox = watch(conversation)
        course.play(conversation)
        rows = connect("dynamodb", read_timeout_s=5).scan(TableName=TABLE)["Items"]
    artifacts: Any = conversation.ports.artifacts
    batches = hydrated(conversation.ports)
    entries = [entry for batch in batches for entry in batch.entries]
    prompts = {entry.system for entry in entries if isinstance(entry, Decided)}
    documents = export_conversation(Timeline.empty(LANE).extended(batches), ttl_s=300)
    rows.sort(key=lambda row: (row["pk"]["S"], row["sk"]["S"]))
    return {
        "items": [{name: _attribute(value) for name, value in row.items()} for row in rows],
        "objects": [
            {"key": key, "mime": artifacts.mimes[key], **plain_body(body)}
            for key, body in sorted(artifacts.objects.items())
            if key.rpartition("/")[2] not in prompts
        ],
        "steps": [msgspec.to_builtins(step) for step in conversation.steps],
        "frames": [json.loads(body) for body in inbox],
        "documents": [msgspec.to_builtins(one) for one in documents],
    }


@contextmanager
def _no_chance() -> Iterator[pytest.MonkeyPatch]:
    """Let every random number be the next one."""
    numbers = count(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(secrets, "token_hex", lambda size: f"{next(numbers):0{2 * size}x}")
        patch.setattr(secrets, "choice", min)
        patch.setattr(secrets, "randbelow", lambda _most: 0)
        yield patch


def _store_twice(patch: pytest.MonkeyPatch, stored: DynamoLog) -> None:
    """Let every log in memory be in the table, too."""
    put = MemoryLog.put

    def put_twice(log: MemoryLog, *args: Any, **facts: Any) -> Any:
        done = put(log, *args, **facts)
        if isinstance(done, Written):
            stored.put(*args, **facts)
        return done

    patch.setattr(MemoryLog, "put", put_twice)
    for name in ("clear_open", "project", "mark_read", "leave_queue"):
        patch.setattr(MemoryLog, name, _both(getattr(MemoryLog, name), getattr(stored, name)))


def _both(there: Any, stored: Any) -> Any:
    def call(log: MemoryLog, *args: Any) -> None:
        there(log, *args)
        stored(*args)

    return call


def _attribute(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return an attribute of an item as JSON."""
    ((kind, held),) = value.items()
    return {kind: plain_body(bytes(held))} if kind == "B" else dict(value)


def plain_body(body: bytes) -> dict[str, Any]:
    """Return bytes as JSON: their value, their text, or in base64."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(body).decode()}
    try:
        row = {"json": json.loads(text)}
    except ValueError:
        return {"text": text}
    return row if whole_body(row) == body else {"text": text}


if __name__ == "__main__":
    record_release(RELEASES / sys.argv[1])
