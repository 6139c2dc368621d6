import pytest

from stepline.bundle.context_cap import resolve_context_cap
from stepline.errors import InputError


def react(tokens):
    return {"react": {"context": {"max_tokens": tokens}}}


@pytest.mark.parametrize(
    ("props", "assembly", "variable", "tokens"),
    [
        ({}, {}, 80_000, 80_000),
        ({}, {"ai": react(6)}, 7, 6),
        (react(5), {"ai": react(6)}, 7, 5),
        ({"config": react(4), **react(5)}, {"ai": react(6)}, 7, 4),
        ({"config": {"react": {}}, **react("5")}, {}, 7, 5),
        (react(None), {"ai": react(6)}, 7, 6),
        ({"react": {"context": "odd"}}, {"ai": []}, 7, 7),
        (react(0), {"ai": react(6)}, 7, 80_000),
        ({}, {}, -1, 80_000),
    ],
)
def test_the_first_place_that_says_so_decides(props, assembly, variable, tokens):
    assert resolve_context_cap(props=props, assembly=assembly, variable=variable) == tokens


@pytest.mark.parametrize("odd", ["many", 2.5, True, [3]])
def test_a_cap_that_is_no_whole_number_is_refused_by_its_place(odd):
    with pytest.raises(InputError, match=r"ai\.react\.context\.max_tokens") as caught:
        resolve_context_cap(props={}, assembly={"ai": react(odd)}, variable=15)
    assert caught.value.reason == "bad_setting"
