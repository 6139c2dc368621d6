import pytest

from tests.support.scheduling import scope_of


@pytest.mark.parametrize(
    ("test", "scope"),
    [
        ("tests/unit/loop/test_act.py::test_a[x-1]", "tests/unit/loop/test_act.py"),
        ("tests/stacks/test_cost.py::test_a", "tests/stacks"),
        ("tests/contract/test_log.py::test_a[moto]", "tests/contract/test_log.py moto"),
        ("tests/contract/test_executor.py::test_a[docker-split]", "tests/contract/test_executor.py docker"),
        ("tests/contract/test_log.py::test_a", "tests/contract/test_log.py"),
    ],
)
def test_tests_that_share_a_fixture_have_one_scope(test, scope):
    assert scope_of(test) == scope
