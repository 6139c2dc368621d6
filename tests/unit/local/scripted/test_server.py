"""The scripted server on the wire: shapes of the published API, faults, the control endpoint."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest

from stepline.local.guard.own_server import HEALTH
from stepline.local.scripted.fault import BAD_PREFIX, UNESCAPED, Fault, Kind
from stepline.local.scripted.messages_request import count_tokens
from stepline.local.scripted.policy import PROTOCOL_MARK
from stepline.local.scripted.server import ScriptedServer
from tests.support.generation import DECISION, end_tag, start_tag, tagged

KEY = {"x-api-key": "k", "anthropic-version": "2023-06-01"}
BODY = {
    "model": "claude-opus-4-8",
    "max_tokens": 1000,
    "system": "Be brief.",
    "messages": [{"role": "user", "content": "Hello there"}],
}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ScriptedServer]:
    (tmp_path / "recorded.txt").write_text("a recorded stream", encoding="utf-8")
    with ScriptedServer(token_delay_ms=0, fixtures=tmp_path, window_tokens=2000) as running:
        yield running


def call(
    server: ScriptedServer, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
) -> tuple[int, Any, dict[str, str]]:
    """Return status, body (parsed if it is JSON) and headers."""
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"))
    try:
        data = json.dumps(body).encode() if not isinstance(body, bytes | None) else body
        connection.request(method, path, data, {} if headers is None else headers)
        response = connection.getresponse()
        raw = response.read()
        found = {name.lower(): value for name, value in response.getheaders()}
        return response.status, json.loads(raw) if "json" in found["content-type"] else raw.decode(), found
    finally:
        connection.close()


def post(server: ScriptedServer, **changes: Any) -> tuple[int, Any, dict[str, str]]:
    return call(server, "POST", "/v1/messages", {**BODY, **changes}, KEY)


def events(stream: str) -> list[dict[str, Any]]:
    """Parse server-sent events, checking that each event's name matches its data."""
    found = []
    for chunk in stream.removesuffix("\n\n").split("\n\n"):
        name, data = chunk.split("\n", 1)
        event = json.loads(data.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        found.append(event)
    return found


def test_health_needs_no_key(server: ScriptedServer) -> None:
    assert call(server, "GET", HEALTH)[:2] == (200, "")


def test_a_stream_has_the_published_order_of_events(server: ScriptedServer) -> None:
    status, stream, headers = post(server, stream=True)
    assert status == 200
    assert headers["content-type"].startswith("text/event-stream")
    assert headers["request-id"].startswith("req_")
    found = events(stream)
    kinds = [event["type"] for event in found]
    assert kinds[:3] == ["message_start", "content_block_start", "ping"]
    assert kinds[-3:] == ["content_block_stop", "message_delta", "message_stop"]
    assert set(kinds[3:-3]) == {"content_block_delta"}
    assert found[0]["message"]["stop_reason"] is None
    assert found[-2]["delta"] == {"stop_reason": "end_turn", "stop_sequence": None, "stop_details": None}
    assert found[-2]["usage"]["output_tokens"] > found[0]["message"]["usage"]["output_tokens"]


@pytest.mark.parametrize(
    ("changes", "thinks", "shown"),
    [
        ({}, False, False),
        ({"thinking": {"type": "adaptive"}}, True, False),
        ({"thinking": {"type": "adaptive", "display": "summarized"}}, True, True),
        ({"model": "claude-sonnet-5-5"}, True, False),
        ({"model": "claude-sonnet-5-5", "thinking": {"type": "between_tools"}}, False, False),
        ({"model": "claude-opus-5", "thinking": {"type": "disabled"}}, False, False),
        ({"model": "claude-opus-5-5", "output_config": {"effort": "low"}}, True, False),
        ({"model": "claude-haiku-4-5"}, False, False),
        (
            {
                "model": "claude-haiku-4-5",
                "max_tokens": 1500,
                "thinking": {"type": "enabled", "budget_tokens": 1024},
            },
            True,
            True,
        ),
        ({"model": "our-own"}, False, False),
    ],
)
def test_a_model_thinks_before_its_text_as_its_family_does(
    server: ScriptedServer, changes: dict[str, Any], thinks: bool, shown: bool
) -> None:
    _, whole, _ = post(server, **changes)
    _, stream, _ = post(server, stream=True, **changes)
    kinds = [block["type"] for block in whole["content"]]
    assert kinds == ["thinking", "text"][not thinks :]
    found = events(stream)
    assert [e["content_block"]["type"] for e in found if e["type"] == "content_block_start"] == kinds
    changed = {e["delta"]["type"]: e["index"] for e in found if e["type"] == "content_block_delta"}
    assert changed == {
        **({"thinking_delta": 0} if shown else {}),
        **({"signature_delta": 0} if thinks else {}),
        "text_delta": int(thinks),
    }
    counts = found[-2]["usage"]
    thought = counts["output_tokens_details"]["thinking_tokens"]
    assert (thought > 0) is thinks
    assert counts["output_tokens"] == thought + count_tokens(whole["content"][-1]["text"])
    if thinks:
        assert whole["content"][0]["signature"]
        assert bool(whole["content"][0]["thinking"]) is shown


def test_thinking_counts_in_what_an_answer_may_have(server: ScriptedServer) -> None:
    queue(server, {"kind": "thinking", "thinking_tokens": 90}, {"kind": "thinking", "thinking_tokens": 400})
    part = post(server, max_tokens=100)[1]
    assert count_tokens(part["content"][1]["text"]) == 10
    assert (part["stop_reason"], part["usage"]["output_tokens"]) == ("max_tokens", 100)
    starved = events(post(server, max_tokens=100, stream=True)[1])
    assert [e["content_block"]["type"] for e in starved if e["type"] == "content_block_start"] == ["thinking"]
    assert starved[-2]["delta"]["stop_reason"] == "max_tokens"
    assert starved[-2]["usage"]["output_tokens"] == 100


NEW = {**KEY, "anthropic-version": "2026-10-21"}


@pytest.mark.parametrize(
    ("changes", "head", "status"),
    [
        ({"temperature": 1}, NEW, 400),
        ({"top_p": 0.5}, NEW, 400),
        ({"top_k": 5, "model": "claude-haiku-4-5"}, NEW, 400),
        ({"temperature": 0.5}, KEY, 400),
        ({"temperature": 0.5, "model": "claude-haiku-4-5"}, KEY, 200),
        ({"thinking": {"type": "disabled"}, "model": "claude-sonnet-5-5"}, NEW, 400),
        ({"thinking": {"type": "disabled"}, "model": "claude-fable-5-1"}, NEW, 400),
        ({"thinking": {"type": "disabled"}, "model": "claude-haiku-4-5"}, NEW, 200),
        ({"thinking": {"type": "between_tools"}, "model": "claude-opus-5"}, NEW, 400),
        ({"thinking": {"type": "adaptive"}, "model": "claude-haiku-4-5"}, NEW, 400),
        ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, NEW, 400),
        (
            {"thinking": {"type": "enabled", "budget_tokens": 1024}, "model": "claude-haiku-4-5"},
            NEW,
            400,  # the limit of the whole answer
        ),
        ({"thinking": {"type": "a lot"}}, NEW, 400),
        ({"output_config": {"effort": "low"}, "model": "claude-haiku-4-5"}, NEW, 400),
        ({"output_config": {"effort": "xhigh"}}, NEW, 200),
        (
            {
                "output_config": {"effort": "max"},
                "thinking": {"type": "disabled"},
                "model": "claude-opus-5",
            },
            NEW,
            400,
        ),
    ],
)
def test_fields_that_a_model_or_version_rejects_are_refused(
    server: ScriptedServer, changes: dict[str, Any], head: dict[str, str], status: int
) -> None:
    found, body, _ = call(server, "POST", "/v1/messages", {**BODY, **changes}, head)
    assert found == status
    assert status == 200 or body["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    ("model", "version", "status"),
    [
        ("us.anthropic.claude-haiku-4-5-20251001-v1:0", "2026-10-21", 400),
        ("us.anthropic.claude-haiku-4-5-20251001-v1:0", "bedrock-2023-05-31", 200),
        ("global.anthropic.claude-sonnet-5-5", "2026-10-21", 200),
    ],
)
def test_bedrock_serves_a_model_under_its_version(
    server: ScriptedServer, model: str, version: str, status: int
) -> None:
    path = f"/model/{model}/invoke-with-response-stream"
    body = {**BODY, "anthropic_version": version}
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"))
    connection.request("POST", path, json.dumps(body))
    assert connection.getresponse().status == status
    connection.close()


