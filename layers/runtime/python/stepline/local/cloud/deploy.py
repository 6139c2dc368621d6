"""`stepline deploy`: check, show the plan, ask, deploy, save, run the first turn.

The first turn is a smoke test over the deployed websocket, with a temporary user. The previous version of each function
is kept for a rollback, for a day if versions have snapshots; older versions are deleted.
"""

from __future__ import annotations

import json
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from botocore.exceptions import BotoCoreError, ClientError
from msgspec import field
from msgspec.structs import replace

from stepline.adapters.system import SystemClock
from stepline.errors import AuthError, DependencyError, InputError, SteplineError
from stepline.local.check import Check, failed, passed
from stepline.local.client.change import Effect, Refused, TurnEnded
from stepline.local.client.session import Session
from stepline.local.client.state import ClientState
from stepline.local.client.websocket import dial_gateway
from stepline.local.cloud.account import AwsAccount, aws_error_code, open_account
from stepline.local.cloud.capacity import CHOICE, PERMISSIONS, check_concurrency, find_concurrency
from stepline.local.cloud.child import RunCommand, run
from stepline.local.cloud.deployment import (
    Deployment,
    fold_choices,
    load_deployment,
    read_outputs,
    save_deployment,
    stage_folder,
)
from stepline.local.cloud.former_versions import find_functions, retire_versions
from stepline.local.cloud.health import NAME_A_TOPIC, SCAN_UPLOADS, is_deployed
from stepline.local.cloud.page_check import check_page
from stepline.local.cloud.readiness import (
    QUALIFIER_KEY,
    account_id,
    check_bootstrap,
    check_identity,
    check_model,
    check_region,
)
from stepline.local.cloud.toolkit import (
    read_stacks,
    render_bootstrap,
    render_choices,
    render_cost,
    render_deploy,
    render_synth,
)
from stepline.local.conversation import new_conversation, send_and_settle
from stepline.local.counted import counted
from stepline.local.knowledge.build_index import build_bundle
from stepline.local.page import page_build
from stepline.local.safe_text import one_line
from stepline.local.stage.bundle_code import DEFAULT
from stepline.local.stage.cdk import install_cdk
from stepline.local.stage.deployed import REPOSITORY, install_environment
from stepline.local.stage.emulator import Progress
from stepline.model.base import Value
from stepline.settings import TABLE

QUESTION: Final = "Answer with one word."
TENANT: Final = "smoke"
PROJECT: Final = "smoke"
PATIENCE_S: Final = 300.0
"""Long enough for a cold start of all functions, a turn of one round, and retries of an overloaded model."""


class DeadlineClock(SystemClock):
    """A clock that raises once its time is up."""

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._until_s = super().monotonic_s() + patience_s

    def monotonic_s(self) -> float:
        """Return the time. Raises DependencyError `no_answer` after the deadline."""
        now_s = super().monotonic_s()
        if now_s > self._until_s:
            raise DependencyError(f"no answer within {self._patience_s:.0f} s", code="no_answer")
        return now_s


def try_turn(url: str, token: str) -> str:
    """Run one turn and return its answer.

    Raises:
        AuthError: the token does not open the websocket.
        DependencyError: `smoke_failed`, the turn did not complete; `no_answer`; `socket_unreachable`.
    """
    ends: list[TurnEnded | Refused] = []

    def note(effect: Effect) -> None:
        if isinstance(effect, TurnEnded | Refused):
            ends.append(effect)

    state = ClientState(conversation=new_conversation())
    with Session(dial_gateway(url, lambda: token), state, DeadlineClock(PATIENCE_S)) as session:
        completed = send_and_settle(session, session.effects(), QUESTION, note)
    match ends[-1]:
        case TurnEnded(answer=answer) if completed:
            return answer
        case TurnEnded(code=code, message=message):
            raise DependencyError(f"the turn failed ({code}): {message}", code="smoke_failed")
        case Refused(frame=frame):
            raise DependencyError(
                f"the message was refused ({frame.code}): {frame.message}", code="smoke_failed"
            )


