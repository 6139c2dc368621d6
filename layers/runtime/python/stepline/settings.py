"""Every setting there is, in one table; nothing else reads the environment.

`TABLE` is the reference (docs/reference/settings.md comes from it). Functions read with `Settings.from_env`,
stacks write with `env`, which refuses a name that no function reads.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple, TypeVar, get_args

from stepline.errors import InputError
from stepline.model.base import Value

ModelProvider = Literal["anthropic", "bedrock"]
N = TypeVar("N", int, float)


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
    Setting("tenant_claim", "STEPLINE_TENANT_CLAIM", "tenant", "Claim that names the user's tenant."),
    Setting("project_claim", "STEPLINE_PROJECT_CLAIM", "project", "Claim that names the user's project."),
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
        "bundle_props",
        "STEPLINE_BUNDLE_PROPS",
        "{}",
        "JSON object: the bundle's properties. `config.react.max_iterations`, then `react.max_iterations`, cap a turn.",
    ),
    Setting(
        "assembly",
        "STEPLINE_ASSEMBLY",
        "{}",
        "JSON object: the deployment's assembly. `ai.react.max_iterations` caps a turn, after the properties.",
    ),
    Setting(
        "turn_deadline_s",
        "STEPLINE_TURN_DEADLINE_S",
        "1800",
        "The sweeper stops a turn that runs for longer.",
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
        "Share of the model's window one `react.read` may fill.",
    ),
)

_COUNTS: Final = ("_s", "_bytes", "_chars", "_tokens")


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
    allowed_origins: tuple[str, ...]
    max_iterations: int
    bundle_props: Mapping[str, Any]
    assembly: Mapping[str, Any]
    turn_deadline_s: int
    model_provider: ModelProvider
    model_roles: Mapping[str, str]
    model_secret_arn: str
    anthropic_api_key: str
    anthropic_base_url: str
    read_visible_max_chars: int
    read_visible_max_tokens: int
    read_visible_max_bytes: int
    read_visible_context_fraction: float

    @classmethod
    def from_env(cls, environ: Mapping[str, str]) -> Settings:
        """Read every setting from a process environment. Raises InputError that names the bad variable."""
        values = {row.field: _parse(row, environ.get(row.variable) or row.default) for row in TABLE}
        return cls(**values)


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
            "Generated from `stepline/settings.py`; a test keeps it in step. An empty variable counts as absent.",
            "",
            "| variable | default | meaning |",
            "|---|---|---|",
            *rows,
            "",
        ]
    )


def _parse(row: Setting, text: str) -> Any:  # noqa: PLR0911 - one branch a kind of value
    match row.field:
        case "allowed_origins":
            return tuple(origin.strip() for origin in text.split(",") if origin.strip())
        case "model_provider":
            return _provider(row, text)
        case "model_roles":
            return _roles(row, text)
        case "read_visible_context_fraction":
            return _number(row, text, float)
        case "max_iterations":
            return _number(row, text, int)
        case "bundle_props" | "assembly":
            return _object(row, text)
        case field:
            return _number(row, text, int) if field.endswith(_COUNTS) else text


def _number(row: Setting, text: str, kind: type[N]) -> N:
    try:
        return kind(text)
    except ValueError as error:
        raise InputError(f"{row.variable} is not a number", code="bad_setting") from error


def _provider(row: Setting, text: str) -> str:
    if text not in get_args(ModelProvider):
        raise InputError(f"{row.variable} is none of {get_args(ModelProvider)}", code="bad_setting")
    return text


def _object(row: Setting, text: str) -> dict[str, Any]:
    try:
        read = json.loads(text)
    except ValueError as error:
        raise InputError(f"{row.variable} is not JSON", code="bad_setting") from error
    if not isinstance(read, dict):
        raise InputError(f"{row.variable} is not a JSON object", code="bad_setting")
    return read


def _roles(row: Setting, text: str) -> dict[str, str]:
    roles = _object(row, text)
    if not all(isinstance(model, str) for model in roles.values()):
        raise InputError(f"{row.variable} is not a map from role to model", code="bad_setting")
    return roles


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
