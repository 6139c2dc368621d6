"""Import, the writing half: a conversation is complete or shown to no user, and then continues like any other."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from stepline.adapters.memory.log import MemoryLog
from stepline.adapters.memory.memory_index import MemoryMemoryIndex
from stepline.errors import InputError, LimitError, NotFoundError, SteplineError, UnknownOutcome
from stepline.ingress.delete import apply_deletion
from stepline.ingress.erase_user import ErasurePorts, ask_erasure, erase_all
from stepline.ingress.feedback import submit_feedback
from stepline.ingress.rename import rename
from stepline.log.erase_conversation import erase_pending
from stepline.log.importing.import_document import Document
from stepline.log.owned_conversations import OwnedConversations
from stepline.log.timeline_cache import History
from stepline.model.batch import Batch
from stepline.model.block import Block
from stepline.model.entry import Closed, Decided, Feedback, Imported, Importing, Opened
from stepline.model.file.attachment import Attachment, attachment_key
from stepline.model.ids import Lane
from stepline.model.memory_row import MemoryScope
from stepline.ports.memory_index import MemoryQuery
from stepline.timeline.fold import Timeline
from stepline.timeline.workspace import fold_files
from tests.support.api_caller import Caller
from tests.support.conversation import LANE, USER, Conversation
from tests.support.generation import answered
from tests.support.moved_conversation import (
    CSV,
    FILE,
    MOVED,
    SENT,
    ULM,
    bring,
    exported,
    hydrated,
    principal,
    said,
    uploaded,
)
from tests.unit.ingress.test_allow import set_limits

SCOPE = MemoryScope(tenant=LANE.tenant, project=LANE.project, user=USER)


@pytest.fixture(scope="module")
def source() -> Conversation:
    return said()


@pytest.fixture(scope="module")
def documents(source: Conversation) -> tuple[Document, ...]:
    return exported(source.ports)


@pytest.fixture
def home() -> Conversation:
    """The deployment into which the conversation is imported."""
    return Conversation(answered("Still Ulm."))


def batches(home: Conversation, lane: Lane = MOVED) -> list[Batch]:
    return MemoryLog.since(home.log, lane, 0)


def begin(home: Conversation, documents: tuple[Document, ...], **fields: Any) -> None:
    """Make a pass that is cut off after its first batch."""
    status = bring(home.ports, documents, until_s=0.0, **fields)
    assert (status.state, status.written) == ("unfinished", 1)


def code_of(run: Callable[[], Any], kind: type[SteplineError] = InputError) -> str:
    with pytest.raises(kind) as caught:
        run()
    return caught.value.reason


def found_by_memory(home: Conversation) -> set[str]:
    assert home.ports.memory is not None
    return {hit.row.text for hit in home.ports.memory.search(MemoryQuery(scope=SCOPE, text="minster")).hits}


def test_an_imported_conversation_has_its_turns_paths_texts_and_times(source, documents, home) -> None:
    written = Attachment(filename="ulm.md", mime="text/markdown", size_bytes=len(ULM), sha256=FILE)
    uploads = (uploaded(home.ports, SENT, CSV), uploaded(home.ports, written, ULM))
    status = bring(home.ports, documents, uploads=uploads)
    assert (status.state, status.report.files_missing) == ("whole", 0)
    before = Timeline.empty(LANE).extended(hydrated(source.ports))
    timeline = Timeline.empty(MOVED).extended(hydrated(home.ports, MOVED))
    assert timeline.turns == before.turns
    for turn, other in zip(before.history, timeline.history, strict=True):
        assert (turn.id, turn.started_at) == (other.id, other.started_at)
    for path in [block.path for turn in before.turns for block in before.turn_blocks(turn) if block.path]:
        assert [block.text for block in timeline.resolve(path)] == [
            block.text for block in before.resolve(path)
        ]


def test_an_import_charges_no_usage(documents, home) -> None:
    bring(home.ports, documents)
    state = batches(home)[-1].state
    assert (state.input_tokens, state.output_tokens, state.spent_nanos, state.stored_bytes) == (0, 0, 0, 0)
    assert not any(batch.calls for batch in batches(home))


def test_an_imported_conversation_is_listed_as_read_and_continues(documents, home) -> None:
    bring(home.ports, documents)
    caller = Caller(home.ports)
    (row,) = caller.get("/v1/conversations")["items"]
    assert (row["conversation"], row["state"], row["turns"], row["unread_n"]) == ("moved", "idle", 2, 0)
    assert row["title"] == "Which city is the largest?"
    assert row["last_activity_at"] == batches(home)[-1].at
    admitted = home.send("And the second?", id="m9", lane=MOVED)
    assert admitted.fate == "opened"
    assert admitted.batch.n == row["n"] + 1
    home.run()
    assert caller.get("/v1/conversations")["items"][0]["turns"] == 3
    assert [entry.answer for batch in batches(home) for entry in batch.entries if isinstance(entry, Closed)][
        -1
    ] == ("Still Ulm.")


def test_an_interrupted_import_continues(documents, home) -> None:
    at_once = Conversation()
    whole = bring(at_once.ports, documents)
    passes = 0
    while (status := bring(home.ports, documents, until_s=0.0)).state != "whole":
        passes += 1
        assert status.written == len(batches(home)) == passes
    assert status == whole
    assert batches(home) == batches(at_once)


def test_a_repeated_import_answers_the_same_and_writes_nothing(documents, home) -> None:
    status = bring(home.ports, documents)
    before = batches(home)
    assert bring(home.ports, documents) == status
    home.send("And now?", id="m9", lane=MOVED)
    after = batches(home)
    assert bring(home.ports, documents) == status
    assert before == after[:-1] == batches(home)[:-1]


@pytest.mark.parametrize("cut", [True, False])
def test_a_different_import_into_the_same_name_is_refused(documents, home, cut) -> None:
    begin(home, documents) if cut else bring(home.ports, documents)
    before = batches(home)
    assert code_of(lambda: bring(home.ports, documents[:-1])) == "another_import"
    assert batches(home) == before


def test_an_import_into_a_native_conversation_is_refused(documents, home) -> None:
    home.send()
    before = home.batches()
    assert (
        code_of(lambda: bring(home.ports, documents, conversation=LANE.conversation)) == "conversation_exists"
    )
    assert home.batches() == before


def test_an_import_uses_only_the_tokens_tenant_project_and_user(documents, home) -> None:
    bring(home.ports, documents)
    for stranger in (principal("eve"),):
        assert (
            code_of(lambda who=stranger: bring(home.ports, documents, who=who), NotFoundError) == "not_found"
        )
    bring(home.ports, documents, who=principal("eve", tenant="other"))
    theirs = batches(home, Lane(tenant="other", project=LANE.project, conversation="moved"))
    assert {batch.state.owner for batch in theirs} == {"eve"}
    assert {batch.state.owner for batch in batches(home)} == {USER}
    kept = [key for key in home.ports.artifacts.objects if key.startswith("att/other/")]
    assert kept


WRITERS: dict[str, Callable[[Conversation], Any]] = {
    "a message": lambda home: home.send("hello", id="m7", lane=MOVED),
    "a steer": lambda home: home.send("stop", id="m7", kind="steer", lane=MOVED),
    "a title": lambda home: rename(home.ports, MOVED, "Mine", user=USER),
    "feedback": lambda home: submit_feedback(
        home.ports,
        History(),
        MOVED,
        Feedback(turn="turn_1", at="", reaction="ok"),
        user=USER,
        message_id="f1",
    ),
}


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_no_message_enters_an_unfinished_import(documents, home, write) -> None:
    begin(home, documents)
    assert code_of(lambda: write(home)) == "import_unfinished"
    assert len(batches(home)) == 1
    assert home.machine.queue == []


def test_an_unfinished_import_is_shown_nowhere(documents, home) -> None:
    begin(home, documents)
    caller = Caller(home.ports)
    assert caller.get("/v1/conversations")["items"] == []
    assert caller.get(f"/conversations/{LANE.tenant}/{LANE.project}")["items"] == []
    assert caller.get("/v1/me/export")["conversation"] is None
    assert found_by_memory(home) == set()
    place = "/v1/conversations/moved"
    for path in ("", "/events", "/timeline", "/log", "/export", "/files", "/receipts"):
        assert caller.ask("GET", f"{place}{path}").code == "import_unfinished", path
    assert caller.ask(
        "POST", f"{place}/uploads", {"filename": "a.txt", "size_bytes": 1, "sha256": "0" * 64}
    ).code == ("import_unfinished")
    others = OwnedConversations(home.ports, History(), LANE, USER)
    assert (others.find("moved"), others.newest(9)) == (None, ((), False))


def test_no_sweep_takes_over_a_half_imported_turn(documents, home) -> None:
    for _ in range(3):
        bring(home.ports, documents, until_s=0.0)
    assert home.log.open_lanes(before="9999") == []


def test_memory_finds_imported_turns(documents, home) -> None:
    bring(home.ports, documents)
    assert "Tell me all about the minster." in found_by_memory(home)


def test_an_import_adds_each_turn_to_an_index_that_reads_no_logs(documents, home) -> None:
    index = MemoryMemoryIndex()
    ports = dataclasses.replace(home.ports, memory=index)
    while (status := bring(ports, documents, until_s=0.0)).written < status.batches:
        assert not index.search(MemoryQuery(scope=SCOPE, text="minster")).hits
    assert (status.state, status.remembered, status.turns) == ("unfinished", 1, 2)
    status = bring(ports, documents, until_s=0.0, remembered=status.remembered)
    assert (status.state, status.remembered) == ("whole", 2)
    assert index.search(MemoryQuery(scope=SCOPE, text="minster")).hits


def test_a_deletion_ends_an_unfinished_import_permanently(documents, home) -> None:
    for _ in range(3):
        bring(home.ports, documents, until_s=0.0)
    apply_deletion(home.ports, MOVED, USER)
    assert code_of(lambda: bring(home.ports, documents), NotFoundError) == "conversation_deleted"
    assert home.ports.erasure is not None
    for _ in range(3):
        erase_pending(home.ports, home.ports.erasure)
        home.clock.pause(86_400)
    assert not home.log.batches.get(MOVED.key())
    assert not [key for key in home.ports.artifacts.objects if f"/{MOVED.prefix()}/" in key]
    assert code_of(lambda: bring(home.ports, documents), NotFoundError) == "conversation_deleted"


def test_an_unfinished_import_is_deleted_over_http(documents, home) -> None:
    begin(home, documents)
    caller = Caller(home.ports)
    assert caller.ask("DELETE", "/v1/conversations/moved").status == 202
    assert caller.ask("GET", "/v1/conversations/moved").code == "conversation_deleted"
    assert caller.ask("GET", "/v1/conversations/moved/erasure").status == 200


def test_a_suspended_import_pass_restores_nothing_after_an_erasure(documents, home, monkeypatch) -> None:
    real = MemoryLog.put
    late: list[Callable[[], Any]] = []

    def put(log: MemoryLog, lane: Lane, batch: Batch, **fields: Any) -> Any:
        if batch.n == 2 and not late:
            late.append(lambda: real(log, lane, batch, **fields))
            raise NotFoundError("suspended here")
        return real(log, lane, batch, **fields)

    monkeypatch.setattr(MemoryLog, "put", put)
    with pytest.raises(NotFoundError):
        bring(home.ports, documents)
    for _ in range(4):
        bring(home.ports, documents, until_s=0.0)
    apply_deletion(home.ports, MOVED, USER)
    assert home.ports.erasure is not None
    erase_pending(home.ports, home.ports.erasure)
    assert code_of(late[0], NotFoundError) == "conversation_deleted"


def test_an_erasure_of_a_user_includes_unfinished_imports(documents, home) -> None:
    begin(home, documents)
    desk = desk_of(home)
    ask_erasure(desk, tenant=LANE.tenant, project=LANE.project, user=USER)
    erase_all(desk, until_s=math.inf)
    assert MOVED.key() in home.log.tombstones


def test_an_import_after_an_erasure_stays_despite_old_turns(documents, home) -> None:
    desk = desk_of(home)
    home.clock.pause(7 * 86_400)
    ask_erasure(desk, tenant=LANE.tenant, project=LANE.project, user=USER)
    home.clock.pause(1)
    bring(home.ports, documents)
    home.clock.pause(120)
    erase_all(desk, until_s=math.inf)
    assert not batches(home)[-1].state.deleted


@pytest.mark.parametrize("other", ["eve", USER])
def test_one_of_two_concurrent_imports_waits_or_is_refused(documents, home, monkeypatch, other) -> None:
    """Both import the same under the same name: another user, or the same one with other files."""
    upload = uploaded(home.ports, SENT, CSV, user=USER)
    real, others = MemoryLog.tail, []

    def tail(log: MemoryLog, lane: Lane, **fields: Any) -> Any:
        found = real(log, lane, **fields)
        if not others:
            others.append(other)
            bring(home.ports, documents, who=principal(other), until_s=0.0)
        return found

    monkeypatch.setattr(MemoryLog, "tail", tail)
    kind = NotFoundError if other == "eve" else UnknownOutcome
    code_of(lambda: bring(home.ports, documents, uploads=(upload,)), kind)
    assert [batch.state.owner for batch in batches(home)] == [other]
    assert bring(home.ports, documents, who=principal(other)).state == "whole"
    assert {batch.state.owner for batch in batches(home)} == {other}


def test_an_imported_file_without_bytes_is_in_no_workspace_and_no_list(documents, home) -> None:
    upload = uploaded(home.ports, SENT, CSV)
    bring(home.ports, documents, uploads=(upload,))
    (lost,) = [block for block in blocks(home) if block.meta.get("bytes") == "missing"]
    assert (lost.path.rpartition("/")[2], lost.meta["sha256"], lost.body) == ("ulm.md", FILE, None)
    assert [path.rpartition("/")[2] for path in fold_files(blocks(home))] == [SENT.filename]
    listed = Caller(home.ports).get("/v1/conversations/moved/files")["items"]
    assert [file["filename"] for file in listed] == [SENT.filename]


def blocks(home: Conversation) -> list[Block]:
    timeline = Timeline.empty(MOVED).extended(hydrated(home.ports, MOVED))
    return [block for turn in timeline.turns for block in timeline.turn_blocks(turn)]


def desk_of(home: Conversation) -> ErasurePorts:
    desk = Caller(home.ports).erasing
    assert desk is not None
    return desk


@pytest.mark.parametrize(
    ("limits", "code"),
    [({"messages_per_minute": 1}, "rate_limited"), ({"stopped": "maintenance"}, "stopped")],
)
def test_an_import_counts_for_limits_like_a_message(documents, home, limits, code) -> None:
    set_limits(home, **limits)
    if code == "rate_limited":
        begin(home, documents)
    before = len(batches(home))
    assert code_of(lambda: bring(home.ports, documents), LimitError) == code
    assert len(batches(home)) == before


def test_files_with_uploaded_bytes_are_imported(documents, home) -> None:
    upload = uploaded(home.ports, SENT, CSV)
    status = bring(home.ports, documents, uploads=(upload,))
    assert (status.report.files, status.report.files_missing) == (1, 1)
    keys = {block.body.key for block in blocks(home) if block.body}
    assert keys == {attachment_key(MOVED, SENT.sha256)}
    assert home.ports.artifacts.get(attachment_key(MOVED, SENT.sha256)) == CSV


def test_an_import_uses_the_files_that_existed_when_it_began(documents, home) -> None:
    upload = uploaded(home.ports, SENT, CSV)
    begin(home, documents, uploads=(upload,))
    status = bring(home.ports, documents)
    assert status.report.files == 1
    assert bring(home.ports, documents, uploads=()) == status
    (begun,) = [entry for batch in batches(home) for entry in batch.entries if isinstance(entry, Importing)]
    assert begun.files == f"{SENT.sha256}:{SENT.size_bytes}"


@pytest.mark.parametrize("whose", ["another's", "of another conversation", "unknown"])
def test_an_import_accepts_only_the_users_uploads_to_this_conversation(documents, home, whose) -> None:
    if whose == "another's":
        upload = uploaded(home.ports, SENT, CSV, user="eve")
    elif whose == "of another conversation":
        upload = uploaded(home.ports, SENT, CSV, lane=replace(MOVED, conversation="c-3"))
    else:
        upload = f"up_{'0' * 32}"
    assert code_of(lambda: bring(home.ports, documents, uploads=(upload,))) == "bad_upload"
    assert batches(home) == []


def test_an_import_with_too_many_uploads_is_refused(documents, home) -> None:
    many = tuple(f"up_{number:032x}" for number in range(501))
    assert code_of(lambda: bring(home.ports, documents, uploads=many), LimitError) == "import_too_many_files"


def test_a_bundle_that_is_not_here_is_refused_before_anything_is_written(documents, home) -> None:
    assert code_of(lambda: bring(home.ports, documents, bundle="none")) == "unknown_bundle"
    assert batches(home) == []
    assert home.log.conversations(LANE.tenant, LANE.project, USER) == []


def test_a_failed_import_leaves_no_trace(home) -> None:
    with pytest.raises(InputError):
        bring(home.ports, (Document(kind="artifact:turn.log", payload={"turn_id": "../x", "blocks": 1}),))
    assert batches(home) == []
    assert home.log.conversations(LANE.tenant, LANE.project, USER) == []


def test_an_import_begins_with_its_first_batch_and_ends_with_its_last(documents, home) -> None:
    bring(home.ports, documents)
    found = hydrated(home.ports, MOVED)
    kinds = [(batch.n, type(entry)) for batch in found for entry in batch.entries]
    assert [n for n, kind in kinds if kind is Importing] == [1]
    assert [n for n, kind in kinds if kind is Imported] == [found[-1].n]
    assert [bool(batch.state.importing) for batch in found] == [True] * (len(found) - 1) + [False]
    assert {kind for _, kind in kinds} >= {Opened, Decided, Closed}
