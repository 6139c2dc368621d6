"""The choices of a stage: its name, its trusted issuer, its model, and its cost limits."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Mapping
from dataclasses import Field, dataclass, field, fields
from typing import Any, get_args

import aws_cdk as cdk
from constructs import Node

from stacks.bytecode import MAGIC
from stacks.code import PYTHON_VERSION
from stepline.model.decision import FANOUT_MODES
from stepline.model.program.execution import WorkspaceMode
from stepline.model.program.handover import secret_name
from stepline.model.tenancy.concurrency import (
    Division,
    Throttle,
    divide,
    plan_http_throttle,
    plan_socket_throttle,
)
from stepline.model.tenancy.limits import Limits
from stepline.model.tenancy.request_rates import Rates
from stepline.ports.channel import Inspect
from stepline.ports.model import RoleChoice
from stepline.settings import TABLE, AvScan, BundleChoice, SearchProvider, Tracing

LOCAL = "local"
LOCAL_TURNS = 10
"""Turns that run at once on a developer's machine, whose two processors they share."""
HOST_MODES = ("process", "docker")
"""Modes that run programs beside the functions, possible on a developer's machine only."""
_NAME = re.compile(r"[a-z][a-z0-9-]{0,15}")
_ORIGIN = re.compile(r"https?://[a-z0-9.-]+(:\d{1,5})?|https?://\[[0-9a-f:]+\](:\d{1,5})?")
"""As browsers send it: no path, no capital letter."""
_SIGN_IN = re.compile(r"https://.+|http://localhost(:\d+)?")
"""The redirect URLs that Cognito accepts for a sign-in page."""
_DOMAIN = re.compile(r"([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]{2,63}")
_CERTIFICATE = re.compile(r"arn:aws[a-z-]*:acm:us-east-1:\d{12}:certificate/[0-9a-f-]+", re.ASCII)
"""CloudFront takes certificates of that region alone, wherever the stage is."""
_SERVER = re.compile(r"https?://[^\s/@]+[^\s@]*")
"""Of traces; its credentials are in a secret, never in the address."""
_PREFIX = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_CALLER = re.compile(r"arn:aws[a-z-]*:iam::\d{12}:(root|(role|user)/[\w+=,.@/-]{1,512})", re.ASCII)
"""The principals that may assume a role: an account, or a role or user of one; never everyone."""
_EMULATED = "arn:aws:iam::000000000000:root"
"""The account of the emulator."""
_WORDS: Mapping[str, Collection[str]] = {
    "multi_action": FANOUT_MODES,
    "workspace": get_args(WorkspaceMode),
    "protocol": ("strict", "tolerant"),
    "agent_version": ("v2", "v3"),
    "context_layout": ("timeline", "journal"),
    "inspect": get_args(Inspect),
    "memory": ("embedded", "s3_vectors"),
    "av": get_args(AvScan),
    "search_provider": get_args(SearchProvider),
    "tracing": get_args(Tracing),
    "python": MAGIC,
    "shift": ("all", "canary", "linear"),
}
"""Choices between a few words; those of `python` are Lambda's with snapshots."""
_PLACES = {
    "exec_zones": re.compile(r"[a-z]+\d*-az\d+"),
    "exec_subnets": re.compile(r"subnet-[0-9a-f]{8,17}"),
    "exec_security_groups": re.compile(r"sg-[0-9a-f]{8,17}"),
}
"""Ids of AWS's own making; those of zones name the same zone in every account, unlike names."""
_VPC = re.compile(r"(vpc-[0-9a-f]{8,17})?")
_RETENTION_DAYS = (
    *(1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731),
    *(1096, 1827, 2192, 2557, 2922, 3288, 3653),
)
"""The periods of CloudWatch. Source: docs.aws.amazon.com/AmazonCloudWatchLogs, "PutRetentionPolicy"."""
_TABLE = re.compile(r"([a-zA-Z0-9_.-]{3,255})?")
_COGNITO_OWN = ("aws", "amazon", "cognito")


