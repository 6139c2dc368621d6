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


def test_a_step_reads_back_as_it_was_answered() -> None:
    step = Step(**OLDEST, iteration=3, route="act", error={"Error": "x"})
    assert read_step(msgspec.to_builtins(step), attempt=2) == msgspec.structs.replace(step, attempt=2)


def test_a_step_of_a_release_before_gets_the_defaults_of_what_was_added_since() -> None:
    assert read_step(OLDEST, attempt=0) == Step(**OLDEST)


def test_a_step_of_a_release_after_is_read_without_what_is_new_in_it() -> None:
    newer = {**msgspec.to_builtins(Step(**OLDEST)), "mood": "fine", "lanes": [1, {"a": 2}]}
    assert newer["v"] == FORMAT == 1
    assert read_step(newer, attempt=0) == Step(**OLDEST)


@pytest.mark.parametrize("changed", [{}, {"epoch": "first", "turn": None}])
def test_a_step_of_a_format_to_come_is_left_to_those_who_read_it(changed: dict[str, Any]) -> None:
    with pytest.raises(DependencyError) as refused:
        read_step({**OLDEST, **changed, "v": FORMAT + 1}, attempt=0)
    assert refused.value.reason == "format_newer"
    assert type(refused.value).__name__ in retryable_names()


@pytest.mark.parametrize("state", [{}, {**OLDEST, "epoch": "first"}, {**OLDEST, "v": "1"}])
def test_what_no_release_answered_is_refused(state: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        read_step(state, attempt=0)
