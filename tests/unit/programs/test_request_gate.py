from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepline.errors import ToolError
from stepline.model.program.execution import Isolation
from stepline.programs.frame import REQUEST_BYTES_MAX
from stepline.programs.request_gate import (
    HANGS_UP,
    PARAMS_DEPTH_MAX,
    REFUSED_MAX,
    VALUES_MAX,
    CallRefusal,
    CallRequest,
    Hello,
    RequestGate,
    count_marks,
)

TOKEN = "t0ken"
DEADLINE_S = 100.0
CONFINED = {"backend": "process", "seccomp": True, "namespaces": ["pid", "net"], "uid": 1001}


def gate(*, quota: int = 3, token: str = TOKEN, hello: bool = True) -> RequestGate:
    made = RequestGate(token=token, allowed_uids=frozenset({1001}), quota=quota, deadline_s=DEADLINE_S)
    if hello:
        assert isinstance(ask(made, type="hello", isolation=CONFINED), Hello)
    return made


def ask(made: RequestGate, now_s: float = 0.0, **fields: Any):
    request = {
        "v": 1,
        "id": 7,
        "type": "call",
        "token": TOKEN,
        "tool_id": "test.echo",
        "params": {},
        **fields,
    }
    return made.take(
        json.dumps({key: value for key, value in request.items() if value != "absent"}).encode(), now_s
    )


def code(verdict) -> str:
    assert isinstance(verdict, CallRefusal), verdict
    return verdict.code


def test_a_hello_says_how_far_the_jail_closed():
    made = gate(hello=False)
    assert made.isolation is None
    verdict = ask(made, type="hello", isolation=CONFINED)
    assert verdict == Hello(id=7, isolation=made.isolation)
    assert made.isolation == Isolation(backend="process", seccomp=True, namespaces=("pid", "net"), uid=1001)


def test_a_call_is_passed_on_unchanged():
    verdict = ask(gate(), tool_id=None, params=[1])
    assert verdict == CallRequest(id=7, tool_id=None, params=[1])


@pytest.mark.parametrize("isolation", [None, "x", {"seccomp": "yes"}, {"namespaces": 1}, "absent"])
def test_a_hello_without_an_isolation_is_refused(isolation):
    made = gate(hello=False)
    assert code(ask(made, type="hello", isolation=isolation)) == "bad_params"
    assert made.isolation is None


def test_a_second_report_of_the_isolation_is_refused():
    made = gate()
    assert code(ask(made, type="hello", isolation={"backend": "other"})) == "already_confined"
    assert made.isolation is not None
    assert made.isolation.backend == "process"


@pytest.mark.parametrize("token", ["", "t0ke", "t0ken ", "tökén", None, 7, ["t0ken"], {}, "absent"])
def test_another_token_is_refused(token):
    assert code(ask(gate(), token=token)) == "unauthorized"


def test_a_run_without_a_token_takes_none():
    assert (
        code(ask(gate(token="", hello=False), token="", type="hello", isolation=CONFINED)) == "unauthorized"
    )


@pytest.mark.parametrize("kind", ["", "Call", None, 1, ["call"], "__class__", "absent"])
def test_another_type_is_refused(kind):
    assert code(ask(gate(), type=kind)) == "unknown_type"


@pytest.mark.parametrize("version", [0, 2, "1", True, None, 1.0, 11, "absent"])
def test_another_version_ends_the_connection(version):
    verdict = ask(gate(), v=version)
    assert (code(verdict), verdict.fatal) == ("bad_version", True)


@pytest.mark.parametrize("number", ["7", True, None, 7.5, 10**4_200, "absent"])
def test_a_request_without_a_number_cannot_be_answered(number):
    verdict = ask(gate(), id=number)
    assert (code(verdict), verdict.fatal, verdict.id) == ("bad_frame", True, 0)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"x"',
        b"\xff",
        b'{"a":"\xff"}',
        b"[" * 100_000,
        b'{"v":NaN}',
        b'{"a":"\\ud800"}',
    ],
)
def test_a_request_that_is_not_an_object_ends_the_connection(body):
    verdict = gate().take(body, 0.0)
    assert (code(verdict), verdict.fatal) == ("bad_frame", True)


