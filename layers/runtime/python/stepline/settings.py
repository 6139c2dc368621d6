"""Every setting there is; nothing else reads the environment.

`TABLE` is the reference (docs/reference/settings.md comes from it). Functions read with `Settings.from_env`,
stacks write with `env`, which refuses a name that no function reads.

The table of settings: what each is called, what it is by default, and what it means. `settings` reads it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple, TypeVar, get_args

from stepline.errors import InputError
from stepline.model.base import Value
from stepline.model.decision import FANOUT_MODES, FanoutMode
from stepline.model.program.execution import MODES, Mode, Scope, Strategy, Switch
from stepline.model.version import VERSIONS, AgentVersion


class Setting(NamedTuple):
    """One row: the field of `Settings`, the variable it is read from, its default as text, and what it means."""

    field: str
    variable: str
    default: str
    doc: str


TABLE: Final = (
    Setting("stage", "STEPLINE_STAGE", "dev", "Name of the deployment; `local` is the emulator's."),
    Setting("table", "STEPLINE_TABLE", "", "The DynamoDB table."),
    Setting("bucket", "STEPLINE_BUCKET", "", "The artifacts bucket."),
    Setting("machine_arn", "STEPLINE_MACHINE_ARN", "", "The state machine that runs turns."),
    Setting("callback_url", "STEPLINE_CALLBACK_URL", "", "Where frames are posted to connections."),
    Setting(
        "oidc_issuer", "STEPLINE_OIDC_ISSUER", "", "Issuer of the tokens we accept; none, none accepted."
    ),
    Setting("oidc_audience", "STEPLINE_OIDC_AUDIENCE", "stepline", "`aud` that a token must carry."),
    Setting(
        "oidc_jwks_url", "STEPLINE_OIDC_JWKS_URL", "", "Key set of the issuer; empty: discovered from it."
    ),
    Setting(
        "tenant_claim",
        "STEPLINE_TENANT_CLAIM",
        "tenant",
        "Claim that names the user's tenant; of a list, its one item `tenant:<name>` does.",
    ),
    Setting(
        "project_claim",
        "STEPLINE_PROJECT_CLAIM",
        "project",
        "Claim that names the user's project; of a list, its one item `project:<name>` does.",
    ),
    Setting("socket_url", "STEPLINE_SOCKET_URL", "", "Where a websocket is opened with a ticket."),
    Setting(
        "user_messages_per_minute",
        "STEPLINE_USER_MESSAGES_PER_MINUTE",
        "60",
        "Messages one user may send in a minute, over all connections; 0: as many as the stage's throttle lets through.",
    ),
    Setting(
        "allowed_origins",
        "STEPLINE_ALLOWED_ORIGINS",
        "",
        "Origins a browser may connect from, separated by commas. A client without an Origin header is no "
        "browser and passes; one with a foreign Origin never does.",
    ),
    Setting(
        "max_iterations",
        "AI_REACT_MAX_ITERATIONS",
        "15",
        "Rounds a turn may take, where neither the bundle's properties nor the assembly say; not positive: 15.",
    ),
    Setting(
        "multi_action",
        "AI_REACT_AGENT_MULTI_ACTION",
        "off",
        "Whether a round may take several actions, where neither the bundle's properties nor the assembly say: `off`; "
        "`safe_fanout` (or `fanout`, `on`, `true`, `1`, `yes`), those that cannot depend on each other; `classic`, by name.",
    ),
    Setting(
        "max_actions_per_round",
        "STEPLINE_MAX_ACTIONS_PER_ROUND",
        "8",
        "Actions of one round at most, where it may take several; not positive: 8.",
    ),
    Setting(
        "protocol",
        "STEPLINE_PROTOCOL",
        "strict",
        "`strict`: a generation that does not begin with its thinking is ended and tried again, and no call runs whose "
        "JSON had to be mended. `tolerant`: both count, with a notice.",
    ),
    Setting(
        "agent_version",
        "AI_REACT_AGENT_VERSION",
        "v3",
        "Where neither the bundle's properties nor the assembly say: `v3`; `v2`, in which a gate names a new conversation "
        "before its first round, a round takes one action whatever else is said, and the instructions are its own.",
    ),
    Setting(
        "context_max_tokens",
        "AI_REACT_CONTEXT_MAX_TOKENS",
        "80000",
        "Tokens of a request at most, estimated, where neither the bundle's properties nor the assembly say; before "
        "there are more the context is shortened. Not positive: 80000.",
    ),
    Setting(
        "context_window_tokens",
        "STEPLINE_CONTEXT_WINDOW_TOKENS",
        "200000",
        "The model's context window; a request and its answer fit into it, whatever else is said.",
    ),
    Setting(
        "cache_ttl_s",
        "STEPLINE_CACHE_TTL_S",
        "300",
        "How long the provider keeps a prompt; after that, older turns are shortened. 0: never for that reason.",
    ),
    Setting(
        "keep_recent_turns",
        "STEPLINE_KEEP_RECENT_TURNS",
        "6",
        "Newest turns, the open one among them, that stay turns when older ones are shortened; not positive: 6.",
    ),
    Setting(
        "keep_intact_turns",
        "STEPLINE_KEEP_INTACT_TURNS",
        "2",
        "The newest of them that nothing is taken from; not positive: 2.",
    ),
    Setting(
        "cache_minimum_tokens",
        "STEPLINE_CACHE_MINIMUM_TOKENS",
        "{}",
        "JSON map from the beginning of a model's name to the shortest prompt that its provider keeps; the first that "
        "fits counts, the built-in ones last.",
    ),
    Setting(
        "bundle",
        "STEPLINE_BUNDLE",
        "bundles.default",
        "Package whose `WORKFLOW` says what the agent is made of ([bundles](../how-to/write-a-bundle.md)).",
    ),
    Setting(
        "bundle_props",
        "STEPLINE_BUNDLE_PROPS",
        "{}",
        "JSON object: the bundle's properties. `config.react.max_iterations`, then `react.max_iterations`, cap a turn; "
        "`multi_action` and `context.max_tokens` at the same places bound a round and its request, `agent_version` is the "
        "agent's, and `events.withhold` lists client events that do not leave.",
    ),
    Setting(
        "assembly",
        "STEPLINE_ASSEMBLY",
        "{}",
        "JSON object: the deployment's assembly. `ai.react.max_iterations` caps a turn, "
        "`ai.react.react_agent_multiaction` bounds a round and `ai.react.context.max_tokens` its request, "
        "`ai.react.react_agent_version` is the agent's, all after the properties; `events.withhold` adds to theirs.",
    ),
    Setting(
        "turn_deadline_s",
        "STEPLINE_TURN_DEADLINE_S",
        "1800",
        "The sweeper stops a turn that runs for longer.",
    ),
    Setting(
        "steer_poll_ms",
        "STEPLINE_STEER_POLL_MS",
        "300",
        "How often a running step looks in the log whether the user steers; not positive: 300.",
    ),
    Setting(
        "finalize_rounds",
        "REACT_STEER_FINALIZE_ROUNDS",
        "2",
        "Rounds that a turn has left to come to an end once the user steered with a text; not positive: 2.",
    ),
    Setting(
        "finalize_max_tokens",
        "REACT_STEER_FINALIZE_MAX_TOKENS",
        "3000",
        "Tokens of an answer of such a round at most, and 512 at least; not positive: 3000.",
    ),
    Setting(
        "event_credit",
        "AI_REACT_REACTIVE_EVENT_CREDIT",
        "1",
        "Rounds that a reactive event adds to the turn it arrives in; 0 or less: none.",
    ),
    Setting(
        "redis_url",
        "STEPLINE_REDIS_URL",
        "",
        "A Redis that makes steers and servers faster, on a developer's machine: `redis://` or `rediss://`. Secret.",
    ),
    Setting(
        "redis_secret_arn",
        "STEPLINE_REDIS_SECRET_ARN",
        "",
        "Secret that holds its URL in AWS ([Redis](../how-to/redis.md)); neither: everything works without one.",
    ),
    Setting("model_provider", "STEPLINE_MODEL_PROVIDER", "anthropic", "`anthropic` or `bedrock`."),
    Setting(
        "model_roles", "STEPLINE_MODEL_ROLES", "{}", "JSON map from role to model id; the rest by default."
    ),
    Setting(
        "model_secret_arn", "STEPLINE_MODEL_SECRET_ARN", "", "Secret that holds the provider's key in AWS."
    ),
    Setting("anthropic_api_key", "ANTHROPIC_API_KEY", "", "The provider's key, on a developer's machine."),
    Setting("anthropic_base_url", "ANTHROPIC_BASE_URL", "", "Another server that speaks the Messages API."),
    Setting(
        "read_visible_max_chars",
        "AI_REACT_READ_VISIBLE_MAX_TEXT_SYMBOLS",
        "48000",
        "Characters of one `react.read` that the model sees.",
    ),
    Setting(
        "read_visible_max_tokens",
        "AI_REACT_READ_VISIBLE_MAX_TOKENS",
        "12000",
        "Estimated tokens of one `react.read` that the model sees.",
    ),
    Setting(
        "read_visible_max_bytes",
        "AI_REACT_READ_VISIBLE_MAX_BYTES",
        "10485760",
        "Bytes of a file that `react.read` shows at all.",
    ),
    Setting(
        "read_visible_context_fraction",
        "AI_REACT_READ_VISIBLE_CONTEXT_FRACTION",
        "0.15",
        "Share of a request that one `react.read` may fill.",
    ),
    Setting(
        "search_corpus",
        "STEPLINE_SEARCH_CORPUS",
        "",
        "File of JSON lines, or folder with `*.jsonl`, in which `web_tools.web_search` searches; empty: the collection "
        "that comes with the library.",
    ),
    Setting(
        "exec_mode",
        "EXEC_RUNTIME_MODE",
        "none",
        "Where programs run, if `execution.runtime` does not say: `none`, `process`, `docker` or `fargate`.",
    ),
    Setting("exec_image", "PY_CODE_EXEC_IMAGE", "py-code-exec:latest", "Image of mode `docker`."),
    Setting("exec_timeout_s", "PY_CODE_EXEC_TIMEOUT", "600", "Seconds a program may run at most."),
    Setting(
        "exec_network_mode", "PY_CODE_EXEC_NETWORK_MODE", "host", "Docker network of the supervisor alone."
    ),
    Setting("exec_strategy", "PY_CODE_EXEC_CONTAINER_STRATEGY", "split", "`split` or `combined`."),
    Setting("exec_python", "STEPLINE_EXEC_PYTHON", "", "Interpreter of programs in mode `process`."),
    Setting("exec_home", "STEPLINE_EXEC_HOME", "", "Folder that holds the package `executor`."),
    Setting("exec_packages", "STEPLINE_EXEC_PACKAGES", "", "Packages that programs may import, by commas."),
    Setting(
        "exec_text_preview_max_chars",
        "AI_REACT_EXEC_TEXT_PREVIEW_MAX_SYMBOLS",
        "8000",
        "Characters of a text file that a program wrote which the model sees.",
    ),
    Setting("fargate_cluster", "FARGATE_CLUSTER", "", "Cluster of mode `fargate`."),
    Setting("fargate_task_definition", "FARGATE_TASK_DEFINITION", "", "Family of its tasks."),
    Setting(
        "fargate_container_name", "FARGATE_CONTAINER_NAME", "supervisor", "Container that takes the run."
    ),
    Setting("fargate_subnets", "FARGATE_SUBNETS", "", "Subnets of its tasks, separated by commas."),
    Setting(
        "fargate_security_groups", "FARGATE_SECURITY_GROUPS", "", "Security groups, separated by commas."
    ),
    Setting(
        "fargate_assign_public_ip",
        "FARGATE_ASSIGN_PUBLIC_IP",
        "ENABLED",
        "`ENABLED` or `DISABLED`: a public address, without which a public subnet leads nowhere.",
    ),
    Setting(
        "fargate_platform_version", "FARGATE_PLATFORM_VERSION", "LATEST", "Platform version of its tasks."
    ),
    Setting("descriptors_dir", "PLATFORM_DESCRIPTORS_DIR", "", "Folder with the five descriptors."),
    Setting(
        "descriptor_payload_scope",
        "EXEC_DESCRIPTOR_PAYLOAD_SCOPE",
        "active_bundle",
        "Bundles whose descriptors go to a supervisor elsewhere: `active_bundle` or `all`.",
    ),
)


ModelProvider = Literal["anthropic", "bedrock"]
Protocol = Literal["strict", "tolerant"]
N = TypeVar("N", int, float)

_COUNTS: Final = (
    *("_s", "_ms", "_bytes", "_chars", "_tokens", "_rounds", "_iterations", "_turns", "_credit"),
    *("_per_minute", "_per_round"),
)
_CHOICES: Final[Mapping[str, Mapping[str, str]]] = {
    "model_provider": {name: name for name in get_args(ModelProvider)},
    "multi_action": FANOUT_MODES,
    "protocol": {name: name for name in get_args(Protocol)},
    "agent_version": {name: name for name in VERSIONS},
    "exec_mode": MODES,
    "exec_strategy": {name: name for name in get_args(Strategy)},
    "descriptor_payload_scope": {name: name for name in get_args(Scope)},
    "fargate_assign_public_ip": {name: name for name in get_args(Switch)},
}
"""Fields with few values: each word that is understood, and the value it stands for."""
_ITEMS: Final[Mapping[str, tuple[type, str]]] = {
    "model_roles": (str, "role to model"),
    "cache_minimum_tokens": (int, "model to tokens"),
}
"""Fields that are JSON objects of one kind of items, and what that is."""


SECRETS: Final = frozenset({"anthropic_api_key", "redis_url"})
"""Fields that are not shown when settings are printed."""
OURS_ALONE: Final = frozenset({"redis_url", "redis_secret_arn"})
"""Fields that a supervisor in another process has no use for."""


class Settings(Value):
    """What a deployment decides for the code; `TABLE` says what each field means."""

    stage: str
    table: str
    bucket: str
    machine_arn: str
    callback_url: str
    oidc_issuer: str
    oidc_audience: str
    oidc_jwks_url: str
    tenant_claim: str
    project_claim: str
    socket_url: str
    user_messages_per_minute: int
    allowed_origins: tuple[str, ...]
    max_iterations: int
    multi_action: FanoutMode
    max_actions_per_round: int
    protocol: Protocol
    agent_version: AgentVersion
    context_max_tokens: int
    context_window_tokens: int
    cache_ttl_s: int
    keep_recent_turns: int
    keep_intact_turns: int
    cache_minimum_tokens: Mapping[str, int]
    bundle: str
    bundle_props: Mapping[str, Any]
    assembly: Mapping[str, Any]
    turn_deadline_s: int
    steer_poll_ms: int
    finalize_rounds: int
    finalize_max_tokens: int
    event_credit: int
    redis_url: str
    redis_secret_arn: str
    model_provider: ModelProvider
    model_roles: Mapping[str, str]
    model_secret_arn: str
    anthropic_api_key: str
    anthropic_base_url: str
    read_visible_max_chars: int
    read_visible_max_tokens: int
    read_visible_max_bytes: int
    read_visible_context_fraction: float
    search_corpus: str
    exec_mode: Mode
    exec_image: str
    exec_timeout_s: int
    exec_network_mode: str
    exec_strategy: Strategy
    exec_python: str
    exec_home: str
    exec_packages: tuple[str, ...]
    exec_text_preview_max_chars: int
    fargate_cluster: str
    fargate_task_definition: str
    fargate_container_name: str
    fargate_subnets: tuple[str, ...]
    fargate_security_groups: tuple[str, ...]
    fargate_assign_public_ip: Switch
    fargate_platform_version: str
    descriptors_dir: str
    descriptor_payload_scope: Scope

    def __repr__(self) -> str:
        shown = (f"{row.field}={self._shown(row.field)}" for row in TABLE)
        return f"Settings({', '.join(shown)})"

    def _shown(self, field: str) -> str:
        value = getattr(self, field)
        return "…" if field in SECRETS and value else repr(value)

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> Settings:
        """Read every setting from a process environment. Raises InputError that names the bad variable."""
        values = {row.field: _parse(row, environ.get(row.variable) or row.default) for row in TABLE}
        return cls(**values)


AWS_VARIABLES: Final = (
    *("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL"),
    *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"),
)


def handed_on(environ: Mapping[str, str]) -> dict[str, str]:
    """Return what a supervisor in another process needs of an environment: our settings, and a way to AWS. Secret."""
    ours = (row.variable for row in TABLE if row.field not in OURS_ALONE)
    wanted = {*ours, *AWS_VARIABLES}
    return {name: environ[name] for name in sorted(wanted & environ.keys())}


def env(**fields: Any) -> dict[str, str]:
    """Return the variables that carry these fields to a function. Raises TypeError on an unknown field."""
    rows = {row.field: row for row in TABLE}
    unknown = sorted(fields.keys() - rows.keys())
    if unknown:
        raise TypeError(f"no such setting: {', '.join(unknown)}")
    return {rows[field].variable: _print(value) for field, value in fields.items()}


def _parse(row: Setting, text: str) -> Any:
    if choices := _CHOICES.get(row.field):
        return _chosen(row, text, choices)
    match row.field:
        case "allowed_origins" | "exec_packages" | "fargate_subnets" | "fargate_security_groups":
            return tuple(item.strip() for item in text.split(",") if item.strip())
        case "read_visible_context_fraction":
            return _number(row, text, float)
        case "bundle_props" | "assembly" | "model_roles" | "cache_minimum_tokens":
            return _object(row, text)
        case field:
            return _number(row, text, int) if field.endswith(_COUNTS) else text


def _number(row: Setting, text: str, kind: type[N]) -> N:
    try:
        return kind(text)
    except ValueError as error:
        raise InputError(f"{row.variable} is not a number", code="bad_setting") from error


def _chosen(row: Setting, text: str, choices: Mapping[str, str]) -> str:
    if text not in choices:
        raise InputError(f"{row.variable} is none of {', '.join(choices)}", code="bad_setting")
    return choices[text]


def _object(row: Setting, text: str) -> dict[str, Any]:
    try:
        read = json.loads(text)
    except ValueError as error:
        raise InputError(f"{row.variable} is not JSON", code="bad_setting") from error
    if not isinstance(read, dict):
        raise InputError(f"{row.variable} is not a JSON object", code="bad_setting")
    kind, words = _ITEMS.get(row.field, (object, ""))
    if not all(isinstance(item, kind) for item in read.values()):
        raise InputError(f"{row.variable} is not a map from {words}", code="bad_setting")
    return read


def _print(value: Any) -> str:
    match value:
        case str():
            return value
        case Mapping():
            return json.dumps(dict(value), sort_keys=True)
        case list() | tuple():
            return ",".join(str(item) for item in value)
        case _:
            return str(value)
