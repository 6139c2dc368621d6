"""An environment restored from a snapshot has only the code of the stored process."""

import functools
import importlib
import pkgutil
import random
import subprocess
import sys
from itertools import product
from types import SimpleNamespace
from typing import Any

import boto3
import pytest
from moto import mock_aws

import lambdas
from lambdas import authorizer, decide
from lambdas.edge import runtime as edge_runtime
from stepline import adapters, bootstrap
from stepline.adapters.aws.client import session
from stepline.bootstrap.snapshot import WARMED
from stepline_cdk.function import SIZES
from tests.support.draw import share

LAMBDA = {
    "AWS_LAMBDA_RUNTIME_API": "127.0.0.1:9001",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_ACCESS_KEY_ID": "x",
    "AWS_SECRET_ACCESS_KEY": "x",
}


class Registry:
    """Lambda's side: it calls the functions that a handler registered."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.after: list[functools.partial[Any]] = []
        monkeypatch.setattr(edge_runtime, "register_after_restore", self._into(self.after))

    @staticmethod
    def _into(hooks: list[functools.partial[Any]]) -> Any:
        return lambda hook, *args, **fields: hooks.append(functools.partial(hook, *args, **fields))

    def keep(self) -> Any:
        """Return the part of a snapshot that this test can put back: the random sequence."""
        return random.getstate()

    def restore(self, kept: Any) -> None:
        """Continue from the snapshot in a new environment."""
        random.setstate(kept)
        for hook in self.after:
            hook()


@pytest.fixture
def deployed(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function as it is wired in AWS, with a key in Secrets Manager."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    session.cache_clear()
    edge_runtime.drop()
    with mock_aws():
        secrets = boto3.client("secretsmanager")
        arn = secrets.create_secret(Name="model", SecretString="first key")["ARN"]
        for name, value in {
            "STEPLINE_TABLE": "table",
            "STEPLINE_MODEL_SECRET_ARN": arn,
            "STEPLINE_OIDC_ISSUER": "https://login.example",
            "STEPLINE_OIDC_JWKS_URL": "https://login.example/keys",
        }.items():
            monkeypatch.setenv(name, value)
        registry = Registry(monkeypatch)

        def handler(event: dict[str, Any]) -> dict[str, Any]:
            return event

        handler.__module__ = "lambdas.decide"
        edge_runtime.edge(handler)
        yield SimpleNamespace(registry=registry, secrets=secrets, arn=arn)
    session.cache_clear()
    edge_runtime.drop()


def held() -> dict[str, Any]:
    """The state that a function keeps after a call."""
    app = decide.app()
    model = app.model._provider.transport()
    return {
        "app": app,
        "session": session(),
        "table": app.ports.log._table.client,
        "bucket": app.ports.artifacts.client,
        "model": model,
        "identity": authorizer.app().identity,
        "history": app.history,
    }


def test_a_restored_environment_shares_no_client_with_the_snapshot(deployed: Any) -> None:
    before = held()
    deployed.registry.restore(deployed.registry.keep())
    after = held()
    assert {name for name in before if before[name] is after[name]} == set()


def test_a_restored_environment_reads_its_secrets_anew(deployed: Any) -> None:
    assert held()["model"].api_key == "first key"
    kept = deployed.registry.keep()
    deployed.secrets.put_secret_value(SecretId=deployed.arn, SecretString="second key")
    deployed.registry.restore(kept)
    assert held()["model"].api_key == "second key"


def test_a_restored_environment_reads_its_settings_anew(
    deployed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    held()
    kept = deployed.registry.keep()
    monkeypatch.setenv("STEPLINE_TABLE", "another")
    deployed.registry.restore(kept)
    assert decide.app().settings.table == "another"


def test_two_environments_of_one_snapshot_draw_different_numbers(deployed: Any) -> None:
    kept = deployed.registry.keep()
    drawn = [random.random()]
    for _ in range(2):
        deployed.registry.restore(kept)
        drawn.append(random.random())
    assert len(set(drawn)) == 3


FILES_OF_PACKAGES = {"stepline.adapters.embedded.static_embedding._model"}
"""Caches of package data, which is the same in every environment, like code."""


def test_no_process_state_is_kept_besides_the_app(deployed: Any) -> None:
    """All process state of adapters and handlers is dropped, including every cache."""
    for package in (adapters, bootstrap, lambdas):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    held()
    deployed.registry.restore(deployed.registry.keep())
    caches = {
        f"{name}.{attribute}": value.cache_info().currsize
        for name, module in sys.modules.items()
        if name.startswith(("stepline.adapters", "stepline.bootstrap", "lambdas"))
        for attribute, value in vars(module).items()
        if hasattr(value, "cache_info") and value.__module__ == name
    }
    assert caches
    assert {name for name, size in caches.items() if size} <= FILES_OF_PACKAGES


def loaded_before_snapshot(function: str, **settings: str) -> tuple[set[str], int]:
    """Return the loaded ones of some packages, and the number of modules that the first AWS client loads after that."""
    program = (
        "import socket, sys\n"
        "def refuse(*_): raise AssertionError('opened')\n"
        "socket.socket.connect = refuse\n"
        f"import lambdas.{function}\n"
        f"from lambdas.{function} import app\n"
        "from stepline.adapters.aws.client import session\n"
        "assert app.cache_info().currsize == session.cache_info().currsize == 0\n"
        "loaded = set(sys.modules)\n"
        "from stepline.adapters.aws.client import connect\n"
        "connect('dynamodb', read_timeout_s=1)\n"
        "print(*sorted({'anthropic', 'jwt', 'opentelemetry.sdk.trace', 'stepline.ingress.message', 'urllib3'} & loaded), len(set(sys.modules) - loaded))\n"
    )
    environment = {
        **LAMBDA,
        "_HANDLER": f"lambdas.{function}.handler",
        "AWS_LAMBDA_INITIALIZATION_TYPE": "snap-start",
        **settings,
    }
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment
    )
    *loaded, left = done.stdout.split()
    return set(loaded), int(left)


def test_before_a_snapshot_a_function_loads_its_first_calls_modules_and_opens_nothing() -> None:
    for function in share(list(WARMED), 3):
        loaded, left = loaded_before_snapshot(function)
        expected = {"authorizer": "jwt", "socket": "stepline.ingress.message", "decide": "urllib3"}
        assert function not in expected or expected[function] in loaded
        assert left < 5


@pytest.mark.parametrize(("provider", "loads"), [("anthropic", False), ("bedrock", True)])
def test_only_a_stage_on_bedrock_loads_the_models_sdk(provider: str, loads: bool) -> None:
    loaded, _ = loaded_before_snapshot("decide", STEPLINE_MODEL_PROVIDER=provider)
    assert ("anthropic" in loaded) is loads


def test_only_a_step_of_a_stage_with_traces_loads_the_trace_exporter() -> None:
    functions = ("decide", "act", "close", "sweeper", "preflight")
    for tracing, function in share(list(product(("off", "on", "text"), functions)), 4):
        loaded, _ = loaded_before_snapshot(function, STEPLINE_TRACING=tracing)
        expected = tracing != "off" and function in ("decide", "act", "close")
        assert ("opentelemetry.sdk.trace" in loaded) is expected, (tracing, function)


def test_every_function_declares_the_modules_of_its_first_call() -> None:
    assert set(WARMED) == set(SIZES)


def test_a_function_on_lambda_loads_while_it_initialises() -> None:
    kinds = ("on-demand", "provisioned-concurrency")
    for function, kind in share(list(product(SIZES, kinds)), 5):
        program = (
            "import sys\n"
            f"import lambdas.{function}\n"
            "from stepline.adapters.aws.client import connect, session\n"
            "kept, loaded = session.cache_info().currsize, set(sys.modules)\n"
            "connect('dynamodb', read_timeout_s=1)\n"
            "print(kept, len(set(sys.modules) - loaded))\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            check=True,
            env={**LAMBDA, "_HANDLER": f"lambdas.{function}.handler", "AWS_LAMBDA_INITIALIZATION_TYPE": kind},
        )
        assert done.stdout.split() == ["1", "0"], (kind, function)


def test_every_handler_registers_with_lambda_itself() -> None:
    program = (
        "import lambdas.socket\n"
        "from snapshot_restore_py import get_after_restore\n"
        "print([(hook.__name__, args) for hook, args, _ in get_after_restore()])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[('restored', ())]"
