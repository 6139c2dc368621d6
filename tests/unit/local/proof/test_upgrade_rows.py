"""A release in mid-stream: whatever happens inside, the version before serves again, and nothing is left."""

from types import SimpleNamespace

import pytest

from stepline.local.proof.proved_stage import NotRunError
from stepline.local.proof.row.upgrade_rows import (
    DESCRIPTION,
    Release,
    check_turn_runs,
    go_live,
    publish_again,
)


class Functions:
    """A function with a version that serves, as Lambda's client shows and changes it."""

    def __init__(self, *, newest="sha-1", weights=None, refused=()):
        self.live, self.versions, self.description = "1", ["1"], "Decides."
        self._newest, self._weights, self._refused = newest, weights or {}, refused

    def get_alias(self, **_):
        return {"FunctionVersion": self.live, "RoutingConfig": {"AdditionalVersionWeights": self._weights}}

    def get_function_configuration(self, **given):
        digest = "sha-1" if "Qualifier" in given else self._newest
        return {"CodeSha256": digest, "Description": self.description}

    def update_function_configuration(self, **given):
        self.description = given["Description"]

    def publish_version(self, **_):
        assert self.description == DESCRIPTION  # without a change there is no new version
        self.versions.append("2")
        return {"Version": "2"}

    def update_alias(self, **given):
        if given["FunctionVersion"] in self._refused:
            raise PermissionError
        self.live = given["FunctionVersion"]

    def delete_function(self, **given):
        assert self.live != given["Qualifier"]
        self.versions.remove(given["Qualifier"])

    def get_waiter(self, _):
        return self

    def wait(self, **_):
        pass

    @property
    def left(self):
        return self.live, self.versions, self.description


def test_the_new_version_is_live_inside_and_the_one_before_afterwards():
    functions = Functions()
    with publish_again(functions, "decide") as release, go_live(functions, release):
        assert functions.live == "2"
    assert functions.left == ("1", ["1"], "Decides.")


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_after_a_failure_and_an_interrupt_the_version_before_serves_and_nothing_is_left(error):
    functions = Functions()
    with pytest.raises(error), publish_again(functions, "decide") as release, go_live(functions, release):
        raise error
    assert functions.left == ("1", ["1"], "Decides.")


def test_an_alias_that_cannot_be_moved_keeps_its_version():
    functions = Functions(refused=("2",))
    with (
        pytest.raises(PermissionError),
        publish_again(functions, "decide") as release,
        go_live(functions, release),
    ):
        raise AssertionError("it is not live")
    assert functions.left == ("1", ["1"], "Decides.")


@pytest.mark.parametrize(
    "found", [{"newest": "sha-2"}, {"weights": {"2": 0.1}}], ids=["a rollback", "a shift"]
)
def test_code_that_does_not_serve_is_not_released(found):
    functions = Functions(**found)
    with pytest.raises(NotRunError), publish_again(functions, "decide"):
        pass
    assert functions.left == ("1", ["1"], "Decides.")


def stage_of(state):
    api = SimpleNamespace(read_conversation=lambda _: SimpleNamespace(state=state))
    return SimpleNamespace(api=api)


def test_a_turn_that_ended_before_the_release_proves_nothing():
    check_turn_runs(stage_of("in_progress"), "c")
    with pytest.raises(NotRunError):
        check_turn_runs(stage_of("idle"), "c")


def test_a_release_names_both_versions():
    with publish_again(Functions(), "decide") as release:
        assert release == Release("decide", "1", "2")
