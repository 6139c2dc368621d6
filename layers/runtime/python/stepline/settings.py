"""Every setting there is; nothing else reads the environment.

`setting_table.TABLE` is the reference (docs/reference/settings.md comes from it). Functions read with `Settings.from_env`,
stacks write with `env`, which refuses a name that no function reads.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, Literal, TypeVar, get_args

from stepline.errors import InputError
from stepline.model.base import Value
from stepline.model.decision import FANOUT_MODES, FanoutMode
from stepline.model.program.execution import MODES, Mode, Scope, Strategy, Switch
from stepline.model.version import VERSIONS, AgentVersion
from stepline.setting_table import TABLE, Setting

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


def render_reference() -> str:
    """Return docs/reference/settings.md."""
    rows = [
        f"| `{row.variable}` | {f'`{row.default}`' if row.default else 'none'} | {row.doc} |" for row in TABLE
    ]
    return "\n".join(
        [
            "# Settings",
            "",
            "Generated from `stepline/setting_table.py`; a test keeps it in step. An empty variable counts as absent.",
            "",
            "| variable | default | meaning |",
            "|---|---|---|",
            *rows,
            "",
        ]
    )


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