def test_an_overload_says_when_to_come_again(server: ScriptedServer) -> None:
    queue(server, {"kind": "overloaded", "retry_after_s": 30})
    status, body, headers = post(server)
    assert (status, body["error"]["type"], headers["retry-after"]) == (529, "overloaded_error", "30")


def test_an_answer_names_another_model_if_it_shall(server: ScriptedServer) -> None:
    queue(server, {"kind": "fixture", "text": "x", "model": "claude-haiku-4-5", "count": 2})
    assert post(server)[1]["model"] == "claude-haiku-4-5"
    assert events(post(server, stream=True)[1])[0]["message"]["model"] == "claude-haiku-4-5"


def test_the_pieces_of_a_stream_are_the_whole_answer(server: ScriptedServer) -> None:
    _, whole, _ = post(server)
    _, stream, _ = post(server, stream=True)
    pieces = [event["delta"]["text"] for event in events(stream) if event["type"] == "content_block_delta"]
    assert "".join(pieces) == whole["content"][0]["text"]
    assert "not an AI" in whole["content"][0]["text"]


def test_usage_follows_the_cache(server: ScriptedServer) -> None:
    long = [{"type": "text", "text": "x" * 4400, "cache_control": {"type": "ephemeral"}}]
    uses = [post(server, system=long, max_tokens=100)[1]["usage"] for _ in range(2)]
    assert [(use["cache_creation_input_tokens"], use["cache_read_input_tokens"]) for use in uses] == [
        (1100, 0),
        (0, 1100),
    ]
    assert uses[0]["cache_creation"] == {"ephemeral_5m_input_tokens": 1100, "ephemeral_1h_input_tokens": 0}
    assert [use["input_tokens"] for use in uses] == [3, 3]


