"""`cdk deploy` of the real app against the emulator, when something it depends on has changed.

Steps that the emulator's CloudFormation does not support are done here, before and after a deployment.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from stepline.errors import DependencyError, InputError
from stepline.local.stage.bundle_code import check_in_place
from stepline.local.stage.deployed import (
    ACCOUNT,
    LOCAL_STAGE,
    PYTHON,
    REGION,
    REPOSITORY,
    LocalStage,
    client,
    credentials,
    install_environment,
    read_json,
    tool_environment,
)
from stepline.local.stage.emulator import Progress
from stepline.local.stage.fingerprint import Fingerprint
from stepline.local.stage.issuer.signing import AUDIENCE
from stepline.local.stage.own_app import (
    AssembledAgent,
    OwnApp,
    digest_assembly,
    find_agent,
    read_assembly,
)

# All files that synthesis reads. The library counts too: a changed one must replace warm workers.
OURS: Final = ("stage", "bundle", "bundles", "bundle_code")
"""The keys of the context that an app of the caller's chooses itself."""
INPUTS: Final = (
    "app.py",
    "cdk.json",
    "package-lock.json",
    "stepline_cdk",
    "lambdas",
    "bundles",
    "exec_task",
    "layers/runtime",
    "stages/local.toml",
)
_INPUTS_FILE: Final = "deployed.json"
ASSEMBLY: Final = "cdk.out"
OUTPUTS: Final = "outputs.json"
CDK: Final = REPOSITORY / "node_modules/.bin/cdk"


def deploy_to_emulator(
    home: Path,
    *,
    endpoint: str,
    issuer_url: str,
    pages: Sequence[str],
    model_url: str,
    chosen: Mapping[str, str],
    known: LocalStage | None,
    progress: Progress,
    app: OwnApp | None = None,
) -> LocalStage:
    """Deploy our app, or one of the caller's, to the emulator and return the stage; return early if nothing changed.

    `pages` are the origins that may connect, the chat page's first; `chosen` are context keys of the app, such as the
    backend for programs. Raises InputError `other_app`, `agent_not_found`.
    """
    _refuse_another(known, app)
    context = {
        "stage": LOCAL_STAGE,
        "endpoint": endpoint,
        "oidc_issuer": issuer_url,
        "oidc_audience": AUDIENCE,
        "allowed_origins": ",".join(pages),
        **chosen,
    }
    fingerprint = digest_inputs(context)
    if not app and known and _is_same(known, fingerprint, model_url):
        return known
    install_cdk(home, progress)
    cdk = partial(_cdk, home, endpoint)
    if known is None or not _bootstrapped(endpoint, home):
        progress("preparing the emulated account (cdk bootstrap, some seconds)")
        # Away from cdk.json, or the CDK would synthesize the app first.
        cdk(["bootstrap", f"aws://{ACCOUNT}/{REGION}"], cwd=home, log=home / "bootstrap.log")
    inputs = _report_changes(home, {**context, "model_url": model_url}, progress, app)
    assembly = home / ASSEMBLY
    _synthesise(cdk, app, context, assembly)
    agent: AssembledAgent | None = None
    requests: tuple[str, ...] = ()
    if app:
        agent = find_agent(assembly, app)
        fingerprint = f"{fingerprint} {digest_assembly(assembly)}"
        if known and _is_same(known, fingerprint, model_url):
            return known
        _refuse_another_agent(known, agent)
        progress(f"deploying {agent.stack.path} of {app.folder} (cdk deploy)")
        requests = check_in_place(agent.module, Path(app.folder), home)
    here = replace(known or _probe(endpoint, home), endpoint=endpoint)
    _deploy(cdk, here, agent.stack.path if agent else "--all", progress)
    stage = replace(_read_stage(home, endpoint, context, agent), model_url=model_url, fingerprint=fingerprint)
    if app and agent:
        stage = agent.describe(stage, app, requests)
    _repair(stage, assembly)
    Fingerprint(home / _INPUTS_FILE).take(inputs)
    return stage