@contextmanager
def lent_token(account: AwsAccount, outputs: Mapping[str, str], say: Progress) -> Iterator[str]:
    """Yield an ID token of a temporary user in the stage's pool; always delete the user afterwards.

    If AWS does not delete the user, `say` gets the command that does.

    Raises:
        DependencyError: `smoke_failed`, the pool refuses the user or cannot be reached.
    """
    cognito = account.client("cognito-idp")
    pool, client_id = outputs["UserPoolId"], outputs["UserPoolClientId"]
    name = f"smoke-{secrets.token_hex(8)}@stepline.invalid"
    try:
        try:
            token = _sign_in(cognito, pool, client_id, name)
        except (BotoCoreError, ClientError) as error:
            raise DependencyError(f"the user pool gave no token: {error}", code="smoke_failed") from error
        yield token
    finally:
        try:
            cognito.admin_delete_user(UserPoolId=pool, Username=name)
        except (BotoCoreError, ClientError) as error:
            if aws_error_code(error) != "UserNotFoundException":
                # An exception here would hide the reason why the turn failed.
                say(
                    f"the temporary user was not deleted ({error}): delete it with"
                    f" aws cognito-idp admin-delete-user --region {account.region} --user-pool-id {pool}"
                    f" --username {name}"
                )


def _sign_in(cognito: Any, pool: str, client_id: str, name: str) -> str:
    """Create a user and return their ID token, which carries tenant and project."""
    first, password = _make_password(), _make_password()
    facts = {"email": name, "email_verified": "true", "custom:tenant": TENANT, "custom:project": PROJECT}
    cognito.admin_create_user(
        UserPoolId=pool,
        Username=name,
        TemporaryPassword=first,
        MessageAction="SUPPRESS",
        UserAttributes=[{"Name": key, "Value": value} for key, value in facts.items()],
    )
    cognito.admin_set_user_password(UserPoolId=pool, Username=name, Password=password, Permanent=True)
    answer = cognito.admin_initiate_auth(
        UserPoolId=pool,
        ClientId=client_id,
        AuthFlow="ADMIN_USER_PASSWORD_AUTH",
        AuthParameters={"USERNAME": name, "PASSWORD": password},
    )
    if "AuthenticationResult" not in answer:
        raise DependencyError(
            f"the user pool needs more than a password ({answer.get('ChallengeName')})", code="smoke_failed"
        )
    return str(answer["AuthenticationResult"]["IdToken"])


def _make_password() -> str:
    """Return a password with one character of every class that a policy may require."""
    return f"{secrets.token_urlsafe(32)}aA1!"


TABLE_TYPE: Final = "AWS::DynamoDB::GlobalTable"
"""The type of the log's table; a stage that keeps it keeps its data."""

POOL: Final = "UserPoolId"
"""The output of a stage that has its own user pool."""

PAGE: Final = "PageUrl"
"""The output with the address of the chat page."""

ZONES: Final = {
    "ap-northeast-1": "apne1-az1,apne1-az2",
    "cn-north-1": "cnn1-az1,cnn1-az2",
    "us-west-1": "usw1-az1,usw1-az3",
}
"""Two zones that have Fargate, by id, in regions where not all have it. Source: Fargate-Regions of the ECS guide."""

UNANSWERED: Final = 3
"""The exit code of a deployment that succeeded but whose page or first turn failed."""


class Order(Value):
    """The arguments of a command. `choices` are new context values; an empty value removes its key."""

    stage: str
    choices: dict[str, str] = field(default_factory=dict)
    profile: str = ""
    region: str = ""
    smoke: bool = True
    token: str = ""


@dataclass(frozen=True, kw_only=True)
class Desk:
    """The dependencies of a command: storage, confirmation, output, and the functions it calls."""

    home: Path
    confirm: Callable[[str], bool]
    say: Progress
    run: RunCommand = run
    open_account: Callable[[str, str], AwsAccount] = open_account
    install: Callable[[Path, Progress], None] = install_cdk
    build_page: Callable[[Progress], None] = page_build.build_page
    is_deployed: Callable[[AwsAccount, str], bool] = is_deployed
    check_page: Callable[[str, Mapping[str, str]], Check] = check_page
    try_turn: Callable[[str, str], str] = try_turn


