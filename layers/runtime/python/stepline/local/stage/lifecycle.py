"""Start, stop and inspect the local stage as a whole."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Final

from msgspec.structs import replace

from stepline.adapters.chat.served_models import list_models
from stepline.errors import DependencyError
from stepline.local.own_name import name_user
from stepline.local.stage.bundle_code import DEFAULT, BundleCode, checkout_bundles, take_bundle
from stepline.local.stage.cdk import deploy_to_emulator
from stepline.local.stage.deployed import (
    HOME,
    PYTHON,
    LocalStage,
    build_environment,
    client,
    install_environment,
    load,
    make_home,
    save,
    tool_environment,
)
from stepline.local.stage.emulator import Emulator, Progress
from stepline.local.stage.fingerprint import Fingerprint
from stepline.local.stage.issuer import signing
from stepline.local.stage.local_descriptor import DESCRIPTORS, store_secrets, take_descriptors
from stepline.local.stage.own_app import OwnApp
from stepline.local.stage.program_environment import docker_variables, prepare
from stepline.local.stage.program_image import add_bundle
from stepline.local.stage.service import LOOPBACK, Service, claim_port, claimed_port, exclusive, release_ports
from stepline.local.tour import ANY_MODEL, TOUR
from stepline.model.base import Value
from stepline.model.tenancy.price import SCRIPTED
from stepline.ports.channel import Role
from stepline.ports.model import DEFAULT_ROLE
from stepline.settings import TABLE

COMPANIONS: Final = ("issuer", "page", "model")
ISSUER_PORT: Final = 4567
SCRIPTED_PORT: Final = 4568
PAGE_PORT: Final = 4569
START_S: Final = 20
_LOCAL: Final = Path(__file__).parents[1]
_SCRIPTED_MODULE: Final = "stepline.local.scripted"
_MESSAGES_VARIABLES: Final = ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL")
MODEL_VARIABLES: Final = (*_MESSAGES_VARIABLES, "OPENAI_API_KEY", "OPENAI_BASE_URL")


def start_page(home: Path, progress: Progress) -> str:
    """Start the server of the chat page unless it runs; return its origin. The page is built when first opened."""
    return _keep(
        *("page", "chat page", PAGE_PORT, home, ["stepline.local.page", "--home", str(home)]),
        code=_LOCAL / "page",
        environment=build_environment(),
        progress=progress,
    )


def start_issuer(home: Path, page_url: str, progress: Progress, *, origins: Sequence[str] = ()) -> str:
    """Start the issuer unless it runs; return its address. `origins` are those of pages beside the chat page."""
    command = [
        *("stepline.local.stage.issuer", "--home", str(home)),
        *("--page", page_url, "--name", name_user("")),
        *(word for origin in origins for word in ("--origin", origin)),
    ]
    return _keep(
        *("issuer", "token issuer", ISSUER_PORT, home, command),
        code=_LOCAL / "stage/issuer",
        environment=tool_environment(),
        progress=progress,
    )


def model_variables(home: Path, progress: Progress, model: str = "") -> dict[str, str]:
    """Return the model's variables for functions: the caller's own, or those of the scripted model.

    `model` may be the address of a server of chat completions, which gets no key. This also starts the scripted model.
    The variables are passed through the emulator's environment, so that a key is never written to a file.
    """
    if "://" in model:
        return {"OPENAI_BASE_URL": model}
    if own := given(MODEL_VARIABLES):
        return own
    if importlib.util.find_spec(f"{_SCRIPTED_MODULE}.__main__") is None:
        return {}
    key = "empty" if "ANTHROPIC_API_KEY" in os.environ else "not set"  # noqa: TID251 - no setting is read
    url = _keep(
        *("model", "scripted model", SCRIPTED_PORT, home, [_SCRIPTED_MODULE]),
        code=_LOCAL / "scripted",
        environment=tool_environment(),
        progress=progress,
        why=f" (ANTHROPIC_API_KEY is {key}; it is not an AI)",
    )
    return {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": SCRIPTED}


def choose_model(
    variables: Mapping[str, str], model: str = "", chosen: Mapping[str, str] = MappingProxyType({})
) -> dict[str, str]:
    """Return the app's context for these variables, in addition to what is `chosen`.

    `model` serves every role, whatever is chosen. If no roles are chosen, a server of chat completions is asked for its first
    model, and the scripted model has its own name, which costs nothing. Raises ModelRefused, ModelUnreachable.
    """
    context, named = dict(chosen), "" if "://" in model else model
    if variables and not any(variables.get(name) for name in _MESSAGES_VARIABLES):
        context = {"model_provider": "openai", **context}
        url = variables.get("OPENAI_BASE_URL")
        if url and not named and (model or "model_roles" not in chosen):
            named = list_models(url, variables.get("OPENAI_API_KEY", ""))[0]
    if not named and "model_roles" not in chosen and _is_scripted(variables):
        named = SCRIPTED
    return {**context, "model_roles": json.dumps({DEFAULT_ROLE: named})} if named else context


def first_requests(variables: Mapping[str, str]) -> tuple[str, ...]:
    """Return the tour's requests that the model with these variables can follow."""
    return tuple(TOUR.values())[: None if _is_scripted(variables) else ANY_MODEL]


