"""An agent as one construct: the parts of a stage in a stack of your own.

Source: docs/how-to/own-app.md.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, Unpack

import aws_cdk as cdk
import jsii
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cognito as cognito
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_secretsmanager as secretsmanager
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct
from pydantic import PrivateAttr

from stepline import metrics
from stepline.bundle.deployable import load_deployable
from stepline.errors import InputError
from stepline.local.install.agent_words import AGENT_OUTPUT, BUNDLE_OUTPUT
from stepline_cdk.access import MODEL, statements
from stepline_cdk.acknowledge import LateAcknowledgement, acknowledge
from stepline_cdk.app_root import app_root
from stepline_cdk.bytecode import find_python, render_missing
from stepline_cdk.choice.declare import LOCAL
from stepline_cdk.choice.read import BadChoiceError
from stepline_cdk.choice_props import ChoiceProps
from stepline_cdk.code import Code, read_packages
from stepline_cdk.function import Function
from stepline_cdk.function_code import make_code, read_bundles
from stepline_cdk.identity import PROJECT_CLAIM, TENANT_CLAIM
from stepline_cdk.key import key_policy
from stepline_cdk.local_run import LocalRun, read_local_run
from stepline_cdk.owned import NOTHING, Owned, check_owned
from stepline_cdk.page_files import PageFiles, read_page
from stepline_cdk.parts import Parts
from stepline_cdk.shared_grantee import SharedGrantee
from stepline_cdk.stage import Stage

MOST_AGENTS: Final = 2
RESOURCES: Final = (156, 288)
"""Resources of an agent with nothing chosen, and with everything. A stack takes 500, and the CDK refuses more.

