"""The embedded memory index beyond its contract: packing, merging, and lost objects."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepline.adapters.embedded import memory_index
from stepline.adapters.embedded.memory_index import EmbeddedMemoryIndex, MemoryManifest, prefix
from stepline.adapters.embedded.packed_rows import Packed, decode_packed, encode_packed, merge, pack
from stepline.adapters.embedded.ranking import rank
from stepline.adapters.memory.memory_index import MemoryMemoryIndex
from stepline.errors import DependencyError
from stepline.log.bindings import Ports
from stepline.log.spill import spill
from stepline.metrics import MEMORY_BEHIND, MEMORY_UNPACKED, MEMORY_UNREAD
from stepline.model.ids import Lane
from stepline.model.memory_row import MemoryRow, MemoryScope
from stepline.ports.log import Listing
from stepline.ports.memory_index import MemoryHits, MemoryQuery
from tests.support.conversation import Conversation
from tests.support.log_builder import LogBuilder

SCOPE = MemoryScope(tenant="acme", project="support", user="ada")
MANIFEST = f"{prefix(SCOPE)}/manifest"


@pytest.fixture
def ports() -> Ports:
    return Conversation().ports


def add_turns(ports: Ports, conversation: str, *answers: str, log: LogBuilder | None = None) -> LogBuilder:
    """Add a turn for each answer to a conversation of the user."""
    log = log or LogBuilder()
    lane = Lane(tenant=SCOPE.tenant, project=SCOPE.project, conversation=conversation)
    known = len(log.batches)
    for answer in answers:
        log.message("?")
        log.answer(answer)
        log.close()
    for batch in log.batches[known:]:
        ports.log.put(lane, batch)
    ports.log.project(Listing(lane=lane, owner="ada", title="", last_at=log.at, applied_n=log.n - 1))
    return log


def search(index: EmbeddedMemoryIndex, text: str, **fields: object) -> MemoryHits:
    return index.search(MemoryQuery(**{"scope": SCOPE, "text": text, **fields}))


def texts(found: MemoryHits) -> list[str]:
    return [hit.row.text for hit in found.hits]


def manifest(ports: Ports) -> MemoryManifest:
    return msgspec.json.decode(ports.artifacts.get(MANIFEST), type=MemoryManifest)


def packs_after(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    monkeypatch.setattr(memory_index, "PACK_ROWS", rows)


def test_turns_are_found_without_any_object_and_none_is_written_for_few_rows(ports):
    add_turns(ports, "c-1", "Otters sleep.", "Herons wait.")
    assert texts(search(EmbeddedMemoryIndex(ports), "otters"))[0] == "Otters sleep."
    assert ports.artifacts.objects == {}


def test_a_turn_that_ended_since_the_last_search_is_found(ports):
    index = EmbeddedMemoryIndex(ports)
    log = add_turns(ports, "c-1", "Otters sleep.")
    search(index, "otters")
    add_turns(ports, "c-1", "Herons wait.", log=log)
    assert texts(search(index, "herons"))[0] == "Herons wait."


def test_many_rows_are_packed_once_and_read_from_the_segment_after_that(ports, monkeypatch):
    packs_after(monkeypatch, 4)
    log = add_turns(ports, "c-1", "Otters sleep.", "Herons wait.", "Badgers dig.", "Foxes run.")
    first = search(EmbeddedMemoryIndex(ports), "badgers")
    (segment,) = manifest(ports).segments
    assert manifest(ports).covered == {"c-1": log.n - 1}
    assert segment.key == f"{prefix(SCOPE)}/{segment.key.rpartition('/')[2]}"
    ports.log.batches.clear()
    again = search(EmbeddedMemoryIndex(ports), "badgers")
    assert [hit.row for hit in again.hits] == [hit.row for hit in first.hits]


def test_segments_merge_until_none_is_followed_by_one_of_its_size(ports, monkeypatch):
    packs_after(monkeypatch, 1)
    index, log = EmbeddedMemoryIndex(ports), LogBuilder()
    for number in range(20):
        add_turns(ports, "c-1", f"Otter number {number} sleeps.", log=log)
        assert f"Otter number {number} sleeps." in texts(search(index, f"otter number {number}", limit=5))
    sizes = [segment.rows for segment in manifest(ports).segments]
    assert len(sizes) < 6
    assert sizes == sorted(sizes, reverse=True)
    found = search(EmbeddedMemoryIndex(ports), "otter number sleeps", limit=100, kinds=("answer",))
    assert sorted(texts(found)) == sorted(f"Otter number {number} sleeps." for number in range(20))


@pytest.mark.parametrize(
    "spoilt", ["segment gone", "segment cut", "segment of zeros", "manifest", "manifest empty"]
)
def test_damaged_objects_are_counted_and_rebuilt_from_the_log(ports, monkeypatch, spoilt):
    packs_after(monkeypatch, 1)
    add_turns(ports, "c-1", "Otters sleep.", "Herons wait.")
    before = search(EmbeddedMemoryIndex(ports), "otters")
    (segment,) = manifest(ports).segments
    objects = ports.artifacts.objects
    match spoilt:
        case "segment gone":
            del objects[segment.key]
        case "segment cut":
            objects[segment.key] = objects[segment.key][:-40]
        case "segment of zeros":
            objects[segment.key] = bytes(100)
        case "manifest":
            objects[MANIFEST] = b'{"segments": 7}'
        case "manifest empty":
            objects[MANIFEST] = b""
    index = EmbeddedMemoryIndex(ports)
    assert texts(search(index, "otters")) == texts(before)
    assert texts(search(EmbeddedMemoryIndex(ports), "otters")) == texts(before)
    assert ports.meter.counts[MEMORY_UNREAD] == 1


def test_two_searches_that_pack_at_once_lose_no_row_and_double_none(ports, monkeypatch):
    packs_after(monkeypatch, 1)
    log = add_turns(ports, "c-1", "Otters sleep.")
    one, other = EmbeddedMemoryIndex(ports), EmbeddedMemoryIndex(ports)
    search(one, "otters")
    stale = ports.artifacts.objects[MANIFEST]
    add_turns(ports, "c-1", "Herons wait.", log=log)
    search(one, "otters")
    add_turns(ports, "c-2", "Badgers dig.")
    ports.artifacts.objects[MANIFEST] = stale  # the update of the first is lost
    for index in (other, one, EmbeddedMemoryIndex(ports)):
        found = texts(search(index, "otters herons badgers", kinds=("answer",), limit=50))
        assert sorted(found) == ["Badgers dig.", "Herons wait.", "Otters sleep."]


def test_a_search_reads_a_limited_number_of_conversations_and_the_next_continues(ports, monkeypatch):
    monkeypatch.setattr(memory_index, "CONVERSATIONS", 2)
    for number in range(5):
        add_turns(ports, f"c-{number}", f"Otter number {number}.")
    seen = []
    for _ in range(3):
        found = search(EmbeddedMemoryIndex(ports), "otter number", kinds=("answer",), limit=50)
        seen.append((len(found.hits), found.behind))
    assert seen == [(2, True), (4, True), (5, False)]
    assert ports.meter.counts[MEMORY_BEHIND] == 2


def test_the_requested_conversation_is_read_first(ports, monkeypatch):
    monkeypatch.setattr(memory_index, "CONVERSATIONS", 1)
    for number in range(5):
        add_turns(ports, f"c-{number}", f"Otter number {number}.")
    assert "Otter number 3." in texts(search(EmbeddedMemoryIndex(ports), "otter", conversation="c-3"))


def test_a_long_conversation_is_read_in_several_searches(ports, monkeypatch):
    monkeypatch.setattr(memory_index, "NEW_ROWS", 6)
    add_turns(ports, "c-1", *(f"Otter number {number}." for number in range(10)))
    seen = []
    for _ in range(5):
        found = search(EmbeddedMemoryIndex(ports), "otter number", kinds=("answer",), limit=50)
        seen.append((len(found.hits), found.behind))
    assert seen[0][1]
    assert seen[-1] == (10, False)
    assert [count for count, _ in seen] == sorted(count for count, _ in seen)


def test_a_search_that_cannot_pack_still_returns_its_rows(ports, monkeypatch):
    packs_after(monkeypatch, 1)
    add_turns(ports, "c-1", "Otters sleep.")

    def refuse(*_: object, **__: object) -> bool:
        raise DependencyError("no answer", code="service_unavailable")

    monkeypatch.setattr(ports.artifacts, "replace", refuse)
    assert "Otters sleep." in texts(search(EmbeddedMemoryIndex(ports), "otters"))
    assert ports.meter.counts[MEMORY_UNPACKED] == 1
    with pytest.raises(DependencyError):
        list(EmbeddedMemoryIndex(ports).rebuild(SCOPE))


def test_a_conversation_with_lost_bodies_does_not_hide_others(ports):
    lane = Lane(tenant=SCOPE.tenant, project=SCOPE.project, conversation="c-1")
    log = LogBuilder()
    log.message("?")
    log.answer("Otters sleep. " * 100)
    log.close()
    for batch in log.batches:
        ports.log.put(lane, spill(ports.artifacts, lane, batch, limit_bytes=1_500))
    ports.log.project(Listing(lane=lane, owner="ada", title="", last_at=log.at, applied_n=log.n - 1))
    ports.artifacts.objects.clear()
    add_turns(ports, "c-2", "Herons wait.")
    found = search(EmbeddedMemoryIndex(ports), "herons")
    assert texts(found)[0] == "Herons wait."
    assert found.behind
    assert ports.meter.counts[MEMORY_UNREAD] == 1


def test_a_rebuilt_index_has_the_same_rows_and_reports_its_progress(ports):
    for number in range(3):
        add_turns(ports, f"c-{number}", f"Otter number {number}.")
    index = EmbeddedMemoryIndex(ports)
    before = search(index, "otter", limit=50)
    index.add(
        SCOPE, [msgspec.structs.replace(before.hits[0].row, path="ar:turn_gone.user.prompt", text="otter")]
    )
    steps = list(index.rebuild(SCOPE))
    assert steps[-1] == (3, 6)
    after = search(EmbeddedMemoryIndex(ports), "otter", limit=50)
    assert {hit.row.path for hit in after.hits} == {hit.row.path for hit in before.hits}


@pytest.mark.parametrize("limits", [{"HELD_ROWS": 3}, {"SCOPES": 2}])
def test_a_process_keeps_few_users_and_few_rows_of_them(ports, monkeypatch, limits):
    for name, limit in limits.items():
        monkeypatch.setattr(memory_index, name, limit)
    index, users = EmbeddedMemoryIndex(ports), ("ada", "eve", "bob")
    scopes = {user: msgspec.structs.replace(SCOPE, user=user) for user in users}
    for scope in scopes.values():
        index.add(scope, [row(f"p{number}", f"otter {number}") for number in range(3)])
    kept = dict(ports.artifacts.objects)
    for scope in scopes.values():
        del ports.artifacts.objects[
            next(key for key in kept if key.startswith(prefix(scope)) and "manifest" not in key)
        ]
    found = [len(search(index, "otter", scope=scopes[user]).hits) for user in ("bob", "eve", "ada")]
    assert found == [3, 3, 0]


def test_a_search_makes_no_second_copy_of_all_vectors():
    few, times = pack([row(f"p{number}", f"otter {number}") for number in range(1_000)]), 24
    rows = [row(f"p{number}", "otter") for number in range(1_000 * times)]
    arrays = {name: np.tile(getattr(few, name), times) for name in ("words", "counts", "lengths")}
    vectors = np.tile(few.vectors, (times, 1))
    many = Packed(rows=rows, vectors=vectors, vocabulary=few.vocabulary, **arrays)
    tracemalloc.start()
    try:
        assert rank([many], MemoryQuery(scope=SCOPE, text="otter 7"))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < vectors.nbytes * 4


def test_an_environment_without_the_packages_is_reported(ports, monkeypatch):
    monkeypatch.setattr(memory_index, "PACKAGES", ("numpy", "not_installed_here"))
    index = EmbeddedMemoryIndex(ports)
    for use in (lambda: search(index, "otters"), lambda: index.add(SCOPE, [row("p", "otter")])):
        with pytest.raises(DependencyError) as caught:
            use()
        assert caught.value.reason == "embedding_missing"


def test_the_twin_finds_turns_of_the_log_too(ports):
    add_turns(ports, "c-1", "Otters sleep.")
    found = MemoryMemoryIndex(ports).search(MemoryQuery(scope=SCOPE, text="otters"))
    assert texts(found) == ["Otters sleep."]


def test_a_range_summary_that_only_repeats_a_turn_does_not_displace_other_hits(ports):
    index = EmbeddedMemoryIndex(ports)
    said = row("ar:turn_1.user.prompt", "Otters sleep on their backs.", 1)
    again = [
        msgspec.structs.replace(said, kind="range", path=f"su:turn_{n}.conv.range.summary.1", n=n)
        for n in (5, 9)
    ]
    index.add(SCOPE, [*again, said])
    assert [hit.row for hit in search(index, "otters sleep").hits] == [said]
    assert [hit.row for hit in search(index, "otters sleep", kinds=("range",)).hits] == again[:1]


# --- segments

words = st.lists(st.sampled_from(["otter", "heron", "\u6c34\u737a", "a_b", "", "x" * 300]), max_size=8)


def row(path: str, text: str, n: int = 1) -> MemoryRow:
    at = "2026-11-01T10:00:00.000Z"
    return MemoryRow(conversation="c-1", turn="turn_1", kind="answer", path=path, text=text, at=at, n=n)


def same(one: Packed, other: Packed) -> bool:
    return list(one.rows) == list(other.rows) and all(
        np.array_equal(getattr(one, name), getattr(other, name)) for name in ("vectors", "counts", "lengths")
    )


def word_counts(packed: Packed) -> list[dict[str, int]]:
    found: list[dict[str, int]] = [{} for _ in packed.rows]
    for at, word, count in zip(packed.row_of, packed.words, packed.counts, strict=True):
        found[at][packed.vocabulary[word]] = int(count)
    return found


@given(st.lists(words, max_size=6), st.lists(words, max_size=6))
def test_merged_rows_are_as_if_packed_together(left, right):
    rows = [row(f"p{at}", " ".join(one)) for at, one in enumerate([*left, *right])]
    merged = merge([pack(rows[: len(left)]), pack(rows[len(left) :])])
    assert same(merged, pack(rows))
    assert word_counts(merged) == word_counts(pack(rows))
    assert same(decode_packed(encode_packed(merged)), merged)


def test_the_newest_of_rows_with_one_key_is_kept_in_any_order():
    old, new = row("p", "otter", 1), row("p", "heron", 2)
    for parts in ([old, new], [new, old]):
        merged = merge(pack([one]) for one in parts)
        assert list(merged.rows) == [new]
        assert word_counts(merged) == [{"heron": 1}]


@given(st.binary(max_size=200))
def test_any_bytes_are_a_segment_or_are_refused(body):
    with pytest.raises(DependencyError) as caught:
        decode_packed(body)
    assert caught.value.reason == "memory_segment_unread"


LOADED = """
import sys
from stepline.adapters.memory.clock import MemoryMeter
from stepline.bootstrap.aws_wiring import on_aws
from stepline.bootstrap.loop_app import LoopApp
from stepline.settings import Settings

ports = on_aws(Settings.from_env({}), MemoryMeter(), LoopApp).ports
print(type(ports.memory).__name__, *sorted({"numpy", "tokenizers", "wordllama"} & sys.modules.keys()))
"""


def test_a_deployment_searches_without_a_service_and_loads_nothing_before_it_does():
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["EmbeddedMemoryIndex"]
