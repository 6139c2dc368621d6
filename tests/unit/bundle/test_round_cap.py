import pytest

from stepline.bundle.round_cap import resolve_round_cap
from stepline.errors import InputError


def react(rounds):
    return {"react": {"max_iterations": rounds}}


@pytest.mark.parametrize(
    ("props", "assembly", "variable", "rounds"),
    [
        ({}, {}, 15, 15),
        ({}, {}, 7, 7),
        ({}, {"ai": react(6)}, 7, 6),
        (react(5), {"ai": react(6)}, 7, 5),
        ({"config": react(4), **react(5)}, {"ai": react(6)}, 7, 4),
        ({"config": {}, **react(5)}, {}, 7, 5),
        (react("5"), {}, 7, 5),
        (react(None), {"ai": react(6)}, 7, 6),
        ({"react": "odd"}, {"ai": []}, 7, 7),
        (react(0), {"ai": react(6)}, 7, 15),
        ({}, {"ai": react(-1)}, 7, 15),
        ({}, {}, 0, 15),
    ],
)
def test_the_first_place_that_says_so_decides(props, assembly, variable, rounds):
    assert resolve_round_cap(props=props, assembly=assembly, variable=variable) == rounds


@pytest.mark.parametrize("odd", ["many", 2.5, True, [3]])
def test_a_cap_that_is_no_whole_number_is_refused_by_its_place(odd):
    with pytest.raises(InputError, match=r"ai\.react\.max_iterations") as caught:
        resolve_round_cap(props={}, assembly={"ai": react(odd)}, variable=15)
    assert caught.value.reason == "bad_setting"
