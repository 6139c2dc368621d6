"""The index of memory in S3 Vectors, against a fake with recorded answers: batches, faults, and one user beside another."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from stepline.adapters.s3_vectors.memory_index import ROWS_PER_PUT, S3VectorsMemoryIndex
from stepline.errors import DependencyError, SteplineError, ToolError
from stepline.model.memory_row import MEMORY_TEXT_CHARS, MemoryRow, MemoryScope
from stepline.ports.memory_index import MemoryHits, MemoryQuery
from tests.support.vector_service import (
    BUCKET,
    MODEL,
    Refusal,
    VectorService,
    embed_words,
    vector_service,
)

ADA = MemoryScope(tenant="acme", project="docs", user="ada")
ATTEMPTS = 3


@pytest.fixture
def service() -> Iterator[VectorService]:
    with vector_service() as found:
        yield found


@pytest.fixture
def index(service) -> S3VectorsMemoryIndex:
    return S3VectorsMemoryIndex(BUCKET, MODEL)


def row(text: str = "the harbour freezes in January", *, path: str = "so:conv/a", **fields) -> MemoryRow:
    said = {
        "conversation": "c1",
        "turn": "turn_1",
        "kind": "answer",
        "at": "2026-11-21T10:15:00.000Z",
        "n": 7,
    }
    return MemoryRow(**{**said, **fields}, path=path, text=text)


def search(index: S3VectorsMemoryIndex, text: str = "harbour", scope: MemoryScope = ADA, **fields):
    return [hit.row for hit in index.search(MemoryQuery(scope=scope, text=text, **fields)).hits]


def test_a_row_comes_back_with_all_it_has(index):
    whole = row(kind="range", tags=("D", "S"), covers=("turn_1", "turn_2"), part=3)
    index.add(ADA, [whole])
    (hit,) = index.search(MemoryQuery(scope=ADA, text="harbour freezes")).hits
    assert hit.row == whole
    assert hit.similarity == pytest.approx(2 / (2 * 5) ** 0.5, abs=1e-6)
    assert hit.score == hit.similarity


def test_an_index_is_made_by_its_first_row_and_searched_without_one(index, service):
    assert index.search(MemoryQuery(scope=ADA, text="harbour")) == MemoryHits()
    assert not service.indexes
    index.add(ADA, [row()])
    index.add(ADA, [row(path="so:conv/b")])
    assert len(service.asked["CreateIndex"]) == 1
    assert len(search(index)) == 2


def test_two_processes_may_make_the_index_at_once(index, service):
    other = S3VectorsMemoryIndex(BUCKET, MODEL)
    service.before["CreateIndex"] = lambda: other.add(ADA, [row("a frozen pier", path="so:conv/b")])
    index.add(ADA, [row()])
    assert service.asked["CreateIndex"][0] == service.asked["CreateIndex"][1]
    assert len(service.indexes) == 1
    assert {found.path for found in search(index)} == {"so:conv/a", "so:conv/b"}


def test_an_index_that_is_not_there_yet_after_it_was_made_is_a_matter_of_time(index, service):
    service.refuse("PutVectors", "NotFoundException", "NotFoundException")
    with pytest.raises(DependencyError):
        index.add(ADA, [row()])
    index.add(ADA, [row()])
    assert search(index) == [row()]


def test_a_bucket_that_is_not_there_is_the_deployments_mistake(service):
    with pytest.raises(SteplineError) as caught:
        S3VectorsMemoryIndex(BUCKET.replace("memory", "another"), MODEL).add(ADA, [row()])
    assert (caught.value.reason, caught.value.retryable) == ("internal", False)


@pytest.mark.parametrize(
    "other",
    [replace(ADA, user="grace"), replace(ADA, project="support"), replace(ADA, tenant="globex")],
    ids=["user", "project", "tenant"],
)
def test_no_other_user_finds_or_replaces_a_row(index, service, other):
    index.add(ADA, [row()])
    index.add(other, [row("the harbour is warm")])
    assert search(index) == [row()]
    assert search(index, scope=other) == [row("the harbour is warm")]
    assert len(service.vectors()) == 2


def test_a_row_of_another_user_is_dropped_even_if_the_service_returns_it(index, service):
    index.add(ADA, [row()])
    service.heeds_filters = False
    assert search(index, scope=replace(ADA, user="grace")) == []
    assert search(index) == [row()]


def test_each_project_of_a_tenant_has_an_index_with_an_opaque_name(index, service):
    for tenant, project in (("a", "b-c"), ("a-b", "c"), ("a", "c")):
        index.add(MemoryScope(tenant=tenant, project=project, user="ada@example.com"), [row()])
    assert len(service.indexes) == 3
    assert "ada@example.com" not in json.dumps([service.indexes[name]["vectors"] for name in service.indexes])


def test_many_rows_go_in_several_puts_and_each_of_them_once(index, service):
    rows = [row(f"harbour {n}", path=f"so:conv/{n}") for n in range(ROWS_PER_PUT + 1)]
    index.add(ADA, [*rows, *rows])
    # The first one met no index, and was sent again.
    assert [len(put["vectors"]) for put in service.asked["PutVectors"]] == [ROWS_PER_PUT, ROWS_PER_PUT, 1]
    assert len(service.vectors()) == len(rows)


def test_the_largest_rows_there_are_fit_into_a_put(index, service):
    service.embedding = lambda _text, size: [1 / math.sqrt(size) + 1e-9] * size  # numbers as long as they get
    covers = tuple(f"turn_20261121T101500_{n:06x}" for n in range(2_000))
    index.add(
        ADA,
        [
            row("\U0001f40b" * (MEMORY_TEXT_CHARS - 1) + "x", path=f"so:{n}", covers=covers)
            for n in range(ROWS_PER_PUT)
        ],
    )
    (found,) = search(index, "x", limit=1)
    assert found.covers == covers[-500:]
    assert len(service.vectors()) == ROWS_PER_PUT


def test_the_newer_of_two_rows_under_one_key_remains(index, service):
    index.add(ADA, [row(), row("the harbour is warm")])
    assert search(index) == [row("the harbour is warm")]
    index.add(ADA, [row("the harbour is closed")])
    assert search(index) == [row("the harbour is closed")]
    assert len(service.vectors()) == 1


def test_a_text_without_words_costs_no_call(index, service):
    index.add(ADA, [row(" \n… ")])
    assert search(index, "?! ") == []
    assert not service.asked


def test_equal_rows_come_in_one_order_and_no_more_than_are_wanted(index):
    rows = [row(path=f"so:conv/{n % 7}", n=n, conversation=f"c{n % 3}") for n in range(40)]
    index.add(ADA, rows)
    wanted = sorted(
        {(one.conversation, one.path): one for one in rows}.values(),
        key=lambda one: (one.conversation, -one.n),
    )
    assert search(index, limit=100) == wanted
    assert len(search(index, limit=5)) == 5


def test_the_service_filters_by_the_requested_values(index, service):
    index.add(ADA, [row()])
    search(
        index, conversation="c1", kinds=("answer", "note"), since="2026-11-21", before="2026-11-22T00:00:00Z"
    )
    (asked,) = service.asked["QueryVectors"]
    user, *others = asked["filter"]["$and"]
    assert set(user) == {"user"}
    assert others == [
        {"conversation": {"$eq": "c1"}},
        {"kind": {"$in": ["answer", "note"]}},
        {"at": {"$gte": 1795219200.0}},
        {"at": {"$lt": 1795305600.0}},
    ]


def test_a_bound_that_is_no_time_is_refused(index):
    with pytest.raises(ToolError) as caught:
        search(index, since="yesterday")
    assert caught.value.reason == "bad_params"


@pytest.mark.parametrize(
    ("operation", "code"),
    [
        ("PutVectors", "TooManyRequestsException"),
        ("PutVectors", "ServiceUnavailableException"),
        ("InvokeModel", "ThrottlingException"),
    ],
)
def test_a_service_that_is_busy_is_asked_again_and_then_given_up_for_now(
    index, service, faults, operation, code
):
    service.refuse(operation, code)
    index.add(ADA, [row()])
    assert search(index) == [row()]
    service.refuse(operation, *[code] * 5)
    with pytest.raises(DependencyError):
        index.add(ADA, [row()])


@pytest.mark.parametrize("operation", ["QueryVectors", "InvokeModel"])
def test_a_search_that_is_throttled_fails_for_now(index, service, faults, operation):
    index.add(ADA, [row()])
    service.refuse(operation, *["TooManyRequestsException"] * 5)
    with pytest.raises(DependencyError):
        search(index)


def test_one_text_that_cannot_be_embedded_adds_no_row_of_its_batch(index, service):
    def embed(text: str, size: int) -> list[float]:
        if text == "harbour 3":
            raise Refusal("ModelErrorException")
        return embed_words(text, size)

    rows = [row(f"harbour {n}", path=f"so:{n}") for n in range(20)]
    service.embedding = embed
    with pytest.raises(DependencyError):
        index.add(ADA, rows)
    assert not service.vectors()
    service.embedding = embed_words
    index.add(ADA, rows)
    assert len(service.vectors()) == len(rows)


def test_a_right_that_is_missing_is_never_tried_again(index, service):
    service.refuse("PutVectors", "AccessDeniedException")
    with pytest.raises(SteplineError) as caught:
        index.add(ADA, [row()])
    assert not caught.value.retryable
    assert len(service.asked["PutVectors"]) == 1


@pytest.mark.parametrize("vector", [[1.0] * 256, ["1"] * 512, None])
def test_a_model_that_answers_something_else_fills_no_index(index, service, vector):
    service.embedding = lambda _text, _size: vector
    with pytest.raises(DependencyError):
        index.add(ADA, [row()])
    assert not service.asked["PutVectors"]


def test_an_index_of_another_size_is_the_deployments_mistake(index, service):
    index.add(ADA, [row()])
    (made,) = service.indexes.values()
    made["dimension"] = 1024
    for call in (lambda: index.add(ADA, [row()]), lambda: search(index)):
        with pytest.raises(SteplineError) as caught:
            call()
        assert (caught.value.reason, caught.value.retryable) == ("internal", False)


def test_another_model_has_another_index(index, service):
    assert index._name(ADA) != S3VectorsMemoryIndex(BUCKET, "amazon.titan-embed-text-v3:0")._name(ADA)
