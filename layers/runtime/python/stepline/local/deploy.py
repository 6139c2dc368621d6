"""`cdk deploy` of the real app against the emulator, when something it depends on has changed."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final

from stepline.errors import DependencyError
from stepline.local.emulator import Progress
from stepline.local.fingerprint import Fingerprint
from stepline.local.issuer import AUDIENCE
from stepline.local.repair import STANDING, drop_stale, repair
from stepline.local.stage import (
    ACCOUNT,
    NAME,
    REGION,
    REPOSITORY,
    LocalStage,
    client,
    credentials,
    install_environment,
    read_json,
    tool_environment,
)

# Everything synthesis reads. The library counts too: a changed one must replace warm workers.
INPUTS: Final = (
    "app.py",
    "cdk.json",
    "package-lock.json",
    "stacks",
    "lambdas",
    "bundles",
    "exec_task",
    "layers/runtime",
)
_INPUTS_FILE: Final = "deployed.json"
CDK: Final = REPOSITORY / "node_modules/.bin/cdk"
# `python` and `python3` are one interpreter; it has one name here, or each command would deploy anew.
PYTHON: Final = str(Path(sys.prefix) / "bin/python")


def deploy(
    home: Path,
    *,
    endpoint: str,
    issuer_url: str,
    model_url: str,
    chosen: Mapping[str, str],
    known: LocalStage | None,
    progress: Progress,
) -> LocalStage:
    """Bring the emulator to what the checkout says and return the stage; at once if it is there already.

    `chosen` says where programs of the agent run, and what else was asked for, in words of the app's context.
    """
    context = {
        "stage": NAME,
        "endpoint": endpoint,
        "oidc_issuer": issuer_url,
        "oidc_audience": AUDIENCE,
        **chosen,
    }
    fingerprint = digest(context)
    if (
        known is not None
        and known.fingerprint == fingerprint
        and known.model_url == model_url
        and _deployed(known)
    ):
        return known
    install_cdk(home, progress)
    cdk = partial(_cdk, home, endpoint)
    if known is None or not _bootstrapped(endpoint, home):
        progress("preparing the emulated account (cdk bootstrap, some seconds)")
        # Away from cdk.json, or it would synthesise the app first.
        cdk(["bootstrap", f"aws://{ACCOUNT}/{REGION}"], cwd=home, log=home / "bootstrap.log")
    inputs = _say_why(home, {**context, "model_url": model_url}, progress)
    assembly, outputs = home / "cdk.out", home / "outputs.json"
    flags = [flag for key, value in context.items() for flag in ("--context", f"{key}={value}")]
    cdk(
        ["synth", "--quiet", "--output", str(assembly), *flags, "--app", f'"{PYTHON}" app.py'],
        cwd=REPOSITORY,
        log=home / "synth.log",
    )
    formation = client("cloudformation", _probe(endpoint, home))
    dropped = drop_stale(formation, assembly)
    cdk(
        [
            *("deploy", "--all", "--require-approval", "never", "--method", "direct", "--concurrency", "2"),
            *("--app", str(assembly), "--outputs-file", str(outputs)),
        ],
        cwd=REPOSITORY,
        log=home / "deploy.log",
    )
    for name in [*dropped, *drop_stale(formation, assembly)]:
        progress(f"deleted the stack {name}, which the app no longer has")
    stage = _read_stage(outputs, endpoint, issuer_url, model_url, fingerprint)
    repair(stage, assembly)
    Fingerprint(home / _INPUTS_FILE).take(inputs)
    return stage


def _say_why(home: Path, context: Mapping[str, str], progress: Progress) -> dict[str, str]:
    """Say what makes this deployment another one than the last; return all that it is made of, by name."""
    inputs = {**context, "python": PYTHON, "code": digest({})}
    file = home / _INPUTS_FILE
    why = "; the first time about a minute"
    if file.exists():
        changed = Fingerprint(file).changed(inputs)
        why = f": {', '.join(changed)} changed" if changed else ""
    progress(f"deploying the app (cdk deploy --all, stage local){why}")
    return inputs


def digest(context: Mapping[str, str]) -> str:
    """Return a digest of all that a deployment depends on: the inputs, the context, the interpreter."""
    total = hashlib.sha256(json.dumps([PYTHON, dict(context)]).encode())
    for name in INPUTS:
        root = REPOSITORY / name
        for path in [root] if root.is_file() else sorted(root.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts and "local" not in path.parts:
                total.update(f"{path.relative_to(REPOSITORY)}\0".encode())
                total.update(path.read_bytes())
    return total.hexdigest()


def install_cdk(home: Path, progress: Progress) -> None:
    """Fetch the pinned CDK command line, unless it is there. Node comes with the environment."""
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
    outputs: Path, endpoint: str, issuer_url: str, model_url: str, fingerprint: str
) -> LocalStage:
    values = {key: value for stack in read_json(outputs).values() for key, value in stack.items()}
    return LocalStage(
        endpoint=endpoint,
        issuer_url=issuer_url,
        socket_url=values["WebSocketUrl"],
        api_url=values["HttpUrl"],
        table=values["TableName"],
        bucket=values["BucketName"],
        machine_arn=values["MachineArn"],
        model_url=model_url,
        fingerprint=fingerprint,
        home=str(outputs.parent),
    )


def _deployed(stage: LocalStage) -> bool:
    """Whether the emulator still has the machine, the last thing to be deployed."""
    machines = client("stepfunctions", stage).list_state_machines()["stateMachines"]
    return stage.machine_arn in [machine["stateMachineArn"] for machine in machines]


def _bootstrapped(endpoint: str, home: Path) -> bool:
    stacks = client("cloudformation", _probe(endpoint, home)).list_stacks(StackStatusFilter=list(STANDING))
    return "CDKToolkit" in [stack["StackName"] for stack in stacks["StackSummaries"]]


def _probe(endpoint: str, home: Path) -> LocalStage:
    """Return a stage of which nothing is known but where it would answer."""
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
        CI="true",
    )
    _run([str(CDK), *arguments, "--no-notices", "--no-version-reporting"], environment, cwd=cwd, log=log)


def _run(command: list[str], environment: Mapping[str, str], *, cwd: Path, log: Path) -> None:
    """Run to the end, quietly. Raises DependencyError with the end of what it said."""
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
