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
from stepline.model.execution import MODES, Mode, Scope, Strategy

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
    Setting("descriptors_dir", "PLATFORM_DESCRIPTORS_DIR", "", "Folder with the five descriptors."),
    Setting(
        "descriptor_payload_scope",
        "EXEC_DESCRIPTOR_PAYLOAD_SCOPE",
        "active_bundle",
        "Bundles whose descriptors go to a supervisor elsewhere: `active_bundle` or `all`.",
    ),
)

_COUNTS: Final = ("_s", "_bytes", "_chars", "_tokens", "_iterations")
_CHOICES: Final[Mapping[str, Mapping[str, str]]] = {
    "model_provider": {name: name for name in get_args(ModelProvider)},
    "exec_mode": MODES,
    "exec_strategy": {name: name for name in get_args(Strategy)},
    "descriptor_payload_scope": {name: name for name in get_args(Scope)},
}
"""Fields with few values: each word that is understood, and the value it stands for."""


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
    exec_mode: Mode
    exec_image: str
    exec_timeout_s: int
    exec_network_mode: str
    exec_strategy: Strategy
    exec_python: str
    exec_home: str
    exec_packages: tuple[str, ...]
    exec_text_preview_max_chars: int
    descriptors_dir: str
    descriptor_payload_scope: Scope

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
    wanted = {*(row.variable for row in TABLE), *AWS_VARIABLES}
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
            "Generated from `stepline/settings.py`; a test keeps it in step. An empty variable counts as absent.",
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
        case "allowed_origins" | "exec_packages":
            return tuple(item.strip() for item in text.split(",") if item.strip())
        case "model_roles":
            return _roles(row, text)
        case "read_visible_context_fraction":
            return _number(row, text, float)
        case "bundle_props" | "assembly":
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
