"""A memory segment without one of its conversations: its rows are removed, with every word that only they had."""

from __future__ import annotations

import sys
import zlib
from importlib.machinery import ModuleSpec

import msgspec
import numpy as np
import pytest

from stepline.adapters.embedded import memory_index
from stepline.adapters.embedded.memory_index import EmbeddedMemoryIndex, MemoryManifest, prefix
from stepline.adapters.embedded.packed_rows import decode_packed, encode_packed, pack
from stepline.adapters.embedded.stored_segment import Stored, drop_conversation
from stepline.errors import DependencyError
from stepline.log.bindings import Ports
from stepline.model.memory_row import MemoryRow, MemoryScope
from stepline.ports.memory_index import MemoryQuery
from tests.support.conversation import Conversation

SCOPE = MemoryScope(tenant="acme", project="support", user="ada")


@pytest.fixture
def ports() -> Ports:
    return Conversation().ports


def row(conversation: str, text: str, n: int = 1) -> MemoryRow:
    path = f"ar:turn_{n}.assistant.completion"
    turn, at = f"turn_{n}", "2026-11-21T10:15:00.000Z"
    return MemoryRow(conversation=conversation, turn=turn, kind="answer", path=path, at=at, n=n, text=text)


MIXED = (row("c-1", "the zebra is secret"), row("c-2", "the otter swims"), row("c-1", "zebra, zebra", 2))


def texts_of(body: bytes) -> bytes:
    """Return the decompressed texts of a segment."""
    return zlib.decompress(msgspec.msgpack.decode(body, type=Stored).told)


def test_a_reduced_segment_equals_one_packed_without_the_conversation():
    reduced = drop_conversation(encode_packed(pack(MIXED)), "c-1")
    left, plain = decode_packed(reduced.body), pack(MIXED[1:2])
    assert (reduced.rows, reduced.removed) == (1, 2)
    assert left.rows == list(plain.rows)
    assert np.array_equal(left.vectors, plain.vectors)
    assert list(left.vocabulary) == list(plain.vocabulary)
    assert np.array_equal(left.words, plain.words)
    assert np.array_equal(left.counts, plain.counts)
    assert np.array_equal(left.lengths, plain.lengths)


def test_no_word_of_the_conversation_is_left_in_the_bytes():
    body = encode_packed(pack(MIXED))
    assert b"zebra" in texts_of(body)
    assert b"zebra" not in texts_of(drop_conversation(body, "c-1").body)


def test_a_segment_without_the_conversation_is_unchanged_and_one_of_it_alone_is_empty():
    body = encode_packed(pack(MIXED))
    assert drop_conversation(body, "c-3") == (body, 3, 0)
    assert drop_conversation(encode_packed(pack(MIXED[:1])), "c-1") == (b"", 0, 1)


@pytest.mark.parametrize("damage", [b"", b"no segment", b"cut"])
def test_a_damaged_segment_is_reported(damage: bytes):
    body = encode_packed(pack(MIXED))[:-3] if damage == b"cut" else damage
    with pytest.raises(DependencyError) as raised:
        drop_conversation(body, "c-1")
    assert raised.value.reason == "memory_segment_unread"


def test_the_remaining_objects_are_named_and_contain_no_row_of_the_conversation(ports: Ports):
    index = EmbeddedMemoryIndex(ports)
    index.add(SCOPE, MIXED)
    forgotten = index.forget(SCOPE, "c-1")
    assert forgotten.rows == 2
    assert forgotten.prefix == f"{prefix(SCOPE)}/"
    bodies = [ports.artifacts.get(key) for key in forgotten.keys]
    assert b"c-1" not in bodies[0]
    assert all(b"zebra" not in texts_of(body) for body in bodies[1:])
    found = index.search(MemoryQuery(scope=SCOPE, text="otter zebra")).hits
    assert [hit.row.conversation for hit in found] == ["c-2"]


def test_a_damaged_segment_is_dropped_and_its_rows_are_read_from_the_logs_again(ports: Ports):
    index = EmbeddedMemoryIndex(ports)
    index.add(SCOPE, MIXED)
    _, key = index.forget(SCOPE, "c-9").keys
    ports.artifacts.replace(key, b"damaged", mime="application/msgpack")
    forgotten = index.forget(SCOPE, "c-1")
    assert forgotten.keys == (f"{prefix(SCOPE)}/manifest",)
    left = msgspec.json.decode(ports.artifacts.get(forgotten.keys[0]), type=MemoryManifest)
    assert left == MemoryManifest()


def test_forgetting_needs_none_of_the_packages_of_a_search(ports: Ports, monkeypatch: pytest.MonkeyPatch):
    EmbeddedMemoryIndex(ports).add(SCOPE, MIXED)

    def missing(name: str) -> ModuleSpec | None:
        return None

    monkeypatch.setattr(memory_index, "find_spec", missing)
    monkeypatch.delitem(sys.modules, "stepline.adapters.embedded.packed_rows")
    monkeypatch.setitem(sys.modules, "numpy", None)
    assert EmbeddedMemoryIndex(ports).forget(SCOPE, "c-1").rows == 2
