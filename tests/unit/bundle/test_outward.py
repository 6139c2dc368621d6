import pytest

from stepline.bootstrap import in_memory
from stepline.bundle.outward import resolve_outward
from stepline.errors import InputError
from stepline.events.filter import FOLLOWED
from stepline.events.types import ROUTES
from stepline.settings import Settings

USAGE, SUMMARY, PLAN = "accounting.usage", "chat.turn.summary", "react.plan"


def withhold(*types):
    return {"events": {"withhold": list(types)}}


def withheld(props=None, assembly=None):
    outward = resolve_outward(props=props or {}, assembly=assembly or {})
    return set(ROUTES).difference(*(rule.types for rule in outward.rules)) if outward.rules else set()


def test_nothing_more_is_withheld_where_nobody_says_so():
    assert resolve_outward(props={}, assembly={}).rules == ()
    assert resolve_outward(props=withhold(), assembly={"events": "odd"}).rules == ()


def test_what_bundle_and_deployment_withhold_adds_up():
    assert withheld(withhold(USAGE)) == {USAGE}
    assert withheld({}, withhold(SUMMARY)) == {SUMMARY}
    assert withheld({**withhold(USAGE), "config": withhold(PLAN)}, withhold(SUMMARY)) == {
        USAGE,
        SUMMARY,
        PLAN,
    }


@pytest.mark.parametrize(
    "odd", ["accounting.usage", [USAGE, "acounting.usage"], ["chat"], [7], {USAGE: True}]
)
def test_a_list_that_would_withhold_something_else_than_it_says_is_refused_by_its_place(odd):
    with pytest.raises(InputError, match=r"events\.withhold") as caught:
        resolve_outward(props={}, assembly={"events": {"withhold": odd}})
    assert caught.value.reason == "bad_setting"


@pytest.mark.parametrize("kind", sorted(FOLLOWED))
def test_what_clients_follow_a_turn_by_cannot_be_withheld(kind):
    with pytest.raises(InputError, match="follow a turn"):
        resolve_outward(props=withhold(kind), assembly={})


def test_what_the_settings_withhold_reaches_every_way_out():
    said = {"STEPLINE_BUNDLE_PROPS": '{"events": {"withhold": ["accounting.usage"]}}'}
    (rule,) = in_memory(Settings.from_env(said)).ports.outward.rules
    assert rule.types == set(ROUTES) - {USAGE}
