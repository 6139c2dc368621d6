"""Settings of a deployment, read from environment variables. No other module reads the environment.

Each field of `Settings` carries its variable, default, unit, bounds and meaning; docs/reference/settings.md is
generated from them. Functions read with `Settings.from_env`, stacks write with `env`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar, get_args

import msgspec

from stepline.errors import InputError
from stepline.model.base import Value
from stepline.model.decision import FANOUT_MODES, FanoutMode
from stepline.model.ids import FURTHER_BUNDLE
from stepline.model.program.execution import (
    ContainerStrategy,
    DescriptorScope,
    Placement,
    Switch,
    WorkspaceMode,
)
from stepline.model.tenancy.limits import Limits
from stepline.model.tenancy.request_rates import Rates
from stepline.model.version import CONTEXT_LAYOUTS, VERSIONS, AgentVersion, ContextLayout
from stepline.ports.channel import Inspect
from stepline.ports.model import PROVIDER_NAME, ModelServer, RoleChoice

if TYPE_CHECKING:
    from pathlib import Path

ProviderName: TypeAlias = Literal["anthropic", "bedrock", "openai"]
SearchProvider: TypeAlias = Literal["collection", "brave", "tavily", "searxng"]
Protocol: TypeAlias = Literal["strict", "tolerant"]
AvScan: TypeAlias = Literal["none", "clamd", "guardduty"]
Tracing: TypeAlias = Literal["off", "on", "text"]
AV_SCANS: Final[Mapping[str, AvScan]] = {
    **{mode: mode for mode in get_args(AvScan)},
    "0": "none",
    "false": "none",
    "1": "clamd",
    "true": "clamd",
}
"""Each accepted value for the scanner of uploads."""
ExecMode: TypeAlias = Literal["none", "process", "docker", "fargate"]
EXEC_MODES: Final[Mapping[str, ExecMode]] = {
    **{mode: mode for mode in get_args(ExecMode)},
    "local": "process",
    "external": "fargate",
}
"""Each accepted value for the backend of programs, and its mode; settings and `execution.runtime` use them."""
PLACEMENTS: Final[Mapping[ExecMode, Placement]] = {
    "process": "inline",
    "docker": "inline",
    "fargate": "remote",
}
"""The placement of each mode that runs programs; such a mode is also the name of a backend."""
KEYED: Final[frozenset[ProviderName]] = frozenset({"anthropic", "openai"})
"""The providers that authenticate a deployment by a key; others use the role of its functions."""
EMBEDDING_MODEL: Final = "amazon.titan-embed-text-v2:0"
"""The Bedrock model that embeds memory rows, if an S3 Vectors bucket keeps the index."""
T = TypeVar("T")


class BundleChoice(Value, forbid_unknown_fields=True):
    """A further bundle of a stage: its package, and its properties."""

    module: str
    props: Mapping[str, Any] = {}


class Setting(Value):
    """The variable of a field and how it is parsed; the type of `default` is the type of the value.

    `choices` maps each accepted text to its value. `minimum` and `maximum` are inclusive; with `or_default` a number
    outside them means the default. `items` is the type of a JSON object's values, `short` is the field that a plain
    text sets, and `names` is the pattern of the keys. A supervisor in another process does not need a field that is
    not `handed_on`.
    """

    variable: str
    default: Any
    doc: str
    unit: str = ""
    minimum: float | None = None
    maximum: float | None = None
    or_default: bool = False
    choices: Mapping[str, Any] = {}
    items: type = object
    short: str = ""
    names: re.Pattern[str] | None = None
    secret: bool = False
    handed_on: bool = True

    def parse(self, text: str) -> Any:
        """Return the value of `text`; empty text is the default. Raises InputError `bad_setting`."""
        if not text:
            return self.default
        if self.choices:
            if text not in self.choices:
                raise self._refusal(f"is none of {', '.join(self.choices)}")
            return self.choices[text]
        match self.default:
            case int() | float():
                return self._number(text)
            case tuple():
                return tuple(item.strip() for item in text.split(",") if item.strip())
            case Mapping():
                return self._object(text)
            case _:
                return text

    def _number(self, text: str) -> Any:
        try:
            number = type(self.default)(text)
        except ValueError as error:
            raise self._refusal("is not a number") from error
        if (self.minimum is None or number >= self.minimum) and (
            self.maximum is None or number <= self.maximum
        ):
            return number
        if self.or_default:
            return self.default
        raise self._refusal(f"is {text}, not {self.bounds}")

    def _object(self, text: str) -> Mapping[str, Any]:
        try:
            read = json.loads(text)
        except ValueError as error:
            raise self._refusal("is not JSON") from error
        if not isinstance(read, dict):
            raise self._refusal("is not a JSON object")
        return {key: self._item(key, item) for key, item in read.items()}

    def _item(self, key: str, item: Any) -> Any:
        if self.names and not self.names.fullmatch(key):
            raise self._refusal(f"may not have the key {key[:80]!r}")
        if self.short and isinstance(item, str):
            item = {self.short: item}
        try:
            return item if self.items is object else msgspec.convert(item, self.items)
        except msgspec.ValidationError as error:
            raise self._refusal(f"has no such {key}: {error}") from error

    @property
    def bounds(self) -> str:
        """The accepted numbers, for the documentation; empty if every number is accepted."""
        if self.minimum is None:
            return "" if self.maximum is None else f"at most {self.maximum}"
        return (
            f"at least {self.minimum}" if self.maximum is None else f"from {self.minimum} to {self.maximum}"
        )

    def _refusal(self, problem: str) -> InputError:
        return InputError(f"{self.variable} {problem}", code="bad_setting")


_DECLARED: Final[list[Setting]] = []


def setting(
    variable: str, default: T, doc: str, *, choices: Mapping[str, T] | Iterable[str] = (), **rest: Any
) -> T:
    """Declare the field's variable, and return its default as the default of the field."""
    if not isinstance(choices, Mapping):
        choices = {name: name for name in choices}
    _DECLARED.append(Setting(variable=variable, default=default, doc=doc, choices=choices, **rest))
    return default


