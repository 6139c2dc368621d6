"""Changes the deployed stage for a test: the alias of a function gets a separate version."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from stepline.local.stage.deployed import client

ALIAS = "live"
MODE = "EXEC_RUNTIME_MODE"
MULTI_ACTION = "AI_REACT_AGENT_MULTI_ACTION"
CONTEXT_TOKENS = "AI_REACT_CONTEXT_MAX_TOKENS"
VERSION = "AI_REACT_AGENT_VERSION"
LAYOUT = "AI_REACT_CONTEXT_LAYOUT"
ROUNDS = "AI_REACT_MAX_ITERATIONS"
WORKSPACE = "AI_REACT_WORKSPACE"
PROVIDER = "STEPLINE_MODEL_PROVIDER"
PROVIDERS = "STEPLINE_MODEL_PROVIDERS"
ROLES = "STEPLINE_MODEL_ROLES"
APPROVALS = "STEPLINE_APPROVALS"
TRACING = "STEPLINE_TRACING"
ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
PATIENCE = "OTEL_EXPORTER_OTLP_TIMEOUT"
SCANNER = "APP_AV_SCAN"
MESSAGES = "STEPLINE_USER_MESSAGES_PER_MINUTE"
OPEN_TURNS = "STEPLINE_OPEN_TURNS"
LOOP = ("decide", "act", "close")


def find_function(stage, name: str) -> dict[str, Any] | None:
    """Return the configuration of a function of this stage, by the module of its handler; None if there is none."""
    pages = client("lambda", stage.deployed).get_paginator("list_functions").paginate()
    functions = [function for page in pages for function in page["Functions"]]
    return next((one for one in functions if one.get("Handler") == f"lambdas.{name}.handler"), None)


def obstacle(stage, mode: str) -> str:
    """Return why this stage cannot run programs in a mode; empty if it can."""
    if mode == "fargate":
        act = find_function(stage, "act")
        variables = act["Environment"]["Variables"] if act else {}
        if not variables.get("FARGATE_CLUSTER"):
            return "the local stage has no place for tasks"
        return docker_obstacle(variables.get("PY_CODE_EXEC_IMAGE", ""))
    execute = find_function(stage, "execute")
    if execute is None:
        return "the local stage runs no programs"
    variables = execute["Environment"]["Variables"]
    if mode == "process":
        python = variables.get("STEPLINE_EXEC_PYTHON", "")
        return "" if python and Path(python).exists() else "the local stage has no interpreter for programs"
    return docker_obstacle(variables.get("PY_CODE_EXEC_IMAGE", ""))


def docker_obstacle(image: str) -> str:
    """Return why Docker cannot run programs with an image; empty if it can."""
    if shutil.which("docker") is None or not _succeeds("docker", "info"):
        return "no Docker daemon answers"
    return "" if image and _succeeds("docker", "image", "inspect", image) else f"no image {image!r} is built"


@contextmanager
def programs_in(stage, mode: str) -> Iterator[None]:
    """Let the stage choose a mode for programs that say nothing about it."""
    with _configured(stage, "act", {MODE: mode}):
        yield


@contextmanager
def several_actions(stage, mode: str = "safe_fanout") -> Iterator[None]:
    """Let a round of the stage hold several actions."""
    with ExitStack() as entered:
        for name in ("decide", "act"):
            entered.enter_context(_configured(stage, name, {MULTI_ACTION: mode}))
        yield


@contextmanager
def context_of(stage, tokens: int) -> Iterator[None]:
    """Limit the tokens of a request of the stage."""
    with ExitStack() as entered:
        for name in LOOP:
            entered.enter_context(_configured(stage, name, {CONTEXT_TOKENS: str(tokens)}))
        yield


@contextmanager
def over_bedrock(stage) -> Iterator[None]:
    """Let the stage ask its model through the adapter of Bedrock, at the same server."""
    server = stage.deployed.model_url
    with _configured(stage, "decide", {PROVIDER: "bedrock", "ANTHROPIC_BEDROCK_BASE_URL": server}):
        yield


def row_of(stage, wire: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Return a row for the stage's model server on a wire, and a role whose model and fallback it serves."""
    row = {"wire": wire, "base_url": stage.deployed.model_url, "private": True}
    if wire == "converse":
        return row, {"model": "own:amazon.nova-2-lite-v1:0", "fallback": "own:amazon.nova-2-pro-v1:0"}
    return row, {"model": "own:scripted", "fallback": "own:scripted-2"}