@pytest.mark.parametrize(
    ("changes", "status", "kind"),
    [
        ({"messages": []}, 400, "invalid_request_error"),
        ({"system": "x" * 9000}, 400, "invalid_request_error"),
        ({"max_tokens": 1999}, 400, "invalid_request_error"),
    ],
    ids=["no message", "too long", "no room for the answer"],
)
def test_a_refusal_has_the_published_shape(
    server: ScriptedServer, changes: dict[str, Any], status: int, kind: str
) -> None:
    got, body, _ = post(server, **changes)
    assert (got, body["type"], body["error"]["type"]) == (status, "error", kind)
    assert body["request_id"].startswith("req_")


def test_without_a_key_there_is_no_answer(server: ScriptedServer) -> None:
    status, body, _ = call(server, "POST", "/v1/messages", BODY, {"anthropic-version": "2023-06-01"})
    assert (status, body["error"]["type"]) == (401, "authentication_error")


def test_a_bearer_token_is_a_key_too(server: ScriptedServer) -> None:
    headers = {"authorization": "Bearer t", "anthropic-version": "2023-06-01"}
    assert call(server, "POST", "/v1/messages", BODY, headers)[0] == 200


def test_rubbish_is_refused_and_the_server_lives_on(server: ScriptedServer) -> None:
    assert call(server, "POST", "/v1/messages", b"{not json", KEY)[0] == 400
    assert call(server, "POST", "/v1/nothing", BODY, KEY)[0] == 404
    assert call(server, "GET", "/v1/messages", None, KEY)[0] == 404
    assert post(server)[0] == 200


def test_a_stop_sequence_ends_the_answer_before_it(server: ScriptedServer) -> None:
    body = post(server, stop_sequences=["scripted"])[1]
    assert (body["stop_reason"], body["stop_sequence"]) == ("stop_sequence", "scripted")
    assert "scripted" not in body["content"][0]["text"]


