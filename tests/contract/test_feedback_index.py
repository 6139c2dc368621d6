"""The rows of feedback that counts: put with their batch, replaced, withdrawn, and found by time."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from stepline.model.batch import Batch, FeedbackRow, State
from stepline.model.entry import Feedback
from stepline.model.ids import Lane
from stepline.ports.log import FeedbackQuery, Log, Occupied, Written

DAYS = ("2026-11-20", "2026-11-21", "2026-11-22")
BEGUN = "2026-11-01T08:00:00.000Z"
TURN = "turn_1"


@pytest.fixture
def log(backend) -> Log:
    return backend.log


@pytest.fixture
def lane(lane: Lane) -> Lane:
    """A lane in a project of its own, since indexes are a project's."""
    return replace(lane, project=lane.conversation)


def noon(day: str) -> str:
    return f"{day}T12:00:00.000Z"


def rate(
    log: Log, lane: Lane, n: int, *, at: str = noon(DAYS[0]), owner: str = "ada", **fields: Any
) -> Feedback:
    """Put batch n with a feedback."""
    said = Feedback(**{"turn": TURN, "at": at, "reaction": "ok", "turn_at": BEGUN, **fields})
    state = State(owner=owner, begun_ms=1_793_520_000_000)
    batch = Batch(n=n, by=f"b{n}", at=at, entries=(said,), state=state)
    assert log.put(lane, batch) == Written()
    return said


def ask(log: Log, lane: Lane, *, most: int = 100, **fields: Any) -> list[FeedbackRow]:
    asked = {"since": f"{DAYS[0]}T00:00:00.000Z", "until": f"{DAYS[2]}T23:59:59.999Z", **fields}
    return log.feedback(FeedbackQuery(tenant=lane.tenant, project=lane.project, **asked), most)


def words(rows: list[FeedbackRow]) -> list[tuple[str, str | None, str]]:
    return [(row.origin, row.reaction, row.text) for row in rows]


def test_feedback_has_a_row_once_its_batch_is_stored(log, lane):
    rate(log, lane, 1, text="grüß dich", given_at=BEGUN)
    (row,) = log.conversation_feedback(lane)
    assert row == FeedbackRow(
        lane=lane,
        owner="ada",
        turn=TURN,
        origin="user",
        at=noon(DAYS[0]),
        n=1,
        turn_at=BEGUN,
        started_at="2026-11-01T08:00:00.000Z",
        reaction="ok",
        text="grüß dich",
        given_at=BEGUN,
    )
    assert ask(log, lane) == [row]
    assert ask(log, lane, user="ada") == [row]


def test_newer_feedback_of_the_same_turn_and_origin_replaces_it(log, lane):
    rate(log, lane, 1)
    rate(log, lane, 2, origin="machine", reaction="not_ok", text="No source.", confidence=0.8)
    rate(log, lane, 3, at=noon(DAYS[1]), reaction="neutral")
    rate(log, lane, 4, at=noon(DAYS[2]), turn="turn_2")
    expected = [("user", "ok", ""), ("user", "neutral", ""), ("machine", "not_ok", "No source.")]
    assert words(ask(log, lane)) == expected
    assert words(ask(log, lane, user="ada")) == expected
    assert words(log.conversation_feedback(lane)) == expected[::-1]


def test_withdrawn_feedback_loses_its_row_and_the_other_origin_keeps_its(log, lane):
    rate(log, lane, 1)
    rate(log, lane, 2, origin="machine", reaction=None, text="Checked.", confidence=0.9)
    rate(log, lane, 3, reaction=None)
    assert words(log.conversation_feedback(lane)) == [("machine", None, "Checked.")]
    assert words(ask(log, lane)) == words(ask(log, lane, user="ada")) == [("machine", None, "Checked.")]
    rate(log, lane, 4, reaction=None)  # withdrawn once more
    rate(log, lane, 5, origin="machine", reaction=None)
    assert log.conversation_feedback(lane) == ask(log, lane) == []


def test_a_batch_that_loses_its_number_changes_no_row(log, lane):
    rate(log, lane, 1)
    late = Feedback(turn=TURN, at=noon(DAYS[2]), reaction="not_ok", turn_at=BEGUN)
    batch = Batch(n=1, by="late", at=late.at, entries=(late,), state=State(owner="ada"))
    assert isinstance(log.put(lane, batch), Occupied)
    assert words(log.conversation_feedback(lane)) == words(ask(log, lane)) == [("user", "ok", "")]


def test_a_period_has_its_first_and_its_last_moment_and_goes_newest_first(log, lane):
    moments = [noon(day) for day in DAYS] + [f"{DAYS[2]}T12:00:00.001Z"]
    for n, at in enumerate(moments, 1):
        rate(log, lane, n, at=at, turn=f"turn_{n}")
    for user in (None, "ada"):
        asked = {"since": moments[0], "until": moments[2], "user": user}
        assert [row.at for row in ask(log, lane, **asked)] == moments[2::-1]
        assert [row.at for row in ask(log, lane, **{**asked, "since": moments[1]})] == moments[2:0:-1]
        assert [row.at for row in ask(log, lane, most=1, **asked)] == [moments[2]]


def test_every_row_is_on_exactly_one_page_at_any_page_size(log, lane):
    for n in range(1, 8):
        rate(log, lane, n, at=noon(DAYS[n % 3]), turn=f"turn_{n}", origin="user" if n % 2 else "machine")
    whole = ask(log, lane)
    assert len(whole) == 7
    for user in (None, "ada"):
        for most in (1, 2, 3):
            found, before = [], None
            while page := ask(log, lane, most=most, user=user, before=before):
                assert len(page) <= most
                found, before = [*found, *page], page[-1].place
            assert found == whole


def test_a_cursor_outside_of_the_period_is_valid(log, lane):
    rate(log, lane, 1, at=noon(DAYS[1]))
    later, earlier = (
        (at, "zz", TURN, "user") for at in ("2031-01-01T00:00:00.000Z", "2001-01-01T00:00:00.000Z")
    )
    for user in (None, "ada"):
        assert len(ask(log, lane, before=later, user=user)) == 1
        assert ask(log, lane, before=earlier, user=user) == []


def test_rows_of_another_tenant_project_or_user_are_not_seen(log, lane):
    rate(log, lane, 1)
    eve = replace(lane, conversation=f"{lane.conversation}0")
    rate(log, eve, 1, owner="eve", reaction="not_ok")
    assert [row.owner for row in ask(log, lane, user="ada")] == ["ada"]
    assert {row.owner for row in ask(log, lane)} == {"ada", "eve"}
    assert log.conversation_feedback(replace(lane, conversation="other")) == []
    for other in (replace(lane, tenant="other"), replace(lane, project="other")):
        assert ask(log, other) == ask(log, other, user="ada") == []
