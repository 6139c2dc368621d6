"""The choices of a stage as one model, and what follows from them."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any, Final, Self, get_args

from pydantic import ValidationError, model_validator

from stepline.model.program.handover import secret_name
from stepline.model.tenancy.concurrency import (
    UNRESERVED,
    Division,
    Throttle,
    divide,
    plan_http_throttle,
    plan_socket_throttle,
)
from stepline.ports.descriptor import stage_secret_prefix
from stepline.ports.model import DEFAULT_ROLE, RoleChoice, named_providers, split_model
from stepline.settings import KEYED, ProviderName
from stepline_cdk.choice.account import TAG_NAME, TAG_VALUE, TAGS_MOST, AccountChoices
from stepline_cdk.choice.agent import MODEL, AgentChoices, ToolChoices
from stepline_cdk.choice.declare import LOCAL
from stepline_cdk.choice.network import NetworkChoices
from stepline_cdk.choice.operation import OperationChoices
from stepline_cdk.choice.programs import HOST_MODES, MEMORY_MIB, NO_PROGRAMS, ProgramChoices
from stepline_cdk.choice.read import read_choices, refusal, render_refusal
from stepline_cdk.choice.sign_in import SignInChoices
from stepline_cdk.names import NAMES

if TYPE_CHECKING:
    import aws_cdk as cdk

LOCAL_TURNS: Final = 10
"""Turns that run at once on a developer's machine, whose two processors they share."""
GROUPS: Final = (
    SignInChoices,
    NetworkChoices,
    AgentChoices,
    ToolChoices,
    ProgramChoices,
    OperationChoices,
    AccountChoices,
)
"""The groups of choices, in the order in which pages list them."""
_SIGN_IN: Final = re.compile(r"https://.+|http://localhost(:\d+)?")
"""The redirect URLs that Cognito accepts for a sign-in page."""
BEDROCK: Final = "bedrock"
OWN_PROFILE: Final = "aws.cognito.signin.user.admin"
"""The scope with which a user writes the attributes that the client may write. Source: docs.aws.amazon.com/cognito, "UpdateUserAttributes"."""
_COGNITO_OWN: Final = ("aws", "amazon", "cognito")


