"""Pydantic AI on AWS's durable execution SDK: the local runner is the service, a worker process is the function.

A message is an execution, and its result is the thread's messages, which are the next execution's input. The application
that keeps a thread's executions is this adapter, and outlives the worker, as a table would.
"""

from __future__ import annotations

import json
import os
import shutil
import threading
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from bench.torture.subject import (
    Message,
    NotOfferedError,
    NotRunError,
    Place,
    Release,
    Stream,
    Transcript,
)
from bench.torture.subjects.json_api import JsonApi, free_port
from bench.torture.subjects.peer_process import PEERS, PeerApp
from bench.torture.subjects.python_peer import install_python, python_versions

API: Final = "/2025-12-01"
EXECUTION_S: Final = 3_600
NO_STREAM: Final = (
    "answers are not streamed: “events cannot leave a running durable execution” (README of "
    "`pydantic_ai_harness.aws_lambda`, Constraints)"
)
NO_NAMES: Final = "a message's id is its execution's name: the local runner does not check names, by which Lambda recognizes a second start"
NO_QUEUE: Final = (
    "a running execution takes no message: the README of `pydantic_ai_harness.aws_lambda` has none from outside, and runs "
    "are awaited one after the other"
)


def versions() -> str:
    """Return the versions of the libraries and the runner."""
    names = (
        "pydantic-ai-slim", "pydantic-ai-harness", "aws-durable-execution-sdk-python",
        "aws-durable-execution-sdk-python-testing",
    )  # fmt: skip
    return python_versions("pydantic_ai", *names)


def open_subject(place: Place) -> PydanticAiSubject:
    """Return the subject. Raises NoPeerError."""
    return PydanticAiSubject(place, install_python("pydantic_ai"))


