import pytest

from stepline.bundle.multi_action import resolve_fanout
from stepline.errors import InputError
from stepline.protocol.decision.fanout import FanoutRule


def mode(*, props=None, assembly=None, variable="off"):
    return resolve_fanout(props=props or {}, assembly=assembly or {}, variable=variable).mode


def named(word, name="react_agent_multiaction"):
    return {"react": {name: word}}


@pytest.mark.parametrize(
    ("props", "assembly", "variable", "found"),
    [
        ({}, {}, "off", "off"),
        ({}, {}, "safe_fanout", "safe_fanout"),
        ({}, {"ai": named("classic")}, "safe_fanout", "classic"),
        (named("off"), {"ai": named("classic")}, "safe_fanout", "off"),
        (named("on", "multi_action"), {}, "off", "safe_fanout"),
        ({"config": named("classic", "multi_action"), **named("on", "multi_action")}, {}, "off", "classic"),
        ({"config": {"react": {}}, **named("on")}, {}, "off", "safe_fanout"),
        ({"react": "odd"}, {"ai": []}, "classic", "classic"),
        (named(None), {}, "classic", "classic"),
    ],
)
def test_the_first_place_that_says_so_decides(props, assembly, variable, found):
    assert mode(props=props, assembly=assembly, variable=variable) == found


@pytest.mark.parametrize("word", ["safe_fanout", "fanout", "on", "true", "1", "yes", "ON", " Yes ", True, 1])
def test_many_words_mean_on(word):
    assert mode(props=named(word)) == "safe_fanout"


@pytest.mark.parametrize("word", ["off", "false", "0", "no", False, 0])
def test_many_words_mean_off(word):
    assert mode(props=named(word), variable="safe_fanout") == "off"


@pytest.mark.parametrize("odd", ["some", "", 2, 1.0, ["on"]])
def test_another_word_is_refused_by_its_place(odd):
    with pytest.raises(InputError, match=r"react\.react_agent_multiaction") as caught:
        mode(props=named(odd))
    assert caught.value.reason == "bad_setting"


@pytest.mark.parametrize(("most", "found"), [(3, 3), (0, 8), (-1, 8)])
def test_the_cap_is_the_deployments_if_it_is_one(most, found):
    rule = resolve_fanout(props={}, assembly={}, variable="classic", max_actions=most)
    assert rule == FanoutRule(mode="classic", max_actions=found)
