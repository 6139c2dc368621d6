"""A request for an approval, and its answer, as users read them."""

from stepline.local.terminal.render import render_client_event
from stepline.model.wire.event import ClientEvent

EVIL = "\x1b]8;;https://evil\x07link\x1b[2J\r\u202eabc"


def event(kind, **data):
    return ClientEvent(type=kind, route="chat_step", ts="", turn_id="turn_1", data=data)


def test_a_request_for_an_approval_shows_the_whole_call():
    params = {"to": "Hotel Post", "note": f"{'x' * 300}{EVIL}"}
    data = {"call_id": "tc_0123456789ab", "tool_id": "bank.pay", "params": params, "editable": True}
    lines = render_client_event(
        event("approval.requested", **data, code="", until="2026-01-02T03:04:05.678Z")
    )
    assert lines[0] == "? Allow bank.pay?"
    assert "x" * 300 in "".join(lines)
    assert lines[-1] == "  approve, deny or edit tc_0123456789ab, expires 2026-01-02T03:04:05.678Z"
    assert all(line.isprintable() for line in lines)


def test_feedback_is_a_line_at_its_turn():
    given = event("turn.feedback", origin="user", reaction="not_ok", text=f"too\nlong{EVIL}")
    (line,) = render_client_event(given)
    assert line.startswith("☆ user on turn_1, not_ok: too long")
    assert line.isprintable()
    assert render_client_event(event("turn.feedback", origin="machine", reaction=None, withdrawn=True)) == [
        "☆ machine on turn_1, removed"
    ]


def test_the_answer_to_a_request_is_a_line():
    data = {"call_id": "tc_0123456789ab", "tool_id": "bank.pay"}
    denied = event("approval.answered", **data, verdict="denied", text="Not\nnow.")
    edited = event("approval.answered", **data, verdict="edited", edited_call_id="tc_1", params={"sum": 5})
    assert render_client_event(denied) == ["· denied: bank.pay: Not now."]
    assert render_client_event(edited) == ["· edited: bank.pay runs with sum=5"]
    by_client = event("approval.answered", **data, verdict="approved", client=f"desk{EVIL}")
    (line,) = render_client_event(by_client)
    assert line.startswith("· approved by desk")
    assert line.isprintable()