@dataclass(frozen=True, kw_only=True)
class Stage:
    """One deployment.

    Every field but `name` comes from `-c field=value` and is documented in docs/how-to/deploy.md.

    `endpoint` is the emulator's URL, for stage `local` only, as is `exec_tasks`: the resources of tasks exist
    there in addition to `exec_mode`.
    """

    name: str = "dev"
    endpoint: str = ""
    oidc_issuer: str = ""
    oidc_audience: str = "stepline"
    oidc_jwks_url: str = ""
    oidc_scopes: tuple[str, ...] = ("openid", "email")
    oidc_client_id: str = ""
    oidc_origins: tuple[str, ...] = ()
    sign_in_prefix: str = ""
    tenant_claim: str = ""
    project_claim: str = ""
    role_claim: str = "cognito:groups"
    project_admins: tuple[str, ...] = ("project_admin",)
    tenant_admins: tuple[str, ...] = ("tenant_admin",)
    allowed_origins: tuple[str, ...] = ()
    page_domain: str = ""
    page_certificate_arn: str = ""
    model_provider: str = "anthropic"
    model_roles: Mapping[str, RoleChoice] = field(default_factory=dict)
    model_secret_arn: str = ""
    max_iterations: int = 15
    multi_action: str = "off"
    max_actions_per_round: int = 8
    protocol: str = "strict"
    agent_version: str = "v3"
    context_layout: str = "timeline"
    inspect: str = "owner"
    context_max_tokens: int = 80_000
    context_window_tokens: int = 200_000
    cache_ttl_s: int = 300
    keep_recent_turns: int = 6
    keep_intact_turns: int = 2
    cache_minimum_tokens: Mapping[str, int] = field(default_factory=dict)
    workspace: str = "custom"
    search_corpus: str = ""
    search_provider: str = "collection"
    search_url: str = ""
    search_secret_arn: str = ""
    tracing: str = "off"
    tracing_endpoint: str = ""
    tracing_secret_arn: str = ""
    memory: str = "embedded"
    av: str = "none"
    clamav_host: str = ""
    steer_poll_ms: int = 300
    mcp_timeout_s: int = 60
    mcp_list_ttl_s: int = 3600
    mcp_task_s: int = 1200
    finalize_rounds: int = 2
    finalize_max_tokens: int = 3000
    approvals: Mapping[str, str] = field(default_factory=dict)
    approval_wait_s: int = 604_800
    event_credit: int = 1
    redis_secret_arn: str = ""
    bundle: str = "bundles.default"
    bundles: Mapping[str, BundleChoice] = field(default_factory=dict)
    bundle_props: Mapping[str, Any] = field(default_factory=dict)
    assembly: Mapping[str, Any] = field(default_factory=dict)
    exec_mode: str = "none"
    exec_image: str = ""
    exec_python: str = ""
    exec_home: str = ""
    exec_tasks: bool = False
    exec_cpu: int = 1024
    exec_memory_mib: int = 2048
    exec_zones: tuple[str, ...] = ()
    exec_vpc: str = ""
    exec_subnets: tuple[str, ...] = ()
    exec_security_groups: tuple[str, ...] = ()
    exec_public_ip: bool = True
    limits: Mapping[str, Limits] = field(default_factory=dict)
    prices: Mapping[str, Any] = field(default_factory=dict)
    user_messages_per_minute: int = 60
    rates: Mapping[str, Rates] = field(default_factory=dict)
    event_source_principals: tuple[str, ...] = ()
    alarms: bool = False
    alarm_topic_arn: str = ""
    dashboard: bool = False
    socket_access_log: bool = False
    log_retention_days: int = 30
    descriptors_dir: str = ""
    snap_start: bool = False
    python: str = PYTHON_VERSION
    bytecode: bool = True
    shift: str = "all"
    table_name: str = ""
    concurrency: int = 0
    open_turns: int = 0
    requests_per_s: int = 0
    burst: int = 0

    def __post_init__(self) -> None:
        """Validate the name, which becomes part of resource names, and all other choices."""
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"stage {self.name!r} is not {_NAME.pattern}")
        if self.is_local != bool(self.endpoint):
            raise ValueError("stage local, and no other, runs at an emulator's endpoint: use `stepline up`")
        if self.exec_mode not in ("none", "fargate", *(HOST_MODES if self.is_local else ())):
            raise ValueError(f"stage {self.name} cannot run programs in mode {self.exec_mode!r}")
        for name, known in _WORDS.items():
            if (word := getattr(self, name)) not in known:
                raise ValueError(f"{name}: {word!r} is none of {', '.join(known)}")
        if self.is_local and self.memory == "s3_vectors":
            raise ValueError(
                "memory_not_local: the emulator has no S3 Vectors, so stage local keeps memory embedded"
            )
        self._check_services()
        for arn in self.event_source_principals:
            if not _CALLER.fullmatch(arn):
                raise ValueError(
                    f"event_source_principals: {arn!r} is no ARN of an account, a role or a user"
                )
        self._check_network()
        self._check_doors()
        self._check_way_back()
        self._check_concurrency()

    def _check_way_back(self) -> None:
        """Refuse a table that has no such name, and a shift that no alarm would stop."""
        if not _TABLE.fullmatch(self.table_name):
            raise ValueError(f"table_name: {self.table_name!r} is no name of a table")
        if self.shift != "all" and self.is_local:
            raise ValueError("shift: the emulator has no CodeDeploy, so stage local changes at once")
        if self.shift != "all" and not self.alarms:
            raise ValueError(f"shift: {self.shift} goes back when an alarm rings, and needs alarms=true")

    def _check_services(self) -> None:
        """Refuse external services that could not be reached."""
        if self.search_provider == "searxng" and not self.search_url:
            raise ValueError("search_url: search_provider searxng needs the address of its instance")
        if self.av == "clamd" and not self.clamav_host:
            raise ValueError("clamav_host: av clamd needs the host of its daemon")
        if self.search_secret_arn and not self.search_secret_arn.startswith("arn:"):
            raise ValueError("search_secret_arn: not the ARN of a secret; the key itself belongs into one")
        self._check_traces()
        if self.log_retention_days not in _RETENTION_DAYS:
            raise ValueError(f"log_retention_days: {self.log_retention_days} is none of {_RETENTION_DAYS}")
        if self.redis_secret_arn and not self.redis_secret_arn.startswith("arn:"):
            raise ValueError("redis_secret_arn: not the ARN of a secret; the URL itself belongs into one")

    def _check_traces(self) -> None:
        """Refuse traces that could not be sent."""
        if self.is_local and self.is_traced and not self.tracing_endpoint:
            raise ValueError(
                "tracing_endpoint: the emulator takes no traces; name a server of OTLP by OTEL_EXPORTER_OTLP_ENDPOINT"
            )
        if self.tracing_endpoint and not _SERVER.fullmatch(self.tracing_endpoint):
            raise ValueError(
                "tracing_endpoint: not an address of http or https; credentials are headers, in tracing_secret_arn"
            )
        if self.tracing_secret_arn and not self.tracing_secret_arn.startswith("arn:"):
            raise ValueError("tracing_secret_arn: not the ARN of a secret; the headers belong into one")
        if self.tracing_secret_arn and not self.tracing_endpoint:
            raise ValueError(
                "tracing_secret_arn: its headers are for tracing_endpoint; X-Ray takes a signature"
            )

    def _check_network(self) -> None:
        """Refuse a network of tasks that AWS would refuse mid-deployment."""
        for name, pattern in _PLACES.items():
            for value in getattr(self, name):
                if not pattern.fullmatch(value):
                    raise ValueError(f"{name}: {value!r} is not {pattern.pattern}")
        if not _VPC.fullmatch(self.exec_vpc):
            raise ValueError(f"exec_vpc: {self.exec_vpc!r} is no id of a VPC")
        if bool(self.exec_vpc) != bool(self.exec_subnets):
            raise ValueError(
                "exec_vpc and exec_subnets: tasks need both, or neither for a network of their own"
            )
        if len(self.exec_zones) not in (0, 2):
            raise ValueError("exec_zones: the two zones of the tasks' network")
        if self.exec_vpc and self.exec_zones:
            raise ValueError("exec_zones: the zones are those of exec_subnets")
        if self.exec_security_groups and not self.exec_vpc:
            raise ValueError("exec_security_groups: they belong to a VPC, which exec_vpc names")

    def _check_doors(self) -> None:
        """Refuse choices that AWS would refuse mid-deployment, or that would silently lock every user out."""
        for name in ("allowed_origins", "oidc_origins"):
            for origin in getattr(self, name):
                if not _ORIGIN.fullmatch(origin):
                    raise ValueError(f"{name}: {origin!r} is no origin, like https://chat.example.com")
        self._check_page()
        if self.is_local:
            return
        if self.oidc_issuer:
            if not self.oidc_issuer.startswith("https://"):
                raise ValueError("oidc_issuer: an issuer is reached over https")
            return
        for origin in self.allowed_origins:
            if not _SIGN_IN.fullmatch(origin):
                raise ValueError(
                    f"allowed_origins: Cognito signs in no user for {origin}, which is not https"
                )
        prefix = self.sign_in_prefix or self.name
        if any(word in prefix for word in _COGNITO_OWN):
            raise ValueError(
                f"sign_in_prefix: Cognito keeps {', '.join(_COGNITO_OWN)} for itself, and {prefix!r} would be in the address of"
                " the sign-in: choose another one"
            )

    def _check_concurrency(self) -> None:
        """Refuse more turns at once than the executions that the stage may count on."""
        if not self.is_local and self.open_turns > self.division.open_turns:
            raise ValueError(
                f"open_turns: concurrency={self.concurrency or 'unknown'} lets {self.division.open_turns} turns run at"
                f" once, not {self.open_turns}"
            )

    def _check_page(self) -> None:
        """Refuse an address of the page, or of its sign-in, that AWS would refuse mid-deployment."""
        if bool(self.page_domain) != bool(self.page_certificate_arn):
            raise ValueError("page_domain and page_certificate_arn: a domain of your own needs both")
        if self.page_domain and not _DOMAIN.fullmatch(self.page_domain):
            raise ValueError(f"page_domain: {self.page_domain!r} is no domain, like chat.example.com")
        if self.page_certificate_arn and not _CERTIFICATE.fullmatch(self.page_certificate_arn):
            raise ValueError(
                "page_certificate_arn: not the ARN of a certificate of ACM in us-east-1, which CloudFront needs"
            )
        if self.sign_in_prefix and not _PREFIX.fullmatch(self.sign_in_prefix):
            raise ValueError(f"sign_in_prefix: {self.sign_in_prefix!r} is not {_PREFIX.pattern}")

    @property
    def is_local(self) -> bool:
        return self.name == LOCAL

    @property
    def modules(self) -> tuple[str, ...]:
        """The packages of the bundles, the default one first, each once."""
        return tuple(dict.fromkeys([self.bundle, *(choice.module for choice in self.bundles.values())]))

    @property
    def named_modules(self) -> dict[str, str]:
        """The packages of the bundles by their names; that of the stage's own is the last part of its package."""
        further = {name: choice.module for name, choice in self.bundles.items()}
        return {self.bundle.rpartition(".")[2]: self.bundle, **further}

    @property
    def division(self) -> Division:
        """The division of the executions that the stage may count on; the emulator reserves none."""
        if self.is_local:
            return Division(open_turns=LOCAL_TURNS, reserved={}, claimed_most=LOCAL_TURNS)
        return divide(self.concurrency)

    @property
    def most_turns(self) -> int:
        """The turns that run at once; further ones wait."""
        return self.open_turns or self.division.open_turns

    @property
    def socket_throttle(self) -> Throttle:
        """The throttle of the websocket API."""
        return self._throttle(plan_socket_throttle(self.most_turns))

    @property
    def http_throttle(self) -> Throttle:
        """The throttle of the HTTP API."""
        return self._throttle(plan_http_throttle(self.most_turns))

    def _throttle(self, planned: Throttle) -> Throttle:
        """Return the planned throttle, or the chosen one: a rate alone is chosen with twice as many at one moment."""
        rate = self.requests_per_s or planned.requests_per_s
        return Throttle(
            requests_per_s=rate, burst=self.burst or (2 * rate if self.requests_per_s else planned.burst)
        )

    def origins(self, page_origin: str) -> tuple[str, ...]:
        """Return the origins that browsers may ask from: the chat page's, if there is one, and the allowed ones."""
        return (*filter(None, [page_origin]), *self.allowed_origins)

    @property
    def is_traced(self) -> bool:
        """True if turns leave traces."""
        return self.tracing != "off"

    @property
    def executes(self) -> bool:
        """True if this deployment has a function that runs programs."""
        return self.exec_mode in HOST_MODES

    @property
    def runs_programs(self) -> bool:
        """True if this deployment can run programs anywhere."""
        return self.executes or self.has_tasks

    @property
    def has_tasks(self) -> bool:
        """True if this deployment can run programs in tasks."""
        return self.exec_mode == "fargate" or self.exec_tasks

    @property
    def keeps_data(self) -> bool:
        """True if destroying the stacks retains table, bucket and users."""
        return self.name == "prod"

    @property
    def machine_name(self) -> str:
        """Fixed, so that earlier stacks can refer to the machine.

        A table that was restored has a machine of its own: a conversation counts on from an earlier batch there, and
        the names of the executions that it lost stay taken for 90 days.
        """
        own = f"stepline-{self.name}-loop"
        if not self.table_name:
            return own
        return f"{own}-{hashlib.sha256(self.table_name.encode()).hexdigest()[:8]}"

    def machine_arn(self, stack: cdk.Stack) -> str:
        """Return the machine's ARN without a reference to the machine, which would be a cycle of stacks."""
        return _colon_arn(stack, "states", "stateMachine", self.machine_name)

    def eraser_arn(self, stack: cdk.Stack) -> str:
        """Return the ARN of the eraser's alias without a reference to it: a later stack has it."""
        return _colon_arn(stack, "lambda", "function", f"stepline-{self.name}-eraser:live")

    def executions_arn(self, stack: cdk.Stack) -> str:
        """Return the ARN pattern of all executions of the machine."""
        return _colon_arn(stack, "states", "execution", f"{self.machine_name}:*")

    @property
    def exec_name(self) -> str:
        """The fixed name of the tasks' cluster and of their definition."""
        return f"stepline-{self.name}-exec"

    def cluster_arn(self, stack: cdk.Stack) -> str:
        """Return the cluster's ARN without a reference to it; "" without tasks."""
        return (
            stack.format_arn(service="ecs", resource="cluster", resource_name=self.exec_name)
            if self.has_tasks
            else ""
        )

    def tasks_arn(self, stack: cdk.Stack) -> str:
        """Return the ARN pattern of all tasks of the cluster."""
        return stack.format_arn(service="ecs", resource="task", resource_name=f"{self.exec_name}/*")

    def handovers_arn(self, stack: cdk.Stack) -> str:
        """Return the ARN pattern of the secrets that hand runs over to tasks."""
        return _colon_arn(stack, "secretsmanager", "secret", secret_name(self.name, "*"))

    @property
    def removal_policy(self) -> cdk.RemovalPolicy:
        return cdk.RemovalPolicy.RETAIN if self.keeps_data else cdk.RemovalPolicy.DESTROY

    @classmethod
    def from_context(cls, node: Node) -> Stage:
        """Read the stage from the command line's context.

        In AWS the image of programs is built there by default; in `prod` SnapStart and alarms are on, and
        owners inspect their conversations in stages for development alone.
        """
        given = {
            one.name: _parse(one, str(value))
            for one in fields(cls)
            if (value := node.try_get_context(one.name)) is not None
        }
        name = str(node.try_get_context("stage") or cls.name)
        is_local, is_prod = name == LOCAL, name == "prod"
        image = given.get("exec_image") or ("" if is_local else "codebuild")
        defaults = {
            "exec_mode": "fargate" if image not in ("", "none") else "none",
            "exec_public_ip": not given.get("exec_vpc"),
            "event_source_principals": (_EMULATED,) if is_local else (),
            "alarms": is_prod,
            "inspect": "owner" if name in (LOCAL, cls.name) else "admin",
            "snap_start": is_prod,
        }
        exec_tasks = is_local and given.get("exec_tasks", False)
        return cls(**{**defaults, **given, "name": name, "exec_image": image, "exec_tasks": exec_tasks})


def _parse(choice: Field[Any], text: str) -> Any:
    """Return the value of a choice from its text: a list is separated by commas, an object is JSON."""
    if choice.name in ("model_roles", "bundles", "limits", "rates", "prices"):
        return TABLE[choice.name].parse(text)
    match choice.default:
        case bool():
            return text == "true"
        case int():
            return int(text)
        case tuple():
            return tuple(filter(None, text.split(",")))
        case str():
            return text
        case _:
            return json.loads(text)


def _colon_arn(stack: cdk.Stack, service: str, resource: str, name: str) -> str:
    return stack.format_arn(
        service=service,
        resource=resource,
        resource_name=name,
        arn_format=cdk.ArnFormat.COLON_RESOURCE_NAME,
    )
