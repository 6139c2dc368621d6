"""`stepline deploy`: check, show the plan, ask, deploy, save, run the first turn.

The first turn is a smoke test over the deployed websocket, with a temporary user. The versions of functions that served before
are recorded for a rollback.
"""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
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
from stepline.local.cloud.checks.capacity import CHOICE, PERMISSIONS, check_concurrency, find_concurrency
from stepline.local.cloud.checks.page_check import check_page
from stepline.local.cloud.deploy_failure import explain_failure
from stepline.local.cloud.deployment import (
    Deployment,
    fold_choices,
    load_deployment,
    read_outputs,
    save_deployment,
    stage_folder,
)
from stepline.local.cloud.former_versions import find_functions, recorded_versions
from stepline.local.cloud.health import NAME_A_TOPIC, SCAN_UPLOADS, is_deployed
from stepline.local.cloud.program.child import RunCommand, run
from stepline.local.cloud.program.toolkit import (
    read_stacks,
    render_bootstrap,
    render_cost,
    render_deploy,
    render_synth,
)
from stepline.local.cloud.readiness import (
    QUALIFIER_KEY,
    account_id,
    check_bootstrap,
    check_identity,
    check_model,
    check_region,
    first_checks,
)
from stepline.local.cloud.stage_choices import (
    STAGES,
    ChosenStage,
    ask_app,
    choices_file,
    given_choices,
    is_choice,
    move_choices,
    read_record,
    write_choices,
)
from stepline.local.conversation import new_conversation, send_and_settle
from stepline.local.counted import counted
from stepline.local.knowledge.build_index import build_bundle
from stepline.local.page import page_build
from stepline.local.safe_text import one_line
from stepline.local.stage.cdk import install_cdk
from stepline.local.stage.deployed import PROJECT_FOLDER, REPOSITORY, install_environment
from stepline.local.stage.emulator import Progress
from stepline.model.base import Value
from stepline.model.tenancy.concurrency import UNRESERVED
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


SKEW: Final = timedelta(minutes=1)
"""The clock of this machine may be ahead of AWS's."""

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
    """The arguments of a command. `choices` are new choices, and keys of the CDK's own; an empty value is the default."""

    stage: str
    choices: dict[str, str] = field(default_factory=dict)
    profile: str = ""
    region: str = ""
    smoke: bool = True
    token: str = ""


@dataclass(frozen=True, kw_only=True)
class Desk:
    """The dependencies of a command: storage, confirmation, output, and the functions it calls.

    `home` has what this machine knows about its stages, `project` the files of their choices.
    """

    home: Path
    confirm: Callable[[str], bool]
    say: Progress
    run: RunCommand = run
    open_account: Callable[[str, str], AwsAccount] = open_account
    install: Callable[[Path, Progress], None] = install_cdk
    build_page: Callable[[Progress], None] = page_build.build_page
    is_deployed: Callable[[AwsAccount, str], bool] = is_deployed
    explain: Callable[[AwsAccount, str, datetime], str] = explain_failure
    check_page: Callable[[str, Mapping[str, str]], Check] = check_page
    project: Path = PROJECT_FOLDER
    try_turn: Callable[[str, str], str] = try_turn


def deploy_stage(order: Order, desk: Desk) -> tuple[Deployment, int]:
    """Deploy a stage as this checkout and its choices define it; return the deployment and the exit code.

    Raises:
        AuthError, InputError: `cloud_account`, the credentials or the region are not those of the stage.
        InputError: `bad_choice`, the choice does not exist; the errors of building the bundle's index.
        DependencyError: `cloud_deploy`, a step failed; no later step was run.
    """
    account, deployment = find_deployment(order, desk)
    record, missing = _read_record(account, order.stage)
    deployment, chosen = choose(order, deployment, desk, record=record)
    check_lost_choices(order.stage, chosen, desk.say)
    _prepare_account(account, deployment, chosen, desk)
    if missing and desk.is_deployed(account, order.stage):
        desk.say(
            f"warn: the choices that stage {order.stage} was deployed with are not known ({missing}): every choice that no source"
            " names is reset to its default, also the issuer"
        )
    folder = stage_folder(desk.home, order.stage)
    for module in _bundle_packages(chosen):
        build_bundle(module, REPOSITORY, desk.say)
    synthesize(order, deployment, chosen, account, desk)
    _show_plan(folder / "cdk.out", chosen, desk)
    if not desk.confirm(f"deploy stage {order.stage} to account {deployment.account}, {deployment.region}?"):
        raise DependencyError("nothing was deployed", code="cloud_deploy")
    # Saved before the deployment, so that a retry after a failure need not repeat the choices.
    save_deployment(desk.home, deployment)
    if file := write_choices(desk.project, order.stage, given_choices(order.choices)):
        desk.say(
            f"wrote {file.relative_to(desk.project)}: commit it, so that every deployment has these choices"
        )
    with recorded_versions(account, find_functions(folder / "cdk.out"), desk.say):
        outputs = _deploy_stacks(folder, deployment, account, desk)
    deployed_at = datetime.now(UTC).isoformat(timespec="seconds")
    deployment = replace(deployment, outputs=outputs, deployed_at=deployed_at)
    save_deployment(desk.home, deployment)
    for name, value in sorted(deployment.outputs.items(), key=lambda output: (output[0] != PAGE, output)):
        desk.say(f"{name:20} {value}")
    if (built := outputs.get("ImageResult", "built")) != "built":
        desk.say(
            f"warn: the agent has no programs: {built}; then: aws codebuild start-build --project-name"
            f" {outputs['ImageProject']}, or another image (docs/how-to/deploy.md#programs)"
        )
    return deployment, _run_smoke_test(order, deployment, account, desk) if order.smoke else 0


