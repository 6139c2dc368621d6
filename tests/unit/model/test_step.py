from typing import Any

import msgspec
import pytest

from stepline.errors import DependencyError, retryable_names
from stepline.model.step import FORMAT, Step, read_step

OLDEST: dict[str, Any] = {
    "tenant": "acme",
    "project": "support",
    "conversation": "c-1",
    "turn": "t-1",
    "epoch": 1,
}
"""What the first release wrote, before a step said its version."""


def test_a_step_is_decoded_to_an_equal_step() -> None:
    step = Step(**OLDEST, iteration=3, route="act", error={"Error": "x"})
    assert read_step(msgspec.to_builtins(step), attempt=2) == msgspec.structs.replace(step, attempt=2)


def test_a_step_of_an_older_release_gets_defaults_for_new_fields() -> None:
    assert read_step(OLDEST, attempt=0) == Step(**OLDEST)


def test_unknown_fields_of_a_newer_step_are_ignored() -> None:
    newer = {**msgspec.to_builtins(Step(**OLDEST)), "mood": "fine", "lanes": [1, {"a": 2}]}
    assert newer["v"] == FORMAT == 1
    assert read_step(newer, attempt=0) == Step(**OLDEST)


@pytest.mark.parametrize("changed", [{}, {"epoch": "first", "turn": None}])
def test_a_step_of_a_future_format_is_refused_with_its_own_error(changed: dict[str, Any]) -> None:
    with pytest.raises(DependencyError) as refused:
        read_step({**OLDEST, **changed, "v": FORMAT + 1}, attempt=0)
    assert refused.value.reason == "format_newer"
    assert type(refused.value).__name__ in retryable_names()


@pytest.mark.parametrize("state", [{}, {**OLDEST, "epoch": "first"}, {**OLDEST, "v": "1"}])
def test_a_step_that_no_release_returned_is_refused(state: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        read_step(state, attempt=0)
