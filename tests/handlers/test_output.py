"""The output of a running program: the log copy of a bucket's event is posted to the listeners."""

from __future__ import annotations

import msgspec

from lambdas import output
from stepline.errors import DependencyError
from stepline.model.program.running_log import RunningLog
from stepline.model.wire.event import DeltaFrame
from tests.support.conversation import Conversation, of
from tests.support.generation import answered, coded

from .conftest import LambdaRuntime, recorded


def printing(runtime: LambdaRuntime) -> tuple[Conversation, dict]:
    """Return a conversation whose running program has stored a log copy, and the event for the copy."""
    conversation = Conversation(coded("print(1)", "a.csv"), answered("Done."))
    conversation.programs(lambda _job: None)
    runtime.use(conversation.app)
    conversation.send()
    conversation.decide()
    conversation.act()
    state, event = conversation.state, recorded("program_printed")
    key = f"exec/acme/support/c-1/{state.turn}/{state.running}/log.json"
    event["detail"]["object"]["key"] = key
    copy = msgspec.json.encode(RunningLog(lane="exec.0.log", text="half way"))
    conversation.ports.artifacts.objects[key] = copy
    return conversation, event


def test_a_stored_log_copy_is_posted(runtime: LambdaRuntime) -> None:
    conversation, event = printing(runtime)
    inbox = conversation.listen()
    assert runtime.call(output.handler, event) == {"frames": 2}
    assert {frame.lane: frame.text for frame in of(DeltaFrame, inbox)}["exec.0.log"] == "half way"
    assert "half way" not in runtime.text


def test_a_log_copy_of_an_unknown_run_is_not_posted(runtime: LambdaRuntime) -> None:
    conversation, event = printing(runtime)
    inbox = conversation.listen()
    event["detail"]["object"]["key"] = recorded("program_printed")["detail"]["object"]["key"]
    assert runtime.call(output.handler, event) == {"frames": 0}
    assert inbox == []


def test_another_object_is_not_posted(runtime: LambdaRuntime) -> None:
    _, event = printing(runtime)
    event["detail"]["object"]["key"] = "exec/acme/support/c-1/turn_1/../log.json"
    assert runtime.call(output.handler, event) == {"frames": 0}


def test_an_unavailable_store_is_not_a_failure(runtime: LambdaRuntime, monkeypatch) -> None:
    conversation, event = printing(runtime)

    def away(_key: str) -> bytes:
        raise DependencyError("the store is away")

    monkeypatch.setattr(conversation.ports.artifacts, "get", away)
    assert runtime.call(output.handler, event) == {"frames": 0}
    assert runtime.lines[-2]["code"] == "dependency"