class Stage(
    AccountChoices,
    OperationChoices,
    ProgramChoices,
    ToolChoices,
    AgentChoices,
    NetworkChoices,
    SignInChoices,
):
    """One deployment.

    A choice is a field of a group in `stepline_cdk/choice`, with its type, meaning, defaults and cost; docs/reference/choices.md
    lists them. Values may be given as they are written anywhere, so `"on"` is as good as `True`.
    """

    def __init__(self, **given: Any) -> None:
        """Read the given choices, and make the others. Raises BadChoiceError."""
        try:
            super().__init__(**read_choices(type(self), given))
        except ValidationError as error:
            raise render_refusal(type(self), error) from error

    @model_validator(mode="after")
    def _check(self) -> Self:
        """Refuse choices that do not go together. Raises ValueError, whose text is the sentence."""
        if (self.name == LOCAL and not self.endpoint) or (self.endpoint and not self.is_local):
            raise ValueError(
                f"endpoint: got {self.endpoint!r} on stage {self.name}, takes the emulator's address on stage local and nothing on others:"
                " use `stepline up`"
            )
        if self.is_local and self.keep_data:
            raise ValueError(
                "keep_data: got true on stage local, takes false there: the emulator's data is temporary"
            )
        self._check_programs()
        self._check_services()
        self._check_traces()
        self._check_network()
        self._check_issuer()
        self._check_federation()
        self._check_page()
        self._check_domains()
        self._check_release()
        self._check_account()
        return self

    def _check_programs(self) -> None:
        """Refuse a place of programs that the stage does not have."""
        if self.is_local:
            if self.exec_mode == "fargate" and self.exec_image in ("", NO_PROGRAMS):
                raise ValueError("exec_mode: got fargate without an image, takes one in exec_image")
            return
        follows = "none" if self.exec_image == NO_PROGRAMS else "fargate"
        if self.exec_mode != follows:
            raise ValueError(
                f"exec_mode: got {self.exec_mode!r} on stage {self.name}, takes {follows} there, since exec_image is {self.exec_image}:"
                " exec_image=none leaves programs out"
            )
        sizes = MEMORY_MIB.get(self.exec_cpu)
        if sizes is None:
            raise refusal("exec_cpu", self.exec_cpu, f"one of {', '.join(map(str, MEMORY_MIB))}")
        if self.exec_memory_mib not in sizes:
            raise refusal(
                "exec_memory_mib",
                self.exec_memory_mib,
                f"{sizes.start} to {sizes.stop - 1} in steps of {sizes.step} with exec_cpu={self.exec_cpu}",
            )
        if self.exec_tasks:
            raise ValueError(
                f"exec_tasks: got true on stage {self.name}, takes false there: exec_image chooses tasks"
            )

    def _check_release(self) -> None:
        """Refuse a shift that no alarm would stop, and more turns at once than the executions that the stage may count on."""
        if self.shift != "all" and self.is_local:
            raise ValueError(
                f"shift: got {self.shift!r} on stage local, takes all there: the emulator has no CodeDeploy"
            )
        if self.shift != "all" and not self.alarms:
            raise ValueError(
                f"shift and alarms: got {self.shift!r} and false, takes alarms=true with it: the shift goes back when an alarm rings"
            )
        if self.stream_readers and not self.is_local and self.stream_readers > self._spare_executions:
            raise ValueError(
                f"stream_readers: got {self.stream_readers}, takes at most {self._spare_executions} with"
                f" concurrency={self.concurrency or 'unknown'}: AWS keeps {UNRESERVED} executions unreserved"
            )
        if not self.is_local and self.open_turns > self.division.open_turns:
            raise ValueError(
                f"open_turns: got {self.open_turns}, takes at most {self.division.open_turns}, the turns at once of"
                f" concurrency={self.concurrency or 'unknown'}"
            )

    def _check_services(self) -> None:
        """Refuse external services that could not be reached."""
        if self.is_local and self.memory == "s3_vectors":
            raise ValueError(
                "memory: got 's3_vectors' on stage local, takes embedded there: the emulator has no S3 Vectors"
            )
        if self.search_provider == "searxng" and not self.search_url:
            raise ValueError(
                "search_url: got nothing with search_provider=searxng, takes the address of its instance"
            )
        if self.av == "clamd" and not self.clamav_host:
            raise ValueError("clamav_host: got nothing with av=clamd, takes the host of its daemon")
        if self.is_local and self.av == "guardduty":
            raise ValueError(
                "av: got 'guardduty' on stage local, takes none or clamd there: the emulator has no GuardDuty"
            )
        self._check_providers()
        for model in self.models:
            if not MODEL.fullmatch(model):
                raise refusal(
                    "model_roles",
                    model,
                    "the id or ARN of a model of Anthropic, of an inference profile or of a provisioned throughput",
                )

    def _check_providers(self) -> None:
        """Refuse roles whose provider is not known, and providers that could not be called."""
        for name in sorted(named_providers(self.model_roles) - {"", *get_args(ProviderName)}):
            if name not in self.model_providers:
                known = ", ".join([*get_args(ProviderName), *sorted(self.model_providers)])
                raise refusal("model_roles", f"{name}:…", f"the name of a provider before a colon: {known}")
        keyed = (named_providers(self.model_roles) & KEYED) - {self.model_provider, *self.model_providers}
        for name in () if self.is_local else sorted(keyed):
            raise refusal(
                "model_roles", f"{name}:…", f"a row {name} of model_providers with the secret_arn of its key"
            )
        for name, row in self.model_providers.items():
            if not (row.base_url or row.secret_arn or row.signed):
                raise refusal("model_providers", name, "a base_url, or the secret_arn of the usual one's key")
            if row.secret_arn and not row.secret_arn.startswith("arn:"):
                raise refusal("model_providers", f"{name}.secret_arn", "the ARN of a secret")

    def _check_traces(self) -> None:
        """Refuse traces that could not be sent."""
        if self.is_local and self.is_traced and not self.tracing_endpoint:
            raise ValueError(
                "tracing_endpoint: got nothing on stage local, takes a server of OTLP, by OTEL_EXPORTER_OTLP_ENDPOINT: the emulator"
                " takes no traces"
            )
        if self.tracing_secret_arn and not self.tracing_endpoint:
            raise ValueError(
                "tracing_secret_arn and tracing_endpoint: got the first alone, takes both: X-Ray takes a signature, no headers"
            )

    def _check_network(self) -> None:
        """Refuse a network of functions or tasks that AWS would refuse mid-deployment."""
        if self.vpc and self.is_local:
            raise ValueError("vpc: got a VPC on stage local, takes none there: the emulator has no network")
        if bool(self.vpc) != bool(self.vpc_subnets):
            raise ValueError(
                f"vpc and vpc_subnets: got {'the first' if self.vpc else 'the second'} alone, takes both, or neither for functions"
                " without a VPC"
            )
        if self.vpc_security_groups and not self.vpc:
            raise ValueError(
                "vpc_security_groups and vpc: got the first alone, takes both: the groups belong to a VPC"
            )
        if bool(self.exec_vpc) != bool(self.exec_subnets):
            raise ValueError(
                f"exec_vpc and exec_subnets: got {'the first' if self.exec_vpc else 'the second'} alone, takes both, or neither for a"
                " network of their own"
            )
        if len(self.exec_zones) not in (0, 2) or len(set(self.exec_zones)) < len(self.exec_zones):
            raise refusal("exec_zones", ",".join(self.exec_zones), "the two zones of the tasks' network")
        if self.exec_vpc and self.exec_zones:
            raise ValueError(
                "exec_zones and exec_vpc: got both, takes one: the zones are those of exec_subnets"
            )
        if self.exec_security_groups and not self.exec_vpc:
            raise ValueError(
                "exec_security_groups and exec_vpc: got the first alone, takes both: the groups belong to a VPC"
            )

    def _check_issuer(self) -> None:
        """Refuse choices that would silently lock every user out."""
        if self.is_local:
            return
        if self.oidc_issuer:
            if not self.oidc_issuer.startswith("https://"):
                raise refusal("oidc_issuer", self.oidc_issuer, "an address of https")
            return
        for origin in self.allowed_origins:
            if not _SIGN_IN.fullmatch(origin):
                raise refusal(
                    "allowed_origins",
                    origin,
                    "origins of https with a user pool: Cognito signs in no user for others",
                )
        prefix = self.sign_in_prefix or self.name
        if any(word in prefix for word in _COGNITO_OWN):
            raise refusal(
                "sign_in_prefix",
                prefix,
                f"a text without {', '.join(_COGNITO_OWN)}, which Cognito keeps for itself: it is in the address of the sign-in",
            )

    def _check_federation(self) -> None:
        """Refuse a company's provider that the pool could not ask, and scopes by which its users would choose their tenant."""
        oidc = (self.federation_issuer, self.federation_client_id, self.federation_secret_arn)
        if any(oidc) and not all(oidc):
            raise ValueError(
                "federation_issuer, federation_client_id and federation_secret_arn: got only some, takes all three, or none"
            )
        if self.saml_metadata_url and self.federation_issuer:
            raise ValueError(
                "saml_metadata_url and federation_issuer: got both, takes one: SAML or OpenID Connect"
            )
        claims = (self.federation_tenant_claim, self.federation_project_claim)
        if any(claims) and not (all(claims) and self.is_federated):
            raise ValueError(
                "federation_tenant_claim and federation_project_claim: got one alone, or no provider, takes both with saml_metadata_url or"
                " federation_issuer"
            )
        if not self.is_federated:
            return
        if self.oidc_issuer or self.is_local:
            raise ValueError(
                "saml_metadata_url, federation_issuer and oidc_issuer: got a provider without the stage's own user pool, takes it with"
                " that alone: an issuer of yours federates itself"
            )
        if not (self.page or self.allowed_origins):
            raise ValueError(
                "page and allowed_origins: got neither with a company's provider, takes one of them: its users sign in on a page"
            )
        if OWN_PROFILE in self.oidc_scopes:
            raise ValueError(
                f"oidc_scopes: got {OWN_PROFILE!r}, takes other scopes with a company's provider: its users could change their tenant"
            )

    @property
    def is_federated(self) -> bool:
        """True if users of a company's provider may sign in to the stage's pool."""
        return bool(self.saml_metadata_url or self.federation_issuer)

    def _check_page(self) -> None:
        """Refuse an address of the page that AWS would refuse mid-deployment."""
        if self.is_local and self.page:
            raise ValueError(
                "page: got true on stage local, takes false there: `stepline up` serves the page"
            )
        if bool(self.page_domain) != bool(self.page_certificate_arn):
            raise ValueError(
                f"page_domain and page_certificate_arn: got {'the first' if self.page_domain else 'the second'} alone, takes both, or"
                " neither for the distribution's own domain"
            )
        if self.page_domain and not self.page:
            raise ValueError(
                f"page and page_domain: got false and {self.page_domain!r}, takes page=true with a domain"
            )
        if self.page_web_acl_arn and not self.page:
            raise ValueError(
                "page and page_web_acl_arn: got false and a web ACL, takes page=true with it: it filters requests of the page"
            )

    def _check_account(self) -> None:
        """Refuse tags that AWS would refuse mid-deployment, and a key of the emulator's data."""
        if self.is_local and self.kms_key_arn:
            raise ValueError(
                "kms_key_arn: got a key on stage local, takes nothing there: the emulator's data is temporary"
            )
        if len(self.tags) > TAGS_MOST:
            raise refusal("tags", len(self.tags), f"at most {TAGS_MOST} tags")
        for name, value in self.tags.items():
            if not TAG_NAME.fullmatch(name):
                raise refusal(
                    "tags",
                    name,
                    "names of letters, digits, spaces and .:/=+@_-, which do not begin with aws:",
                )
            if not TAG_VALUE.fullmatch(value):
                raise refusal("tags", value, "values of letters, digits, spaces and .:/=+@_-")

    def _check_domains(self) -> None:
        """Refuse domains of the APIs that AWS would refuse mid-deployment."""
        domains = self.api_domain or self.socket_domain
        if domains and self.is_local:
            raise ValueError(
                f"api_domain and socket_domain: got {domains!r} on stage local, takes none there: the emulator has no domains"
            )
        if bool(domains) != bool(self.api_certificate_arn):
            raise ValueError(
                "api_domain, socket_domain and api_certificate_arn: got"
                f" {'a domain' if domains else 'the last'} alone, takes a certificate with its domains, or none for the APIs' own"
            )
        every = [one for one in (self.api_domain, self.socket_domain, self.page_domain) if one]
        if len(set(every)) < len(every):
            raise ValueError(
                f"api_domain, socket_domain and page_domain: got {', '.join(every)}, takes another one for each: an HTTP API, a websocket"
                " API and the page share no domain"
            )

    @property
    def is_local(self) -> bool:
        return self.name == LOCAL

    @property
    def modules(self) -> tuple[str, ...]:
        """The packages of the bundles, the default one first, each once."""
        return tuple(dict.fromkeys([self.bundle, *(choice.module for choice in self.bundles.values())]))

    @property
    def models(self) -> tuple[str, ...]:
        """The models and fallbacks that its roles name, without those of providers that are not AWS's or the stage's."""
        named = (model for role in self.model_roles.values() for model in (role.model, role.fallback))
        split = (split_model(model) for model in named if model)
        return tuple(dict.fromkeys(model for provider, model in split if provider in ("", BEDROCK)))

    @property
    def converse_models(self) -> tuple[str, ...]:
        """The models and fallbacks of roles whose provider speaks Converse."""
        rows = {name for name, row in self.model_providers.items() if row.signed}
        named = (model for role in self.model_roles.values() for model in (role.model, role.fallback))
        split = (split_model(model) for model in named if model)
        return tuple(dict.fromkeys(model for provider, model in split if provider in rows))

    @property
    def asks_bedrock(self) -> bool:
        """True if a role's model is served by Bedrock."""
        return self.model_provider not in KEYED or BEDROCK in named_providers(self.model_roles)

    @property
    def lacks_key(self) -> bool:
        """True if a role's model needs the key of the stage's provider, and there is none."""
        uses = "" in named_providers({DEFAULT_ROLE: RoleChoice(model="*"), **self.model_roles})
        return uses and self.model_provider in KEYED and not self.model_secret_arn

    @property
    def model_secrets(self) -> tuple[str, ...]:
        """The secrets with the keys of its models' providers."""
        named = (self.model_secret_arn, *(row.secret_arn for row in self.model_providers.values()))
        return tuple(dict.fromkeys(filter(None, named)))

    @property
    def named_modules(self) -> dict[str, str]:
        """The packages of the bundles by their names; that of the stage's own is the last part of its package."""
        further = {name: choice.module for name, choice in self.bundles.items()}
        return {self.bundle.rpartition(".")[2]: self.bundle, **further}

    @property
    def division(self) -> Division:
        """The division of the executions that the stage may count on; the emulator reserves none.

        Those of readers that wait are taken from all, before turns and the other functions get theirs.
        """
        if self.is_local:
            return Division(open_turns=LOCAL_TURNS, reserved={}, claimed_most=LOCAL_TURNS)
        if not self.stream_readers:
            return divide(self.concurrency)
        rest = divide(self.concurrency - self.stream_readers)
        return Division(
            open_turns=rest.open_turns,
            reserved={**rest.reserved, "stream": self.stream_readers},
            claimed_most=rest.claimed_most,
        )

    @property
    def _spare_executions(self) -> int:
        """The executions beyond those that AWS keeps unreserved."""
        return max(0, self.concurrency - UNRESERVED)

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
    def has_own_stacks(self) -> bool:
        """True of a stage of our own app; False of an agent in another one."""
        return True

    def spell(self, choice: str) -> str:
        """Return how a choice, as `name=value`, is given."""
        return f"-c {choice}"

    @property
    def has_all_names(self) -> bool:
        """True if each resource has its name; else CloudFormation makes those that it can (`stepline_cdk/names.py`)."""
        return True

    def optional_name(self, kind: str, part: str = "") -> str | None:
        """Return the name of a resource, or None if CloudFormation makes it."""
        name = NAMES[kind]
        return name.render(self.name, part) if name.needed or self.has_all_names else None

    def needed_name(self, kind: str, part: str = "") -> str:
        """Return the name of a resource that CloudFormation cannot make."""
        name = NAMES[kind]
        assert name.needed, kind
        return name.render(self.name, part)

    @property
    def machine_name(self) -> str:
        """Fixed, so that earlier stacks can refer to the machine.

        A table that was restored has a machine of its own: a conversation counts on from an earlier batch there, and
        the names of the executions that it lost stay taken for 90 days.
        """
        own = self.needed_name("machine")
        if not self.table_name:
            return own
        return f"{own}-{hashlib.sha256(self.table_name.encode()).hexdigest()[:8]}"

    def machine_arn(self, stack: cdk.Stack) -> str:
        """Return the machine's ARN without a reference to the machine, which would be a cycle of stacks."""
        return _colon_arn(stack, "states", "stateMachine", self.machine_name)

    def eraser_arn(self, stack: cdk.Stack) -> str:
        """Return the ARN of the eraser's alias without a reference to it: a later stack has it."""
        return _colon_arn(stack, "lambda", "function", f"{self.needed_name('function', 'eraser')}:live")

    def decide_arn(self, stack: cdk.Stack) -> str:
        """Return the ARN of the alias of `decide` without a reference to it: a later stack has it."""
        return _colon_arn(stack, "lambda", "function", f"{self.needed_name('function', 'decide')}:live")

    def serve_arn(self, stack: cdk.Stack) -> str:
        """Return the ARN of the alias of `serve` without a reference to it: tasks are in an earlier stack."""
        return _colon_arn(stack, "lambda", "function", f"{self.needed_name('function', 'serve')}:live")

    def executions_arn(self, stack: cdk.Stack) -> str:
        """Return the ARN pattern of all executions of the machine."""
        return _colon_arn(stack, "states", "execution", f"{self.machine_name}:*")

    @property
    def exec_name(self) -> str:
        """The fixed name of the tasks' cluster and of their definition."""
        return self.needed_name("tasks")

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

    def tools_secrets_arn(self, stack: cdk.Stack) -> str:
        """Return the ARN pattern of the secrets that tools read."""
        return _colon_arn(stack, "secretsmanager", "secret", f"{stage_secret_prefix(self.name)}*")

    @property
    def removal_policy(self) -> cdk.RemovalPolicy:
        """The policy of the table, the bucket and the users."""
        import aws_cdk as cdk  # noqa: PLC0415 - the commands read choices without the CDK, which takes four seconds

        return cdk.RemovalPolicy.RETAIN if self.keep_data else cdk.RemovalPolicy.DESTROY


def _colon_arn(stack: cdk.Stack, service: str, resource: str, name: str) -> str:
    import aws_cdk as cdk  # noqa: PLC0415 - as above

    return stack.format_arn(
        service=service,
        resource=resource,
        resource_name=name,
        arn_format=cdk.ArnFormat.COLON_RESOURCE_NAME,
    )