def _is_scripted(variables: Mapping[str, str]) -> bool:
    return variables.get("ANTHROPIC_API_KEY") == SCRIPTED


def given(names: Sequence[str]) -> dict[str, str]:
    """Return the variables that are set, for a child in which `Settings` reads them."""
    return {name: os.environ[name] for name in names if os.environ.get(name)}  # noqa: TID251 - passed on, as above


def _keep(
    name: str,
    title: str,
    preferred: int,
    home: Path,
    module: Sequence[str],
    *,
    code: Path,
    environment: Mapping[str, str],
    progress: Progress,
    why: str = "",
) -> str:
    """Start a service unless it runs; restart it if its code or its arguments changed; return its address.

    `title` and `why` are for `progress`.
    """
    service, taken = Service(name, home), Fingerprint(home / f"{name}.json")
    digest = _digest(code)

    def command(port: int) -> list[str]:
        return [PYTHON, "-m", *module, "--port", str(port)]

    def inputs(port: int) -> dict[str, str]:
        return {"command": " ".join(command(port)), "code": digest}

    port = claimed_port(name, home)
    if service.running and taken.changed(inputs(port)):
        service.stop(timeout_s=3)
    is_new = not service.running
    if is_new:
        port = claim_port(name, preferred, home)
        progress(f"starting the {title} on {LOOPBACK}:{port}{why}")
    service.start(command(port), environment, port=port, timeout_s=START_S)
    if is_new:
        taken.take(inputs(port))
    return f"http://{LOOPBACK}:{port}"


def _digest(folder: Path) -> str:
    total = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        total.update(path.read_bytes())
    return total.hexdigest()


DRAIN_S: Final = 2.5
ANSWER_S: Final = 1.5
"""The longest time to connect to the emulator, and to get its answer, while it is being stopped."""
COMPANION_S: Final = 0.5
SWEEPER: Final = "stepline-local-sweeper"
RESTARTED: Final = "States.ServiceRestart"
RESTART: Final = timedelta(minutes=1)
"""The longest start of the emulator; it ends the affected executions during its start."""

ENDED: Final = "Step Functions Execution Status Change"
_SECRET_VARIABLES: Final = ("STEPLINE_REDIS_URL", "STEPLINE_SEARCH_API_KEY", "OTEL_EXPORTER_OTLP_HEADERS")
_STAGE_VARIABLES: Final = {
    "STEPLINE_MODEL_ROLES": "model_roles",
    "STEPLINE_MODEL_PROVIDERS": "model_providers",
    "AI_REACT_AGENT_MULTI_ACTION": "multi_action",
    "STEPLINE_MAX_ACTIONS_PER_ROUND": "max_actions_per_round",
    "STEPLINE_PROTOCOL": "protocol",
    "AI_REACT_AGENT_VERSION": "agent_version",
    "AI_REACT_CONTEXT_LAYOUT": "context_layout",
    "AI_REACT_CONTEXT_MAX_TOKENS": "context_max_tokens",
    "STEPLINE_BUNDLE_PROPS": "bundle_props",
    "STEPLINE_ASSEMBLY": "assembly",
    "STEPLINE_CACHE_TTL_S": "cache_ttl_s",
    "AI_REACT_WORKSPACE": "workspace",
    "STEPLINE_SEARCH_CORPUS": "search_corpus",
    "STEPLINE_SEARCH_PROVIDER": "search_provider",
    "STEPLINE_SEARCH_URL": "search_url",
    "STEPLINE_TRACING": "tracing",
    "OTEL_EXPORTER_OTLP_ENDPOINT": "tracing_endpoint",
    "STEPLINE_STEER_POLL_MS": "steer_poll_ms",
    "STEPLINE_MCP_TIMEOUT_S": "mcp_timeout_s",
    "STEPLINE_MCP_LIST_TTL_S": "mcp_list_ttl_s",
    "STEPLINE_MCP_TASK_S": "mcp_task_s",
    "REACT_STEER_FINALIZE_ROUNDS": "finalize_rounds",
    "REACT_STEER_FINALIZE_MAX_TOKENS": "finalize_max_tokens",
    "AI_REACT_REACTIVE_EVENT_CREDIT": "event_credit",
    "STEPLINE_APPROVALS": "approvals",
    "STEPLINE_APPROVAL_WAIT_S": "approval_wait_s",
    "STEPLINE_OPEN_TURNS": "open_turns",
    "STEPLINE_LIMITS": "limits",
    "STEPLINE_RATES": "rates",
    "STEPLINE_PRICES": "prices",
    "STEPLINE_RESTORED_TABLE": "table_name",
    "APP_AV_SCAN": "av",
    "CLAMAV_HOST": "clamav_host",
    "CLAMAV_PORT": "clamav_port",
}
"""Settings that the local stage reads from the caller's environment, and their names in the app's context."""


