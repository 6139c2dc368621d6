"""Records in files: a conversation is the same when it is read again, and a wrong file is refused with its place."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any
from zipfile import ZipFile

import msgspec
import pytest

from stepline.adapters.memory.artifacts import MemoryArtifacts
from stepline.errors import InputError
from stepline.model.batch import FORMAT as BATCH_FORMAT
from stepline.replay.load_record import load_record
from stepline.replay.record_file import (
    FORMAT,
    KEPT_SETTINGS,
    ConversationRecord,
    read_record_file,
    write_record_file,
)
from stepline.replay.recorded_turn import find_turns
from stepline.replay.replay_turn import replay_turns
from stepline.settings import TABLE
from tests.support.conversation import LANE, Conversation
from tests.support.generation import answered, called
from tests.support.recorded_talk import KINDS, replayer
from tests.unit.replay.test_replayed_forks import fork

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from stepline.model.ids import Lane

HEAD, LOG = "record.json", f"logs/{LANE.conversation}"


def record_of(conversation: Conversation, lane: Lane = LANE, **variables: str) -> ConversationRecord:
    return ConversationRecord(
        log=conversation.log, artifacts=conversation.ports.artifacts, lane=lane, variables=variables
    )


def talk(*script: str) -> Conversation:
    conversation = Conversation(*(script or (called("react.read", {"paths": ["fi:x"]}), answered("Done."))))
    conversation.send("what is new?")
    conversation.run()
    return conversation


def different(conversation: Conversation, record: ConversationRecord) -> list[str]:
    turns = find_turns(record.lane, load_record(record.log, record.artifacts, record.lane))
    reports = replay_turns(turns, replayer(conversation), record.artifacts)
    return [report.where for report in reports if report.outcome != "equal"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_conversation_of_any_kind_replays_equal_from_its_file(kind: Any, tmp_path: Path) -> None:
    conversation = kind(Random(3))
    write_record_file(tmp_path / "a.zip", record_of(conversation))
    assert different(conversation, read_record_file(tmp_path / "a.zip")) == []


def test_a_fork_has_the_logs_of_its_origins_up_to_the_fork(tmp_path: Path) -> None:
    conversation = talk()
    deep = fork(conversation, 2, of=fork(conversation, 4), name="deep")
    write_record_file(tmp_path / "a.zip", record_of(conversation, deep))
    record = read_record_file(tmp_path / "a.zip")
    assert load_record(record.log, record.artifacts, deep) == load_record(
        conversation.log, conversation.ports.artifacts, deep
    )
    assert different(conversation, record) == []
    with ZipFile(tmp_path / "a.zip") as archive:
        assert archive.read(LOG).count(b"\n") == 2


def test_a_record_has_the_settings_that_change_requests_and_no_secret(tmp_path: Path) -> None:
    assert not [row.variable for row in TABLE.values() if row.secret and row.variable in KEPT_SETTINGS]
    assert not [name for name in KEPT_SETTINGS if name.endswith(("_ARN", "_URL", "_KEY"))]
    given = {"AI_REACT_MAX_ITERATIONS": "7", "ANTHROPIC_API_KEY": "sk-1", "STEPLINE_TABLE": "t"}
    write_record_file(tmp_path / "a.zip", record_of(talk(), **given))
    assert read_record_file(tmp_path / "a.zip").variables == {"AI_REACT_MAX_ITERATIONS": "7"}


def refusal(call: Callable[[], object]) -> tuple[str, str]:
    with pytest.raises(InputError) as caught:
        call()
    return caught.value.reason, str(caught.value)


def changed(path: Path, member: str, change: Callable[[bytes], bytes | None]) -> None:
    """Replace a member of a record, or remove it."""
    with ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with ZipFile(path, "w") as archive:
        for name, body in members.items():
            new = change(body) if name == member else body
            if new is not None:
                archive.writestr(name, new)


def head_with(**fields: Any) -> Callable[[bytes], bytes]:
    return lambda body: msgspec.json.encode({**msgspec.json.decode(body), **fields})


def line_with(number: int, change: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    def run(body: bytes) -> bytes:
        lines = body.splitlines()
        lines[number - 1 : number] = filter(None, [change(lines[number - 1])])
        return b"\n".join(lines)

    return run


NEWER = BATCH_FORMAT + 1


@pytest.mark.parametrize(
    ("member", "change", "code", "said"),
    [
        (HEAD, lambda _: None, "record_invalid", "a.zip: it is no record: "),
        (HEAD, lambda _: b"{", "record_invalid", "a.zip, record.json: it is no record: "),
        (HEAD, lambda _: b"[]", "record_invalid", "a.zip, record.json: it is no record: "),
        (HEAD, head_with(nmae="x"), "record_invalid", "Object contains unknown field `nmae`"),
        (HEAD, head_with(tenant="../x"), "record_invalid", "a.zip, record.json: it is no record: "),
        (HEAD, head_with(format=FORMAT + 1), "format_newer", f"a.zip has format {FORMAT + 1}"),
        (HEAD, head_with(conversation="other"), "record_incomplete", "a.zip lacks logs/other"),
        (LOG, lambda _: b"", "record_incomplete", f"a.zip, {LOG}: batch 1 is missing"),
        (LOG, line_with(2, lambda _: b""), "record_incomplete", f"a.zip, {LOG}: batch 2 is missing"),
        (LOG, line_with(2, lambda _: b'{"n": 2}'), "record_invalid", f"a.zip, {LOG}, line 2: it is no record: "),
        (LOG, line_with(2, lambda _: b"\xff"), "record_invalid", f"a.zip, {LOG}, line 2: it is no record: "),
        (
            LOG,
            line_with(2, lambda line: msgspec.json.encode({**msgspec.json.decode(line), "v": NEWER})),
            "format_newer",
            f"a.zip, {LOG}, line 2: a batch has format {NEWER}",
        ),
    ],
)  # fmt: skip
def test_a_wrong_record_is_refused_with_its_member_its_line_and_its_key(
    tmp_path: Path, member: str, change: Any, code: str, said: str
) -> None:
    write_record_file(tmp_path / "a.zip", record_of(talk()))
    changed(tmp_path / "a.zip", member, change)
    reason, sentence = refusal(lambda: read_record_file(tmp_path / "a.zip"))
    assert reason == code
    assert said in sentence


def test_an_origin_that_is_a_fork_at_a_later_batch_ends_the_chain(tmp_path: Path) -> None:
    conversation = talk()
    lane = fork(conversation, 2)
    write_record_file(tmp_path / "a.zip", record_of(conversation, lane))
    with ZipFile(tmp_path / "a.zip") as archive:
        own = archive.read(f"logs/{lane.conversation}")
    changed(
        tmp_path / "a.zip", LOG, lambda _: own.replace(LANE.conversation.encode(), lane.conversation.encode())
    )
    reason, sentence = refusal(lambda: read_record_file(tmp_path / "a.zip"))
    assert (reason, "its origin has no batch 2" in sentence) == ("record_invalid", True)


@pytest.mark.parametrize("body", [b"", b"{}", b"PK\x03\x04 and no more"])
def test_a_file_that_is_no_zip_is_no_record(tmp_path: Path, body: bytes) -> None:
    (tmp_path / "a.zip").write_bytes(body)
    assert refusal(lambda: read_record_file(tmp_path / "a.zip"))[0] == "record_invalid"
    assert refusal(lambda: read_record_file(tmp_path / "none.zip"))[0] == "record_invalid"


def test_a_text_that_is_gone_is_named_with_its_turn_and_round_and_no_file_is_left(tmp_path: Path) -> None:
    for conversation in (talk(answered("A long answer. " * 4_000)), talk()):
        record = without_bytes(record_of(conversation))
        reason, sentence = refusal(lambda record=record: write_record_file(tmp_path / "a.zip", record))  # type: ignore[misc]  # bound now
        assert (reason, f"{conversation.batches()[1].state.turn}, round 0, batch 2: " in sentence) == (
            "record_incomplete",
            True,
        )
        assert list(tmp_path.iterdir()) == []


def without_bytes(record: ConversationRecord) -> ConversationRecord:
    """Return the record without its stored bytes."""
    return ConversationRecord(
        log=record.log, artifacts=MemoryArtifacts(), lane=record.lane, variables=record.variables
    )


def test_a_missing_object_of_a_file_is_named_when_a_turn_is_read(tmp_path: Path) -> None:
    conversation = talk(answered("A long answer. " * 4_000))
    write_record_file(tmp_path / "a.zip", record_of(conversation))
    key = conversation.batches()[1].spilled[0].key
    changed(tmp_path / "a.zip", f"objects/{key}", lambda _: None)
    record = read_record_file(tmp_path / "a.zip")
    reason, sentence = refusal(lambda: load_record(record.log, record.artifacts, record.lane))
    assert (reason, ", round 0, batch 2: a text of the record is gone" in sentence) == (
        "record_incomplete",
        True,
    )


def test_an_existing_file_is_replaced_by_choice_alone(tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_text("mine")
    record = record_of(talk())
    assert refusal(lambda: write_record_file(tmp_path / "a.zip", record))[0] == "file_exists"
    assert (tmp_path / "a.zip").read_text() == "mine"
    write_record_file(tmp_path / "a.zip", record, overwrite=True)
    assert read_record_file(tmp_path / "a.zip").lane == LANE
    assert refusal(lambda: write_record_file(tmp_path / "none/a.zip", record))[0] == "not_writable"
