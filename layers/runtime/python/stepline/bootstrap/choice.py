"""The ports' part of the settings: models, limits, client events, live updates, and the web."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from msgspec.structs import replace

from stepline.adapters.anthropic.provider import AnthropicProvider, BedrockProvider
from stepline.adapters.aws.secret import secret_text
from stepline.adapters.corpus import CorpusPages, CorpusSearch
from stepline.adapters.mcp.mcp_server import McpClient
from stepline.adapters.polling_signals import PollingSignals
from stepline.adapters.provider.wire import plan_roles
from stepline.bundle.overrides import CACHE_TTL, CONTEXT_CAP, ROUND_CAP, Override, resolve_outward
from stepline.context.rules import ContextRules
from stepline.errors import InputError, ToolError
from stepline.events.filter import EventFilter
from stepline.log.bindings import BundleRules, Policy
from stepline.metrics import SERVICE
from stepline.model.tenancy.limits import Limits, ScopeLimits, overlaid
from stepline.model.tenancy.price import Prices, read_prices
from stepline.model.tenancy.request_rates import RequestRates
from stepline.ports.channel import Broadcast
from stepline.ports.log import Log
from stepline.ports.model import DECISION_ROLE, DEFAULT_ROLE, named_providers, split_model
from stepline.ports.signal import Signals
from stepline.settings import EMBEDDING_MODEL, ProviderName, Settings, env

if TYPE_CHECKING:
    from stepline.adapters.aws.table import Table
    from stepline.metering.ledger import Ledger
    from stepline.model.file.upload_slot import Upload
    from stepline.model.ids import Lane
    from stepline.ports.artifacts import Uploads
    from stepline.ports.clock import Clock, Meter
    from stepline.ports.descriptor import StageSecrets
    from stepline.ports.mcp.mcp_server import McpServers
    from stepline.ports.memory_index import MemoryIndex
    from stepline.ports.model import ModelProvider, RoleChoice
    from stepline.ports.search import Page, WebPages, WebSearch
    from stepline.ports.tracing.traces import Traces

T = TypeVar("T")

HOUR_S: Final = 3600.0
SEARCH_SECRET: Final = "search.api_key"  # noqa: S105 - a path
"""The path of the engine's key in the secret descriptors."""

LOCAL: Final = "local"
WINDOW_ANSWERS: Final = 4
"""An answer has at most one part of this many of a window that a provider's row names."""


class ProviderRow(NamedTuple):
    """A provider of models: its factory from the settings, and the module of its transport."""

    make: Callable[[Settings], ModelProvider]
    transport: str


def _anthropic(settings: Settings) -> ModelProvider:
    return AnthropicProvider(
        api_key=lambda: settings.anthropic_api_key or _stored_key(settings, "anthropic"),
        base_url=settings.anthropic_base_url,
    )


def _stored_key(settings: Settings, provider: ProviderName) -> str:
    """Return the key in the stage's secret, which belongs to the provider of the stage alone. Raises DependencyError."""
    return secret_text(settings.model_secret_arn) if settings.model_provider == provider else ""


def _openai(settings: Settings) -> ModelProvider:
    from stepline.adapters.chat.provider import ChatProvider  # noqa: PLC0415 - few deployments have one

    return ChatProvider(
        api_key=lambda: settings.openai_api_key or _stored_key(settings, "openai"),
        base_url=settings.openai_base_url,
    )


PROVIDERS: Final[Mapping[str, ProviderRow]] = {
    "anthropic": ProviderRow(_anthropic, "stepline.adapters.provider.http_transport"),
    "bedrock": ProviderRow(lambda _: BedrockProvider(), "stepline.adapters.anthropic.sdk_transport"),
    "openai": ProviderRow(_openai, "stepline.adapters.provider.http_transport"),
}


def provider_of(settings: Settings) -> ModelProvider:
    """Return the provider of models, or those that roles name, as one; no transport is imported yet.

    Raises InputError `bad_setting`: a role names a provider that has no row.
    """
    default = PROVIDERS[settings.model_provider].make(settings)
    names = named_providers(settings.model_roles) - {""}
    if not names:
        return default
    from stepline.adapters.provider.routed_provider import RoutedProvider  # noqa: PLC0415 - few deployments have several

    named = {name: _named_provider(settings, name) for name in sorted(names)}
    return RoutedProvider({"": default, **named}, plan_roles(default.default_model, settings.model_roles))