class StageStatus(Value):
    """The running services, and the stage that was deployed last."""

    services: dict[str, bool]
    stage: LocalStage | None

    @property
    def up(self) -> bool:
        return self.stage is not None and all(self.services.values())


def start_stage(
    progress: Progress,
    home: Path = HOME,
    *,
    bundle: str = DEFAULT,
    further: Mapping[str, str] = MappingProxyType({}),
    settings: Mapping[str, str] = MappingProxyType({}),
    model: str = "",
    app: OwnApp | None = None,
    origins: Sequence[str] = (),
) -> LocalStage:
    """Start the missing services, deploy changes, and resume all interrupted turns.

    `bundle` is a module of the caller's folder, or one of the functions; a conversation may choose of `further` by name.
    `settings` are the emulator's, `model` is every role's or its server's address; pages of `origins` may call. `app` is
    one of the caller's, which has its own bundles.
    """
    with exclusive(make_home(home)), _undone_on_failure(home):
        agent = BundleCode() if app else _take_bundles(bundle, further, home, progress)
        descriptors = take_descriptors(given([DESCRIPTORS]), home)
        page_url = start_page(home, progress)
        issuer_url = start_issuer(home, page_url, progress, origins=origins)
        asked = model_variables(home, progress, model)
        programs = prepare(home, progress)
        if programs["exec_image"] and agent.folder:
            programs["exec_image"] = add_bundle(
                programs["exec_image"], Path(agent.folder), progress, requirements=agent.requirements
            )
        emulator, known = Emulator(home), load(home)
        if known is not None and known.bundle != agent.module and not app:
            progress(f"changing the bundle from {known.bundle} to {agent.module}")
        variables = {**asked, **given(_SECRET_VARIABLES), **_docker(programs), **settings}
        endpoint = emulator.start(variables, progress, pages=(page_url, *origins))
        stage = deploy_to_emulator(
            home,
            endpoint=endpoint,
            issuer_url=issuer_url,
            pages=(page_url, *origins),
            model_url=asked.get("ANTHROPIC_BASE_URL") or asked.get("OPENAI_BASE_URL", ""),
            chosen=programs
            | choose_model(asked, model, read_local_choices())
            | descriptors.context()
            | agent.context(),
            known=known,
            progress=progress,
            app=app,
        )
        stage = stage if app else _describe(stage, agent, asked)
        stage = replace(stage, exec_mode=programs["exec_mode"])
        store_secrets(stage, descriptors)
        if stage != known:
            emulator.keep()
        recover(stage, emulator.started_at - RESTART, progress)
        save(stage, home)
        return stage


def _take_bundles(bundle: str, further: Mapping[str, str], home: Path, progress: Progress) -> BundleCode:
    """Return the bundles of the caller's folder, and those of the checkout."""
    # First: a copy of the project's bundles includes theirs.
    beside = checkout_bundles(Path.cwd(), progress)
    agent = take_bundle(bundle, home, progress, project=Path.cwd(), further=further)
    return replace(agent, further={**beside, **agent.further})


def _describe(stage: LocalStage, agent: BundleCode, asked: Mapping[str, str]) -> LocalStage:
    """Return the stage with its bundles, and the requests that they answer."""
    requests = first_requests(asked) if agent.module == DEFAULT else agent.requests
    return replace(stage, bundle=agent.module, bundles=dict(agent.further), requests=requests)