Source: docs.aws.amazon.com/AWSCloudFormation, "Understand CloudFormation quotas".
"""
EVENTS: Final = "events"
"""The row of services that submit events in the table of rights."""
METRICS: Final = frozenset(
    value
    for name, value in vars(metrics).items()
    if name.isupper() and isinstance(value, str) and name not in ("NAMESPACE", "SERVICE")
)
"""The metrics that functions write."""
TOOLS: Final = ("act", "serve")
"""The functions that run tools: for a turn, and for the programs that it starts."""
PROPS: Final[Mapping[str, str]] = {
    "bundle": "bundle",
    "exec_image": "programs",
    "keep_data": "keep_data",
    "kms_key_arn": "kms_key",
    "log_retention_days": "log_retention",
    "model_secret_arn": "model_secret",
    "name": "stage",
    "oidc_issuer": "issuer",
    "page": "page",
    "vpc": "vpc",
    "vpc_security_groups": "security_groups",
    "vpc_subnets": "vpc_subnets",
}
"""The choices of a stage that an agent has as props of its own."""
OF_CDK: Final[Mapping[str, str]] = {
    "permissions_boundary_arn": "iam.PermissionsBoundary.of(agent).apply(…)",
    "tags": "cdk.Tags.of(agent).add(…)",
}
"""The choices of a stage for which the CDK has a way for each construct."""
OF_EMULATOR: Final = ("endpoint", "exec_home", "exec_mode", "exec_python", "exec_tasks")
"""The choices of a stage that `stepline up` makes for the local stage, and that have no other value in AWS."""
_ID_CHARS: Final = 10
_RUN: Final = "SteplineLocalRun"
"""The construct of an app whose agent for the local stage is found."""


class AgentStage(Stage):
    """The choices of an agent, whose resources all have names on request only."""

    _is_named: bool = PrivateAttr(default=False)
    _removal_policy: cdk.RemovalPolicy | None = PrivateAttr(default=None)

    def __init__(
        self, *, is_named: bool, removal_policy: cdk.RemovalPolicy | None = None, **given: Any
    ) -> None:
        """Read the given choices, and make the others. Raises BadChoiceError."""
        super().__init__(**given)
        if removal_policy == cdk.RemovalPolicy.SNAPSHOT:
            raise BadChoiceError(
                "removal_policy: got SNAPSHOT, takes RETAIN or DESTROY: a table has no snapshot"
            )
        if removal_policy == cdk.RemovalPolicy.DESTROY and self.keep_data:
            raise BadChoiceError("removal_policy and keep_data: got DESTROY and True, takes one of them")
        self._is_named = is_named
        self._removal_policy = removal_policy

    @property
    def removal_policy(self) -> cdk.RemovalPolicy:
        return self._removal_policy or super().removal_policy

    @property
    def is_local(self) -> bool:
        return bool(self.endpoint)

    @property
    def has_all_names(self) -> bool:
        return self._is_named

    @property
    def has_own_stacks(self) -> bool:
        return False

    def spell(self, choice: str) -> str:
        name, equals, value = choice.partition("=")
        return f"{PROPS.get(name, name)}{equals}{value}"


@jsii.implements(ec2.IConnectable)
class Agent(Construct):
    """One agent: its APIs, its log, its loop, and, if chosen, its users, its programs and its chat page.

    `socket_url` and `api_url` are its addresses, `table` and `bucket` hold its data, `machine` runs its turns; `functions` have
    each a `function`, a `role`, and the alias `live` that callers use. `tools_role` gets the rights that tools need.
    `send_environment` are the variables of a service that submits events. `parts` has everything else.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        bundle: str,
        model_secret: secretsmanager.ISecret | None = None,
        issuer: str = "",
        user_pool: cognito.IUserPool | None = None,
        user_pool_client: cognito.IUserPoolClient | None = None,
        keep_data: bool = False,
        removal_policy: cdk.RemovalPolicy | None = None,
        table: dynamodb.ITable | None = None,
        bucket: s3.IBucket | None = None,
        kms_key: kms.IKey | None = None,
        log_retention: cdk.Duration | None = None,
        page: bool | Path = False,
        programs: bool | str = False,
        stage: str = "",
        code: Code | None = None,
        vpc: ec2.IVpc | None = None,
        vpc_subnets: ec2.SubnetSelection | None = None,
        security_groups: Sequence[ec2.ISecurityGroup] = (),
        **choices: Unpack[ChoiceProps],
    ) -> None:
        """Add the agent of a bundle, a package that this environment can import.

        `issuer` is that of the tokens to trust, or a pool of yours with the client that they are for; without either the agent has a
        pool of its own. `table` and `bucket` of yours are used instead of new ones; `removal_policy` is that of new ones and of users.
        `page` deploys the chat page, or the one in the folder that it names. `programs` runs the model's programs in tasks whose image
        AWS builds, or which is named. With `stage` all resources have its name. `code` is built elsewhere. Functions and tasks
        run in `vpc`, in its private subnets or those that `vpc_subnets` selects, with `security_groups` or one of their own. The
        other choices are those of docs/reference/choices.md.

        Raises InputError, whose sentence begins with this construct's path, for what no agent can be.
        """
        super().__init__(scope, construct_id)
        self._security_groups = list(security_groups)
        given: dict[str, Any] = {
            **_refuse_props(self, choices),
            "name": stage or self._unique_name(),
            "bundle": bundle,
            "keep_data": keep_data,
            "page": bool(page),
            "exec_image": _image_of(programs),
        }
        with _refused_at(self):
            given |= self._trust(issuer, user_pool, user_pool_client, choices)
            given |= _place_in(vpc, vpc_subnets, security_groups, programs=bool(programs))
            given |= _spell(model_secret, kms_key, log_retention)
            self._choices = AgentStage(is_named=bool(stage), removal_policy=removal_policy, **given)
            self._owned = _check_owned(Owned(table, bucket), self._choices)
            if local := read_local_run(self.node):
                self._choices, self._owned = self._run_locally(local, given), NOTHING
            self._enter()
            self.parts = self._build(code, page)
        self._add_outputs()
        self._grant_keys(model_secret, kms_key)
        self._acknowledge(bucket)

    def _trust(
        self,
        issuer: str,
        pool: cognito.IUserPool | None,
        client: cognito.IUserPoolClient | None,
        choices: ChoiceProps,
    ) -> dict[str, Any]:
        """Return the choices of who is trusted; those of a pool unless they are given."""
        if not (pool or client):
            return {"oidc_issuer": issuer}
        if not (pool and client) or issuer or "oidc_audience" in choices:
            raise InputError(
                "user_pool, user_pool_client and issuer: takes the first two, the third, or none of them, and oidc_audience with the third",
                code="bad_choice",
            )
        host = f"cognito-idp.{pool.env.region}.{cdk.Stack.of(self).url_suffix}"
        return {
            "oidc_issuer": f"https://{host}/{pool.user_pool_id}",
            "oidc_audience": client.user_pool_client_id,
            "tenant_claim": choices.get("tenant_claim", TENANT_CLAIM),
            "project_claim": choices.get("project_claim", PROJECT_CLAIM),
        }

    def _grant_keys(self, secret: secretsmanager.ISecret | None, key: kms.IKey | None) -> None:
        """Let functions that ask the model use its secret's key, and services of AWS that of the data."""
        if self._choices.is_local:
            return
        if secret and secret.encryption_key:
            for name in sorted(MODEL & self.functions.keys()):
                secret.encryption_key.grant_decrypt(self.functions[name].role)
        if key:
            for statement in key_policy(cdk.Stack.of(self), self._choices):
                key.add_to_resource_policy(statement)

    def _acknowledge(self, bucket: s3.IBucket | None) -> None:
        acknowledge(self._scopes, self._choices.python, bucket)
        if bucket:
            self.node.add_validation(LateAcknowledgement(self._scopes, self._choices.python, bucket))

    def _unique_name(self) -> str:
        """Return a name for the resources that need one, which no other construct of the account has in this region."""
        stack = cdk.Stack.of(self)
        while stack.nested_stack_parent:
            stack = stack.nested_stack_parent
        place = f"{stack.stack_name}/{self.node.path.removeprefix(stack.node.path)}"
        return f"agent-{hashlib.sha256(place.encode()).hexdigest()[:_ID_CHARS]}"

    def _run_locally(self, local: LocalRun, given: Mapping[str, Any]) -> AgentStage:
        """Return the choices on the emulator; the agent that is run has the name of the local stage."""
        is_run = local.means(self.node.path, is_first=not self._app.node.try_find_child(_RUN))
        if is_run:
            Construct(self._app, _RUN)
        name = LOCAL if is_run else self._unique_name()
        return AgentStage(is_named=is_run, **local.choose(given), name=name)

    @property
    def _app(self) -> Construct:
        root = self.node.root
        assert isinstance(root, Construct)
        return root

    def _add_outputs(self) -> None:
        """Give each output the id of this construct and its own name, and add those by which `stepline` finds the agent."""
        cdk.CfnOutput(self, AGENT_OUTPUT, value=self._choices.name)
        cdk.CfnOutput(self, BUNDLE_OUTPUT, value=self._choices.bundle)
        place = self.node.path.removeprefix(cdk.Stack.of(self).node.path)
        prefix = "".join(filter(str.isalnum, place))
        for one in self.node.find_all():
            if isinstance(one, cdk.CfnOutput) and cdk.Stack.of(one) == cdk.Stack.of(self):
                one.override_logical_id(f"{prefix}{one.node.id}")

    def _enter(self) -> None:
        """Count the agent in its stack, and its name, if it is fixed, in the app. Raises InputError if either is full or taken."""
        stack = cdk.Stack.of(self)
        agents = _folder(stack, "SteplineAgents")
        if len(agents.node.children) == MOST_AGENTS:
            raise InputError(
                f"a stack takes {MOST_AGENTS} agents, of which each has {RESOURCES[0]} to {RESOURCES[1]} of its 500 resources: put"
                " this one into another stack",
                code="bad_choice",
            )
        Construct(agents, self.node.addr)
        if not self._choices.has_all_names:
            return
        names, name = _folder(self._app, "SteplineStages"), self._choices.name
        if names.node.try_find_child(place := f"{name} in {stack.environment}".replace("/", " ")):
            raise InputError(
                f"stage: got {name!r}, which another agent has already in {stack.environment}, takes a name of its own, or nothing",
                code="bad_choice",
            )
        Construct(names, place)

    def _build(self, code: Code | None, page: bool | Path) -> Parts:
        choices = self._choices
        for module in choices.modules:
            _check(module)
        folder = Path(cdk.Stage.of(self).outdir)  # type: ignore[union-attr]  # each stack is in an app
        place = self.node.addr  # agents of two regions may have one name, and the CDK reads each folder once
        if choices.is_local:
            code = Code.for_emulator(app_root(), folder / f"code-{place}")
        code = code or self._make_code()
        code = code.holding(read_bundles(choices), folder / f"bundles-{place}")
        self._scopes: dict[str, Construct] = {}
        return Parts(
            self._place,
            choices,
            code=code,
            packages=read_packages(app_root() / "exec_task/requirements.txt"),
            files=_read_page(choices, page) if choices.page else None,
            folder=folder / f"handlers-{place}",
            owned=self._owned,
        )

    def _make_code(self) -> Code:
        choices = self._choices
        compiler = find_python(choices.python) if choices.bytecode else None
        if choices.bytecode and not compiler:
            cdk.Annotations.of(self).add_warning_v2(
                "stepline:bytecode", render_missing(choices.python, flag="")
            )
        return make_code(app_root(), choices, compiler)

    def _place(self, part: str) -> Construct:
        self._scopes[part] = Construct(self, part.title())
        return self._scopes[part]

    @property
    def socket_url(self) -> str:
        """The address of the websocket API."""
        return self.parts.ingress.socket_url

    @property
    def api_url(self) -> str:
        """The address of the HTTP API."""
        return self.parts.ingress.http_url

    @property
    def page_url(self) -> str:
        """The address of the chat page; "" without one."""
        return f"{self.parts.edge.origin}/" if self.parts.edge else ""

    @property
    def table(self) -> dynamodb.ITable:
        """The table with the logs of all conversations."""
        return self.parts.state.table

    @property
    def bucket(self) -> s3.IBucket:
        """The bucket with files and long texts."""
        return self.parts.state.bucket

    @property
    def machine(self) -> sfn.StateMachine:
        """The state machine, of which each turn is an execution."""
        return self.parts.loop.machine

    @property
    def functions(self) -> dict[str, Function]:
        """The functions by their names: those of the APIs, and those of the loop."""
        return {**self.parts.ingress.functions, **self.parts.loop.functions}

    @property
    def tools_role(self) -> iam.IGrantable:
        """The role of the tools, for grants; with programs, both roles that run tools."""
        roles = [one.role for one in self._tools()]
        return roles[0] if len(roles) == 1 else SharedGrantee(roles)

    @property
    def connections(self) -> ec2.Connections:
        """The connections of functions and tasks in a VPC: `database.connections.allow_default_port_from(agent)`.

        Raises InputError `bad_choice` without a VPC. On the local stage, which has none, they allow nothing.
        """
        if self._choices.is_local:
            return ec2.Connections(security_groups=self._security_groups)
        if not self.parts.ingress.network:
            raise _at(
                self, "connections: got an agent without a VPC, takes one with the prop vpc", "bad_choice"
            )
        if not self._security_groups:
            tasks = self.parts.execution
            ids = (
                *self.parts.ingress.network.security_group_ids,
                *(tasks.security_group_ids if tasks else ()),
            )
            self._security_groups = [
                ec2.SecurityGroup.from_security_group_id(
                    self, f"Group{number}", one, allow_all_outbound=False
                )
                for number, one in enumerate(ids)
            ]
        return ec2.Connections(security_groups=self._security_groups)

    def _tools(self) -> list[Function]:
        return [self.functions[name] for name in TOOLS if name in self.functions]

    def add_tool_environment(self, variable: str, value: str) -> None:
        """Add a variable for the tools of the bundle.

        Raises InputError: `bad_choice` for a variable of ours, `environment_too_large` beyond 4 KB.
        """
        with _refused_at(self):
            for function in self._tools():
                function.add_variable(variable, value)

    def metric(
        self, name: str, *, statistic: str = "Sum", period: cdk.Duration | None = None
    ) -> cloudwatch.Metric:
        """Return a metric of the agent, such as `TurnsFailed`, every five minutes by default.

        Raises InputError `bad_choice` for a name that no metric has. Source: docs/how-to/runbook.md.
        """
        if name not in METRICS:
            takes = next(iter(get_close_matches(name, METRICS, n=1)), f"one of {', '.join(sorted(METRICS))}")
            raise _at(self, f"metric: got {name!r}, takes {takes}", "bad_choice")
        return cloudwatch.Metric(
            namespace=metrics.NAMESPACE,
            metric_name=name,
            dimensions_map=metrics.dimensions(self._choices.name),
            statistic=statistic,
            period=period or cdk.Duration.minutes(5),
        )

    @property
    def send_environment(self) -> Mapping[str, str]:
        """The variables of a service that submits events by the library. Source: docs/how-to/send-events.md."""
        return self.parts.loop.event_environment

    def grant_send(self, grantee: iam.IGrantable) -> iam.Grant:
        """Let a service submit events to conversations, with the variables `send_environment`."""
        first, *others = [
            iam.Grant.add_to_principal(
                grantee=grantee,
                actions=list(statement.actions),
                resource_arns=list(statement.resources),
                conditions=statement.conditions,
            )
            for statement in statements(EVENTS, self.parts.loop.resources)
        ]
        for other in others:
            first = first.combine(other)
        return first