def _refuse_another(known: LocalStage | None, app: OwnApp | None) -> None:
    """Refuse to replace the app of a stage, whose conversations would go with it. Raises InputError `other_app`."""
    wanted = app.folder if app else ""
    if known and known.app != wanted:
        raise InputError(
            f"the local stage in {known.home} has the app of {known.app or 'the runtime'}: set STEPLINE_HOME to another folder for"
            f" {wanted or 'that of the runtime'}, or delete this one with its conversations",
            code="other_app",
        )


def _refuse_another_agent(known: LocalStage | None, agent: AssembledAgent) -> None:
    """Refuse to give the names of a stage's agent to another one of its stack. Raises InputError `other_app`."""
    if known and known.stack == agent.stack.name and known.prefix != agent.prefix:
        raise InputError(
            f"the local stage in {known.home} has another agent of {agent.stack.path}: set STEPLINE_HOME to another folder for this"
            " one, or delete that one with its conversations",
            code="other_app",
        )


def _is_same(known: LocalStage, fingerprint: str, model_url: str) -> bool:
    return (known.fingerprint, known.model_url) == (fingerprint, model_url) and _deployed(known)


def _synthesise(
    cdk: Callable[..., None], app: OwnApp | None, context: Mapping[str, str], assembly: Path
) -> None:
    """Write the assembly of our app, or of the caller's by the command in its cdk.json."""
    given = app.context({key: value for key, value in context.items() if key not in OURS}) if app else context
    # Without docstrings, the CDK's bytecode takes half the space.
    command = () if app else ("--app", f'"{PYTHON}" -OO app.py')
    cdk(
        ["synth", "--quiet", "--output", str(assembly), *render_choices(given), *command],
        cwd=Path(app.folder) if app else REPOSITORY,
        log=assembly.with_name("synth.log"),
    )


def _deploy(cdk: Callable[..., None], known: LocalStage, stacks: str, progress: Progress) -> None:
    """Deploy stacks of the assembly, by a path in the app or an option, and delete those that the app no longer has."""
    home = Path(known.home)
    formation, assembly = client("cloudformation", known), home / ASSEMBLY
    dropped = drop_stale(formation, assembly, known.stack)
    cdk(
        [
            *("deploy", stacks, "--concurrency", "2", "--require-approval", "never", "--method", "direct"),
            *("--app", str(assembly), "--outputs-file", str(home / OUTPUTS)),
        ],
        cwd=REPOSITORY,
        log=home / "deploy.log",
    )
    for name in [*dropped, *drop_stale(formation, assembly, known.stack)]:
        progress(f"deleted the stack {name}, which the app no longer has")


def render_choices(context: Mapping[str, str]) -> list[str]:
    """Return the flags of the CDK's command line, which ignores a value after its first line: JSON becomes one line."""
    return [
        flag
        for key, value in context.items()
        for flag in ("--context", f"{key}={' '.join(value.splitlines())}")
    ]


def _report_changes(
    home: Path, context: Mapping[str, str], progress: Progress, app: OwnApp | None
) -> dict[str, str]:
    """Report why this deployment differs from the last one; return all its inputs by name."""
    inputs = {**context, "python": PYTHON, "code": digest_inputs({})}
    file = home / _INPUTS_FILE
    why = "; the first time about a minute"
    if file.exists():
        changed = Fingerprint(file).changed(inputs)
        why = f": {', '.join(changed)} changed" if changed else ""
    doing = (
        f"synthesising the app of {app.folder}"
        if app
        else "deploying the app (cdk deploy --all, stage local)"
    )
    progress(f"{doing}{why}")
    return inputs


