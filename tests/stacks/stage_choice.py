"""The choices of a stage: six stages to begin with, another value of each choice, and the templates of any of them."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import aws_cdk as cdk

from stepline_cdk.deployment import Deployment
from stepline_cdk.page_files import read_page
from stepline_cdk.stage import Stage
from tests.stacks.deployed_stage import Documents
from tests.stacks.empty_layers import code_of

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = ROOT / "tests/data/page"
SECRET: Final = "arn:aws:secretsmanager:eu-west-1:111122223333:secret:some-AbCdEf"
TOPIC: Final = "arn:aws:sns:eu-west-1:111122223333:calls"
IMAGE: Final = "111122223333.dkr.ecr.eu-west-1.amazonaws.com/programs:1"
NETWORK: Final = {"exec_vpc": "vpc-0a1b2c3d", "exec_subnets": "subnet-0a1b2c3d,subnet-1a1b2c3d"}
FUNCTIONS: Final = {"vpc": "vpc-1a1b2c3d", "vpc_subnets": "subnet-3a1b2c3d,subnet-4a1b2c3d"}
DOMAIN: Final = {
    "page_domain": "chat.example.com",
    "page_certificate_arn": "arn:aws:acm:us-east-1:111122223333:certificate/0a1b",
}
FEDERATION: Final = {
    "federation_issuer": "https://company.example.com",
    "federation_client_id": "stepline",
    "federation_secret_arn": SECRET,
}
CLAIMS: Final = {**FEDERATION, "federation_tenant_claim": "org", "federation_project_claim": "team"}
API_DOMAIN: Final = {
    "api_domain": "api.example.com",
    "api_certificate_arn": "arn:aws:acm:us-east-1:111122223333:certificate/0b1c",
}
BASES: Final[Mapping[str, dict[str, str]]] = {
    "dev": {"stage": "dev"},
    "prod": {
        "stage": "prod",
        "concurrency": "1000",
        "memory": "s3_vectors",
        "alarm_topic_arn": TOPIC,
        "dashboard": "true",
        "event_source_principals": "arn:aws:iam::111122223333:role/billing",
    },
    "issuer": {
        "stage": "dev",
        "oidc_issuer": "https://login.example.com",
        "exec_image": "none",
        "model_provider": "bedrock",
    },
    "network": {
        "stage": "prod",
        **NETWORK,
        "exec_security_groups": "sg-0a1b2c3d",
        "exec_image": IMAGE,
        "av": "guardduty",
    },
    "domain": {
        "stage": "trial",
        **DOMAIN,
        "tracing": "on",
        "shift": "canary",
        "alarms": "true",
        "table_name": "stepline-trial-restored",
    },
    "local": {
        "stage": "local",
        "endpoint": "http://127.0.0.1:4566",
        "oidc_issuer": "http://127.0.0.1:4567",
        "exec_mode": "process",
    },
}
"""Stages as their owners choose them."""
WITHOUT: Final = ("name", "endpoint")
"""What names another stage."""
NOT_LOCAL: Final = "snap_start"
"""The choice whose synthesis ends for the emulator's runtime."""
VALUES: Final[Mapping[str, str | dict[str, str]]] = {
    "oidc_issuer": "https://other.example.com",
    "oidc_audience": "agent",
    "oidc_jwks_url": "https://login.example.com/keys",
    "oidc_scopes": "openid",
    "oidc_client_id": "page",
    "oidc_origins": "https://tokens.example.com",
    "sign_in_prefix": "acme-chat",
    "tenant_claim": "groups",
    "project_claim": "groups",
    "role_claim": "roles",
    "project_admins": "leads",
    "tenant_admins": "owners",
    "allowed_origins": "https://app.example.com",
    "page_domain": DOMAIN,
    "page_certificate_arn": {**DOMAIN, "page_domain": "other.example.com"},
    "model_provider": "bedrock",
    "model_roles": '{"answer": "claude-sonnet-4-5"}',
    "model_providers": '{"own": "https://models.example.com/v1"}',
    "model_secret_arn": SECRET,
    "max_iterations": "16",
    "multi_action": "safe_fanout",
    "max_actions_per_round": "4",
    "protocol": "tolerant",
    "agent_version": "v2",
    "context_layout": "journal",
    "inspect": "none",
    "context_max_tokens": "70000",
    "context_window_tokens": "190000",
    "cache_ttl_s": "600",
    "keep_recent_turns": "7",
    "keep_intact_turns": "3",
    "cache_minimum_tokens": '{"claude": 2048}',
    "workspace": "git",
    "search_corpus": "/var/task/lambdas/library",
    "search_provider": {"search_provider": "brave", "search_secret_arn": SECRET},
    "search_url": "https://search.example.com",
    "search_secret_arn": SECRET,
    "tracing": "text",
    "tracing_endpoint": {"tracing": "on", "tracing_endpoint": "https://otlp.example.com"},
    "tracing_secret_arn": {
        "tracing": "on",
        "tracing_endpoint": "https://otlp.example.com",
        "tracing_secret_arn": SECRET,
    },
    "memory": "s3_vectors",
    "av": "guardduty",
    "clamav_host": "clamav.example.com",
    "clamav_port": "3311",
    "steer_poll_ms": "400",
    "mcp_timeout_s": "50",
    "mcp_list_ttl_s": "3000",
    "mcp_task_s": "1000",
    "finalize_rounds": "3",
    "finalize_max_tokens": "2000",
    "approvals": '{"web_tools.*": "always"}',
    "approval_wait_s": "3600",
    "event_credit": "2",
    "redis_secret_arn": SECRET,
    "bundle": "bundles.docs",
    "bundles": '{"docs": "bundles.docs"}',
    "bundle_props": '{"greeting": "hello"}',
    "assembly": '{"ai": {"react": {"max_iterations": 9}}}',
    "stream_readers": {"concurrency": "1000", "stream_readers": "20"},
    "exec_mode": "none",
    "exec_image": "none",
    "exec_python": "/usr/bin/python3",
    "exec_home": "/opt/exec",
    "exec_cpu": {"exec_cpu": "2048", "exec_memory_mib": "4096"},
    "exec_memory_mib": "4096",
    "exec_zones": "use1-az2,use1-az4",
    "saml_metadata_url": "https://company.example.com/metadata.xml",
    "federation_issuer": FEDERATION,
    "federation_client_id": {**FEDERATION, "federation_client_id": "agent"},
    "federation_secret_arn": {**FEDERATION, "federation_secret_arn": f"{SECRET}2"},
    "federation_email_claim": {**FEDERATION, "federation_email_claim": "mail"},
    "federation_tenant_claim": CLAIMS,
    "federation_project_claim": {**CLAIMS, "federation_project_claim": "department"},
    "allowed_addresses": "203.0.113.0/24,2001:db8::/32",
    "page_web_acl_arn": "arn:aws:wafv2:us-east-1:111122223333:global/webacl/page/0a1b2c3d",
    "api_domain": API_DOMAIN,
    "socket_domain": {**API_DOMAIN, "socket_domain": "socket.example.com"},
    "api_certificate_arn": {**API_DOMAIN, "api_domain": "http.example.com"},
    "vpc": FUNCTIONS,
    "vpc_subnets": {**FUNCTIONS, "vpc_subnets": "subnet-5a1b2c3d"},
    "vpc_security_groups": {**FUNCTIONS, "vpc_security_groups": "sg-2a1b2c3d"},
    "exec_vpc": NETWORK,
    "exec_subnets": {**NETWORK, "exec_subnets": "subnet-2a1b2c3d"},
    "exec_security_groups": {**NETWORK, "exec_security_groups": "sg-1a1b2c3d"},
    "limits": '{"user": {"usd_day": 5}}',
    "prices": '{"aws": {"transition": 0.00003}}',
    "user_messages_per_minute": "30",
    "rates": '{"user": {"searches": 9}}',
    "event_source_principals": "arn:aws:iam::111122223333:root",
    "alarm_topic_arn": f"{TOPIC}-2",
    "log_retention_days": "60",
    "descriptors_dir": "tests/data/descriptors",
    "python": "3.13",
    "shift": {"shift": "linear", "alarms": "true"},
    "table_name": "stepline-another",
    "concurrency": "500",
    "open_turns": "3",
    "requests_per_s": "90",
    "burst": "180",
    "kms_key_arn": "arn:aws:kms:eu-west-1:111122223333:key/0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f",
    "permissions_boundary_arn": "arn:aws:iam::111122223333:policy/builders",
    "tags": '{"team": "shop"}',
}
"""Another value of each choice that is no yes or no, with the choices that it needs."""


