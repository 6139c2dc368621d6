"""The choices of a stage as typed props of an agent.

docs/reference/choices.md says what each means, takes and costs. A test compares names and types with those of a stage.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict


class ChoiceProps(TypedDict, total=False):
    """Each choice that an agent has under the same name; one that is left out has its default."""

    oidc_audience: str
    oidc_jwks_url: str
    oidc_scopes: Sequence[str]
    oidc_client_id: str
    oidc_origins: Sequence[str]
    sign_in_prefix: str
    tenant_claim: str
    project_claim: str
    role_claim: str
    project_admins: Sequence[str]
    tenant_admins: Sequence[str]
    saml_metadata_url: str
    federation_issuer: str
    federation_client_id: str
    federation_secret_arn: str
    federation_email_claim: str
    federation_tenant_claim: str
    federation_project_claim: str
    allowed_origins: Sequence[str]
    page_domain: str
    page_certificate_arn: str
    event_source_principals: Sequence[str]
    api_domain: str
    socket_domain: str
    api_certificate_arn: str
    allowed_addresses: Sequence[str]
    page_web_acl_arn: str
    bundles: Mapping[str, Any]
    bundle_props: Mapping[str, Any]
    assembly: Mapping[str, Any]
    descriptors_dir: str
    model_provider: str
    model_providers: Mapping[str, Any]
    model_roles: Mapping[str, Any]
    max_iterations: int
    multi_action: str
    max_actions_per_round: int
    protocol: str
    agent_version: str
    finalize_rounds: int
    finalize_max_tokens: int
    steer_poll_ms: int
    event_credit: int
    approvals: Mapping[str, Any]
    approval_wait_s: int
    context_layout: str
    context_max_tokens: int
    context_window_tokens: int
    cache_ttl_s: int
    keep_recent_turns: int
    keep_intact_turns: int
    cache_minimum_tokens: Mapping[str, Any]
    workspace: str
    inspect: str
    search_provider: str
    search_corpus: str
    search_url: str
    search_secret_arn: str
    memory: str
    av: str
    clamav_host: str
    clamav_port: int
    mcp_timeout_s: int
    mcp_list_ttl_s: int
    mcp_task_s: int
    redis_secret_arn: str
    tracing: str
    tracing_endpoint: str
    tracing_secret_arn: str
    exec_cpu: int
    exec_memory_mib: int
    exec_zones: Sequence[str]
    exec_vpc: str
    exec_subnets: Sequence[str]
    exec_security_groups: Sequence[str]
    exec_public_ip: bool
    python: str
    bytecode: bool
    snap_start: bool
    table_name: str
    concurrency: int
    open_turns: int
    stream_readers: int
    requests_per_s: int
    burst: int
    limits: Mapping[str, Any]
    prices: Mapping[str, Any]
    user_messages_per_minute: int
    rates: Mapping[str, Any]
    alarms: bool
    alarm_topic_arn: str
    shift: str
    dashboard: bool
    socket_access_log: bool
