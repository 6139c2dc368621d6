from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepline.execution.gate import DEPTH_MAX, VALUES_MAX, Call, Gate, Hello, Refusal
from stepline.model.execution import Isolation

TOKEN = "t0ken"
DEADLINE_S = 100.0
CONFINED = {"backend": "process", "seccomp": True, "namespaces": ["pid", "net"], "uid": 1001}


def gate(*, quota: int = 3, token: str = TOKEN, hello: bool = True) -> Gate:
    made = Gate(token=token, allowed_uids=frozenset({1001}), quota=quota, deadline_s=DEADLINE_S)
    if hello:
        assert isinstance(ask(made, type="hello", isolation=CONFINED), Hello)
    return made


def ask(made: Gate, now_s: float = 0.0, **fields: Any):
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
    assert isinstance(verdict, Refusal), verdict
    return verdict.code


def test_a_hello_says_how_far_the_jail_closed():
    made = gate(hello=False)
    assert made.isolation is None
    verdict = ask(made, type="hello", isolation=CONFINED)
    assert verdict == Hello(id=7, isolation=made.isolation)
    assert made.isolation == Isolation(backend="process", seccomp=True, namespaces=("pid", "net"), uid=1001)


def test_a_call_is_passed_on_as_it_came():
    verdict = ask(gate(), tool_id=None, params=[1])
    assert verdict == Call(id=7, tool_id=None, params=[1])


@pytest.mark.parametrize("isolation", [None, "x", {"seccomp": "yes"}, {"namespaces": 1}, "absent"])
def test_a_hello_without_an_isolation_is_none(isolation):
    made = gate(hello=False)
    assert code(ask(made, type="hello", isolation=isolation)) == "bad_params"
    assert made.isolation is None


def test_nobody_can_report_a_better_isolation_later():
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


@pytest.mark.parametrize("version", [0, 2, "1", True, None, 1.0, "absent"])
def test_another_version_ends_the_connection(version):
    verdict = ask(gate(), v=version)
    assert (code(verdict), verdict.fatal) == ("bad_version", True)


@pytest.mark.parametrize("number", ["7", True, None, 7.5, "absent"])
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
def test_what_is_no_object_ends_the_connection(body):
    verdict = gate().take(body, 0.0)
    assert (code(verdict), verdict.fatal) == ("bad_frame", True)


@given(st.binary(max_size=200))
def test_no_bytes_bring_the_gate_down(body):
    assert isinstance(gate(hello=False).take(body, 0.0), Refusal)


def test_calls_are_counted_and_then_refused():
    made = gate(quota=2)
    assert [type(ask(made)).__name__ for _ in range(2)] == ["Call", "Call"]
    assert code(ask(made)) == "quota_exceeded"


def test_a_refused_call_counts_too_but_not_who_may_not_call():
    made = gate(quota=1)
    assert code(ask(made, token="guess")) == "unauthorized"
    assert code(ask(made, params=[[]] * (VALUES_MAX + 1))) == "bad_params"
    assert code(ask(made)) == "quota_exceeded"


def test_the_last_moment_is_before_the_deadline():
    made = gate()
    assert isinstance(ask(made, now_s=DEADLINE_S - 0.001), Call)
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
        (nested(DEPTH_MAX - 1), True),
        (nested(DEPTH_MAX + 1), False),
        ({"text": "x," * 1_000_000}, True),
    ],
    ids=["most", "too many", "too many inside", "deepest", "too deep", "long text"],
)
def test_parameters_are_bounded_in_number_and_depth(params, fits):
    verdict = ask(gate(), params=params)
    assert isinstance(verdict, Call) if fits else code(verdict) == "bad_params"


# Every flaw a call can have, in the order in which they are looked for.
FLAWS: list[tuple[str, dict[str, Any]]] = [
    ("bad_frame", {"id": None}),
    ("bad_version", {"v": 2}),
    ("unauthorized", {"token": "guess"}),
    ("unknown_type", {"type": "eval"}),
    ("hello_required", {}),
    ("deadline_over", {}),
    ("quota_exceeded", {}),
    ("bad_params", {"params": nested(DEPTH_MAX + 1)}),
]


@given(st.sets(st.sampled_from([name for name, _ in FLAWS]), min_size=1))
def test_the_first_flaw_is_the_one_that_is_named(flaws):
    made = gate(quota=0 if "quota_exceeded" in flaws else 1, hello="hello_required" not in flaws)
    fields = {key: value for name, change in FLAWS if name in flaws for key, value in change.items()}
    now_s = DEADLINE_S if "deadline_over" in flaws else 0.0
    assert code(ask(made, now_s, **fields)) == next(name for name, _ in FLAWS if name in flaws)


def test_another_user_is_refused_before_anything_is_read():
    made = gate()
    assert made.check_peer(1001) is None
    refusal = made.check_peer(0)
    assert refusal is not None
    assert (refusal.code, refusal.fatal) == ("wrong_peer", True)
