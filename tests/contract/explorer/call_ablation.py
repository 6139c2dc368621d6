"""The rules of what a running call does outside of the log, taken back one at a time: reports (R26), calls of programs (R27)."""

from __future__ import annotations

from dataclasses import replace as with_fields
from typing import Any, Final

import pytest

from stepline.delivery import call_reports, resume
from stepline.log import journal
from stepline.loop.programs import serve_call
from stepline.loop.tracing import traced_call
from stepline.model.batch import State

from .ablation import ROUGH, TAKEN_IN_A_RUN, Ablation
from .asking import RECORDED_TWICE, TWICE, UNRECORDED
from .bounded_ablation import CALM
from .client import MIXED, UNSEEN
from .schedule import Scenario, drawn
from .simulation import Simulation


def _one_lane(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traced_call, "report_lane", lambda *_: "report.0.0")


def _one_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all calls of a round report on the stream of its decision."""

    def claim(state: State, _since: Any) -> int:
        return max(state.claim, state.decided)

    monkeypatch.setattr(call_reports, "reports_claim", claim)


def _open_text(monkeypatch: pytest.MonkeyPatch) -> None:
    """Resume the stream of the round's text, whatever runs now."""
    monkeypatch.setattr(resume, "open_claim", lambda _ports, _lane, tail: tail.state.claim)


def reporting(**fields: Any) -> Simulation:
    """Return a simulation whose rounds call a tool that reports."""
    return Simulation(reports=True, **fields)


def asking(**fields: Any) -> Simulation:
    """Return a simulation whose programs ask the model."""
    return Simulation(program_asks=True, **fields)


def _never_claim(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serve_call, "_claim", lambda *_: None)


def _leave_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Record only what a run reports, and what was noted for it nowhere."""
    monkeypatch.setattr(journal.Journal, "take_over", lambda *_: None)
    monkeypatch.setattr(journal.Journal, "take_over_all", lambda *_, **__: None)


def _forget_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal.Journal, "_without_recorded", lambda _, calls, __: calls)


def _trust_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare what a run reports with no batch that is older than its result."""
    adopt = journal.Journal.adopt
    monkeypatch.setattr(
        journal.Journal,
        "adopt",
        lambda self, calls, *, since: adopt(self, calls, since=since) if calls else None,
    )


def undisturbed(seed: int) -> Scenario:
    """Return a drawn scenario in which nothing fails, so that each call runs once."""
    return with_fields(drawn(seed), aborts=False, sweeps=())


def _rule(rule: str, *breaks: str, **fields: Any) -> Ablation:
    return Ablation(rule=rule, breaks=frozenset(breaks), **{"faults": ROUGH, "seeds": 600, **fields})


def _calm_rule(rule: str, *breaks: str, **fields: Any) -> Ablation:
    calm = {"simulation": lambda: reporting(faultless=True), "scenario": undisturbed, "faults": CALM}
    return _rule(rule, *breaks, **calm, **fields)


CALLS: Final = (
    _rule(
        "R26 each attempt at a call has a lane for its reports", MIXED, patch=_one_lane, simulation=reporting
    ),
    _calm_rule("R26 the reports of each call have a stream", UNSEEN, patch=_one_stream),
    _calm_rule("R26 a resume has the reports of the running call", UNSEEN, patch=_open_text),
    _rule("R27 a call that may happen once is claimed", TWICE, patch=_never_claim, simulation=asking),
    _rule("R27 what a lost run has used is recorded", UNRECORDED, patch=_leave_calls, simulation=asking),
    _rule(
        "R27 a report is compared with the log since its run began",
        RECORDED_TWICE,
        patch=_trust_reports,
        simulation=asking,
        scenario=lambda _: TAKEN_IN_A_RUN,
    ),
    _rule("R27 a call is recorded once", RECORDED_TWICE, patch=_forget_ids, simulation=asking),
)