def _named_provider(settings: Settings, name: str) -> ModelProvider:
    row = settings.model_providers.get(name)
    if row is None and name in PROVIDERS:
        return PROVIDERS[name].make(settings)
    if row is None:
        raise InputError(
            f"STEPLINE_MODEL_ROLES names the provider {name}, and STEPLINE_MODEL_PROVIDERS has no such row",
            code="bad_setting",
        )
    configured: dict[str, Any] = {
        "api_key": partial(secret_text, row.secret_arn),
        "base_url": row.base_url,
        "headers": row.headers,
        "guarded": bool(row.base_url) and not row.private,
        "name": name,
    }
    if row.wire == "messages":
        return AnthropicProvider(takes=row.takes, **configured)
    if row.wire == "converse":
        from stepline.adapters.converse.provider import ConverseProvider  # noqa: PLC0415 - few deployments have one

        return ConverseProvider(takes=row.takes, **configured)
    from stepline.adapters.chat.provider import ChatProvider  # noqa: PLC0415 - as above

    return ChatProvider(takes=row.takes, **configured)


def roles_of(settings: Settings) -> dict[str, RoleChoice]:
    """Return the model of each role; an answer has at most a quarter of the window that its providers' rows have."""
    roles = plan_roles(provider_of(settings).default_model, settings.model_roles)
    return {name: _fit_window(settings, role) for name, role in roles.items()}


def _fit_window(settings: Settings, role: RoleChoice) -> RoleChoice:
    windows = (_window_of(settings, model) for model in (role.model, role.fallback))
    if not (known := [window for window in windows if window is not None]):
        return role
    most = min(known) // WINDOW_ANSWERS
    return replace(role, max_tokens=min(role.max_tokens or most, most))


def _window_of(settings: Settings, model: str) -> int | None:
    """Return the context window of a model, if its provider's row has one."""
    row = settings.model_providers.get(split_model(model)[0])
    return row.window_tokens if row else None


def prices_of(settings: Settings) -> Prices:
    """Return the prices of the setting, and those of the providers' rows. Raises InputError `bad_prices`."""
    rows = [
        {**price, "model": f"{name}:{price.get('model', '')}"}
        for name, row in settings.model_providers.items()
        for price in row.prices
    ]
    if not rows:
        return read_prices(settings.prices)
    return read_prices({**settings.prices, "models": [*settings.prices.get("models", ()), *rows]})


def resolve_override(override: Override[T], settings: Settings, setting: T) -> T:
    """Return a value that the bundle's properties or the assembly may override. Raises InputError `bad_setting`."""
    return override.resolve(props=settings.bundle_props, assembly=settings.assembly, setting=setting)


def policy(settings: Settings) -> Policy:
    """Return the deployment's limits for the loop."""
    return Policy(
        max_iterations=resolve_override(ROUND_CAP, settings, settings.max_iterations),
        turn_deadline_s=settings.turn_deadline_s,
        open_turns=settings.open_turns,
        limits=scope_limits(settings),
        rates=RequestRates(**settings.rates),
        event_credit=max(0, settings.event_credit),
        finalize_rounds=settings.finalize_rounds,
        approval_wait_s=settings.approval_wait_s,
        mcp_task_s=settings.mcp_task_s,
        finalize_max_tokens=settings.finalize_max_tokens,
        workspace=settings.workspace,
        message_max_chars=settings.message_max_chars,
        message_max_bytes=settings.message_max_bytes,
        context=context_rules(settings),
        prices=prices_of(settings),
        models={name: role.named for name, role in roles_of(settings).items()},
    )


def scope_limits(settings: Settings) -> ScopeLimits:
    """Return the default limits of accounts; those of users start with the setting for their messages."""
    given = ScopeLimits(**settings.limits)
    messages = Limits(messages_per_minute=settings.user_messages_per_minute)
    return replace(given, user=overlaid(messages, given.user))


