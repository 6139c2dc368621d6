"""The rules of parked turns, taken back one at a time: each function changes the code to what it would be without one."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from stepline.ingress import admit, approval_answer
from stepline.log import fence as guard
from stepline.log import transition
from stepline.loop import act, close, sweep
from stepline.loop.approvals import park
from stepline.model.batch import State


def owns_parked(monkeypatch: pytest.MonkeyPatch) -> None:
    def owns(state: State, step: Any) -> bool:
        return state.status == "open" and state.turn == step.turn and state.epoch == step.epoch

    for module in (guard, close):
        monkeypatch.setattr(module, "owns", owns)


def asks_no_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(act, "_asks", lambda *_: None)


def sweeps_parked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweep, "awaits_person", lambda _state: False)


def keeps_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (act, park):
        monkeypatch.setattr(module, "follow_parking", lambda *_: None)


def same_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (admit, approval_answer):
        monkeypatch.setattr(module, "answered", lambda state, _n: replace(state, parked=0))


def stays_parked(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (admit, approval_answer):
        monkeypatch.setattr(
            module, "answered", lambda state, n: replace(transition.answered(state, n), parked=state.parked)
        )


def moves_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def parked(state: State, n: int) -> State:
        return transition.parked(transition.resulted(state, n), n)

    monkeypatch.setattr(park, "parked", parked)


def any_message_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admit, "_verdict", lambda *_: "expired")


def steers_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admit, "pending", lambda *_: None)


def parks_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(park, "slipped_in", lambda *_: False)


def same_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(approval_answer, "edited_call_id", lambda call, _n: call)
