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


def test_an_erasure_is_asked_for_once(kept):
    erasures, _ = kept
    first = asked()
    later = replace(first, asked_at="2026-11-26T00:00:09.000Z")
    assert erasures.get("acme", "docs", first.user) is None
    assert erasures.ask(first) == first
    assert erasures.ask(later) == first
    assert erasures.get("acme", "docs", first.user) == first


def test_what_is_not_done_is_pending_oldest_first(kept):
    erasures, _ = kept
    two, one = asked(at="2026-11-26T00:00:02.000Z"), asked(at="2026-11-26T00:00:01.000Z")
    for erasure in (two, one):
        erasures.ask(erasure)
    assert [erasure for erasure in erasures.pending() if erasure in (one, two)] == [one, two]
    counted = replace(one, conversations=3)
    assert erasures.keep(counted, before=one)
    assert counted in erasures.pending()


def test_what_is_done_is_pending_no_longer_and_may_be_asked_for_again(kept):
    erasures, _ = kept
    first = asked()
    done = replace(first, user="", done_at="2026-11-26T00:05:00.000Z")
    erasures.ask(first)
    assert erasures.keep(done, before=first)
    assert first.whose not in {erasure.whose for erasure in erasures.pending()}
    assert erasures.get("acme", "docs", first.user) == done
    again = replace(first, asked_at="2026-11-27T00:00:00.000Z")
    assert erasures.ask(again) == again


def test_of_two_passes_that_end_at_once_one_reads_again_what_the_other_has_found(kept):
    erasures, _ = kept
    first = erasures.ask(asked())
    counted = replace(first, conversations=1)
    assert erasures.keep(counted, before=first)
    assert not erasures.keep(replace(first, told=True), before=first)
    assert erasures.get("acme", "docs", first.user) == counted


def test_nobody_else_finds_it(kept):
    erasures, _ = kept
    first = erasures.ask(asked())
    assert erasures.get("acme", "other", first.user) is None
    assert erasures.get("other", "docs", first.user) is None
    assert erasures.get("acme", "docs", f"{first.user}2") is None


def test_what_was_done_long_ago_is_forgotten(kept):
    erasures, clock = kept
    first = erasures.ask(asked())
    erasures.keep(replace(first, user="", done_at="2026-11-26T00:05:00.000Z"), before=first)
    clock.pause(KEPT_S - 1)
    assert erasures.get("acme", "docs", first.user)
    clock.pause(1)
    assert erasures.get("acme", "docs", first.user) is None


def test_a_row_of_one_that_is_done_names_nobody(aws):
    erasures, first = DynamoUserErasures(aws.table, aws.clock), asked()
    erasures.ask(first)
    erasures.keep(replace(first, user="", done_at="2026-11-26T00:05:00.000Z"), before=first)
    rows = aws.table.client.scan(TableName=aws.table.name)["Items"]
    assert any(first.whose in str(row) for row in rows)
    assert not any(first.user in str(row) for row in rows)
