import json
from typing import Any

import pytest

from lambdas import api, decide
from lambdas.edge import replay
from stepline.adapters.memory.replays.replay_rows import MemoryReplays
from stepline.inspection.replay_request import ReplayPorts
from stepline.ports.round_replay import ReplayCall
from tests.handlers.conftest import LambdaRuntime, recorded
from tests.handlers.test_step_functions import LANE, opened, run
from tests.support.generation import answered

CONV = f"/v1/conversations/{LANE.conversation}"


class ReplayRuntime:
    """The API, and Decide as the function that it invokes."""

    def __init__(self, runtime: LambdaRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
        self.runtime = runtime
        runtime.wire(STEPLINE_INSPECT="owner")
        rows = MemoryReplays(runtime.app.ports.clock)
        self.calls: list[ReplayCall] = []
        desk = ReplayPorts(replays=rows, start=self.calls.append)
        monkeypatch.setattr(api, "replays_on_aws", lambda *_: desk)
        monkeypatch.setattr(replay, "rows_on_aws", lambda *_: rows)

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        event = recorded("ticket")
        event["requestContext"]["http"] |= {"method": method, "path": path}
        event |= {"rawPath": path, "body": json.dumps(body) if body else ""}
        event["headers"]["content-type"] = "application/json"
        answer = self.runtime.call(api.handler, event)
        return answer["statusCode"], json.loads(answer["body"])

    def make(self) -> Any:
        call = self.calls.pop()
        fields = {"lane": vars_of(call.lane), "user": call.user, "replay": call.replay}
        return self.runtime.call(decide.handler, {"replay": fields})


def vars_of(value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__struct_fields__}


@pytest.fixture
def replaying(runtime: LambdaRuntime, monkeypatch: pytest.MonkeyPatch) -> ReplayRuntime:
    return ReplayRuntime(runtime, monkeypatch)


def test_decide_makes_the_replay_that_the_api_started(replaying: ReplayRuntime) -> None:
    runtime = replaying.runtime
    run(runtime, opened(runtime, answered("done")))
    runtime.model.add(answered("once more"))
    n = next(b.n for b in runtime.app.ports.log.since(LANE, 0) if b.calls)
    status, started = replaying.ask("POST", f"{CONV}/replays", {"decided_n": n})
    assert status == 202
    assert replaying.make() == {"state": "ended"}
    _, found = replaying.ask("GET", f"{CONV}/replays/{started['replay']}")
    assert found["reply"]["decision"]["final_answer"] == "once more"
    assert "once more" not in runtime.text


def test_the_cost_row_of_a_replay_has_its_model_calls_and_the_receipt_lists_them(
    replaying: ReplayRuntime,
) -> None:
    runtime = replaying.runtime
    run(runtime, opened(runtime, answered("done")))
    _, before = replaying.ask("GET", f"{CONV}/receipts")
    runtime.model.add(answered("once more"))
    n = before["turns"][0]["rounds"][0]["decided_n"]
    replaying.ask("POST", f"{CONV}/replays", {"decided_n": n})
    replaying.make()
    (row,) = [one for one in runtime.app.ports.costs.of(LANE) if one.calls]
    assert (row.turn, row.function, len(row.calls)) == ("", "decide", 1)
    _, after = replaying.ask("GET", f"{CONV}/receipts")
    (listed,) = after["replays"]
    output = row.calls[0].usage.output_tokens
    assert listed["tokens"]["output_tokens"] == output > 0
    assert after["tokens"]["output_tokens"] == before["tokens"]["output_tokens"] + output
    turns = [(turn["turn_id"], turn["tokens"], turn["usd"]) for turn in after["turns"]]
    assert turns == [(turn["turn_id"], turn["tokens"], turn["usd"]) for turn in before["turns"]]
    assert after["attempts_unreported"] == 0