class Change(NamedTuple):
    """A stage before, and the choices that then change."""

    base: str
    choices: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.base}, {' and '.join(self.choices)}"

    @property
    def before(self) -> Documents:
        """The templates before the change."""
        return templates(BASES[self.base])

    @property
    def after(self) -> Documents | None:
        """The templates after it; None if no such stage can be."""
        context = dict(BASES[self.base])
        for choice in self.choices:
            context |= _other(self.base, choice)
        if self.base == "local" and NOT_LOCAL in self.choices:
            return None
        try:
            return templates(context)
        except ValueError:
            return None


def choices() -> list[str]:
    """Return every choice of a stage."""
    return [name for name in Stage.model_fields if name not in WITHOUT]


def changes() -> Iterator[Change]:
    """Yield each single change of each of the six stages."""
    for base in BASES:
        yield from (Change(base, (choice,)) for choice in choices())


def other_values(names: Iterable[str]) -> dict[str, str]:
    """Return another value of each of these choices, with the choices that they need, as far as they go together."""
    found: dict[str, str] = {}
    for name in names:
        found |= _other("dev", name)
    return found


def _other(base: str, choice: str) -> dict[str, str]:
    """Return the context of the other value: of a yes or no the opposite, of a chosen value none."""
    if choice in VALUES:
        value = VALUES[choice]
        context = value if isinstance(value, dict) else {choice: value}
        taken = BASES[base].get(choice)
        return {choice: ""} if taken == context[choice] else context
    chosen = getattr(_stage(BASES[base]), choice)
    assert isinstance(chosen, bool), f"add another value of {choice} to VALUES"
    return {choice: str(not chosen).lower()}


