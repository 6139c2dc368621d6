from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def dist(tmp_path_factory):
    """The folder of the packages that `make dist` builds."""
    from tests.unit.local.install.fresh_environment import build_dist

    return build_dist(tmp_path_factory.mktemp("make-dist") / "dist")
