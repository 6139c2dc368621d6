"""The loop over each wire: a model's script passes through its adapter, and through the bytes of its server."""

from __future__ import annotations

import pytest

from tests.support.spoken_wire import WIRE_COLUMNS, speak_over


@pytest.fixture(params=WIRE_COLUMNS, autouse=True)
def wire(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The wire over which the model is called."""
    return speak_over(request.param, monkeypatch)
