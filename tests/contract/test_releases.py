"""What each release has written is read today: logs fold and go on, states, frames and exports mean the same.

What this release makes of it is in the digests beside the recordings. If one differs and that is meant,
`python -m tests.contract.release.read_release` writes them anew.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace as replaced

from stepline.adapters.aws.client import connect
from stepline.adapters.aws.log import DynamoLog
from stepline.adapters.aws.table import Table
from stepline.context.announce import announce
from stepline.model.decision import RoundFacts
from stepline.model.entry import Decided
from stepline.timeline.fold import Timeline
from tests.contract.release.courses import COURSES
from tests.contract.release.read_release import (
    DIGESTS,
    MESSAGES,
    Recorded,
    digests,
    facts_of,
    file_of,
    into_memory,
    message_facts,
    read_json,
    recordings,
    releases,
    restored,
)
from tests.contract.release.record_release import record_course
from tests.support.aws import create_table, moto
from tests.support.conversation import LANE, Conversation
from tests.support.moved_conversation import hydrated

FOLDERS = releases()
STORED = [(folder, name) for folder in FOLDERS for name in recordings(folder)]


def named(value: Any) -> str:
    return value.name if isinstance(value, Path) else str(value)


def into_table(conversation: Conversation, recorded: Recorded) -> Conversation:
    """Put the recorded items into a table, as they are."""
    create_table("release")
    for item in recorded.items:
        connect("dynamodb", read_timeout_s=5).put_item(TableName="release", Item=item)
    conversation.ports = replace(conversation.ports, log=DynamoLog(Table("release")))
    return conversation


def recorded_digests(folder: Path) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = read_json(file_of(folder, DIGESTS))
    return found


@pytest.mark.parametrize(("folder", "name"), STORED, ids=named)
def test_a_conversation_of_an_earlier_release_is_read_and_continues(folder: Path, name: str) -> None:
    recorded = Recorded(folder, name)
    assert digests(facts_of(recorded, restored(recorded, into_memory))) == recorded_digests(folder)[name]


@pytest.mark.parametrize(("folder", "name"), STORED, ids=named)
def test_its_items_are_read_from_the_table(folder: Path, name: str) -> None:
    recorded = Recorded(folder, name)
    with moto():
        found = facts_of(recorded, restored(recorded, into_table))
    assert digests(found) == recorded_digests(folder)[name]


@pytest.mark.parametrize(("folder", "name"), STORED, ids=named)
def test_its_rounds_announced_what_their_facts_render(folder: Path, name: str) -> None:
    batches = hydrated(restored(Recorded(folder, name), into_memory).ports)
    for batch in batches:
        for entry in batch.entries:
            if isinstance(entry, Decided) and entry.sent is not None and entry.sent.announce:
                timeline = Timeline.empty(LANE).extended(batches[: batch.state.rendered])
                facts = replaced(announced_facts(entry.sent.announce), iteration=entry.iteration)
                assert announce(timeline, facts) == entry.sent.announce


def announced_facts(text: str) -> RoundFacts:
    """Return the facts of a round that an announce shows."""
    rounds = re.findall(r"Iteration \d+/(\d+)(?: \((\d+) \+)?", text)[0]
    left = re.findall(r"rounds left, counting this one: (\d+)", text)
    tools = re.findall(r"accepted now: (.*); then complete", text)
    return RoundFacts(
        max_iterations=int(rounds[1] or rounds[0]),
        now=re.findall(r"current_utc_timestamp: (\S+)", text)[0],
        last_round="LAST ROUND" in text,
        finalize=int(left[0]) if left else 0,
        finalize_tools=tuple(tools[0].split(", ")) if tools else (),
    )


@pytest.mark.parametrize("folder", FOLDERS, ids=named)
def test_the_messages_of_its_clients_are_read(folder: Path) -> None:
    assert digests(message_facts(folder)) == recorded_digests(folder)[MESSAGES]


@pytest.mark.parametrize("folder", FOLDERS, ids=named)
def test_no_recording_is_lost(folder: Path) -> None:
    assert {*recordings(folder), MESSAGES} == recorded_digests(folder).keys()


def test_a_changed_word_of_a_log_is_found() -> None:
    (folder, *_), name = FOLDERS, "an answer"
    recorded = Recorded(folder, name)
    for row in recorded.rows("LOG"):
        row["body"]["B"] = row["body"]["B"].replace(b"hello", b"hullo")
    made, expected = (
        digests(facts_of(recorded, restored(recorded, into_memory))),
        recorded_digests(folder)[name],
    )
    assert {fact for fact in made if made[fact] != expected[fact]} == {"fold", "events", "export", "next"}


def test_a_conversation_is_recorded_alike_each_time() -> None:
    first, second = (record_course(COURSES["programs with files"]) for _ in range(2))
    assert first == second
    assert all(first.values())