def choose(
    order: Order, deployment: Deployment, desk: Desk, *, record: str = ""
) -> tuple[Deployment, ChosenStage]:
    """Return the choices of a stage with those of the order, and the deployment without choices of its own.

    Releases before saved them with the deployment; they are moved to the stage's file once.

    Raises:
        InputError: `bad_choice`, with the app's sentence.
        DependencyError: `cloud_deploy`, the app cannot be asked.
    """
    if any(map(is_choice, deployment.context)):
        moved = move_choices(desk.project, order.stage, deployment.context)
        context = {key: text for key, text in deployment.context.items() if not is_choice(key)}
        deployment = replace(deployment, context=context)
        save_deployment(desk.home, deployment)
        desk.say(
            f"moved the choices of earlier deployments to {choices_file(desk.project, order.stage)}: {', '.join(sorted(moved)) or 'none'};"
            " commit it"
        )
    return deployment, ask_app(desk.run, order.stage, order.choices, project=desk.project, record=record)


def _read_record(account: AwsAccount, stage: str) -> tuple[str, str]:
    """Return the record of the stage's choices, or "" and the reason why there is none."""
    try:
        record = read_record(account, stage)
    except DependencyError as error:
        return "", str(error)
    return record, "" if record else "an earlier release deployed it"


def check_lost_choices(stage: str, chosen: ChosenStage, say: Progress) -> None:
    """Show what changes; refuse a deployment that no longer names a guarded choice. Raises InputError `bad_choice`."""
    lost = [change for change in chosen.changes if change.is_lost]
    if lost:
        names = ", ".join(change.render() for change in lost)
        raise InputError(
            f"stage {stage} was deployed with choices that nothing names any more, and would change: {names}; restore"
            f" {STAGES}/{stage}.toml, or name each one with -c KEY=VALUE, -c KEY= for the default",
            code="bad_choice",
        )
    for change in chosen.changes:
        say(f"  changes {change.render()}")


def _bundle_packages(chosen: ChosenStage) -> dict[str, None]:
    """Return the packages of the stage's bundles, without duplicates."""
    further = TABLE["bundles"].parse(chosen.values["bundles"])
    return dict.fromkeys([chosen.values["bundle"], *(choice.module for choice in further.values())])


def _deploy_stacks(folder: Path, deployment: Deployment, account: AwsAccount, desk: Desk) -> dict[str, str]:
    """Deploy the synthesized stacks and return their outputs. Raises DependencyError `cloud_deploy`."""
    assembly, outputs = folder / "cdk.out", folder / "outputs.json"
    stage = deployment.stage
    remedy = f"the reason is above and in CloudFormation; after the fix: stepline deploy --stage {stage}"
    began = datetime.now(UTC) - SKEW
    outputs.unlink(missing_ok=True)
    try:
        must(desk, render_deploy(assembly, outputs, deployment.profile), account, remedy)
    except DependencyError as error:
        if known := desk.explain(account, stage, began):
            raise DependencyError(f"{error}\n{known}", code="cloud_deploy") from error
        raise
    found = read_outputs(outputs)
    outputs.unlink()
    return found


def find_deployment(order: Order, desk: Desk, *, in_any_app: bool = False) -> tuple[AwsAccount, Deployment]:
    """Return the account, and the deployment with the CDK's own keys of the order applied.

    Raises:
        AuthError: `cloud_account`, the credentials are missing, or the stage is in another account.
        InputError: `cloud_account`, the stage is in another region; `bad_stage`, it is in an app of the user's.
    """
    known = load_deployment(desk.home, order.stage)
    if known and known.stack and not in_any_app:
        raise InputError(
            f"{order.stage} is an agent in the stack {known.stack} of an app of yours, which deploys and deletes it",
            code="bad_stage",
        )
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
    given = {key: value for key, value in order.choices.items() if not is_choice(key)}
    if known is None:
        return account, replace(here, context=fold_choices({}, given))
    if (known.account, known.region) != (here.account, here.region):
        message = (
            f"stage {order.stage} is in account {known.account}, {known.region}, and these credentials are for"
            f" {here.account}, {here.region}: sign in there (--profile), or choose another --stage;"
            f" if the stage does not exist any more, remove {desk.home / 'stages' / order.stage}.json"
        )
        raise InputError(message, code="cloud_account")
    return account, replace(known, profile=account.profile, context=fold_choices(known.context, given))