def deploy_stage(order: Order, desk: Desk) -> tuple[Deployment, int]:
    """Deploy a stage as this checkout and its choices define it; return the deployment and the exit code.

    Raises:
        AuthError, InputError: `cloud_account`, the credentials or the region are not those of the stage.
        InputError: `bad_choice`, the choice does not exist; the errors of building the bundle's index.
        DependencyError: `cloud_deploy`, a step failed; no later step was run.
    """
    account, deployment = find_deployment(order, desk)
    _check_choices(order, desk)
    _prepare_account(account, deployment, desk)
    if load_deployment(desk.home, order.stage) is None and desk.is_deployed(account, order.stage):
        desk.say(
            f"warn: stage {order.stage} was deployed from another checkout: every setting that is not given with -c"
            " is reset to its default, also the issuer"
        )
    folder = stage_folder(desk.home, order.stage)
    for module in _bundle_packages(deployment):
        build_bundle(module, REPOSITORY, desk.say)
    synthesize(deployment, account, desk)
    _show_plan(folder / "cdk.out", deployment, desk)
    if not desk.confirm(f"deploy stage {order.stage} to account {deployment.account}, {deployment.region}?"):
        raise DependencyError("nothing was deployed", code="cloud_deploy")
    # Saved before the deployment, so that a retry after a failure need not repeat the choices.
    save_deployment(desk.home, deployment)
    outputs = _deploy_stacks(folder, deployment, account, desk)
    now = datetime.now(UTC)
    deployment = replace(deployment, outputs=outputs, deployed_at=now.isoformat(timespec="seconds"))
    save_deployment(desk.home, deployment)
    retire_versions(account, find_functions(folder / "cdk.out"), outputs, now, desk.say)
    for name, value in sorted(deployment.outputs.items(), key=lambda output: (output[0] != PAGE, output)):
        desk.say(f"{name:20} {value}")
    return deployment, _run_smoke_test(order, deployment, account, desk) if order.smoke else 0


def _bundle_packages(deployment: Deployment) -> dict[str, None]:
    """Return the packages of the stage's bundles, without duplicates. Raises InputError `bad_setting`."""
    further = TABLE["bundles"].parse(deployment.context.get("bundles", ""))
    return dict.fromkeys(
        [deployment.context.get("bundle", DEFAULT), *(choice.module for choice in further.values())]
    )


def _deploy_stacks(folder: Path, deployment: Deployment, account: AwsAccount, desk: Desk) -> dict[str, str]:
    """Deploy the synthesized stacks and return their outputs. Raises DependencyError `cloud_deploy`."""
    assembly, outputs = folder / "cdk.out", folder / "outputs.json"
    stage, profile = deployment.stage, deployment.profile
    steps = [render_deploy(assembly, outputs, profile)]
    if POOL in deployment.outputs and not any(POOL in stack.outputs for stack in read_stacks(assembly)):
        # The pool is being removed, and CloudFormation deletes no export that other stacks still import.
        users = ("ingress", "page") if PAGE in deployment.outputs else ("ingress",)
        only = tuple(f"stepline-{stage}-{name}" for name in users)
        steps.insert(0, render_deploy(assembly, outputs, profile, only=only))
    remedy = f"the reason is above and in CloudFormation; after the fix: stepline deploy --stage {stage}"
    for step in steps:
        outputs.unlink(missing_ok=True)
        must(desk, step, account, remedy)
    found = read_outputs(outputs)
    outputs.unlink()
    return found


def find_deployment(order: Order, desk: Desk) -> tuple[AwsAccount, Deployment]:
    """Return the account, and the deployment with the order's choices applied.

    Raises:
        AuthError: `cloud_account`, the credentials are missing, or the stage is in another account.
        InputError: `cloud_account`, the stage is in another region.
    """
    known = load_deployment(desk.home, order.stage)
    account = desk.open_account(
        order.profile or (known.profile if known else ""), order.region or (known.region if known else "")
    )
    identity = check_identity(account)
    if not identity.ok:
        raise AuthError(f"{identity.detail}; {identity.remedy}", code="cloud_account")
    here = Deployment(
        stage=order.stage, account=account_id(account), region=account.region, profile=account.profile
    )
    desk.say(f"{identity.detail}, {account.region}")
    if known is None:
        return account, replace(here, context=fold_choices({}, order.choices))
    if (known.account, known.region) != (here.account, here.region):
        message = (
            f"stage {order.stage} is in account {known.account}, {known.region}, and these credentials are for"
            f" {here.account}, {here.region}: sign in there (--profile), or choose another --stage;"
            f" if the stage does not exist any more, remove {desk.home / 'stages' / order.stage}.json"
        )
        raise InputError(message, code="cloud_account")
    return account, replace(
        known, profile=account.profile, context=fold_choices(known.context, order.choices)
    )


