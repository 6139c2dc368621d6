import pytest

from stepline.bootstrap.agent_choice import fanout
from stepline.bootstrap.choice import context_rules
from stepline.bootstrap.memory_wiring import in_memory
from stepline.bundle.overrides import (
    AGENT_VERSION,
    CACHE_TTL,
    CONTEXT_CAP,
    LAYOUT,
    MULTI_ACTION,
    ROUND_CAP,
    WITHHELD,
    resolve_outward,
)
from stepline.errors import InputError
from stepline.events.filter import FOLLOWED
from stepline.events.types import EVENT_ROUTES
from stepline.protocol.decision.fanout import FanoutRule
from stepline.settings import TABLE, Settings

USAGE, SUMMARY, PLAN = "accounting.usage", "chat.turn.summary", "react.plan"

PLACES = {
    ROUND_CAP: ("config.react.max_iterations", "react.max_iterations", "ai.react.max_iterations"),
    CONTEXT_CAP: (
        "config.react.context.max_tokens",
        "react.context.max_tokens",
        "ai.react.context.max_tokens",
    ),
    CACHE_TTL: (
        "config.react.cache_ttl_seconds",
        "react.cache_ttl_seconds",
        "ai.react.cache_ttl_seconds",
    ),
    MULTI_ACTION: (
        "config.react.multi_action",
        "react.multi_action",
        "config.react.react_agent_multiaction",
        "react.react_agent_multiaction",
        "ai.react.react_agent_multiaction",
    ),
    AGENT_VERSION: ("config.react.agent_version", "react.agent_version", "ai.react.react_agent_version"),
    LAYOUT: ("config.react.context.layout", "react.context.layout", "ai.react.context.layout"),
    WITHHELD: ("config.events.withhold", "events.withhold", "events.withhold"),
}
"""The places of each value, strongest first; the last one is in the assembly, the others are in the properties."""

TWO = {
    ROUND_CAP: (5, 6),
    CONTEXT_CAP: (5, 6),
    CACHE_TTL: (0, 600),
    MULTI_ACTION: ("read_write_search", "safe_fanout"),
    AGENT_VERSION: ("v2", "v3"),
    LAYOUT: ("journal", "timeline"),
}
CAPS = {ROUND_CAP: 15, CONTEXT_CAP: 80_000}
ODD_CAPS = ("many", 2.5, True, [3])
ODD = {
    ROUND_CAP: ODD_CAPS,
    CONTEXT_CAP: ODD_CAPS,
    CACHE_TTL: (*ODD_CAPS, -1),
    MULTI_ACTION: ("some", "", 2, 1.0, ["on"]),
    AGENT_VERSION: ("v1", "", 2, ["v2"]),
    LAYOUT: ("digest", "", 2, ["journal"]),
    WITHHELD: (USAGE, [USAGE, "acounting.usage"], ["chat"], [7], {USAGE: True}),
}


def said(row, values):
    """Return properties and assembly with a value at each place, by the place's number."""
    props, assembly = {}, {}
    for at, value in values.items():
        *above, last = PLACES[row][at].split(".")
        node = assembly if at == len(PLACES[row]) - 1 else props
        for name in above:
            node = node.setdefault(name, {})
        node[last] = value
    return {"props": props, "assembly": assembly}


def resolve(row, values, setting):
    if row is WITHHELD:
        return resolve_outward(**said(row, values))
    return row.resolve(**said(row, values), setting=setting)


def withheld(values):
    outward = resolve(WITHHELD, values, None)
    return set(EVENT_ROUTES).difference(*(rule.types for rule in outward.rules)) if outward.rules else set()


def each_place(rows):
    return [
        pytest.param(row, at, id=f"{place} ({at})") for row in rows for at, place in enumerate(PLACES[row])
    ]


@pytest.mark.parametrize(("row", "at"), each_place(TWO))
def test_the_first_source_with_a_value_decides(row, at):
    strong, weak = TWO[row]
    nulls = dict.fromkeys(range(at), None)
    weaker = dict.fromkeys(range(at + 1, len(PLACES[row])), weak)
    assert resolve(row, {**nulls, at: strong, **weaker}, weak) == strong


@pytest.mark.parametrize("row", TWO)
@pytest.mark.parametrize("assembly", [{}, {"ai": []}, {"ai": {"react": None}}])
@pytest.mark.parametrize("props", [{}, {"react": "odd"}, {"config": {}, "react": {"context": "odd"}}])
def test_the_setting_decides_if_no_other_source_has_a_value(row, props, assembly):
    for setting in TWO[row]:
        assert row.resolve(props=props, assembly=assembly, setting=setting) == setting