@contextmanager
def over_wire(stage, wire: str, **more: Any) -> Iterator[None]:
    """Let the stage ask its model over a wire, at the same server; `more` are fields of the provider's row."""
    row, role = row_of(stage, wire)
    chosen = {PROVIDERS: json.dumps({"own": {**row, **more}}), ROLES: json.dumps({"*": role})}
    with ExitStack() as entered:
        for name in LOOP:
            entered.enter_context(_configured(stage, name, chosen))
        yield


@contextmanager
def approvals(stage, rules: dict[str, str]) -> Iterator[None]:
    """Let calls of the stage need a person, by these rules."""
    with _configured(stage, "act", {APPROVALS: json.dumps(rules)}):
        yield


@contextmanager
def scanned_by(stage, daemon) -> Iterator[None]:
    """Let the uploads of the stage be scanned by a daemon of ClamAV on this machine."""
    chosen = {SCANNER: "clamd", "CLAMAV_HOST": "127.0.0.1", "CLAMAV_PORT": str(daemon.port)}
    with _configured(stage, "preflight", chosen):
        yield


@contextmanager
def unhindered(stage) -> Iterator[None]:
    """Let a user send as many messages as the stage can take."""
    with _configured(stage, "socket", {MESSAGES: "0"}):
        yield


@contextmanager
def bounded(stage, turns: int) -> Iterator[None]:
    """Limit the turns of the stage that run at once."""
    with ExitStack() as entered:
        for name in (*LOOP, "sweeper"):
            entered.enter_context(_configured(stage, name, {OPEN_TURNS: str(turns)}))
        entered.enter_context(_configured(stage, "socket", {OPEN_TURNS: str(turns), MESSAGES: "0"}))
        yield


@contextmanager
def agent_version(stage, version: str) -> Iterator[None]:
    """Let another version of the agent answer."""
    with ExitStack() as entered:
        for name in LOOP:
            entered.enter_context(_configured(stage, name, {VERSION: version}))
        yield


@contextmanager
def context_layout(stage, layout: str, *, max_iterations: int = 15) -> Iterator[None]:
    """Set the layout of the stage's requests, and limit the rounds of a turn."""
    chosen = {LAYOUT: layout, ROUNDS: str(max_iterations)}
    with ExitStack() as entered:
        for name in LOOP:
            entered.enter_context(_configured(stage, name, chosen))
        yield


@contextmanager
def kept_histories(stage) -> Iterator[None]:
    """Let each turn of the stage be a commit of its conversation's git history."""
    with ExitStack() as entered:
        for name in LOOP:
            entered.enter_context(_configured(stage, name, {WORKSPACE: "git"}))
        yield


@contextmanager
def traced(stage, tracing: str, url: str) -> Iterator[None]:
    """Let the stage send the traces of turns to a server."""
    with ExitStack() as entered:
        for name in ("decide", "act", "close", "sweeper"):
            chosen = {TRACING: tracing, ENDPOINT: url, PATIENCE: "10000"}
            entered.enter_context(_configured(stage, name, chosen))
        yield


@contextmanager
def _configured(stage, handler: str, changes: dict[str, str]) -> Iterator[None]:
    """Give a function other variables, in a separate version for its alias."""
    functions, found = client("lambda", stage.deployed), find_function(stage, handler)
    assert found is not None
    name, before = found["FunctionName"], found["Environment"]["Variables"]
    if before.items() >= changes.items():
        yield
        return
    live = functions.get_alias(FunctionName=name, Name=ALIAS)["FunctionVersion"]
    _configure(functions, name, {**before, **changes})
    version = functions.publish_version(FunctionName=name)["Version"]
    try:
        functions.update_alias(FunctionName=name, Name=ALIAS, FunctionVersion=version)
        yield
    finally:
        functions.update_alias(FunctionName=name, Name=ALIAS, FunctionVersion=live)
        _configure(functions, name, before)
        # A busy emulator answers late, and the client asks again: then the version is gone already.
        with suppress(functions.exceptions.ResourceNotFoundException):
            functions.delete_function(FunctionName=name, Qualifier=version)


def _configure(functions: Any, name: str, variables: dict[str, str]) -> None:
    functions.update_function_configuration(FunctionName=name, Environment={"Variables": variables})
    functions.get_waiter("function_updated_v2").wait(
        FunctionName=name, WaiterConfig={"Delay": 1, "MaxAttempts": 30}
    )


def _succeeds(*command: str) -> bool:
    return subprocess.run(command, capture_output=True, check=False, timeout=30).returncode == 0
