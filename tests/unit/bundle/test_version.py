import pytest

from stepline.bundle.version import resolve_version
from stepline.errors import InputError


def named(word, name="agent_version"):
    return {"react": {name: word}}


@pytest.mark.parametrize(
    ("props", "assembly", "variable", "found"),
    [
        ({}, {}, "v3", "v3"),
        ({}, {"ai": named("v2", "react_agent_version")}, "v3", "v2"),
        (named("v3"), {"ai": named("v2", "react_agent_version")}, "v2", "v3"),
        ({"config": named("v2"), **named("v3")}, {}, "v3", "v2"),
        (named(None), {}, "v2", "v2"),
    ],
)
def test_the_first_place_that_says_so_decides(props, assembly, variable, found):
    assert resolve_version(props=props, assembly=assembly, variable=variable) == found


@pytest.mark.parametrize("odd", ["v1", "", 2, ["v2"]])
def test_a_version_that_does_not_exist_is_refused_by_its_place(odd):
    with pytest.raises(InputError, match=r"react\.agent_version") as caught:
        resolve_version(props=named(odd), assembly={}, variable="v3")
    assert caught.value.reason == "bad_setting"
