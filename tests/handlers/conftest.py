import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lambdas import authorizer
from lambdas.edge import runtime as edge_runtime
from stepline.adapters.memory.log import MemoryLog
from stepline.adapters.memory.model import MemoryModelClient
from stepline.bootstrap import aws_wiring
from stepline.bootstrap.authentication import Authentication
from stepline.bootstrap.loop_app import LoopApp
from stepline.bootstrap.memory_wiring import in_memory
from stepline.ports.clock import Meter
from stepline.settings import Settings

EVENTS = Path(__file__).parents[1] / "data/events"
CONTEXT = SimpleNamespace(
    function_name="stepline-test",
    memory_limit_in_mb=256,
    invoked_function_arn="arn:aws:lambda:us-east-1:123456789012:function:stepline-test:live",
    aws_request_id="52fdfc07-2182-454f-963f-5f0f9a621d72",
)


def recorded(name: str) -> dict[str, Any]:
    """Return an event as AWS sends it."""
    event: dict[str, Any] = json.loads((EVENTS / f"{name}.json").read_text())
    return event


class LambdaRuntime:
    """The handlers over the in-memory twins: wired as deployed, except for the adapters."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self._monkeypatch = monkeypatch
        self._capsys = capsys
        self._stream = io.StringIO()
        for handler in logging.getLogger("stepline").handlers:
            monkeypatch.setattr(handler, "stream", self._stream)
        self.model = MemoryModelClient()
        self.app: LoopApp
        self.wire()

    def wire(self, log: MemoryLog | None = None, **environment: str) -> None:
        """Make the next call of a handler wire a new app from this environment."""
        for name, value in environment.items():
            self._monkeypatch.setenv(name, value)

        def wired(settings: Settings, meter: Meter, *_: Any, **__: Any) -> LoopApp:
            return in_memory(settings, log=log, model=self.model, meter=meter)

        self._monkeypatch.setattr(aws_wiring, "on_aws", wired)
        self.use(edge_runtime.wired(LoopApp)())

    def use(self, app: LoopApp) -> None:
        """Make every handler use this app."""
        self.app = app
        self._monkeypatch.setattr(aws_wiring, "on_aws", lambda *_, **__: app)
        self._monkeypatch.setattr(
            authorizer, "authentication_on_aws", lambda settings: Authentication(settings, app.ports.tickets)
        )
        edge_runtime.drop()

    def call(self, handler: Any, event: dict[str, Any]) -> dict[str, Any]:
        """Invoke a handler as Lambda does: everything passes through JSON."""
        answer: dict[str, Any] = json.loads(json.dumps(handler(json.loads(json.dumps(event)), CONTEXT)))
        return answer

    @property
    def text(self) -> str:
        """The whole log."""
        return self._stream.getvalue()

    @property
    def lines(self) -> list[dict[str, Any]]:
        """Every line of the log; a line that is not JSON fails."""
        return [json.loads(line) for line in self.text.splitlines()]

    def metrics(self) -> dict[str, float]:
        """Return the counts since the last call, by name."""
        counted: dict[str, float] = {}
        for line in self._capsys.readouterr().out.splitlines():
            document = json.loads(line)
            (directive,) = document["_aws"]["CloudWatchMetrics"]
            assert directive["Namespace"] == "Stepline"
            for metric in directive["Metrics"]:
                counted[metric["Name"]] = counted.get(metric["Name"], 0) + sum(document[metric["Name"]])
        return counted


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[LambdaRuntime]:
    yield LambdaRuntime(monkeypatch, capsys)
    edge_runtime.drop()