class Settings(Value):
    """All settings of a deployment; `Settings()` has the defaults."""

    stage: str = setting("STEPLINE_STAGE", "dev", "Name of the deployment; `local` is the emulator's.")
    table: str = setting("STEPLINE_TABLE", "", "The DynamoDB table.")
    bucket: str = setting("STEPLINE_BUCKET", "", "The artifacts bucket.")
    machine_arn: str = setting("STEPLINE_MACHINE_ARN", "", "The state machine that runs turns.")
    eraser_arn: str = setting(
        "STEPLINE_ERASER_ARN",
        "",
        "The function that erases deleted content; a deletion invokes it. Empty: it is not invoked, and only runs every five minutes.",
    )
    decide_arn: str = setting(
        "STEPLINE_DECIDE_ARN",
        "",
        "The function that makes replays of single rounds for the API. Empty: no round is replayed.",
    )
    serve_arn: str = setting(
        "STEPLINE_SERVE_ARN",
        "",
        "The function that makes calls for running programs. Empty: calls that a bundle declares for its programs are refused.",
    )
    callback_url: str = setting("STEPLINE_CALLBACK_URL", "", "URL for posting frames to connections.")
    oidc_issuer: str = setting(
        "STEPLINE_OIDC_ISSUER", "", "Issuer of accepted tokens. Empty: no token is accepted."
    )
    oidc_audience: str = setting("STEPLINE_OIDC_AUDIENCE", "stepline", "`aud` that a token must carry.")
    oidc_jwks_url: str = setting(
        "STEPLINE_OIDC_JWKS_URL", "", "Key set of the issuer. Empty: discovered from the issuer."
    )
    tenant_claim: str = setting(
        "STEPLINE_TENANT_CLAIM",
        "tenant",
        "Claim that names the user's tenant; in a list, the one item `tenant:<name>`.",
    )
    project_claim: str = setting(
        "STEPLINE_PROJECT_CLAIM",
        "project",
        "Claim that names the user's project; in a list, the one item `project:<name>`.",
    )
    role_claim: str = setting(
        "STEPLINE_ROLE_CLAIM",
        "cognito:groups",
        "Claim that names the user's roles: a text, or a list of them. Users must not be able to write it.",
    )
    project_admins: tuple[str, ...] = setting(
        "STEPLINE_PROJECT_ADMINS",
        ("project_admin",),
        "Values of that claim that make a user an admin of the project, separated by commas.",
    )
    tenant_admins: tuple[str, ...] = setting(
        "STEPLINE_TENANT_ADMINS",
        ("tenant_admin",),
        "Values of that claim that make a user an admin of the tenant, separated by commas.",
    )
    socket_url: str = setting("STEPLINE_SOCKET_URL", "", "URL for opening a websocket with a ticket.")
    user_messages_per_minute: int = setting(
        "STEPLINE_USER_MESSAGES_PER_MINUTE",
        60,
        "Messages that one user may send in a minute, over all connections. 0: only the stage's throttle applies.",
        unit="messages",
        minimum=0,
    )
    limits: Mapping[str, Limits] = setting(
        "STEPLINE_LIMITS",
        {},
        'JSON object: the default limits of every `user`, `project` and `tenant`, unless an admin has set others ([tenants](../concepts/tenants.md)), such as `{"user": {"turns_at_once": 3, "usd_day": 5}}`.',
        items=Limits,
        names=re.compile("user|project|tenant"),
        handed_on=False,
    )
    rates: Mapping[str, Rates] = setting(
        "STEPLINE_RATES",
        {},
        'JSON object: the `reads`, `searches`, `tickets` and `changes` that each `user`, and all users of a `tenant` together, may request in a minute ([tenants](../concepts/tenants.md#requests)), such as `{"user": {"reads": 600}}`. 0 is no limit; omitted values keep their defaults.',
        items=Rates,
        names=re.compile("user|tenant"),
        handed_on=False,
    )
    prices: Mapping[str, Any] = setting(
        "STEPLINE_PRICES",
        {},
        "JSON object: prices that override those of the table. `models` is a list of objects with `model` (the beginning of its name), `plain`, `read` and `output` in dollars per million tokens, and `since` (a date) or `above` (tokens of a prompt) if the price applies only from there; `aws` has dollars by the name of a unit.",
        names=re.compile("models|aws"),
        handed_on=False,
    )
    allowed_origins: tuple[str, ...] = setting(
        "STEPLINE_ALLOWED_ORIGINS",
        (),
        "Origins that a browser may connect from, separated by commas. A client without an Origin header is not a browser and is accepted; a client with another Origin is refused.",
    )
    allowed_addresses: tuple[str, ...] = setting(
        "STEPLINE_ALLOWED_ADDRESSES",
        (),
        "Networks that clients may come from, as CIDRs of IPv4 or IPv6, separated by commas. Empty: any.",
    )
    max_iterations: int = setting(
        "AI_REACT_MAX_ITERATIONS",
        15,
        "Rounds a turn may take, unless the bundle's properties or the assembly set it.",
        unit="rounds",
        minimum=1,
        or_default=True,
    )
    inspect: Inspect = setting(
        "STEPLINE_INSPECT",
        "admin",
        "Who sees the requests that a conversation sent to the model, the replies and the log: its `owner`, an owner who is an `admin`, or `none`. The system part is shown only to admins.",
        choices=get_args(Inspect),
    )
    multi_action: FanoutMode = setting(
        "AI_REACT_AGENT_MULTI_ACTION",
        "off",
        "Several actions in one round, unless the bundle's properties or the assembly set it: `off`; `safe_fanout` and its synonyms, actions that cannot depend on each other; `read_write_search`, reads, writes and searches by the names of their tools, and one program.",
        choices=FANOUT_MODES,
    )
    max_actions_per_round: int = setting(
        "STEPLINE_MAX_ACTIONS_PER_ROUND",
        8,
        "Maximum actions of one round, if it may have several.",
        unit="actions",
        minimum=1,
        or_default=True,
    )
    protocol: Protocol = setting(
        "STEPLINE_PROTOCOL",
        "strict",
        "`strict`: a generation that does not begin with its thinking is ended and retried, and a call whose JSON was repaired does not run. `tolerant`: both are accepted, with a notice.",
        choices=get_args(Protocol),
    )
    agent_version: AgentVersion = setting(
        "AI_REACT_AGENT_VERSION",
        "v3",
        "Version of the agent, unless the bundle's properties or the assembly set it. In `v2` a gate names a new conversation before its first round, a round has one action in every mode, and the instructions differ.",
        choices=VERSIONS,
    )
    context_layout: ContextLayout = setting(
        "AI_REACT_CONTEXT_LAYOUT",
        "timeline",
        "The context of a round, unless the bundle's properties or the assembly set it: `timeline`, the conversation in order, or `journal`, the digest of the older decision context. A conversation may change between turns.",
        choices=CONTEXT_LAYOUTS,
    )
    context_max_tokens: int = setting(
        "AI_REACT_CONTEXT_MAX_TOKENS",
        80_000,
        "Maximum size of a request, estimated, unless the bundle's properties or the assembly set it; a larger context is shortened.",
        unit="tokens",
        minimum=1,
        or_default=True,
    )
    context_window_tokens: int = setting(
        "STEPLINE_CONTEXT_WINDOW_TOKENS",
        200_000,
        "The model's context window, which a request and its answer always fit into.",
        unit="tokens",
        minimum=1,
        or_default=True,
    )
    cache_ttl_s: int = setting(
        "STEPLINE_CACHE_TTL_S",
        300,
        "How long the provider caches a prompt; after that, older turns are shortened. 0: they are never shortened for that reason.",
        unit="s",
        minimum=0,
    )
    keep_recent_turns: int = setting(
        "STEPLINE_KEEP_RECENT_TURNS",
        6,
        "Newest turns, including the open one, that are kept when older ones are shortened.",
        unit="turns",
        minimum=1,
        or_default=True,
    )
    keep_intact_turns: int = setting(
        "STEPLINE_KEEP_INTACT_TURNS",
        2,
        "Newest of these turns that stay complete.",
        unit="turns",
        minimum=1,
        or_default=True,
    )
    cache_minimum_tokens: Mapping[str, int] = setting(
        "STEPLINE_CACHE_MINIMUM_TOKENS",
        {},
        "JSON map from a prefix of a model's name to the shortest prompt that its provider caches; the first match applies, and the built-in values come last.",
        unit="tokens",
        items=int,
    )
    bundle: str = setting(
        "STEPLINE_BUNDLE",
        "bundles.default",
        "Package whose `WORKFLOW` defines the agent ([bundles](../how-to/write-a-bundle.md)).",
    )
    bundles: Mapping[str, BundleChoice] = setting(
        "STEPLINE_BUNDLES",
        {},
        "JSON map from a name to a further bundle, which a conversation's first message may choose: a package, or an object with `module` and its own properties, `props` ([bundles](../how-to/write-a-bundle.md#several-on-one-stage)).",
        items=BundleChoice,
        short="module",
        names=FURTHER_BUNDLE,
    )
    bundle_props: Mapping[str, Any] = setting(
        "STEPLINE_BUNDLE_PROPS",
        {},
        "JSON object: the bundle's properties. `config.react.max_iterations`, then `react.max_iterations`, cap a turn; `multi_action` and `context.max_tokens` at the same places bound a round and its request, `cache_ttl_seconds` is how long the provider caches a prompt, `agent_version` is the agent's version, `context.layout` is the context of a round, and `events.withhold` lists client events that are not sent.",
    )
    assembly: Mapping[str, Any] = setting(
        "STEPLINE_ASSEMBLY",
        {},
        "JSON object: the deployment's assembly. `ai.react.max_iterations` caps a turn, `ai.react.react_agent_multiaction` bounds a round and `ai.react.context.max_tokens` its request, `ai.react.cache_ttl_seconds` is how long the provider caches a prompt, `ai.react.react_agent_version` is the agent's version, `ai.react.context.layout` is the context of a round; the properties override all of these, and `events.withhold` adds to theirs.",
    )
    open_turns: int = setting(
        "STEPLINE_OPEN_TURNS",
        0,
        "Turns of the stage that may have an execution at once; further ones [are queued](../concepts/turn.md#queued-turns). 0: no limit. It follows from the account's concurrency ([deploy](../how-to/deploy.md#how-many-turns-at-once)).",
        unit="turns",
        minimum=0,
        handed_on=False,
    )
    turn_deadline_s: int = setting(
        "STEPLINE_TURN_DEADLINE_S",
        1800,
        "The sweeper stops a turn that runs for longer.",
        unit="s",
        minimum=1,
    )
    steer_poll_ms: int = setting(
        "STEPLINE_STEER_POLL_MS",
        300,
        "Interval at which a running step reads the log for steers.",
        unit="ms",
        minimum=1,
        or_default=True,
    )
    finalize_rounds: int = setting(
        "REACT_STEER_FINALIZE_ROUNDS",
        2,
        "Rounds that a turn has left after the user steered it with a text.",
        unit="rounds",
        minimum=1,
        or_default=True,
    )
    finalize_max_tokens: int = setting(
        "REACT_STEER_FINALIZE_MAX_TOKENS",
        3000,
        "Maximum answer of such a round; a value below 512 counts as 512.",
        unit="tokens",
        minimum=1,
        or_default=True,
    )
    approvals: Mapping[str, str] = setting(
        "STEPLINE_APPROVALS",
        {},
        "Calls that need a person's approval: a JSON object of tool ids, prefixes that end in `*` or `effect:<class>`, each with `always`, "
        "`never` or `first_use` ([ask a person first](../how-to/ask-a-person-first.md)).",
        handed_on=False,
    )
    approval_wait_s: int = setting(
        "STEPLINE_APPROVAL_WAIT_S",
        604_800,
        "How long an answer to such a call may take. 0: forever.",
        unit="s",
        minimum=0,
        handed_on=False,
    )
    event_credit: int = setting(
        "AI_REACT_REACTIVE_EVENT_CREDIT",
        1,
        "Rounds that a reactive event adds to the turn it arrives in. 0 or less: none.",
        unit="rounds",
    )
    redis_url: str = setting(
        "STEPLINE_REDIS_URL",
        "",
        "A Redis that makes steers and servers faster, on a developer's machine: `redis://` or `rediss://`.",
        secret=True,
        handed_on=False,
    )
    redis_secret_arn: str = setting(
        "STEPLINE_REDIS_SECRET_ARN",
        "",
        "Secret that holds its URL in AWS ([Redis](../how-to/redis.md)). Without either setting, everything works without Redis.",
        handed_on=False,
    )
    model_provider: ProviderName = setting(
        "STEPLINE_MODEL_PROVIDER", "anthropic", "Provider of the models.", choices=get_args(ProviderName)
    )
    model_roles: Mapping[str, RoleChoice] = setting(
        "STEPLINE_MODEL_ROLES",
        {},
        "JSON map from role to model id, or to an object with `model`, `thinking`, `effort`, `max_tokens`, `fallback`, `fallback_after_s`, `cache_ttl`, `family` and `fallback_family` ([models](models.md)); `*` means all other roles.",
        items=RoleChoice,
        short="model",
    )
    model_providers: Mapping[str, ModelServer] = setting(
        "STEPLINE_MODEL_PROVIDERS",
        {},
        "JSON map from the name of a further provider to its address, or to an object with `wire`, `base_url`, `secret_arn`, `headers`, `private`, `window_tokens`, `takes` and `prices` ([providers](models.md#providers)); a role names its models as `name:model`.",
        items=ModelServer,
        short="base_url",
        names=PROVIDER_NAME,
    )
    model_secret_arn: str = setting(
        "STEPLINE_MODEL_SECRET_ARN", "", "Secret that holds the provider's key in AWS."
    )
    anthropic_api_key: str = setting(
        "ANTHROPIC_API_KEY", "", "The provider's key, on a developer's machine.", secret=True
    )
    anthropic_base_url: str = setting(
        "ANTHROPIC_BASE_URL", "", "Another server that speaks the Messages API."
    )
    openai_api_key: str = setting(
        "OPENAI_API_KEY", "", "The key of the provider `openai`, on a developer's machine.", secret=True
    )
    openai_base_url: str = setting(
        "OPENAI_BASE_URL",
        "",
        "Another server that speaks chat completions, such as `http://127.0.0.1:11434/v1`.",
    )
    read_visible_max_chars: int = setting(
        "AI_REACT_READ_VISIBLE_MAX_TEXT_SYMBOLS",
        48_000,
        "Text of one `react.read` that the model sees.",
        unit="characters",
        minimum=1,
    )
    read_visible_max_tokens: int = setting(
        "AI_REACT_READ_VISIBLE_MAX_TOKENS",
        12_000,
        "Text of one `react.read` that the model sees, estimated.",
        unit="tokens",
        minimum=1,
    )
    read_visible_max_bytes: int = setting(
        "AI_REACT_READ_VISIBLE_MAX_BYTES",
        10_485_760,
        "Largest file that `react.read` shows.",
        unit="bytes",
        minimum=1,
    )
    read_visible_context_fraction: float = setting(
        "AI_REACT_READ_VISIBLE_CONTEXT_FRACTION",
        0.15,
        "Share of a request that one `react.read` may fill.",
        minimum=0,
        maximum=1,
    )
    max_image_bytes: int = setting(
        "MODALITY_MAX_IMAGE_BYTES",
        5_242_880,
        "Largest picture that may be uploaded, and its largest size in a request, in base64; `react.read` scales a larger one down.",
        unit="bytes",
        minimum=1,
    )
    max_doc_bytes: int = setting(
        "MODALITY_MAX_DOC_BYTES",
        10_485_760,
        "Largest PDF that may be uploaded, and that `react.read` attaches.",
        unit="bytes",
        minimum=1,
    )
    message_max_bytes: int = setting(
        "MESSAGE_MAX_BYTES",
        26_214_400,
        "Maximum size of a message with its text and attachments, and so of an uploaded file.",
        unit="bytes",
        minimum=1,
        maximum=26_214_400,
        handed_on=False,
    )
    message_max_chars: int = setting(
        "CHAT_MAX_MESSAGE_CHARS",
        32_000,
        "Longest text of a message. A client uploads a longer one, and attaches it.",
        unit="characters",
        minimum=1,
        maximum=32_768,
        handed_on=False,
    )
    av_scan: AvScan = setting(
        "APP_AV_SCAN",
        "none",
        "The scanner that uploads must pass: `clamd` (or `1`), ClamAV's daemon; `guardduty`, the account's malware protection; `none` (or `0`). If the scanner does not answer, every file is refused.",
        choices=AV_SCANS,
        handed_on=False,
    )
    av_timeout_s: float = setting(
        "APP_AV_TIMEOUT_S",
        30.0,
        "How long each step of a scan may take.",
        unit="s",
        minimum=0.1,
        handed_on=False,
    )
    clamav_host: str = setting(
        "CLAMAV_HOST",
        "",
        "Host of ClamAV's daemon, or the path of its unix socket.",
        handed_on=False,
    )
    clamav_port: int = setting("CLAMAV_PORT", 3310, "Its port.", minimum=1, maximum=65_535, handed_on=False)
    workspace: WorkspaceMode = setting(
        "AI_REACT_WORKSPACE",
        "custom",
        "How a conversation's project, its `files/`, is kept: `custom`, only in the log; `git`, also as a history with a commit for each turn that ends well ([versions](../concepts/timeline.md#versions)).",
        choices=get_args(WorkspaceMode),
    )
    search_provider: SearchProvider = setting(
        "STEPLINE_SEARCH_PROVIDER",
        "collection",
        "The engine of `web_tools.web_search` ([engines](../concepts/sources.md#search-engines)): `collection`, a collection of documents, without a network; `brave` and `tavily`, with a key; `searxng`, with an address.",
        choices=get_args(SearchProvider),
    )
    search_url: str = setting(
        "STEPLINE_SEARCH_URL",
        "",
        "Address of the instance of SearXNG, or of another server that speaks the API of Brave or Tavily.",
    )
    search_secret_arn: str = setting(
        "STEPLINE_SEARCH_SECRET_ARN",
        "",
        "Secret that holds the key of Brave or Tavily in AWS. Without it, the key is the descriptors' secret `search.api_key`.",
    )
    search_api_key: str = setting(
        "STEPLINE_SEARCH_API_KEY", "", "That key, on a developer's machine.", secret=True
    )
    search_corpus: str = setting(
        "STEPLINE_SEARCH_CORPUS",
        "",
        "File of JSON lines, or folder with `*.jsonl`, that `web_tools.web_search` searches if its engine is `collection`. Empty: the library's built-in collection.",
    )
    mcp_timeout_s: int = setting(
        "STEPLINE_MCP_TIMEOUT_S",
        60,
        "How long a call of a tool of an MCP server may take, unless its row says otherwise; at most 600 ([MCP](../how-to/connect-an-mcp-server.md)).",
        unit="s",
        minimum=1,
        handed_on=False,
    )
    mcp_list_ttl_s: int = setting(
        "STEPLINE_MCP_LIST_TTL_S",
        3600,
        "How long the tool list of an MCP server is valid; a server may set a shorter time.",
        unit="s",
        minimum=0,
        handed_on=False,
    )
    mcp_task_s: int = setting(
        "STEPLINE_MCP_TASK_S",
        1200,
        "How long a call that an MCP server runs as a task may take before it is cancelled. It also ends a minute before the turn's deadline ([MCP](../how-to/connect-an-mcp-server.md#long-calls)).",
        unit="s",
        minimum=1,
        handed_on=False,
    )
    tracing: Tracing = setting(
        "STEPLINE_TRACING",
        "off",
        "Traces of turns ([trace a turn](../how-to/trace-a-turn.md)): `on`, without texts; `text`, with the texts sent to the model and to tools, and their answers.",
        choices=get_args(Tracing),
        handed_on=False,
    )
    otlp_endpoint: str = setting(
        "OTEL_EXPORTER_OTLP_ENDPOINT",
        "",
        "OTLP server over HTTP that accepts traces, below `/v1/traces`. Empty: X-Ray of the region, with the function's role.",
        handed_on=False,
    )
    otlp_headers: str = setting(
        "OTEL_EXPORTER_OTLP_HEADERS",
        "",
        "Headers for that server, `name=value,name=value`, on a developer's machine.",
        secret=True,
        handed_on=False,
    )
    otlp_secret_arn: str = setting(
        "STEPLINE_OTLP_SECRET_ARN", "", "Secret that holds those headers in AWS.", handed_on=False
    )
    otlp_timeout_ms: int = setting(
        "OTEL_EXPORTER_OTLP_TIMEOUT",
        1000,
        "Maximum delay of a step by sending its spans.",
        unit="ms",
        minimum=1,
        handed_on=False,
    )
    memory_bucket_arn: str = setting(
        "STEPLINE_MEMORY_BUCKET_ARN",
        "",
        "Vector bucket of Amazon S3 Vectors that keeps the index of memory ([vectors](../how-to/memory-on-s3-vectors.md)).",
        handed_on=False,
    )
    exec_mode: ExecMode = setting(
        "EXEC_RUNTIME_MODE",
        "none",
        "Where programs run, unless `execution.runtime` sets it. `local` is `process`, `external` is `fargate`.",
        choices=EXEC_MODES,
    )
    exec_image: str = setting("PY_CODE_EXEC_IMAGE", "py-code-exec:latest", "Image of mode `docker`.")
    exec_timeout_s: int = setting(
        "PY_CODE_EXEC_TIMEOUT", 600, "Maximum run time of a program.", unit="s", minimum=1
    )
    exec_network_mode: str = setting(
        "PY_CODE_EXEC_NETWORK_MODE", "host", "Docker network of the supervisor only."
    )
    exec_strategy: ContainerStrategy = setting(
        "PY_CODE_EXEC_CONTAINER_STRATEGY",
        "split",
        "Containers of mode `docker`: supervisor and program in two, or combined in one.",
        choices=get_args(ContainerStrategy),
    )
    exec_python: str = setting("STEPLINE_EXEC_PYTHON", "", "Interpreter of programs in mode `process`.")
    exec_home: str = setting("STEPLINE_EXEC_HOME", "", "Folder that holds the package `executor`.")
    exec_packages: tuple[str, ...] = setting(
        "STEPLINE_EXEC_PACKAGES", (), "Packages that programs may import, separated by commas."
    )
    exec_text_preview_max_chars: int = setting(
        "AI_REACT_EXEC_TEXT_PREVIEW_MAX_SYMBOLS",
        8_000,
        "Part of a text file written by a program that the model sees.",
        unit="characters",
        minimum=0,
    )
    fargate_cluster: str = setting("FARGATE_CLUSTER", "", "Cluster of mode `fargate`.")
    fargate_task_definition: str = setting("FARGATE_TASK_DEFINITION", "", "Family of its tasks.")
    fargate_container_name: str = setting(
        "FARGATE_CONTAINER_NAME", "supervisor", "Container that executes the run."
    )
    fargate_subnets: tuple[str, ...] = setting(
        "FARGATE_SUBNETS", (), "Subnets of its tasks, separated by commas."
    )
    fargate_security_groups: tuple[str, ...] = setting(
        "FARGATE_SECURITY_GROUPS", (), "Security groups, separated by commas."
    )
    fargate_assign_public_ip: Switch = setting(
        "FARGATE_ASSIGN_PUBLIC_IP",
        "ENABLED",
        "Whether tasks get a public address; without one, a task in a public subnet has no network access.",
        choices=get_args(Switch),
    )
    fargate_platform_version: str = setting(
        "FARGATE_PLATFORM_VERSION", "LATEST", "Platform version of its tasks."
    )
    fargate_memory_mib: int = setting(
        "FARGATE_MEMORY_MIB", 2048, "Memory of its tasks, for receipts.", unit="MiB", minimum=0
    )
    fargate_cpu_units: int = setting(
        "FARGATE_CPU_UNITS", 1024, "Processors of its tasks, 1,024 each, for receipts.", minimum=0
    )
    fargate_kms_key_arn: str = setting(
        "FARGATE_KMS_KEY_ARN",
        "",
        "Key of the secrets that hand runs over to its tasks; empty: that of Secrets Manager.",
    )
    descriptors_dir: str = setting(
        "PLATFORM_DESCRIPTORS_DIR",
        "",
        "Folder with the five descriptors. In AWS it is in the function's package and has [no secrets](../how-to/deploy.md#settings-and-secrets-of-a-bundle).",
    )
    descriptor_payload_scope: DescriptorScope = setting(
        "EXEC_DESCRIPTOR_PAYLOAD_SCOPE",
        "active_bundle",
        "Bundles whose descriptors go to a supervisor in another process.",
        choices=get_args(DescriptorScope),
    )

    def __repr__(self) -> str:
        return f"Settings({', '.join(f'{field}={self._shown(field)}' for field in TABLE)})"

    def _shown(self, field: str) -> str:
        value = getattr(self, field)
        return "…" if TABLE[field].secret and value else repr(value)

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> Settings:
        """Read every setting from a process environment. Raises InputError `bad_setting` with the variable's name."""
        return cls(**{field: row.parse(environ.get(row.variable, "")) for field, row in TABLE.items()})