def synthesize(
    order: Order, deployment: Deployment, chosen: ChosenStage, account: AwsAccount, desk: Desk
) -> Path:
    """Build the page if the stage has one, write the stage's templates and return their folder.

    Raises DependencyError `cloud_deploy`, `page_build`.
    """
    desk.install(desk.home, desk.say)
    if chosen.values["page"] == "true":
        desk.build_page(desk.say)
    folder = stage_folder(desk.home, deployment.stage) / "cdk.out"
    shutil.rmtree(folder, ignore_errors=True)  # templates of removed stacks would remain there
    desk.say("writing the templates (cdk synth; the first time, packages are fetched too)")
    derived = {**_zones(deployment, chosen), **_concurrency(deployment, chosen, account, desk)}
    context = {
        **deployment.context,
        **given_choices(order.choices),
        **derived,
        "derived": ",".join(derived),
        "stages_folder": str(desk.project / STAGES),
    }
    must(
        desk,
        render_synth(deployment.stage, context, folder, deployment.profile),
        account,
        "docs/reference/choices.md lists the choices",
    )
    return folder


def _zones(deployment: Deployment, chosen: ChosenStage) -> dict[str, str]:
    """Return the zones of tasks in a region whose first two zones may lack Fargate, unless they are chosen."""
    is_chosen = chosen.values["exec_zones"] or chosen.values["exec_vpc"]
    return {} if is_chosen or deployment.region not in ZONES else {"exec_zones": ZONES[deployment.region]}


def _concurrency(
    deployment: Deployment, chosen: ChosenStage, account: AwsAccount, desk: Desk
) -> dict[str, str]:
    """Return the account's current executions for the stage, unless they are chosen."""
    if chosen.values[CHOICE] != "0":
        return {}
    found = find_concurrency(account, deployment.stage)
    if found is None:
        desk.say(
            "warn: the concurrent executions of the account cannot be read, so the stage is deployed for the few of a new"
            f" account; allow {PERMISSIONS}, or add -c {CHOICE}=N"
        )
        return {}
    few = "" if found.concurrency > UNRESERVED else f"; for more: {found.render_request()}"
    desk.say(f"{found.render()}: {counted(found.turns, 'turn')} at once{few}")
    return {CHOICE: str(found.concurrency)}


def _prepare_account(account: AwsAccount, deployment: Deployment, chosen: ChosenStage, desk: Desk) -> None:
    """Stop if a check shows that the deployment would fail; bootstrap the account if confirmed."""
    stage, context = deployment.stage, {**deployment.context, **chosen.values}
    _require(check_region(account, stage, context), desk)
    _require(check_model(account, stage, context), desk)
    for check in first_checks(account, context):
        _require(check(), desk)
    if context[CHOICE] != "0":  # otherwise the account's own number is used
        _require(check_concurrency(account, stage, context), desk)
    if context["exec_image"] == "asset":
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


def _show_plan(folder: Path, chosen: ChosenStage, desk: Desk) -> None:
    """Print the stacks to be deployed, the choices, and the cost at rest."""
    for key in sorted(chosen.named):
        desk.say(f"  {key} = {chosen.values[key]}")
    match chosen.values["exec_image"]:
        case "none":
            desk.say("  programs: none, the agent runs no code (-c exec_image= allows programs again)")
        case "codebuild":
            desk.say("  programs: in tasks; AWS builds their image, which takes some minutes after a change")
    if chosen.values["alarms"] == "true" and not chosen.values["alarm_topic_arn"]:
        desk.say(f"warn: the alarms of the stage have no topic; {NAME_A_TOPIC}")
    if chosen.values["av"] == "none" and chosen.values["keep_data"] == "true":
        desk.say(f"warn: the stage keeps its data, and uploads are not scanned for malware; {SCAN_UPLOADS}")
    for stack in read_stacks(folder):
        kept = f"; kept by destroy: {', '.join(stack.kept)}" if stack.kept else ""
        desk.say(f"  {stack.name}: {counted(stack.resources, 'resource')}{kept}")
    cost = desk.run(render_cost(folder), install_environment(), catch=True)
    if cost.code == 0:
        desk.say(cost.text.rstrip())
    else:
        # An unknown price does not stop a deployment.
        desk.say(f"the cost at rest is not known: {cost.text.strip().rpartition(chr(10))[2]}")


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
    # The address of AWS, if the stage has a domain: its DNS record may not exist yet.
    url = deployment.outputs.get("SocketOwnUrl") or deployment.outputs["WebSocketUrl"]
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