def synthesize(deployment: Deployment, account: AwsAccount, desk: Desk) -> Path:
    """Build the page, write the stage's templates and return their folder.

    Raises DependencyError `cloud_deploy`, `page_build`.
    """
    desk.install(desk.home, desk.say)
    desk.build_page(desk.say)
    folder = stage_folder(desk.home, deployment.stage) / "cdk.out"
    shutil.rmtree(folder, ignore_errors=True)  # templates of removed stacks would remain there
    desk.say("writing the templates (cdk synth; the first time, packages are fetched too)")
    must(
        desk,
        render_synth(
            deployment.stage, _with_concurrency(deployment, account, desk), folder, deployment.profile
        ),
        account,
        "-c KEY= removes a setting; docs/how-to/deploy.md lists them",
    )
    return folder


def _with_zones(deployment: Deployment) -> dict[str, str]:
    """Return the choices, with the zones of tasks in a region whose first two zones may lack Fargate."""
    context, region = deployment.context, deployment.region
    if region not in ZONES or {"exec_zones", "exec_vpc"} & context.keys():
        return context
    return {**context, "exec_zones": ZONES[region]}


def _with_concurrency(deployment: Deployment, account: AwsAccount, desk: Desk) -> dict[str, str]:
    """Return the choices and the zones, with the account's current executions for the stage unless they are chosen."""
    context = _with_zones(deployment)
    if CHOICE in context:
        return context
    found = find_concurrency(account, deployment.stage)
    if found is None:
        desk.say(
            "warn: the concurrent executions of the account cannot be read, so the stage is deployed for the few of a new"
            f" account; allow {PERMISSIONS}, or add -c {CHOICE}=N"
        )
        return context
    desk.say(f"{found.render()}: {counted(found.turns, 'turn')} at once")
    return {**context, CHOICE: str(found.concurrency)}


def _check_choices(order: Order, desk: Desk) -> None:
    """Refuse an unknown choice: a misspelt issuer would silently become a user pool."""
    asked = {key for key, value in order.choices.items() if value and not key.startswith("@")}
    if not asked:
        return
    done = desk.run(render_choices(), install_environment(), catch=True)
    if done.code != 0:
        raise DependencyError(f"the settings of the app cannot be read:\n{done.text}", code="cloud_deploy")
    if unknown := sorted(asked - set(json.loads(done.text))):
        raise InputError(
            f"a stage has no setting {', '.join(unknown)}: docs/how-to/deploy.md lists them",
            code="bad_choice",
        )


def _prepare_account(account: AwsAccount, deployment: Deployment, desk: Desk) -> None:
    """Stop if a check shows that the deployment would fail; bootstrap the account if confirmed."""
    stage, context = deployment.stage, deployment.context
    _require(check_region(account, stage, context), desk)
    _require(check_model(account, stage, context), desk)
    if CHOICE in context:  # otherwise the account's own number is used
        _require(check_concurrency(account, stage, context), desk)
    if context.get("exec_image") == "asset":
        _require(_check_docker(desk), desk)
    bootstrap = check_bootstrap(account, context)
    if not bootstrap.ok and desk.confirm(f"{bootstrap.detail}; run `{bootstrap.remedy}`?"):
        command = render_bootstrap(
            deployment.account,
            deployment.region,
            deployment.profile,
            qualifier=context.get(QUALIFIER_KEY, ""),
        )
        desk.install(desk.home, desk.say)
        remedy = "an administrator of the account may have to bootstrap it once"
        must(desk, command, account, remedy, cwd=stage_folder(desk.home, stage))
        bootstrap = check_bootstrap(account, context)
    _require(bootstrap, desk)