def digest_inputs(context: Mapping[str, str]) -> str:
    """Return a digest of everything a deployment depends on: the inputs, the context, the interpreter."""
    total = hashlib.sha256(json.dumps([PYTHON, dict(context)]).encode())
    for name in INPUTS:
        root = REPOSITORY / name
        for path in [root] if root.is_file() else sorted(root.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts and "local" not in path.parts:
                total.update(f"{path.relative_to(REPOSITORY)}\0".encode())
                total.update(path.read_bytes())
    return total.hexdigest()


def install_cdk(home: Path, progress: Progress) -> None:
    """Install the pinned CDK command line unless it is present. Node comes with the environment."""
    wanted = read_json(REPOSITORY / "package.json")["devDependencies"]["aws-cdk"]
    found = read_json(REPOSITORY / "node_modules/aws-cdk/package.json").get("version")
    if found == wanted:
        return
    progress(f"installing the CDK command line {wanted} (30 MB, some seconds)")
    _run(
        [_tool("npm"), "ci", "--no-audit", "--no-fund"],
        install_environment(),
        cwd=REPOSITORY,
        log=home / "npm.log",
    )


def _read_stage(
    home: Path, endpoint: str, context: Mapping[str, str], agent: AssembledAgent | None
) -> LocalStage:
    """Return the stage by the outputs of its stacks, or of the one with an app's agent."""
    stacks = read_json(home / OUTPUTS)
    found = [stacks[agent.stack.name]] if agent else stacks.values()
    prefix = agent.prefix if agent else ""
    values = {key.removeprefix(prefix): value for stack in found for key, value in stack.items()}
    return LocalStage(
        endpoint=endpoint,
        issuer_url=context["oidc_issuer"],
        page_url=context["allowed_origins"].partition(",")[0],
        socket_url=values["WebSocketUrl"],
        api_url=values["HttpUrl"],
        table=values["TableName"],
        bucket=values["BucketName"],
        machine_arn=values["MachineArn"],
        model_url="",
        fingerprint="",
        home=str(home),
    )


def _deployed(stage: LocalStage) -> bool:
    """Return True if the emulator still has the state machine, which is deployed last."""
    machines = client("stepfunctions", stage).list_state_machines()["stateMachines"]
    return stage.machine_arn in [machine["stateMachineArn"] for machine in machines]


def _bootstrapped(endpoint: str, home: Path) -> bool:
    stacks = client("cloudformation", _probe(endpoint, home)).list_stacks(
        StackStatusFilter=list(SETTLED_STATES)
    )
    return "CDKToolkit" in [stack["StackName"] for stack in stacks["StackSummaries"]]


def _probe(endpoint: str, home: Path) -> LocalStage:
    """Return a stage with only the addresses set."""
    return LocalStage(
        endpoint=endpoint,
        issuer_url="",
        socket_url="",
        table="",
        bucket="",
        machine_arn="",
        model_url="",
        fingerprint="",
        home=str(home),
    )


def _cdk(home: Path, endpoint: str, arguments: list[str], *, cwd: Path, log: Path) -> None:
    environment = tool_environment(
        **credentials(home),
        AWS_ENDPOINT_URL=endpoint,
        AWS_REGION=REGION,
        CDK_DEFAULT_ACCOUNT=ACCOUNT,
        CDK_DEFAULT_REGION=REGION,
        CDK_DISABLE_CLI_TELEMETRY="true",
        # Two stages that deploy at once would break each other's file of known accounts in ~/.cdk.
        CDK_HOME=str(home / "cdk"),
        # An app of the caller's finds the runtime's handlers there.
        STEPLINE_HOME=str(home),
        CI="true",
    )
    # The CDK first calls STS, and reports missing credentials if the answer is late; the emulator's first answer may
    # be.
    client("sts", _probe(endpoint, home)).get_caller_identity()
    _run([str(CDK), *arguments, "--no-notices", "--no-version-reporting"], environment, cwd=cwd, log=log)


def _run(command: list[str], environment: Mapping[str, str], *, cwd: Path, log: Path) -> None:
    """Run a command to its end, with its output logged. Raises DependencyError with the end of the output."""
    done = subprocess.run(
        command, cwd=cwd, env=dict(environment), capture_output=True, text=True, check=False
    )
    said = done.stdout + done.stderr
    log.write_text(said)
    if done.returncode != 0:
        tail = "\n".join(said.splitlines()[-30:])
        raise DependencyError(f"{Path(command[0]).name} {command[1]} failed:\n{tail}", code="local_deploy")


def _tool(name: str) -> str:
    found = shutil.which(name, path=tool_environment()["PATH"])
    if found is None:
        raise DependencyError(
            f"{name} is not in the environment: make, or pip install 'stepline[local]'", code="local_deploy"
        )
    return found


PREFIX: Final = f"stepline-{LOCAL_STAGE}-"
SETTLED_STATES: Final = (
    "CREATE_COMPLETE",
    "UPDATE_COMPLETE",
    "ROLLBACK_COMPLETE",
    "UPDATE_ROLLBACK_COMPLETE",
)
_IMPORTED: Final = "is imported by stack"
_HTTP_API: Final = "AWS::ApiGatewayV2::Api"


def drop_stale(formation: Any, assembly: Path, former: str = "") -> list[str]:
    """Delete the emulator's stacks that the app no longer has, such as the `former` one of an agent; return their names.

    Done before the deployment, since a function that moved to another stack keeps its name, and after it, for stacks
    whose exports were in use until then. `formation` is a CloudFormation client.
    """
    found = formation.list_stacks(StackStatusFilter=list(SETTLED_STATES))["StackSummaries"]
    names = plan_stale(found, {stack.name for stack in read_assembly(assembly)}, former)
    return [name for name in names if _drop(formation, name)]


def _drop(formation: Any, name: str) -> bool:
    """Delete a stack unless another one imports its exports; return True if it is gone."""
    from botocore.exceptions import ClientError  # loads boto3, which `stepline status` does not need

    try:
        formation.delete_stack(StackName=name)
    except ClientError as error:
        if _IMPORTED not in str(error):
            raise
        return False
    formation.get_waiter("stack_delete_complete").wait(
        StackName=name, WaiterConfig={"Delay": 1, "MaxAttempts": 60}
    )
    return True


def plan_stale(found: Iterable[Mapping[str, Any]], wanted: Collection[str], former: str = "") -> list[str]:
    """Return the names of the stacks to delete, newest first: a later stack may depend on an earlier one."""
    ours = [one for one in found if one["StackName"].startswith(PREFIX) or one["StackName"] == former]
    newest = sorted(ours, key=lambda one: one["CreationTime"], reverse=True)
    return [one["StackName"] for one in newest if one["StackName"] not in wanted]


def _repair(stage: LocalStage, assembly: Path) -> None:
    """Turn on the table's time to live and the HTTP API's CORS, and end old workers."""
    _expire_rows(stage)
    for stack in read_assembly(assembly):
        _allow_origins(stage, read_origins(stack.template))
    functions = client("lambda", stage)
    for page in functions.get_paginator("list_functions").paginate():
        for function in page["Functions"]:
            if function["FunctionName"].startswith(PREFIX):
                _delete_old_versions(functions, function["FunctionName"])


def _expire_rows(stage: LocalStage) -> None:
    dynamodb = client("dynamodb", stage)
    found = dynamodb.describe_time_to_live(TableName=stage.table)["TimeToLiveDescription"]
    if found["TimeToLiveStatus"] != "ENABLED":
        dynamodb.update_time_to_live(
            TableName=stage.table, TimeToLiveSpecification={"Enabled": True, "AttributeName": "expires_at"}
        )


def _allow_origins(stage: LocalStage, origins: Mapping[str, Any]) -> None:
    gateway = client("apigatewayv2", stage)
    for api in gateway.get_apis()["Items"]:
        if api["Name"] in origins:
            gateway.update_api(ApiId=api["ApiId"], CorsConfiguration=origins[api["Name"]])


def read_origins(template: Mapping[str, Any]) -> dict[str, Any]:
    """Return the CORS configuration of each API in a template, by the API's name."""
    return {
        resource["Properties"]["Name"]: resource["Properties"]["CorsConfiguration"]
        for resource in template["Resources"].values()
        if resource["Type"] == _HTTP_API and "CorsConfiguration" in resource.get("Properties", {})
    }


def _delete_old_versions(functions: Any, name: str) -> None:
    """Delete all versions except the alias's.

    Each version's worker would otherwise live as long as the emulator.
    """
    live = functions.get_alias(FunctionName=name, Name="live")["FunctionVersion"]
    for version in functions.list_versions_by_function(FunctionName=name)["Versions"]:
        if version["Version"] not in ("$LATEST", live):
            functions.delete_function(FunctionName=name, Qualifier=version["Version"])
