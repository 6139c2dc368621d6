import uuid

import pytest
from msgspec.structs import replace

from stepline.adapters.aws.tenancy.erasure import DynamoUserErasures
from stepline.adapters.memory.clock import MemoryClock
from stepline.adapters.memory.tenancy.erasure import MemoryUserErasures
from stepline.model.ids import person
from stepline.ports.tenancy.erasure import KEPT_S, UserErasure

from .conftest import STORED


@pytest.fixture(params=["memory", *STORED])
def kept(request: pytest.FixtureRequest):
    """Return where erasures are kept, and the clock of it."""
    if request.param == "memory":
        clock = MemoryClock()
        return MemoryUserErasures(clock), clock
    aws = request.getfixturevalue(request.param)
    return DynamoUserErasures(aws.table, aws.clock), aws.clock


def asked(user: str = "", at: str = "2026-11-26T00:00:00.000Z") -> UserErasure:
    user = user or uuid.uuid4().hex
    return UserErasure(
        tenant="acme", project="docs", whose=person("acme", "docs", user), user=user, asked_at=at
    )


def test_an_erasure_is_requested_once(kept):
    erasures, _ = kept
    first = asked()
    later = replace(first, asked_at="2026-11-26T00:00:09.000Z")
    assert erasures.get("acme", "docs", first.user) is None
    assert erasures.ask(first) == first
    assert erasures.ask(later) == first
    assert erasures.get("acme", "docs", first.user) == first


def test_open_erasures_are_pending_oldest_first(kept):
    erasures, _ = kept
    two, one = asked(at="2026-11-26T00:00:02.000Z"), asked(at="2026-11-26T00:00:01.000Z")
    for erasure in (two, one):
        erasures.ask(erasure)
    assert [erasure for erasure in erasures.pending() if erasure in (one, two)] == [one, two]
    counted = replace(one, conversations=3)
    assert erasures.keep(counted, before=one)
    assert counted in erasures.pending()


def test_a_finished_erasure_is_not_pending_and_may_be_requested_again(kept):
    erasures, _ = kept
    first = asked()
    done = replace(first, user="", done_at="2026-11-26T00:05:00.000Z")
    erasures.ask(first)
    assert erasures.keep(done, before=first)
    assert first.whose not in {erasure.whose for erasure in erasures.pending()}
    assert erasures.get("acme", "docs", first.user) == done
    again = replace(first, asked_at="2026-11-27T00:00:00.000Z")
    assert erasures.ask(again) == again


def test_of_two_passes_that_end_at_once_one_reads_the_others_result(kept):
    erasures, _ = kept
    first = erasures.ask(asked())
    counted = replace(first, conversations=1)
    assert erasures.keep(counted, before=first)
    assert not erasures.keep(replace(first, told=True), before=first)
    assert erasures.get("acme", "docs", first.user) == counted


def test_no_other_user_finds_an_erasure(kept):
    erasures, _ = kept
    first = erasures.ask(asked())
    assert erasures.get("acme", "other", first.user) is None
    assert erasures.get("other", "docs", first.user) is None
    assert erasures.get("acme", "docs", f"{first.user}2") is None


def test_an_erasure_finished_long_ago_is_forgotten(kept):
    erasures, clock = kept
    first = erasures.ask(asked())
    erasures.keep(replace(first, user="", done_at="2026-11-26T00:05:00.000Z"), before=first)
    clock.pause(KEPT_S - 1)
    assert erasures.get("acme", "docs", first.user)
    clock.pause(1)
    assert erasures.get("acme", "docs", first.user) is None


def test_the_row_of_a_finished_erasure_names_no_user(aws):
    erasures, first = DynamoUserErasures(aws.table, aws.clock), asked()
    erasures.ask(first)
    erasures.keep(replace(first, user="", done_at="2026-11-26T00:05:00.000Z"), before=first)
    rows = aws.table.client.scan(TableName=aws.table.name)["Items"]
    assert any(first.whose in str(row) for row in rows)
    assert not any(first.user in str(row) for row in rows)