def _docker(programs: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of Docker if programs use it."""
    uses_docker = programs["exec_mode"] == "docker" or programs["exec_tasks"] == "true"
    return docker_variables() if uses_docker else {}


@contextmanager
def _undone_on_failure(home: Path) -> Iterator[None]:
    """Stop the services started inside this block if it fails, so that no half-started stage remains."""
    ran = {name for name, runs in stage_status(home).services.items() if runs}
    try:
        yield
    except BaseException:
        if "emulator" not in ran:
            Emulator(home).stop()
        for name in {*COMPANIONS} - ran:
            Service(name, home).stop(timeout_s=3)
        if not ran:
            release_ports(home)
        raise


def down(progress: Progress, home: Path = HOME) -> bool:
    """Wait a while for running turns, then stop everything; return True if the emulator saved its data.

    Each step has a limit, 20 s together, so a busy or suspended emulator is stopped as well. The next `up` resumes a
    turn that still runs. Raises DependencyError: a process outlives a kill.
    """
    with exclusive(make_home(home)):
        emulator = Emulator(home)
        stage = load(home)
        if stage is not None and emulator.service.running:
            # A start that failed later may have moved it since the last deployment.
            _drain(replace(stage, endpoint=emulator.endpoint), progress)
        progress("stopping")
        saved = emulator.stop()
        for name in COMPANIONS:
            Service(name, home).stop(timeout_s=COMPANION_S)
        release_ports(home)
        return saved


def stage_status(home: Path = HOME) -> StageStatus:
    """Return the state of all services, without starting or calling any."""
    # Every service exists, except that a custom model has no scripted one and a stage of an earlier release has no
    # page.
    names = [
        "emulator",
        *(name for name in COMPANIONS if name == "issuer" or (home / f"{name}.pid").exists()),
    ]
    return StageStatus(
        services={name: home.exists() and Service(name, home).running for name in names}, stage=load(home)
    )


def mint(
    stage: LocalStage,
    user: str,
    *,
    tenant: str = "local",
    project: str = "default",
    role: Role = "user",
    ttl_s: int = 3600,
) -> str:
    """Return a token of the stage's issuer."""
    return signing.sign_token(
        user, issuer_url=stage.issuer_url, tenant=tenant, project=project, role=role, ttl_s=ttl_s
    )


def recover(stage: LocalStage, since: datetime, progress: Progress) -> None:
    """Sweep, and check each lane whose execution was ended by a restart after `since`.

    AWS reports it at once; the emulator fails executions that were running when it stopped or was killed, but sends no
    event.
    """
    states = client("stepfunctions", stage)
    pages = states.get_paginator("list_executions").paginate(
        stateMachineArn=stage.machine_arn, statusFilter="FAILED"
    )
    counts: Counter[str] = Counter()
    for execution in pages.search("executions[]"):
        if execution["stopDate"] >= since:
            found = states.describe_execution(executionArn=execution["executionArn"])
            if found.get("error") == RESTARTED:
                counts += _sweep(
                    stage, {"detail-type": ENDED, "detail": {"status": "FAILED", "input": found["input"]}}
                )
    counts += _sweep(stage, {})
    if resumed := counts["taken_over"] + counts["started"]:
        progress(f"took over {resumed} {'turn' if resumed == 1 else 'turns'} that had stopped")
    if counts["failed"]:
        progress("a stopped turn cannot be resumed yet; the sweeper tries again in a few minutes")


def _sweep(stage: LocalStage, event: dict[str, object]) -> Counter[str]:
    """Call the sweeper; return the number of lanes by outcome."""
    answer = client("lambda", stage).invoke(
        FunctionName=SWEEPER, Qualifier="live", Payload=json.dumps(event).encode()
    )
    said = json.loads(answer["Payload"].read())
    if "FunctionError" in answer:
        raise DependencyError(f"the deployed sweeper fails: {said.get('errorMessage')}", code="local_deploy")
    return Counter(said)


def read_local_choices() -> dict[str, str]:
    """Return the choices in the environment, as context keys of the app. Raises InputError `bad_setting`."""
    here = install_environment()
    found = {word: here[name] for name, word in _STAGE_VARIABLES.items() if here.get(name)}
    if "av" in found:  # the setting has more words for a scanner than the choice
        found["av"] = TABLE["av_scan"].parse(found["av"])
    return found


def _drain(stage: LocalStage, progress: Progress) -> None:
    """Wait for running turns, for DRAIN_S at most, and only as long as the emulator answers."""
    from stepline.adapters.aws.error import AWS_ERRORS  # botocore, which `stepline status` does not need

    states = client("stepfunctions", stage, answer_s=ANSWER_S)
    deadline = time.monotonic() + DRAIN_S
    reported = False
    try:
        while states.list_executions(stateMachineArn=stage.machine_arn, statusFilter="RUNNING")["executions"]:
            if time.monotonic() > deadline:
                progress("a turn still runs; the next start resumes it")
                return
            if not reported:
                progress("waiting for running turns")
                reported = True
            time.sleep(0.2)
    except AWS_ERRORS as error:
        progress(
            f"the emulator does not list running turns ({type(error).__name__}); the next start resumes them"
        )
