"""The agent's part of the settings: its version, its limits, and the backends of its programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from stepline.bootstrap.choice import context_rules, resolve_override
from stepline.bootstrap.runtime_profile import resolve_runtime
from stepline.bundle.overrides import AGENT_VERSION, LAYOUT, MULTI_ACTION
from stepline.bundle.property import look_up, read_mapping
from stepline.loop.approvals.approval_policy import ApprovalPolicy, read_rules
from stepline.model.program.execution import Placement, RunLimits, RuntimeProfile, TaskConfig
from stepline.model.version import AgentVersion, ContextLayout
from stepline.protocol.decision.fanout import FanoutRule
from stepline.settings import PLACEMENTS, Settings, env
from stepline.tools.context import ReadCaps, fit_read_caps

if TYPE_CHECKING:
    from stepline.bundle.descriptor_set import Descriptors

MCP_SERVERS: Final = "mcp.services.mcpServers"
"""The path of MCP servers in the properties, spelled as in other MCP hosts."""

TASK_FIELDS: Final = (
    "stage",
    "serve_arn",
    "bundle",
    "bundles",
    "exec_mode",
    "exec_text_preview_max_chars",
    "search_corpus",
    "search_provider",
    "search_url",
    "read_visible_max_chars",
    "read_visible_max_tokens",
    "read_visible_max_bytes",
    "read_visible_context_fraction",
    "context_max_tokens",
    "context_window_tokens",
)
"""Settings that a task gets for its tools."""


def agent_version(settings: Settings) -> AgentVersion:
    """Return the agent's version."""
    return resolve_override(AGENT_VERSION, settings, settings.agent_version)


def context_layout(settings: Settings) -> ContextLayout:
    """Return the layout of the agent's requests."""
    return resolve_override(LAYOUT, settings, settings.context_layout)


def fanout(settings: Settings) -> FanoutRule:
    """Return how many actions a round may have, and which of them may be combined."""
    mode = resolve_override(MULTI_ACTION, settings, settings.multi_action)
    return FanoutRule(mode=mode, max_actions=settings.max_actions_per_round)


def mcp_servers(settings: Settings, descriptors: Descriptors) -> Mapping[str, Any]:
    """Return the MCP servers of the properties by id; settings override the descriptor."""
    found: dict[str, Any] = {}
    for place in (descriptors.config, settings.bundle_props):
        for path in (MCP_SERVERS, f"config.{MCP_SERVERS}"):
            found |= read_mapping(look_up(place, path) or {}, path)
    return found


def approvals(settings: Settings) -> ApprovalPolicy:
    """Return the policy of approvals. Raises InputError `bad_setting` with the source of the value.

    The deployment's own setting has precedence: it decides whether a call waits, even if a bundle says otherwise.
    """
    places: list[tuple[str, Any]] = [
        ("STEPLINE_APPROVALS", settings.approvals),
        *(
            (path, look_up(settings.bundle_props, path))
            for path in ("config.react.approvals", "react.approvals")
        ),
        ("ai.react.approvals", look_up(settings.assembly, "ai.react.approvals")),
    ]
    return ApprovalPolicy(places=tuple(read_rules(said, place) for place, said in places if said is not None))


def execution_runtime(
    settings: Settings, descriptors: Descriptors | None = None
) -> tuple[RuntimeProfile, RunLimits] | None:
    """Return the backend and the limits of programs; None for a deployment that runs no programs.

    The active bundle's descriptor applies after its properties, and the assembly's applies if the setting is empty.
    """
    if settings.exec_mode not in PLACEMENTS:
        return None
    default = RuntimeProfile(
        placement=PLACEMENTS[settings.exec_mode],
        backend=settings.exec_mode,
        image=settings.exec_image,
        container_strategy=settings.exec_strategy,
        network_mode=settings.exec_network_mode,
        descriptor_payload_scope=settings.descriptor_payload_scope,
        task=TaskConfig(
            cluster=settings.fargate_cluster,
            task_definition=settings.fargate_task_definition,
            container_name=settings.fargate_container_name,
            subnets=settings.fargate_subnets,
            security_groups=settings.fargate_security_groups,
            assign_public_ip=settings.fargate_assign_public_ip,
            platform_version=settings.fargate_platform_version,
            memory_mib=settings.fargate_memory_mib,
            cpu_units=settings.fargate_cpu_units,
        ),
    )
    limits = RunLimits(timeout_s=settings.exec_timeout_s)
    profile, limits = resolve_runtime(
        settings.bundle_props,
        settings.assembly or (descriptors.assembly if descriptors else {}),
        default,
        descriptor=descriptors.config if descriptors else {},
        limits=limits,
        region=region_of(settings),
    )
    return (profile, limits) if profile.backend else None


def places_of(settings: Settings) -> frozenset[Placement]:
    """Return the placements where this deployment can run programs: inline, in remote tasks, or both."""
    places = {PLACEMENTS[settings.exec_mode]} if settings.exec_mode in PLACEMENTS else set()
    return frozenset(places | ({"remote"} if settings.fargate_cluster else set()))


def region_of(settings: Settings) -> str:
    """Return the deployment's region, from the ARN of its state machine; empty without one."""
    return settings.machine_arn.split(":")[3] if settings.machine_arn else ""


def task_settings(settings: Settings) -> dict[str, str]:
    """Return the variables of a task's supervisor: those its tools need, without access to table, bucket or model."""
    fields = {field: getattr(settings, field) for field in TASK_FIELDS}
    return env(**fields | {"context_max_tokens": context_rules(settings).max_tokens})


def read_caps(settings: Settings) -> ReadCaps:
    """Return the deployment's limits on the size of a read."""
    return fit_read_caps(
        ReadCaps(
            max_chars=settings.read_visible_max_chars,
            max_tokens=settings.read_visible_max_tokens,
            max_bytes=settings.read_visible_max_bytes,
            max_image_bytes=settings.max_image_bytes,
            max_doc_bytes=settings.max_doc_bytes,
        ),
        context_fraction=settings.read_visible_context_fraction,
        window_tokens=context_rules(settings).budget,
    )