def _check_docker(desk: Desk) -> Check:
    done = desk.run(
        ["docker", "version", "--format", "{{.Server.Version}}"], install_environment(), catch=True
    )
    if done.code == 0:
        return passed("docker", done.text.strip())
    return failed(
        "docker",
        "exec_image=asset builds an image on this machine, and no Docker daemon answers",
        "start Docker, or let AWS build it: -c exec_image=codebuild",
    )


def _require(check: Check, desk: Desk) -> None:
    if not check.ok:
        raise DependencyError(f"{check.name}: {check.detail}; {check.remedy}", code="cloud_deploy")
    if check.note:
        desk.say(f"{check.note}: {check.name}: {check.detail}; {check.remedy}")


def _show_plan(folder: Path, deployment: Deployment, desk: Desk) -> None:
    """Print the stacks to be deployed, the choices, and the cost at rest."""
    for key, value in sorted(deployment.context.items()):
        desk.say(f"  -c {key}={value}")
    match deployment.context.get("exec_image", "codebuild"):
        case "none":
            desk.say("  programs: none, the agent runs no code (-c exec_image= allows programs again)")
        case "codebuild":
            desk.say("  programs: in tasks; AWS builds their image, which takes some minutes after a change")
    if is_watched(deployment) and not deployment.context.get("alarm_topic_arn"):
        desk.say(f"warn: the alarms of the stage have no topic; {NAME_A_TOPIC}")
    stacks = read_stacks(folder)
    if deployment.context.get("av") == "none" and any(TABLE_TYPE in stack.kept for stack in stacks):
        desk.say(f"warn: the stage keeps its data, and uploads are not scanned for malware; {SCAN_UPLOADS}")
    for stack in stacks:
        kept = f"; kept by destroy: {', '.join(stack.kept)}" if stack.kept else ""
        desk.say(f"  {stack.name}: {counted(stack.resources, 'resource')}{kept}")
    cost = desk.run(render_cost(folder), install_environment(), catch=True)
    if cost.code == 0:
        desk.say(cost.text.rstrip())
    else:
        # An unknown price does not stop a deployment.
        desk.say(f"the cost at rest is not known: {cost.text.strip().rpartition(chr(10))[2]}")


def is_watched(deployment: Deployment) -> bool:
    """Return True if the stage has alarms: `prod` has them unless it chose otherwise."""
    return deployment.context.get("alarms", "true" if deployment.stage == "prod" else "") == "true"


def _run_smoke_test(order: Order, deployment: Deployment, account: AwsAccount, desk: Desk) -> int:
    """Check the page, run one turn, and return the exit code.

    docs/how-to/deploy.md#the-first-turn describes the token that is used.
    """
    page = desk.check_page(order.stage, deployment.outputs)
    if not page.ok:
        desk.say(f"the stage is deployed, but its page fails: {page.detail}; {page.remedy}")
        return UNANSWERED
    if page.note:
        desk.say(f"{page.note}: {page.name}: {page.detail}; {page.remedy}")
    url = deployment.outputs["WebSocketUrl"]
    try:
        if order.token:
            answer = desk.try_turn(url, order.token)
        elif POOL in deployment.outputs:
            with lent_token(account, deployment.outputs, desk.say) as token:
                answer = desk.try_turn(url, token)
        else:
            desk.say(
                "no first turn: it needs a token of your issuer;"
                f" STEPLINE_TOKEN=… stepline send --stage {order.stage} 'Answer with one word.'"
            )
            return 0
    except SteplineError as error:
        desk.say(
            f"the stage is deployed, but its first turn failed: {error.reason}: {error}\n"
            f"see: stepline doctor --aws --stage {order.stage}, then docs/how-to/runbook.md"
        )
        return UNANSWERED
    desk.say(f"the first turn was answered: {one_line(answer)}")
    return 0


def must(desk: Desk, command: list[str], account: AwsAccount, remedy: str, *, cwd: Path = REPOSITORY) -> None:
    """Run a step with its output shown. Raises DependencyError `cloud_deploy` with the remedy if it fails."""
    done = desk.run(command, account.environment(), cwd=cwd)
    if done.code != 0:
        raise DependencyError(
            f"{Path(command[0]).name} {command[1]} ended with exit code {done.code}; {remedy}",
            code="cloud_deploy",
        )
