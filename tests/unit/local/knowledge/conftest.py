import pytest

from tests.unit.local.knowledge.space import Space


@pytest.fixture
def space(tmp_path):
    return Space(tmp_path)