@pytest.mark.parametrize("row", TWO)
def test_a_default_is_the_settings_own(row):
    (field,) = (field for field, setting in TABLE.items() if setting.variable == row.setting)
    assert getattr(Settings.from_env({}), field) == row.default


@pytest.mark.parametrize(
    ("row", "at", "odd"),
    [(row, at, odd) for row in ODD for at in range(len(PLACES[row])) for odd in ODD[row]],
)
def test_an_invalid_value_is_refused_with_its_path(row, at, odd):
    with pytest.raises(InputError) as caught:
        resolve(row, {at: odd}, row.default)
    assert caught.value.reason == "bad_setting"
    assert str(caught.value).startswith(PLACES[row][at])


@pytest.mark.parametrize("row", CAPS)
def test_a_cap_may_be_digits(row):
    assert resolve(row, {1: "5"}, 7) == 5


@pytest.mark.parametrize(("row", "default"), CAPS.items())
@pytest.mark.parametrize("none", [0, -1, "0"])
def test_a_cap_that_is_not_positive_is_the_default_in_any_source(row, default, none):
    for at in range(len(PLACES[row])):
        assert resolve(row, {at: none}, 7) == default
    assert resolve(row, {}, int(none)) == default


@pytest.mark.parametrize("word", ["safe_fanout", "fanout", "on", "true", "1", "yes", "ON", " Yes ", True, 1])
def test_many_words_mean_on(word):
    assert resolve(MULTI_ACTION, {1: word}, "off") == "safe_fanout"


@pytest.mark.parametrize("word", ["off", "false", "0", "no", False, 0])
def test_many_words_mean_off(word):
    assert resolve(MULTI_ACTION, {1: word}, "safe_fanout") == "off"


@pytest.mark.parametrize(("most", "found"), [("3", 3), ("0", 8), ("-1", 8)])
def test_the_cap_of_actions_is_the_deployments_if_it_is_one(most, found):
    chosen = {"AI_REACT_AGENT_MULTI_ACTION": "read_write_search", "STEPLINE_MAX_ACTIONS_PER_ROUND": most}
    assert fanout(Settings.from_env(chosen)) == FanoutRule(mode="read_write_search", max_actions=found)


def test_no_further_event_is_withheld_by_default():
    assert resolve_outward(props={}, assembly={}).rules == ()
    assert resolve_outward(props={"events": {"withhold": []}}, assembly={"events": "odd"}).rules == ()


def test_withheld_events_of_bundle_and_deployment_add_up():
    assert withheld({1: [USAGE]}) == {USAGE}
    assert withheld({2: [SUMMARY]}) == {SUMMARY}
    assert withheld({0: [PLAN], 1: [USAGE], 2: [SUMMARY]}) == {PLAN, USAGE, SUMMARY}


@pytest.mark.parametrize("kind", sorted(FOLLOWED))
def test_events_by_which_clients_follow_a_turn_cannot_be_withheld(kind):
    with pytest.raises(InputError, match="follow a turn"):
        resolve(WITHHELD, {1: [kind]}, None)


def test_withheld_events_of_the_settings_reach_the_outward_rules():
    chosen = {"STEPLINE_BUNDLE_PROPS": '{"events": {"withhold": ["accounting.usage"]}}'}
    (rule,) = in_memory(Settings.from_env(chosen)).ports.outward.rules
    assert rule.types == set(EVENT_ROUTES) - {USAGE}


def test_the_lane_of_thinking_is_withheld_by_the_same_list():
    both = resolve(WITHHELD, {1: ["thinking"], 2: [USAGE]}, None)
    assert (both.lanes, withheld({1: ["thinking"], 2: [USAGE]})) == ({"thinking"}, {USAGE})
    with pytest.raises(InputError):
        resolve(WITHHELD, {1: ["answer"]}, None)


@pytest.mark.parametrize(("ttl_s", "found"), [(0, 0), (600, 600)])
def test_a_bundle_says_how_long_its_prompts_are_kept(ttl_s, found):
    chosen = {"STEPLINE_BUNDLE_PROPS": f'{{"react": {{"cache_ttl_seconds": {ttl_s}}}}}'}
    assert context_rules(Settings.from_env(chosen)).ttl_s == found