def test_an_answer_ends_at_max_tokens(server: ScriptedServer) -> None:
    body = post(server, max_tokens=5)[1]
    assert body["stop_reason"] == "max_tokens"
    assert len(body["content"][0]["text"]) <= 20


def queue(server: ScriptedServer, *faults: dict[str, Any]) -> None:
    assert call(server, "POST", "/control/faults", list(faults))[0] == 200


@pytest.mark.parametrize(
    ("kind", "status", "error"),
    [
        ("rate_limited", 429, "rate_limit_error"),
        ("overloaded", 529, "overloaded_error"),
        ("server_error", 500, "api_error"),
        ("invalid_request", 400, "invalid_request_error"),
        ("context_limit", 400, "invalid_request_error"),
    ],
)
def test_a_fault_is_used_up(server: ScriptedServer, kind: str, status: int, error: str) -> None:
    queue(server, {"kind": kind, "retry_after_s": 3})
    got, body, headers = post(server)
    assert (got, body["error"]["type"]) == (status, error)
    assert headers.get("retry-after") == (
        "3" if status in (429, 529, 500) or kind == "invalid_request" else None
    )
    assert post(server)[0] == 200


def test_a_fault_waits_for_its_request_and_counts(server: ScriptedServer) -> None:
    queue(
        server,
        {"kind": "overloaded", "match": "there", "count": 2},
        {"kind": "rate_limited", "match": "no match"},
    )
    assert post(server, messages=[{"role": "user", "content": "other"}])[0] == 200
    assert [post(server)[0] for _ in range(3)] == [529, 529, 200]
    assert [fault["kind"] for fault in call(server, "GET", "/control/faults")[1]] == ["rate_limited"]
    call(server, "DELETE", "/control/faults")
    assert call(server, "GET", "/control/faults")[1] == []


def test_a_cut_leaves_the_stream_unfinished(server: ScriptedServer) -> None:
    queue(server, {"kind": "cut", "after_chars": 12})
    with pytest.raises(http.client.IncompleteRead) as caught:
        post(server, stream=True)
    assert b"message_start" in caught.value.partial
    assert b"message_stop" not in caught.value.partial


def test_an_error_may_come_inside_the_stream(server: ScriptedServer) -> None:
    queue(server, {"kind": "error_in_stream", "after_chars": 8, "error_type": "overloaded_error"})
    last = events(post(server, stream=True)[1])[-1]
    assert (last["type"], last["error"]["type"]) == ("error", "overloaded_error")


def test_a_fixture_is_streamed_unchanged(server: ScriptedServer) -> None:
    queue(server, {"kind": "fixture", "name": "recorded.txt"}, {"kind": "fixture", "text": "given here"})
    assert post(server)[1]["content"][0]["text"] == "a recorded stream"
    assert post(server)[1]["content"][0]["text"] == "given here"


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "missing.txt", "..", ""])
def test_a_fixture_is_a_file_of_the_folder_or_nothing(server: ScriptedServer, name: str) -> None:
    queue(server, {"kind": "fixture", "name": name})
    assert post(server)[0] == 404


def test_a_malformed_protocol_is_a_well_formed_message(server: ScriptedServer) -> None:
    queue(server, {"kind": "malformed_protocol"})
    text = post(server)[1]["content"][0]["text"]
    assert text.startswith("Sure!")
    assert end_tag(DECISION) not in text


@pytest.mark.parametrize(
    ("fault", "beginning"),
    [
        ({"kind": "bad_prefix"}, BAD_PREFIX),
        (
            {"kind": "bad_prefix", "text": tagged("code", "")},
            (tagged("code", "") + start_tag("thinking")),
        ),
    ],
)
def test_a_bad_prefix_precedes_the_right_answer(
    server: ScriptedServer, fault: dict[str, Any], beginning: str
) -> None:
    queue(server, fault)
    spoiled, right = (post(server, system=PROTOCOL_MARK)[1]["content"][0]["text"] for _ in range(2))
    assert spoiled.startswith(beginning)
    assert spoiled.endswith(right)