@contextmanager
def _refused_at(agent: Agent) -> Iterator[None]:
    """Begin the sentence of each refusal inside with the path of the construct. Raises InputError."""
    try:
        yield
    except InputError as error:
        raise _at(agent, str(error), error.reason) from error


def _at(agent: Agent, sentence: str, code: str) -> InputError:
    return InputError(f"{agent.node.path}: {sentence}", code=code)


def _refuse_props(agent: Agent, choices: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the choices. Raises InputError for one that is another prop, that an app has for any construct, or of the emulator."""
    for choice in choices:
        if choice in PROPS:
            raise _at(agent, f"{choice}: an agent has the prop {PROPS[choice]} for it", "bad_choice")
        if choice in OF_CDK:
            raise _at(agent, f"{choice}: an app has {OF_CDK[choice]} for it", "bad_choice")
        if choice in OF_EMULATOR:
            raise _at(agent, f"{choice}: `stepline up` chooses it for the local stage", "bad_choice")
    return choices


def _image_of(programs: bool | str) -> str:
    return programs if isinstance(programs, str) else "codebuild" if programs else "none"


def _arn_of(secret: secretsmanager.ISecret) -> str:
    if not secret.secret_full_arn:
        raise InputError(
            "model_secret: got a secret without its whole ARN, takes one of this app, or Secret.from_secret_complete_arn",
            code="bad_choice",
        )
    return secret.secret_full_arn


def _check_owned(owned: Owned, choices: Stage) -> Owned:
    """Return the owner's table and bucket. Raises InputError for those that no agent can work with."""
    if owned.table and choices.table_name:
        raise InputError("table and table_name: got both, takes one of them", code="bad_choice")
    check_owned(owned)
    return owned


def _spell(
    model_secret: secretsmanager.ISecret | None, kms_key: kms.IKey | None, log_retention: cdk.Duration | None
) -> dict[str, Any]:
    """Return the choices for which an agent has objects of the CDK."""
    return {
        "model_secret_arn": _arn_of(model_secret) if model_secret else None,
        "kms_key_arn": _key_arn_of(kms_key) if kms_key else None,
        "log_retention_days": log_retention.to_days() if log_retention else None,
    }


def _key_arn_of(key: kms.IKey) -> str:
    if ":alias/" in key.key_arn:
        raise InputError(
            "kms_key: got an alias, takes a key of this app, or Key.from_key_arn: rights are on the key itself",
            code="bad_choice",
        )
    return key.key_arn


def _place_in(
    vpc: ec2.IVpc | None,
    subnets: ec2.SubnetSelection | None,
    groups: Sequence[ec2.ISecurityGroup],
    *,
    programs: bool,
) -> dict[str, Any]:
    """Return the choices of a VPC, whose ids are taken as they are: before a lookup they are made up."""
    if not vpc:
        if subnets or groups:
            raise InputError(
                "vpc_subnets, security_groups and vpc: got no VPC, takes it with what belongs to it",
                code="bad_choice",
            )
        return {}
    wanted = subnets or ec2.SubnetSelection()
    selected = vpc.select_subnets(
        availability_zones=wanted.availability_zones,
        one_per_az=wanted.one_per_az,
        subnet_filters=wanted.subnet_filters,
        subnet_group_name=wanted.subnet_group_name,
        subnets=wanted.subnets,
        subnet_type=wanted.subnet_type,
    )
    if selected.has_public:
        raise InputError(
            "vpc_subnets: got public subnets, takes private ones: a function has no public address, so it reaches nothing from there",
            code="bad_choice",
        )
    isolated = {one.subnet_id for one in vpc.isolated_subnets}
    if programs and isolated.issuperset(selected.subnet_ids) and not _has_endpoints(vpc):
        raise InputError(
            "programs and vpc_subnets: got programs and subnets without a way out, takes subnets with a NAT gateway, or a VPC with"
            " endpoints: tasks load their image from ECR",
            code="bad_choice",
        )
    return {
        "vpc": _as_it_is(vpc.vpc_id),
        "vpc_subnets": tuple(map(_as_it_is, selected.subnet_ids)),
        "vpc_security_groups": tuple(_as_it_is(group.security_group_id) for group in groups),
    }


def _has_endpoints(vpc: ec2.IVpc) -> bool:
    """Return True if a VPC has interface endpoints, as far as its own construct made them."""
    return any(isinstance(one, ec2.InterfaceVpcEndpoint) for one in vpc.node.find_all())


def _as_it_is(value: str) -> str:
    """Return a text as a reference, which is not compared with the form of a choice."""
    return cdk.Fn.join("", [value])


def _folder(scope: Construct, name: str) -> Construct:
    """Return a construct without resources, made when it is first needed."""
    found = scope.node.try_find_child(name)
    return found if isinstance(found, Construct) else Construct(scope, name)


def _check(module: str) -> None:
    """Refuse a bundle that the functions could not run. Raises InputError."""
    try:
        load_deployable(module)
    except ImportError as error:
        raise InputError(
            f"bundle: {module} is loaded here, too, and {error}: install its package and its requirements",
            code="requirement_missing",
        ) from error


def _read_page(choices: Stage, page: bool | Path) -> PageFiles:
    return read_page(app_root(), choices.named_modules, dist=page if isinstance(page, Path) else None)