def context_rules(settings: Settings) -> ContextRules:
    """Return the deployment's limits for a conversation's context."""
    roles = roles_of(settings)
    decides = roles.get(DECISION_ROLE, roles[DEFAULT_ROLE])
    ttl_s = resolve_override(CACHE_TTL, settings, settings.cache_ttl_s)
    kept_s = HOUR_S if decides.cache_ttl == "1h" else 0.0
    window = _window_of(settings, decides.model)
    rules = ContextRules() if window is None else ContextRules(output_tokens=window // WINDOW_ANSWERS)
    return replace(
        rules,
        max_tokens=resolve_override(CONTEXT_CAP, settings, settings.context_max_tokens),
        window_tokens=min(window or settings.context_window_tokens, settings.context_window_tokens),
        ttl_s=ttl_s and max(ttl_s, kept_s),
        keep_turns=settings.keep_recent_turns,
        intact_turns=settings.keep_intact_turns,
        cache_minimum_tokens=provider_of(settings).cache_minimum(
            decides.named, settings.cache_minimum_tokens
        ),
    )


def outward(settings: Settings) -> EventFilter:
    """Return the filter of client events."""
    return resolve_outward(props=settings.bundle_props, assembly=settings.assembly)


def bundle_rules(settings: Settings) -> dict[str, BundleRules]:
    """Return the rules of each further bundle by its name; none of their packages is loaded."""
    own = {name: bundle_settings(settings, name) for name in settings.bundles}
    return {name: BundleRules(policy(one), outward(one)) for name, one in own.items()}


def bundle_settings(settings: Settings, name: str) -> Settings:
    """Return the settings with a further bundle in place of the default one. Raises InputError `unknown_bundle`."""
    choice = settings.bundles.get(name)
    if choice is None:
        raise InputError(f"this deployment has no bundle {name}", code="unknown_bundle")
    return replace(settings, bundle=choice.module, bundle_props=choice.props)


class Live(NamedTuple):
    """The channels for followers and for steers: the gateway and the log, plus Redis if there is one."""

    signals: Signals
    broadcast: Broadcast
    beside: Broadcast | None = None


def live_of(settings: Settings, log: Log, posting: Broadcast) -> Live:
    """Return a deployment's live channels; nothing is connected yet, and Redis modules load only if it has one."""
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
    # The gateway first: its clients do not wait for a Redis that does not answer.
    return Live(
        signals=RedisSignals(log, link, poll_s=poll_s), broadcast=Broadcasts((posting, beside)), beside=beside
    )


def search_of(settings: Settings, secrets: StageSecrets | None = None) -> WebSearch:
    """Return the search engine; nothing is read or requested yet. Raises InputError `bad_setting`."""
    url = settings.search_url
    match settings.search_provider:
        case "brave":
            from stepline.adapters.web.brave import BRAVE_URL, BraveSearch  # noqa: PLC0415 - rarely used

            return BraveSearch(key=partial(search_key, settings, secrets), base_url=url or BRAVE_URL)
        case "tavily":
            from stepline.adapters.web.tavily import TAVILY_URL, TavilySearch  # noqa: PLC0415 - as above

            return TavilySearch(key=partial(search_key, settings, secrets), base_url=url or TAVILY_URL)
        case "searxng":
            from stepline.adapters.web.searxng import SearxngSearch  # noqa: PLC0415 - as above

            if not url:
                raise InputError("STEPLINE_SEARCH_URL names no instance of SearXNG", code="bad_setting")
            return SearxngSearch(base_url=url)
        case _:
            return CorpusSearch(Path(settings.search_corpus) if settings.search_corpus else None)


def search_key(settings: Settings, secrets: StageSecrets | None = None) -> str:
    """Return the search engine's key: from the setting, its own secret in AWS, or the secrets of tools; "" without one.

    Raises DependencyError, InputError `bad_descriptor`.
    """
    if key := settings.search_api_key or secret_text(settings.search_secret_arn):
        return key
    if not (settings.descriptors_dir or secrets):
        return ""
    from stepline.adapters.descriptor_file import read_folder  # noqa: PLC0415 - only if the key is in a descriptor
    from stepline.bundle.descriptor_set import parse_descriptors  # noqa: PLC0415 - as above

    folder = settings.descriptors_dir
    descriptors = parse_descriptors(read_folder(Path(folder)) if folder else {}, stored=secrets)
    try:
        return descriptors.get_secret(SEARCH_SECRET)
    except ToolError:
        return ""


def search_secrets(settings: Settings, secrets: StageSecrets | None = None) -> dict[str, str]:
    """Return the variable with the key for a task, which may not read secrets itself. Raises as `search_key`."""
    keyed = settings.search_provider in ("brave", "tavily")
    return env(search_api_key=search_key(settings, secrets)) if keyed else {}


class PublicPages:
    """Fetches pages (`WebPages`); the modules for this are loaded with the first page."""

    @cached_property
    def _fetcher(self) -> WebPages:
        from stepline.adapters.web.page_fetch import PageFetcher  # noqa: PLC0415 - most calls fetch nothing

        return PageFetcher()

    def fetch(self, url: str) -> Page:
        return self._fetcher.fetch(url)


def pages_of(search: WebSearch) -> WebPages:
    """Return the fetcher of pages; if the engine searches a collection, its pages come from the collection."""
    pages = PublicPages()
    return CorpusPages(search, pages) if isinstance(search, CorpusSearch) else pages


def servers_of(settings: Settings) -> McpServers:
    """Return the client of MCP servers; its modules are loaded with the first request.

    A function in AWS does not start servers by a command: its container is shared, and outlives the call.
    """
    return McpClient(starts_commands=settings.stage == LOCAL or not settings.machine_arn)


def traces_of(settings: Settings, clock: Clock, meter: Meter) -> Traces | None:
    """Return the exporter of spans; None if tracing is off. OpenTelemetry is not loaded yet."""
    if settings.tracing == "off":
        return None
    from stepline.adapters.aws.client import session  # noqa: PLC0415 - most deployments have no traces
    from stepline.adapters.tracing.trace_credential import WithHeaders, signed, traces_url, xray_url  # noqa: PLC0415 - as above
    from stepline.adapters.tracing.traces import OtlpTraces  # noqa: PLC0415 - as above

    endpoint = settings.otlp_endpoint
    return OtlpTraces(
        traces_url(endpoint) if endpoint else xray_url(str(session().get_config_variable("region"))),
        sign=WithHeaders(lambda: settings.otlp_headers or secret_text(settings.otlp_secret_arn))
        if endpoint
        else signed,
        timeout_s=settings.otlp_timeout_ms / 1000,
        resource={"service.name": SERVICE, "deployment.environment.name": settings.stage},
        provider=provider_of(settings).traced_as,
        texts=settings.tracing == "text",
        clock=clock,
        meter=meter,
    )


def memory_of(settings: Settings, ledger: Ledger) -> MemoryIndex | None:
    """Return the memory index if the stage has one as a separate service; nothing is connected yet."""
    if not settings.memory_bucket_arn:
        return None
    from stepline.adapters.s3_vectors.memory_index import S3VectorsMemoryIndex  # noqa: PLC0415 - few deployments have one

    return S3VectorsMemoryIndex(settings.memory_bucket_arn, EMBEDDING_MODEL, ledger=ledger)


class StoredUploads:
    """Stores the rows of uploads (`Uploads`); the modules for this are loaded with the first one."""

    def __init__(self, table: Table) -> None:
        self._table = table

    @cached_property
    def _rows(self) -> Uploads:
        from stepline.adapters.upload.upload_rows import DynamoUploads  # noqa: PLC0415 - few messages name one

        return DynamoUploads(self._table)

    def begin(self, lane: Lane, upload: Upload) -> None:
        self._rows.begin(lane, upload)

    def get(self, lane: Lane, upload_id: str) -> Upload | None:
        return self._rows.get(lane, upload_id)

    def settle(self, lane: Lane, upload: Upload) -> Upload:
        return self._rows.settle(lane, upload)
