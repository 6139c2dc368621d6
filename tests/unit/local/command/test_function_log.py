"""`stepline logs`: the display of a function's output."""

import json

from stepline.local.client.change import Refused, TurnEnded
from stepline.local.command.function_log import TRACE_LINES, parse_events, render_line
from stepline.local.terminal.turn_view import PlainView
from stepline.model.wire.event import ErrorFrame

TRACE = "\n".join(
    ["Traceback (most recent call last):", *(f"  line {n}" for n in range(20)), "KeyError: 'lamp'"]
)
FAILED = {
    "level": "ERROR",
    "location": "handler:82",
    "message": "failed",
    "timestamp": "2026-11-22 23:19:10,647+0000",
    "service": "stepline",
    "function_name": "stepline-local-decide",
    "conversation": "c-1",
    "code": "internal",
    "exception": TRACE,
    "exception_name": "KeyError",
}


def events(*texts, stream="s"):
    return [{"message": text, "logStreamName": stream, "timestamp": 1795389550647} for text in texts]


def test_a_failure_is_one_record_with_its_cause_and_nothing_of_the_platform():
    found = parse_events(
        "decide",
        events(
            "START RequestId: 1 Version: 3",
            json.dumps(FAILED),
            json.dumps({"_aws": {}, "EdgeErrors": [1]}),
            "[ERROR] KeyError: 'lamp'",
            "Traceback (most recent call last):",
            "  line 1",
            "END RequestId: 1",
            "REPORT RequestId: 1\tDuration: 1 ms",
        ),
    )
    assert found == [{"function": "decide", **FAILED}]
    head, *cause = render_line(found[0])
    assert head == "23:19:10,647 decide     ERROR   failed  conversation=c-1 code=internal"
    assert len(cause) == TRACE_LINES
    assert cause[-1] == "    KeyError: 'lamp'"


def test_plain_output_is_shown_unchanged():
    texts = ("[ERROR] Runtime.ImportModuleError: Unable to import module 'lambdas.act'", "hello")
    found = parse_events("act", events("START RequestId: 1 Version: 3", *texts))
    assert [line["message"] for line in found] == list(texts)
    assert render_line(found[1]) == ["23:19:10,647 act        PRINT   hello"]


def test_no_line_acts_on_the_terminal():
    (line,) = parse_events("act", events("a\x1b[2Jb"))
    assert "\x1b" not in "".join(render_line(line))


def test_an_error_of_ours_says_where_its_cause_is_where_this_machine_has_it():
    for local in (True, False):
        said = []
        view = PlainView(said.append, said.append, local=local)
        view.show(
            TurnEnded(n=4, turn_id="t", outcome="error", answer="", code="step_failed", message="It failed.")
        )
        view.show(
            TurnEnded(n=8, turn_id="t", outcome="error", answer="", code="context_limit", message="Too long.")
        )
        view.show(Refused(frame=ErrorFrame(code="internal", message="Again.")))
        advice = "\n`stepline logs` has the cause" if local else ""
        assert said == [
            f"error: step_failed: It failed.{advice}",
            "error: context_limit: Too long.",
            f"error: internal: Again.{advice}",
        ]
