"""The filter of client events: it passes exact names, and withholds in any doubt."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepline.events.derive import derive
from stepline.events.filter import EventFilter, EventRule, is_listed
from stepline.events.types import EVENT_TABLE
from stepline.model.wire.event import ClientEvent
from tests.support.log_builder import LogBuilder, logs, patient

START = ClientEvent(type="chat.start", route="chat_start", ts="", status="started")
STEP = ClientEvent(type="chat.step", route="chat_step", ts="", step="deferred", status="update")
WORDS = [word for row in EVENT_TABLE for word in (row.type, row.route, row.step)] + [
    "started",
    "update",
    "",
    "chat",
]


@patient
@given(logs())
def test_the_filter_passes_every_derived_event(log: LogBuilder):
    for batch in log.batches:
        events = derive(batch)
        assert EventFilter().sift(events) == (events, 0)


@given(st.sampled_from(WORDS), st.sampled_from(WORDS), st.sampled_from(WORDS), st.sampled_from(WORDS))
def test_the_filter_withholds_events_that_match_no_row_of_the_table(kind, route, step, status):
    event = ClientEvent(type=kind, route=route, ts="", step=step, status=status)
    rows = {(row.type, row.route, row.step) for row in EVENT_TABLE}
    known = (kind, route, step) in rows and status in ("started", "update")
    assert is_listed(event) is known
    assert EventFilter().sift([event]).events == ((event,) if known else ())


# The filter searched for the route inside a text, so a part of a route's name passed.
@pytest.mark.parametrize(
    "part", ["chat", "step", "chat_", "_step", "chat_ste", "chat_step ", "CHAT_STEP", ""]
)
def test_a_part_of_a_routes_name_does_not_match(part):
    event = msgspec.structs.replace(STEP, route=part)
    assert EventFilter().sift([event]).events == ()
    assert not EventRule(routes=frozenset({"chat_step"})).passes(event)


@pytest.mark.parametrize("side", ["types", "routes", "steps", "statuses"])
@pytest.mark.parametrize("names", ["chat_step", ("chat_step",), ["chat_step"], {"chat_step"}])
def test_a_field_of_a_rule_must_be_a_frozenset(side, names):
    with pytest.raises(TypeError, match=side):
        EventRule(**{side: names})


@pytest.mark.parametrize(
    ("side", "name", "other"),
    [
        ("types", "chat.step", "chat.start"),
        ("routes", "chat_step", "chat_start"),
        ("steps", "deferred", ""),
        ("statuses", "update", "started"),
    ],
)
def test_each_field_of_a_rule_passes_only_its_names(side, name, other):
    assert EventFilter((EventRule(**{side: frozenset({name})}),)).sift([START, STEP]).events == (STEP,)
    assert EventFilter((EventRule(**{side: frozenset({other})}),)).sift([START, STEP]).events == (START,)
    assert EventFilter((EventRule(**{side: frozenset()}),)).sift([START, STEP]).events == ()


def test_a_rule_cannot_pass_an_event_missing_from_the_table():
    unknown = ClientEvent(type="secret.thing", route="chat_step", ts="")
    wide = EventRule(types=frozenset({"secret.thing", "chat.start"}))
    assert EventFilter((wide,)).sift([unknown, START]).events == (START,)


def test_an_event_must_pass_all_rules():
    first, second = EventRule(routes=frozenset({"chat_step"})), EventRule(steps=frozenset({""}))
    assert EventFilter((first, second)).sift([START, STEP]).events == ()
    assert EventFilter((first, EventRule())).sift([START, STEP]).events == (STEP,)


class Vague:
    """A rule that returns a true value other than True."""

    def passes(self, event, /):
        return "yes"


def test_a_rule_that_returns_anything_but_true_withholds():
    assert EventFilter((Vague(),)).sift([START]) == ((), 0)


class Failing:
    def passes(self, event, /):
        raise RuntimeError


def test_a_failing_rule_withholds_and_is_counted_once_per_event():
    assert EventFilter((EventRule(), Failing())).sift([START, STEP]) == ((), 2)
    assert EventFilter((EventRule(types=frozenset()), Failing())).sift([START]) == ((), 0)
