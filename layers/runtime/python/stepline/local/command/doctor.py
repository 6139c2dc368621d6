"""`stepline doctor`: check the requirements of the local stage, with a remedy for each problem."""

from __future__ import annotations

import platform
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Final

from botocore.exceptions import BotoCoreError, ClientError

from stepline.adapters.provider.client import ProviderClient
from stepline.adapters.provider.wire import Retry, fall_back
from stepline.bootstrap.choice import provider_of, roles_of
from stepline.errors import SteplineError
from stepline.local.check import Check, failed, judged, passed, warned
from stepline.local.stage import lifecycle
from stepline.local.stage.cdk import CDK
from stepline.local.stage.deployed import HOME, REPOSITORY, client, load, read_json, tool_environment
from stepline.local.stage.program_environment import backends
from stepline.model.visible_text import shorten
from stepline.ports.model import (
    DEFAULT_ROLE,
    ModelProvider,
    ModelRequest,
    Part,
    RoleChoice,
    split_model,
)
from stepline.settings import TABLE, Settings

OLDEST_PYTHON: Final = (3, 11)
MODELS_REMEDY: Final = "docs/how-to/own-model.md"
SAID_CHARS: Final = 300
"""Characters of a provider's error that are shown."""
_PACKAGES: Final = ("aws-cdk-lib", "awslambdaric", "anthropic", "boto3", "websockets")


def check_requirements(home: Path = HOME) -> list[Check]:
    """Return all checks, ordered as problems should be fixed. Starts and changes nothing; each provider is sent one request."""
    return [*_environment(), *_tools(), *_execution(home), *_home(home), *_models(), *_stage(home)]


def _environment() -> Iterator[Check]:
    version = f"{platform.python_version()} at {sys.executable}"
    yield judged(
        "python", sys.version_info >= OLDEST_PYTHON, version, "install Python 3.11, 3.12, 3.13 or 3.14"
    )
    isolated = sys.prefix != sys.base_prefix
    yield judged("environment", isolated, sys.prefix, "run `make`, then use `.venv/bin/stepline`")
    missing = [name for name in _PACKAGES if _version(name) is None]
    found = ", ".join(f"{name} {_version(name)}" for name in _PACKAGES if name not in missing)
    detail = f"missing: {', '.join(missing)}" if missing else found
    yield judged("packages", not missing, detail, "make, or pip install 'stepline[local]'")


def _tools() -> Iterator[Check]:
    search = tool_environment()["PATH"]
    for name in ("node", "npm"):
        program = shutil.which(name, path=search)
        detail = f"{_answer([program, '--version'])} at {program}" if program else "not found"
        remedy = "make, or pip install 'stepline[local]' (Node comes as a wheel)"
        yield judged(name, program is not None, detail, remedy)
    wanted = read_json(REPOSITORY / "package.json")["devDependencies"]["aws-cdk"]
    found = read_json(REPOSITORY / "node_modules/aws-cdk/package.json").get("version", "not installed")
    remedy = f"npm ci (pinned {wanted}; `stepline up` does it too)"
    yield judged("cdk", found == wanted, f"{found} at {CDK}", remedy)


def _execution(home: Path) -> Iterator[Check]:
    """Check which backends can run programs. One is enough, so others may fail."""
    found = backends(home)
    usable = [backend.mode for backend in found if not backend.obstacle]
    for backend in found:
        yield Check(
            name=f"mode {backend.mode}",
            ok=not backend.obstacle or bool(usable),
            detail=f"programs cannot run there: {backend.obstacle}"
            if backend.obstacle
            else "programs can run there",
            remedy=backend.remedy,
            note="off" if backend.obstacle and usable else "",
        )


def _home(home: Path) -> Iterator[Check]:
    if not home.exists():
        yield passed("state", f"{home} is made by `stepline up`")
        return
    mode = stat.S_IMODE(home.stat().st_mode)
    yield judged("state", mode == 0o700, f"{home}, mode {mode:o}", f"chmod 700 {home}")


def _models() -> Iterator[Check]:
    """Send each model that the caller's environment names a request for one token; without a key, the scripted one serves the others."""
    variables = lifecycle.given(lifecycle.MODEL_VARIABLES)
    try:
        chosen = lifecycle.read_local_choices()
        if not (variables or chosen.get("model_providers")):
            return
        context = lifecycle.choose_model(variables, chosen=chosen)
        fields = ("model_provider", "model_roles", "model_providers")
        given = {TABLE[one].variable: context[one] for one in fields if one in context}
        settings = Settings.from_env({**variables, **given})
        provider, roles = provider_of(settings), roles_of(settings)
    except SteplineError as error:
        yield failed("model", f"{error.reason}: {error}", MODELS_REMEDY)
        return
    backed = [fall_back(role) for role in roles.values() if role.fallback]
    asked = {role.model: role for role in (*backed, *roles.values())}
    for model, role in sorted(asked.items()):
        if variables or split_model(model)[0]:
            yield _check_model(provider, role)
    named = {split_model(model)[0] for model in asked}
    for name in sorted(settings.model_providers.keys() - named):
        yield warned("model", f"{name}: no role names a model of this provider", MODELS_REMEDY)


def _check_model(provider: ModelProvider, role: RoleChoice) -> Check:
    """Check the choices for a role, and ask its model."""
    if refused := provider.find_refusals(role):
        return failed("model", "; ".join(refused), MODELS_REMEDY)
    client = ProviderClient(provider, roles={DEFAULT_ROLE: role}, retry=Retry(tries=1))
    try:
        return passed("model", _ask_model(client, role.model))
    except SteplineError as error:
        said = " ".join(shorten(str(error), SAID_CHARS).split())
        return failed("model", f"{role.model}: {error.reason}: {said}", MODELS_REMEDY)
    finally:
        client.close()


def _ask_model(client: ProviderClient, model: str) -> str:
    """Ask a model for one token, and return the counts of its answer. Raises SteplineError."""
    asked = ModelRequest(role=DEFAULT_ROLE, system=(), content=(Part(text="Say: ok"),), max_tokens=1)
    with client.stream(asked) as stream:
        for _ in stream:
            pass
    done = stream.completion()
    used = done.usage
    if done.declined:
        return f"{model} answers, and declined this request"
    if used.estimated:
        return f"{model} answers, and counts no tokens: they are estimated"
    counted = f"{used.prompt_tokens} tokens, {used.cache_read_tokens} of them cached, and {used.output_tokens} of its own"
    return f"{model} answers as {done.model}, and counted {counted}"


def _stage(home: Path) -> Iterator[Check]:
    status = lifecycle.stage_status(home)
    for name, runs in status.services.items():
        words = home / f"{name}.log"
        remedy = f"stepline up (its last words are in {words})" if words.exists() else "stepline up"
        yield judged(name, runs, "is running" if runs else "is not running", remedy)
    stage = load(home)
    if stage is None:
        yield failed("deployment", "nothing is deployed on this machine", "stepline up")
    elif status.services["emulator"]:
        yield _ask(
            "machine",
            lambda: client("stepfunctions", stage).describe_state_machine(stateMachineArn=stage.machine_arn)[
                "status"
            ],
        )
        yield _ask(
            "table",
            lambda: client("dynamodb", stage).describe_table(TableName=stage.table)["Table"]["TableStatus"],
        )


def _ask(name: str, question: Callable[[], str]) -> Check:
    """Convert an answer, or an error of the emulator, to a check."""
    try:
        return passed(name, question())
    except (BotoCoreError, ClientError) as error:
        return failed(name, str(error), "stepline up")


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _answer(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=tool_environment())
    return done.stdout.strip() or f"exit code {done.returncode}"