def test_an_unescaped_quote_is_the_only_thing_wrong(server: ScriptedServer) -> None:
    queue(server, {"kind": "unescaped_quote"})
    spoiled, right = (post(server, system=PROTOCOL_MARK)[1]["content"][0]["text"] for _ in range(2))
    assert spoiled.replace(UNESCAPED, "") == right != spoiled


def test_each_request_records_how_much_was_sent(server: ScriptedServer) -> None:
    queue(server, {"kind": "error_in_stream", "after_chars": 9})
    post(server, stream=True)
    text = post(server)[1]["content"][0]["text"]
    post(server, stream=True)
    sent = [seen["sent_chars"] for seen in call(server, "GET", "/control/requests")[1]]
    assert sent == [9, len(text), len(text)]


def test_a_refusal_by_the_model_is_a_stop_reason(server: ScriptedServer) -> None:
    queue(server, {"kind": "refusal"})
    body = post(server)[1]
    assert (body["stop_reason"], body["content"]) == ("refusal", [])
    assert body["stop_details"] == {"type": "refusal", "category": None, "explanation": None}
    queue(server, {"kind": "refusal", "text": "I", "category": "cyber", "explanation": "It may do harm."})
    last = events(post(server, stream=True)[1])[-2]["delta"]
    assert last["stop_details"]["category"] == "cyber"


@pytest.mark.parametrize("fault", [{"kind": "earthquake"}, {}, 7, [{"kind": "cut", "count": "many"}]])
def test_an_invalid_fault_is_refused(server: ScriptedServer, fault: Any) -> None:
    assert call(server, "POST", "/control/faults", fault)[0] == 400


def test_the_last_requests_are_kept_with_their_price(server: ScriptedServer) -> None:
    post(server)
    seen = call(server, "GET", "/control/requests")[1]
    assert seen[-1]["body"] == BODY
    assert seen[-1]["usage"]["input_tokens"] > 0
    call(server, "DELETE", "/control/requests")
    assert call(server, "GET", "/control/requests")[1] == []


@pytest.mark.parametrize(
    "named", [{"origin": "http://evil.test"}, {"host": "evil.test"}, {"host": "evil.test:{port}"}]
)
def test_a_web_page_controls_nothing_reads_nothing_and_asks_nothing(
    server: ScriptedServer, named: dict[str, str]
) -> None:
    headers = {name: value.format(port=server.server_address[1]) for name, value in named.items()}
    asked = [
        ("POST", "/control/faults", {"kind": "cut"}, {}),
        ("GET", "/control/requests", None, {}),
        ("POST", "/v1/messages", BODY, KEY),
    ]
    for method, path, sent, own in asked:
        status, body, _ = call(server, method, path, sent, {**own, **headers})
        assert (path, status, body["error"]["type"]) == (path, 403, "permission_error")
    assert call(server, "GET", "/control/faults")[1] == []


def test_one_connection_serves_many_calls(server: ScriptedServer) -> None:
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"))
    for _ in range(3):
        connection.request("POST", "/v1/messages", json.dumps({**BODY, "stream": True}), KEY)
        assert b"message_stop" in connection.getresponse().read()
    connection.close()


def test_it_listens_on_loopback_only(server: ScriptedServer) -> None:
    assert server.server_address[0] == "127.0.0.1"


def test_it_runs_as_a_program() -> None:
    pytest.importorskip("click")
    command = [sys.executable, "-m", "stepline.local.scripted", "--token-delay-ms", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        address = program.stdout.readline().rpartition("http://")[2].strip()
        connection = http.client.HTTPConnection(address)
        connection.request("GET", HEALTH)
        assert connection.getresponse().status == 200
        connection.close()
        program.terminate()


def test_the_reference_names_every_fault_and_field() -> None:
    reference = (
        Path(__file__).parents[4].joinpath("docs/reference/scripted-model.md").read_text(encoding="utf-8")
    )
    for name in (*get_args(Kind), *Fault.__struct_fields__):
        assert f"`{name}`" in reference


def test_a_port_in_use_is_reported_on_one_line(server: ScriptedServer) -> None:
    port = server.url.rpartition(":")[2]
    command = [sys.executable, "-m", "stepline.local.scripted", "--port", port]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"error: local_service: port {port} is not available (")
