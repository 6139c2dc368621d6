"""The ports' part of the settings: limits, the events that may leave, live updates, and the search engine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from stepline.adapters.anthropic.call import DEFAULT_ROLE, plan_roles
from stepline.adapters.anthropic.family import cache_minimum
from stepline.adapters.aws.secret import secret_text
from stepline.adapters.corpus import CorpusSearch
from stepline.adapters.polling_signals import PollingSignals
from stepline.bundle.overrides import CACHE_TTL, CONTEXT_CAP, ROUND_CAP, resolve_outward
from stepline.context.rules import ContextRules
from stepline.events.filter import EventFilter
from stepline.log.bindings import Policy
from stepline.ports.channel import Broadcast
from stepline.ports.log import Log
from stepline.ports.model import DECISION_ROLE
from stepline.ports.signal import Signals
from stepline.settings import Settings

if TYPE_CHECKING:
    from stepline.ports.search import WebSearch


HOUR_S: Final = 3600.0


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
        approval_wait_s=settings.approval_wait_s,
        finalize_max_tokens=settings.finalize_max_tokens,
        workspace=settings.workspace,
        context=context_rules(settings),
    )


def context_rules(settings: Settings) -> ContextRules:
    """Return the limits of a conversation's context as the deployment sets them."""
    roles = plan_roles(settings.model_provider, settings.model_roles)
    decides = roles.get(DECISION_ROLE, roles[DEFAULT_ROLE])
    ttl_s = CACHE_TTL.resolve(
        props=settings.bundle_props, assembly=settings.assembly, setting=settings.cache_ttl_s
    )
    kept_s = HOUR_S if decides.cache_ttl == "1h" else 0.0
    return ContextRules(
        max_tokens=CONTEXT_CAP.resolve(
            props=settings.bundle_props, assembly=settings.assembly, setting=settings.context_max_tokens
        ),
        window_tokens=settings.context_window_tokens,
        ttl_s=ttl_s and max(ttl_s, kept_s),
        keep_turns=settings.keep_recent_turns,
        intact_turns=settings.keep_intact_turns,
        cache_minimum_tokens=cache_minimum(decides.model, settings.cache_minimum_tokens),
    )


def outward(settings: Settings) -> EventFilter:
    """Return which client events may leave."""
    return resolve_outward(props=settings.bundle_props, assembly=settings.assembly)


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
    from stepline.adapters.redis.broadcast import Broadcasts, RedisBroadcast  # noqa: PLC0415 - most have no Redis: 5 ms of CPU
    from stepline.adapters.redis.connection import RedisLink  # noqa: PLC0415 - as above
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
