"""What the settings choose: limits, caps, the model, and where programs run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from stepline.adapters.anthropic.call import DEFAULT_ROLE, cache_minimum, plan_roles
from stepline.adapters.anthropic.client import AnthropicModelClient
from stepline.adapters.aws.secret import secret_text
from stepline.adapters.corpus import CorpusSearch
from stepline.adapters.polling_signals import PollingSignals
from stepline.bundle.overrides import CONTEXT_CAP, MULTI_ACTION, ROUND_CAP, VERSION, resolve_outward
from stepline.context.rules import ContextRules
from stepline.events.filter import EventFilter
from stepline.log.bindings import Policy
from stepline.loop.agent import DECISION_ROLE
from stepline.model.program.execution import Limits, Placement, RuntimeProfile, TaskConfig
from stepline.model.version import AgentVersion
from stepline.ports.channel import Broadcast
from stepline.ports.log import Log
from stepline.ports.signal import Signals
from stepline.protocol.decision.fanout import FanoutRule
from stepline.settings import PLACEMENTS, Settings, env
from stepline.tools.context import ReadCaps, fit_read_caps

if TYPE_CHECKING:
    from stepline.bundle.descriptor_set import Descriptors
    from stepline.ports.search import WebSearch

TASK_FIELDS: Final = (
    "stage",
    "bundle",
    "exec_mode",
    "exec_text_preview_max_chars",
    "search_corpus",
    "read_visible_max_chars",
    "read_visible_max_tokens",
    "read_visible_max_bytes",
    "read_visible_context_fraction",
    "context_max_tokens",
    "context_window_tokens",
)
"""Settings that a task is handed for its tools."""


def policy(settings: Settings) -> Policy:
    """Return the loop's limits as the deployment sets them."""
    rounds = ROUND_CAP.resolve(
        props=settings.bundle_props, assembly=settings.assembly, setting=settings.max_iterations
    )
    return Policy(
        max_iterations=rounds,
        turn_deadline_s=settings.turn_deadline_s,
        user_messages_per_minute=settings.user_messages_per_minute,
        event_credit=max(0, settings.event_credit),
        finalize_rounds=settings.finalize_rounds,
        finalize_max_tokens=settings.finalize_max_tokens,
        context=context_rules(settings),
    )


def context_rules(settings: Settings) -> ContextRules:
    """Return the limits of a conversation's context as the deployment sets them."""
    roles = plan_roles(settings.model_provider, settings.model_roles)
    model = roles.get(DECISION_ROLE, roles[DEFAULT_ROLE]).model
    return ContextRules(
        max_tokens=CONTEXT_CAP.resolve(
            props=settings.bundle_props, assembly=settings.assembly, setting=settings.context_max_tokens
        ),
        window_tokens=settings.context_window_tokens,
        ttl_s=settings.cache_ttl_s,
        keep_turns=settings.keep_recent_turns,
        intact_turns=settings.keep_intact_turns,
        cache_minimum_tokens=cache_minimum(model, settings.cache_minimum_tokens),
    )


def agent_version(settings: Settings) -> AgentVersion:
    """Return the version of the agent's way of working."""
    return VERSION.resolve(
        props=settings.bundle_props, assembly=settings.assembly, setting=settings.agent_version
    )


def outward(settings: Settings) -> EventFilter:
    """Return which client events may leave."""
    return resolve_outward(props=settings.bundle_props, assembly=settings.assembly)


def fanout(settings: Settings) -> FanoutRule:
    """Return how many actions a round may take, and which together."""
    mode = MULTI_ACTION.resolve(
        props=settings.bundle_props, assembly=settings.assembly, setting=settings.multi_action
    )
    return FanoutRule(mode=mode, max_actions=settings.max_actions_per_round)


def execution_runtime(
    settings: Settings, descriptors: Descriptors | None = None
) -> tuple[RuntimeProfile, Limits] | None:
    """Return where programs run and within which limits; None for a deployment that runs none.

    The active bundle's descriptor counts after its properties, and the assembly's where the setting is empty.
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
        ),
    )
    from stepline.bootstrap.runtime_profile import resolve_runtime  # noqa: PLC0415 - only where programs run

    limits = Limits(timeout_s=settings.exec_timeout_s)
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
    """Return where this deployment can run programs: inline, in remote tasks, or both."""
    places = {PLACEMENTS[settings.exec_mode]} if settings.exec_mode in PLACEMENTS else set()
    return frozenset(places | ({"remote"} if settings.fargate_cluster else set()))


def region_of(settings: Settings) -> str:
    """Return the region that the deployment is in; empty where there is no state machine to tell."""
    return settings.machine_arn.split(":")[3] if settings.machine_arn else ""


def task_settings(settings: Settings) -> dict[str, str]:
    """Return the variables of a task's supervisor: what its tools need, and no way to the table, the bucket or the model."""
    fields = {field: getattr(settings, field) for field in TASK_FIELDS}
    return env(**fields | {"context_max_tokens": context_rules(settings).max_tokens})


def read_caps(settings: Settings) -> ReadCaps:
    """Return how much a read may show, as the deployment sets it."""
    return fit_read_caps(
        max_chars=settings.read_visible_max_chars,
        max_tokens=settings.read_visible_max_tokens,
        max_bytes=settings.read_visible_max_bytes,
        context_fraction=settings.read_visible_context_fraction,
        window_tokens=context_rules(settings).budget,
    )


class Live(NamedTuple):
    """How a conversation is followed, and a running step told: by the gateway and the log, and by Redis if there is one."""

    signals: Signals
    broadcast: Broadcast
    beside: Broadcast | None = None


def live_of(settings: Settings, log: Log, posting: Broadcast) -> Live:
    """Return the live ways of a deployment; nothing is connected yet, and without a Redis nothing of it is loaded."""
    poll_s = settings.steer_poll_ms / 1000
    if not (settings.redis_url or settings.redis_secret_arn):
        return Live(signals=PollingSignals(log, poll_s), broadcast=posting)
    from stepline.adapters.redis.broadcast import Broadcasts, RedisBroadcast  # noqa: PLC0415 - as above
    from stepline.adapters.redis.connection import RedisLink  # noqa: PLC0415 - only where there is one
    from stepline.adapters.redis.signal import RedisSignals  # noqa: PLC0415 - as above

    link = RedisLink(
        lambda: settings.redis_url or secret_text(settings.redis_secret_arn), stage=settings.stage
    )
    beside = RedisBroadcast(link=link)
    # The gateway first: a Redis that does not answer keeps none of its clients waiting.
    return Live(
        signals=RedisSignals(log, link, poll_s=poll_s), broadcast=Broadcasts((posting, beside)), beside=beside
    )


def search_of(settings: Settings) -> WebSearch:
    """Return the search engine; nothing is read yet."""
    return CorpusSearch(Path(settings.search_corpus) if settings.search_corpus else None)


def model_of(settings: Settings) -> AnthropicModelClient:
    """Return the model client; nothing of the provider's SDK is imported yet."""
    return AnthropicModelClient(
        roles=plan_roles(settings.model_provider, settings.model_roles),
        api_key=lambda: settings.anthropic_api_key or secret_text(settings.model_secret_arn),
        base_url=settings.anthropic_base_url if settings.model_provider == "anthropic" else "",
    )
