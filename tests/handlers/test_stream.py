"""The function `stream`: reads of conversations whose readers may wait."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lambdas import api, stream
from stepline.delivery.stream_page import WAIT_MOST_S
from stepline.ingress.admit import Arrival, admit
from stepline.model.ids import Lane
from tests.handlers.conftest import LambdaRuntime, recorded

ADA = {"tenant": "acme", "project": "support", "user": "ada", "expires_at": "4000000000"}
PATH = "/v1/conversations/c-1/stream"


def ask(
    runtime: LambdaRuntime, handler: Any = stream.handler, method: str = "GET", **query: str
) -> dict[str, Any]:
    event = recorded("ticket")
    event["requestContext"]["http"] |= {"method": method, "path": PATH}
    event["requestContext"]["authorizer"] = {"lambda": ADA}
    return runtime.call(handler, {**event, "rawPath": PATH, "queryStringParameters": query})


@pytest.fixture
def talking(runtime: LambdaRuntime) -> LambdaRuntime:
    lane = Lane(tenant="acme", project="support", conversation="c-1")
    admit(runtime.app.ports, lane, Arrival(message_id="m1", user="ada", text="hello"))
    return runtime


def test_a_reader_gets_the_frames_and_then_waits(talking: LambdaRuntime) -> None:
    answer = ask(talking)
    assert (answer["statusCode"], [frame["n"] for frame in json.loads(answer["body"])]) == (200, [1])
    began_s = talking.app.ports.clock.monotonic_s()
    later = ask(talking, offset=answer["headers"]["Stream-Next-Offset"], live="long-poll")
    assert (later["statusCode"], later["body"]) == (204, "")
    assert talking.app.ports.clock.monotonic_s() - began_s == pytest.approx(WAIT_MOST_S)
    assert ask(talking, method="HEAD")["statusCode"] == 200


def test_readers_do_not_wait_in_the_function_of_all_other_endpoints(talking: LambdaRuntime) -> None:
    answer = ask(talking, api.handler, offset="-1", live="long-poll")
    assert (answer["statusCode"], json.loads(answer["body"])["code"]) == (400, "no_waiting")
    assert ask(talking, api.handler, offset="-1")["statusCode"] == 200


def test_a_read_records_no_cost_of_the_conversation(talking: LambdaRuntime) -> None:
    lane = Lane(tenant="acme", project="support", conversation="c-1")
    before = talking.app.ports.costs.of(lane)
    ask(talking)
    assert talking.app.ports.costs.of(lane) == before
