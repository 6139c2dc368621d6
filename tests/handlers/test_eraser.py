"""The eraser: any event makes it look for pending erasures, and it returns the numbers by outcome."""

from __future__ import annotations

import pytest

from lambdas import eraser
from stepline.bootstrap.memory_wiring import erasure_in_memory
from stepline.errors import DependencyError
from stepline.ingress.admit import Arrival, admit
from stepline.ingress.delete import apply_deletion
from stepline.model.ids import Lane

from .conftest import LambdaRuntime

LANE = Lane(tenant="acme", project="support", conversation="c-1")


@pytest.fixture
def erasing(runtime: LambdaRuntime, monkeypatch: pytest.MonkeyPatch) -> LambdaRuntime:
    monkeypatch.setattr(eraser, "erasure_on_aws", lambda _settings, ports: erasure_in_memory(ports))
    return runtime


def test_the_eraser_returns_no_counts_without_pending_work(erasing):
    assert erasing.call(eraser.handler, {}) == {}


def test_deleted_content_is_erased_and_counted_and_no_text_is_logged(erasing):
    ports = erasing.app.ports
    admit(ports, LANE, Arrival(message_id="m1", user="ada", text="a secret"))
    apply_deletion(ports, LANE, "ada")
    assert erasing.call(eraser.handler, {"source": "aws.events"}) == {"conversations_pending": 1}
    assert erasing.call(eraser.handler, {}) == {}
    assert erasing.lines[-2]["conversations_pending"] == 1
    assert "secret" not in erasing.text


def test_a_failed_erasure_is_retried_and_does_not_block_others(erasing, monkeypatch):
    ports = erasing.app.ports
    lanes = [Lane(tenant="acme", project="support", conversation=name) for name in ("a", "b")]
    for lane in lanes:
        admit(ports, lane, Arrival(message_id="m1", user="ada", text="hello"))
        apply_deletion(ports, lane, "ada")
    erase_rows = ports.erasure.erase_rows

    def unwilling(lane: Lane, *, husks_from: str):
        if lane == lanes[0]:
            raise DependencyError("not now")
        return erase_rows(lane, husks_from=husks_from)

    monkeypatch.setattr(ports.erasure, "erase_rows", unwilling)
    assert erasing.call(eraser.handler, {}) == {"conversations_failed": 1, "conversations_pending": 1}
    monkeypatch.undo()
    monkeypatch.setattr(eraser, "erasure_on_aws", lambda _settings, given: erasure_in_memory(given))
    assert ports.erasure.pending(before="9")[0].lane in lanes
