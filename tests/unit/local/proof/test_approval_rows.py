"""Approvals: a denied call that ran fails, and so does an approved one that did not run once."""

import pytest

from stepline.local.client.change import EventsApplied
from stepline.local.proof.proof_row import NotHeldError
from stepline.local.proof.row.approval_rows import judge_approved, judge_denied
from stepline.model.wire.event import ClientEvent


def batch(kind, **data):
    event = ClientEvent(type=kind, route="chat_step", ts="2026-01-01T00:00:00.000Z", data=data)
    return EventsApplied(n=1, prev=0, events=(event,))


ASKED = batch("approval.requested", call_id="a")
DENIED, APPROVED = (batch("approval.answered", call_id="a", verdict=one) for one in ("denied", "approved"))
RAN = batch("react.tool.result", call_id="a", status="ok")
REFUSED = batch("react.tool.result", call_id="a", status="error", code="denied")


@pytest.mark.parametrize(
    ("received", "calls"),
    [
        ([ASKED, DENIED, RAN], ["a"]),
        ([ASKED, DENIED], ["a"]),
        ([ASKED, DENIED, REFUSED, RAN], ["a"]),
        ([ASKED, APPROVED, REFUSED], ["a"]),
        ([ASKED, ASKED, DENIED, REFUSED], ["a"]),
        ([RAN], []),
    ],
    ids=["ran", "no result", "ran after all", "another answer", "asked twice", "never asked"],
)
def test_a_denied_call_that_ran_fails(received, calls):
    judge_denied([ASKED, DENIED, REFUSED], ["a"])
    with pytest.raises(NotHeldError):
        judge_denied(received, calls)


@pytest.mark.parametrize(
    ("received", "calls"),
    [
        ([ASKED, APPROVED, RAN, RAN], ["a"]),
        ([ASKED, APPROVED], ["a"]),
        ([ASKED, APPROVED, REFUSED], ["a"]),
        ([ASKED, RAN], ["a"]),
        ([RAN], []),
    ],
    ids=["ran twice", "did not run", "failed", "no answer", "never asked"],
)
def test_an_approved_call_that_did_not_run_once_fails(received, calls):
    judge_approved([ASKED, APPROVED, RAN], ["a"])
    with pytest.raises(NotHeldError):
        judge_approved(received, calls)