@given(st.binary(max_size=200))
def test_the_gate_survives_any_bytes(body):
    assert isinstance(gate(hello=False).take(body, 0.0), CallRefusal)


def test_calls_are_counted_and_then_refused():
    made = gate(quota=2)
    assert [type(ask(made)).__name__ for _ in range(2)] == ["CallRequest", "CallRequest"]
    assert code(ask(made)) == "quota_exceeded"


def test_refused_calls_count_but_unauthorized_ones_do_not():
    made = gate(quota=1)
    assert code(ask(made, token="guess")) == "unauthorized"
    assert code(ask(made, type="eval")) == "unknown_type"
    assert code(ask(made, params=[[]] * (VALUES_MAX + 1))) == "bad_params"
    assert code(ask(made)) == "quota_exceeded"


def test_the_last_moment_is_before_the_deadline():
    made = gate()
    assert isinstance(ask(made, now_s=DEADLINE_S - 0.001), CallRequest)
    assert code(ask(made, now_s=DEADLINE_S)) == "deadline_over"


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("params", "fits"),
    [
        ({"rows": [0] * (VALUES_MAX - 1)}, True),
        ({"rows": [0] * VALUES_MAX}, False),
        ({"rows": [[0]] * (VALUES_MAX // 2 + 1)}, False),
        (nested(PARAMS_DEPTH_MAX - 1), True),
        (nested(PARAMS_DEPTH_MAX + 1), False),
        ({"text": "x," * 1_000_000}, True),
    ],
    ids=["most", "too many", "too many inside", "deepest", "too deep", "long text"],
)
def test_parameters_are_bounded_in_number_and_depth(params, fits):
    verdict = ask(gate(), params=params)
    assert isinstance(verdict, CallRequest) if fits else code(verdict) == "bad_params"


# Every flaw that a call can have, in the order of the checks.
FLAWS: list[tuple[str, dict[str, Any]]] = [
    ("deadline_over", {}),
    ("bad_frame", {"id": None}),
    ("bad_version", {"v": 2}),
    ("unauthorized", {"token": "guess"}),
    ("unknown_type", {"type": "eval"}),
    ("hello_required", {}),
    ("quota_exceeded", {}),
    ("bad_params", {"params": nested(PARAMS_DEPTH_MAX + 1)}),
]


@given(st.sets(st.sampled_from([name for name, _ in FLAWS]), min_size=1))
def test_the_first_flaw_is_the_one_that_is_named(flaws):
    made = gate(quota=0 if "quota_exceeded" in flaws else 1, hello="hello_required" not in flaws)
    fields = {key: value for name, change in FLAWS if name in flaws for key, value in change.items()}
    now_s = DEADLINE_S if "deadline_over" in flaws else 0.0
    verdict = ask(made, now_s, **fields)
    first = next(name for name, _ in FLAWS if name in flaws)
    fatal = first in HANGS_UP
    assert (code(verdict), verdict.fatal, verdict.id) == (first, fatal, 0 if fatal else 7)


def test_another_user_is_refused_before_anything_is_read():
    made = gate()
    assert made.check_peer(1001) is None
    refusal = made.check_peer(0)
    assert refusal is not None
    assert (refusal.code, refusal.fatal) == ("wrong_peer", True)


BROKEN = b'["\xff"]'
"""JSON by its brackets, but with an invalid text, which only a full decoder notices."""


def raw(params: bytes, **fields: Any) -> bytes:
    head = {"v": 1, "id": 7, "type": "call", "token": TOKEN, "tool_id": "test.echo", **fields}
    return json.dumps(head).encode()[:-1] + b',"params":' + params + b"}"


def test_parameters_are_not_read_before_the_caller_may_call():
    made = gate(quota=1)
    assert code(made.take(raw(BROKEN, token="guess"), 0.0)) == "unauthorized"
    assert code(made.take(raw(BROKEN, type="eval"), 0.0)) == "unknown_type"
    assert code(made.take(raw(BROKEN), DEADLINE_S)) == "deadline_over"
    assert code(gate(hello=False).take(raw(BROKEN), 0.0)) == "hello_required"
    assert code(gate(quota=0).take(raw(BROKEN), 0.0)) == "quota_exceeded"
    assert code(made.take(raw(BROKEN), 0.0)) == "bad_frame"


def test_parameters_are_not_read_before_they_are_known_to_be_few():
    many = b"[" + b"[]," * (2 * VALUES_MAX) + BROKEN + b"]"
    assert code(gate().take(raw(many), 0.0)) == "bad_params"


@pytest.mark.parametrize("field", ["v", "id", "type", "token", "isolation", "tool_id", "params", "other"])
@pytest.mark.parametrize("kind", ["call", "hello"])
def test_no_field_costs_memory_many_times_its_size(field, kind):
    fields = {
        "v": 1,
        "id": 7,
        "type": kind,
        "token": TOKEN,
        "tool_id": "test.echo",
        "params": {},
        field: None,
    }
    many = b"[" + b"[]," * 1_000_000 + b"[]]"
    body = json.dumps(fields).encode().replace(b"null", many)
    made = gate(hello=kind == "call")
    tracemalloc.start()
    try:
        made.take(body, 0.0)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < len(body)


def test_a_long_text_full_of_commas_and_quotes_is_one_value():
    text = '","[{\\' * ((REQUEST_BYTES_MAX - 1_000) // 12)
    verdict = ask(gate(), params={"text": text})
    assert isinstance(verdict, CallRequest)
    assert verdict.params == {"text": text}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.text(alphabet='\\",[{x', max_size=20),
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(st.text(alphabet='\\",[{x', max_size=6), inner, max_size=5)
    ),
    max_leaves=30,
)


def marks(value: Any) -> int:
    match value:
        case dict() | list():
            inner = list(value.values()) if isinstance(value, dict) else value
            return 1 + max(0, len(inner) - 1) + sum(marks(item) for item in inner)
        case _:
            return 0


@given(JSON, st.integers(min_value=1, max_value=40), st.booleans())
def test_marks_inside_texts_do_not_count_wherever_a_piece_ends(value, piece_bytes, ascii_only):
    data = json.dumps(value, ensure_ascii=ascii_only).encode(errors="surrogatepass")
    assert count_marks(data, len(data), piece_bytes=piece_bytes) == marks(value)


def test_after_many_refusals_a_run_loses_its_connections_and_gets_no_more():
    made = gate(quota=1)
    assert isinstance(ask(made), CallRequest)
    for _ in range(REFUSED_MAX - 1):
        verdict = ask(made)
        assert (code(verdict), verdict.fatal, verdict.id) == ("quota_exceeded", False, 7)
        assert made.check_refused() is None
    verdict = ask(made)
    assert (code(verdict), verdict.fatal, verdict.id) == ("quota_exceeded", True, 0)
    refusal = made.check_refused()
    assert refusal is not None
    assert (refusal.code, refusal.fatal) == ("too_many_refusals", True)


def test_a_frame_that_is_refused_elsewhere_counts_too():
    made = gate()
    for _ in range(REFUSED_MAX):
        refusal = made.refuse(ToolError("too long", code="frame_too_large"))
        assert (refusal.code, refusal.fatal) == ("frame_too_large", True)
    assert made.check_refused() is not None


def test_calls_that_were_let_in_are_no_refusals():
    made = gate(quota=2 * REFUSED_MAX)
    assert all(isinstance(ask(made, tool_id="test.fly"), CallRequest) for _ in range(2 * REFUSED_MAX))
    assert made.check_refused() is None