def _stage(context: Mapping[str, str]) -> Stage:
    """Return the stage of these choices; one without a value is none."""
    return Stage(**{"name" if key == "stage" else key: value for key, value in context.items()})


def _flags() -> dict[str, Any]:
    """Return the context of the app. Assets are not copied, since only names are compared."""
    shared = json.loads((ROOT / "cdk.json").read_text())["context"]
    quick = {"aws:cdk:disable-asset-staging": True, "aws:cdk:disable-metadata": True}
    return {**shared, **quick}


def templates(context: Mapping[str, str]) -> Documents:
    """Return the templates of a stage, of the same choices once. Raises ValueError if the choices exclude each other."""
    return _templates(tuple(sorted(context.items())))


@cache
def _templates(context: tuple[tuple[str, str], ...]) -> Documents:
    with tempfile.TemporaryDirectory() as folder:
        return _synthesise(_stage(dict(context)), Path(folder))


def _synthesise(stage: Stage, folder: Path) -> Documents:
    app = cdk.App(outdir=str(folder / "cdk.out"), context=_flags())
    files = read_page(ROOT, stage.named_modules, dist=PAGE) if stage.page else None
    deployment = Deployment(app, stage, code=code_of(stage, folder), packages=("numpy",), files=files)
    assembly = Path(app.synth().directory)
    return {
        word: json.loads((assembly / stack.template_file).read_text())
        for word, stack in deployment.stacks.items()
    }