class PydanticAiSubject:
    """A runner and a worker in a folder of their own."""

    def __init__(self, place: Place, environment: Path) -> None:
        """Copy the worker's program into the folder."""
        for source in (PEERS / "pydantic_ai" / "worker.py", PEERS / "effects.py"):
            shutil.copy(source, place.folder / source.name)
        service, worker = free_port(), free_port()
        self._folder = place.folder
        self._api, worker_api = JsonApi(service), JsonApi(worker)
        self._variables = {
            **os.environ,  # noqa: TID251 - a server gets this process's variables
            "TORTURE_EFFECTS": str(place.effects.folder),
            "TORTURE_MODEL": place.model_url,
            "AWS_ENDPOINT_URL_LAMBDA": f"http://127.0.0.1:{service}",
            "AWS_ACCESS_KEY_ID": "local",
            "AWS_SECRET_ACCESS_KEY": "local",
            "AWS_DEFAULT_REGION": "us-west-2",
        }
        runner = [
            str(environment / "bin/dex-local-runner"), "start-server", "--host", "127.0.0.1", "--port", str(service),
            "--lambda-endpoint", f"http://127.0.0.1:{worker}", "--local-runner-endpoint", f"http://127.0.0.1:{service}",
            "--store-type", "sqlite", "--store-path", str(place.folder / "executions.db"),
        ]  # fmt: skip
        self._service = PeerApp(runner, place.folder / "service.log", self._api, f"{API}/durable-executions")
        command = [str(environment / "bin/python"), "worker.py", str(worker)]
        self._worker = PeerApp(command, place.folder / "worker.log", worker_api, "/")
        self._release: Release = "one"
        self._executions: dict[str, list[str]] = {}
        self._names: set[str] = set()
        self._lock = threading.Lock()

    def start(self) -> None:
        """Start the runner, then the worker."""
        self._service.start(self._folder, self._variables)
        self._worker.start(self._folder, self._variables)

    def close(self) -> None:
        """Kill both."""
        self._worker.kill()
        self._service.kill()

    def kill(self) -> None:
        """Kill the worker: the service and its store are not the agent's process."""
        self._worker.kill()

    def restart(self, release: Release = "one") -> None:
        """Start the worker again; the service invokes it again."""
        self._worker.kill()  # one that killed itself is waited for
        self._worker.start(self._folder, self._variables)

    def deploy(self, release: Release) -> None:
        """Publish a version: later executions begin on it, running ones are pinned to theirs."""
        self._release = release

    def send(self, thread: str, text: str, message_id: str) -> None:
        """Start an execution with the messages of the thread's last one."""
        with self._lock:
            if message_id in self._names:
                raise NotRunError(NO_NAMES)
            self._names.add(message_id)
            if any(self._get(arn)["Status"] == "RUNNING" for arn in self._executions.get(thread, ())):
                raise NotOfferedError(NO_QUEUE)
            event = {"prompt": text, "history": self._history(thread)}
            started = self._api.call(
                "POST",
                "/start-durable-execution",
                {
                    "AccountId": "123456789012",
                    "FunctionName": f"agent-{self._release}",
                    "FunctionQualifier": "1",
                    "ExecutionName": message_id,
                    "ExecutionTimeoutSeconds": EXECUTION_S,
                    "ExecutionRetentionPeriodDays": 7,
                    "Input": json.dumps(event),
                },
            )
            self._executions.setdefault(thread, []).append(started["ExecutionArn"])

    def steer(self, thread: str, text: str, message_id: str) -> None:
        """Raise NotOfferedError."""
        raise NotOfferedError(NO_QUEUE)

    def connect(self, thread: str, after: str = "") -> Stream:
        """Raise NotOfferedError."""
        raise NotOfferedError(NO_STREAM)

    def _get(self, arn: str) -> Any:
        return self._api.call("GET", f"{API}/durable-executions/{quote(arn, safe='')}")

    def _history(self, thread: str) -> str:
        for arn in reversed(self._executions.get(thread, ())):
            if result := self._get(arn).get("Result"):
                return str(json.loads(result))
        return "[]"

    def read(self, thread: str) -> Transcript:
        """Return the messages of the last result, and the prompt of an execution that has none."""
        messages = _messages_of(self._history(thread))
        executions = self._executions.get(thread, ())
        if not executions:
            return Transcript()
        newest = self._get(executions[-1])
        if newest["Status"] == "SUCCEEDED":
            return Transcript(messages=messages)
        messages = (*messages, Message("user", json.loads(newest["InputPayload"])["prompt"]))
        if newest["Status"] != "RUNNING":
            error = (newest.get("Error") or {}).get("ErrorMessage", "")
            return Transcript(messages=messages, state="failed", error=f"{newest['Status']}: {error}")
        pending = self._pending(executions[-1])
        return Transcript(messages=messages, state="waiting" if pending else "running", pending=pending)

    def _pending(self, arn: str) -> tuple[str, ...]:
        path = f"{API}/durable-executions/{quote(arn, safe='')}/history?IncludeExecutionData=true"
        events = self._api.call("GET", path)["Events"]
        over = {
            one.get("Id") for one in events if one["EventType"] in ("CallbackSucceeded", "CallbackFailed")
        }
        return tuple(
            one["CallbackStartedDetails"]["CallbackId"]
            for one in events
            if one["EventType"] == "CallbackStarted" and one.get("Id") not in over
        )

    def answer(self, thread: str, call: str, *, approve: bool) -> None:
        """Complete the callback."""
        path = f"{API}/durable-execution-callbacks/{quote(call, safe='')}/succeed"
        self._api.call("POST", path, "approve" if approve else "deny")

    def stop(self, thread: str) -> None:
        """Stop the execution."""
        arn = quote(self._executions[thread][-1], safe="")
        self._api.call("POST", f"{API}/durable-executions/{arn}/stop", {})

    def throttle(self, seconds: float) -> None:
        """Raise NotRunError."""
        raise NotRunError("the store is the service's own, and the local runner has no throttling")


def _messages_of(history: str) -> tuple[Message, ...]:
    found = list[Message]()
    for message in json.loads(history):
        for part in message["parts"]:
            if part["part_kind"] == "user-prompt":
                found.append(Message("user", str(part["content"])))
            elif part["part_kind"] == "text":
                found.append(Message("assistant", part["content"]))
    return tuple(found)