TABLE: Final[Mapping[str, Setting]] = dict(zip(Settings.__struct_fields__, _DECLARED, strict=True))
"""Each field of `Settings` with its declaration."""

AWS_VARIABLES: Final = (
    *("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL"),
    *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"),
)


def handed_on(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables for a supervisor in another process: our settings, and access to AWS. Secret."""
    wanted = {*(row.variable for row in TABLE.values() if row.handed_on), *AWS_VARIABLES}
    return {name: environ[name] for name in sorted(wanted & environ.keys())}


def env(**fields: Any) -> dict[str, str]:
    """Return the variables that carry these fields to a function. Raises TypeError on an unknown field."""
    if unknown := sorted(fields.keys() - TABLE.keys()):
        raise TypeError(f"no such setting: {', '.join(unknown)}")
    return {TABLE[field].variable: print_value(value) for field, value in fields.items()}


def print_value(value: Any) -> str:
    """Return a value as the text of its variable."""
    match value:
        case str():
            return value
        case Mapping():
            return json.dumps(msgspec.to_builtins(value), sort_keys=True)
        case list() | tuple():
            return ",".join(str(item) for item in value)
        case _:
            return str(value)


PACKAGED_DESCRIPTORS: Final = "descriptors"
"""The folder of a function's package that holds the descriptors."""
PACKAGED: Final = "@"
"""Before the path of a file in a function's package that holds the text of a variable: Lambda takes 4 KB of variables."""


def read_packaged(environ: Mapping[str, str], package: Path) -> dict[str, str]:
    """Return the variables with the texts of the files that they name, and with the descriptors' folder as a whole path.

    `package` is the folder of the function's code. Raises InputError `bad_setting`: it has no such file.
    """
    read = dict(environ)
    for row in TABLE.values():
        text = environ.get(row.variable, "")
        if isinstance(row.default, Mapping) and text.startswith(PACKAGED):
            try:
                read[row.variable] = (package / text.removeprefix(PACKAGED)).read_text(encoding="utf-8")
            except OSError as error:
                raise InputError(
                    f"{row.variable} names no file of the package", code="bad_setting"
                ) from error
    folder = TABLE["descriptors_dir"].variable
    if environ.get(folder) == PACKAGED_DESCRIPTORS:
        read[folder] = str(package / PACKAGED_DESCRIPTORS)
    return read
