"""The variables of each function: the settings that it reads, and no others.

A setting that has its default is left out, and long JSON is in a file of the package. Lambda takes 4 KB of variables for a
function, measured as one JSON object, in which the quotes of a JSON text count twice.
Source: docs.aws.amazon.com/lambda, "Lambda quotas"; terraform-aws-github-runner#3594, whose error quotes "String measured".
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

from stepline.errors import InputError
from stepline.settings import PACKAGED, PACKAGED_DESCRIPTORS, TABLE, env, print_value
from stepline_cdk.access import HANDING, MODEL, REPLAYING, SEARCHING, TELLING, TRACING, WAKING
from stepline_cdk.app_root import app_root
from stepline_cdk.choice.declare import REFERENCE
from stepline_cdk.descriptor import read_descriptors
from stepline_cdk.stage import Stage
from stepline_cdk.state import State

MAX_BYTES: Final = 4096
PACKAGED_BYTES: Final = 256
"""JSON with more bytes is in a file of the package."""
_TOKEN_BYTES: Final = 80
"""The longest value of a reference: a name that CloudFormation makes of a stack's and a resource's."""

EVENTS: Final = "events"
"""The row of services that submit events in the table of rights."""
_PORTS: Final = (
    *("stage", "table", "bucket", "machine_arn", "callback_url", "open_turns", "redis_secret_arn"),
    *("max_iterations", "event_credit", "finalize_rounds", "finalize_max_tokens", "approval_wait_s"),
    *("mcp_task_s", "workspace", "limits", "rates", "user_messages_per_minute", "prices", "steer_poll_ms"),
    *("context_max_tokens", "context_window_tokens", "cache_ttl_s", "cache_minimum_tokens"),
    *("keep_recent_turns", "keep_intact_turns", "model_provider", "model_roles", "memory_bucket_arn"),
    "model_providers",
    *("bundles", "bundle_props", "assembly", "tracing", "otlp_endpoint", "otlp_secret_arn"),
    "fargate_kms_key_arn",
)
"""The settings of the ports that every function but the authorizer wires."""
_AGENT: Final = (
    *("bundle", "multi_action", "max_actions_per_round", "protocol", "agent_version", "context_layout"),
    *("approvals", "mcp_timeout_s", "mcp_list_ttl_s", "descriptors_dir", "model_secret_arn"),
    *("search_provider", "search_url", "search_corpus", "search_secret_arn"),
    *("exec_mode", "exec_image", "exec_packages", "fargate_cluster", "fargate_task_definition"),
    *("fargate_container_name", "fargate_subnets", "fargate_security_groups", "fargate_assign_public_ip"),
    *("fargate_memory_mib", "fargate_cpu_units", "serve_arn"),
)
"""Those of functions that build the bundle's agent, in addition."""
_TRUST: Final = (
    *("oidc_issuer", "oidc_audience", "oidc_jwks_url", "tenant_claim", "project_claim", "role_claim"),
    *("project_admins", "tenant_admins"),
)
_UPLOADS: Final = ("av_scan", "clamav_host", "clamav_port")
_API: Final = (*_PORTS, *_UPLOADS, "socket_url", "inspect", "eraser_arn", "decide_arn")

READS: Final[Mapping[str, tuple[str, ...]]] = {
    "authorizer": ("stage", "table", "allowed_addresses", "allowed_origins", *_TRUST),
    "socket": _PORTS,
    "api": _API,
    "search": _API,
    "stream": _PORTS,
    "decide": (*_PORTS, *_AGENT),
    "act": (*_PORTS, *_AGENT),
    "execute": (*_PORTS, *_AGENT, "exec_python", "exec_home"),
    "serve": (*_PORTS, *_AGENT),
    "output": _PORTS,
    "preflight": (*_PORTS, *_UPLOADS),
    "close": (*_PORTS, *_AGENT),
    "sweeper": _PORTS,
    "eraser": (*_PORTS, "eraser_arn"),
}
"""The settings that each function reads, of those that a stage has."""
ALLOWED: Final[Mapping[str, frozenset[str]]] = {
    "fargate_kms_key_arn": HANDING,
    "redis_secret_arn": TELLING,
    **dict.fromkeys(("tracing", "otlp_endpoint", "otlp_secret_arn"), TRACING),
    "search_secret_arn": SEARCHING,
    "model_secret_arn": MODEL,
    "eraser_arn": WAKING,
    "decide_arn": REPLAYING,
}
"""The functions with the right that a setting is of no use without; the others work without it."""


def ingress_settings(
    stage: Stage,
    state: State,
    *,
    machine_arn: str,
    callback_url: str,
    socket_url: str,
    eraser_arn: str,
    decide_arn: str,
    origins: tuple[str, ...],
) -> dict[str, Any]:
    """Return the settings of the ingress functions; `origins` are those of the pages that may ask."""
    return {
        **_stage_settings(stage, state, machine_arn=machine_arn, callback_url=callback_url),
        **state.trust._asdict(),
        "socket_url": socket_url,
        "eraser_arn": eraser_arn,
        "decide_arn": decide_arn,
        "allowed_origins": origins,
    }


def event_environment(stage: Stage, state: State, *, machine_arn: str, callback_url: str) -> dict[str, str]:
    """Return the variables of services that submit events, which have no package for long ones."""
    settings = _stage_settings(stage, state, machine_arn=machine_arn, callback_url=callback_url)
    return env(
        **{
            field: settings[field]
            for field in _PORTS
            if EVENTS in ALLOWED.get(field, {EVENTS}) and not _is_default(field, settings[field])
        }
    )


def loop_settings(
    stage: Stage,
    state: State,
    *,
    machine_arn: str,
    callback_url: str,
    packages: tuple[str, ...],
    fargate: Mapping[str, Any],
    serve_arn: str = "",
) -> dict[str, Any]:
    """Return the settings of the loop's functions; `fargate` are those of tasks, `serve_arn` makes calls of programs."""
    return {
        **_stage_settings(stage, state, machine_arn=machine_arn, callback_url=callback_url),
        "exec_packages": packages,
        "serve_arn": serve_arn,
        **fargate,
    }


def function_environment(name: str, settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the variables of a function."""
    return {
        TABLE[field].variable: render_variable(field, settings[field])
        for field in READS[name]
        if field in settings and name in ALLOWED.get(field, READS) and not _is_default(field, settings[field])
    }


def check_environment(name: str, variables: Mapping[str, str]) -> None:
    """Refuse variables that Lambda would refuse mid-deployment; a reference counts with its longest value.

    Raises InputError `environment_too_large`, naming the longest one.
    """
    sizes = {
        one: len(json.dumps({one: _bounded(text)}, separators=(",", ":")).encode())
        for one, text in variables.items()
    }
    total = 1 + sum(size - 1 for size in sizes.values())  # the braces, once
    if total > MAX_BYTES:
        longest = max(sizes, key=lambda one: sizes[one])
        choice = next((field for field, row in TABLE.items() if row.variable == longest), longest)
        raise InputError(
            f"the variables of function {name} have {total} bytes, and Lambda takes {MAX_BYTES}: shorten the choice {choice}"
            f" ({longest}), which takes {sizes[longest]}",
            code="environment_too_large",
        )


def render_variable(field: str, value: Any) -> str:
    """Return the text of a setting's variable: the value, or the name of the file that holds it."""
    text = print_value(value)
    return f"{PACKAGED}{_name_file(field, text)}" if _is_packaged(field, text) else text


def packaged_files(stage: Stage) -> dict[str, bytes]:
    """Return the files that variables of the stage's functions name, by their paths in the package.

    Raises InputError `descriptor_secret`, `bad_descriptor`.
    """
    texts = {field: print_value(value) for field, value in _chosen(stage).items()}
    long = {
        _name_file(field, text): text.encode() for field, text in texts.items() if _is_packaged(field, text)
    }
    folder = stage.descriptors_dir
    return long | (read_descriptors(app_root() / folder, stage.name) if folder else {})


def _name_file(field: str, text: str) -> str:
    """Return the path of a setting's file: with its digest, the variable and the package of a version belong together."""
    return f"settings/{field}-{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"


def _chosen(stage: Stage) -> dict[str, Any]:
    """Return the choices of a stage that are settings of the same name."""
    found = {field: getattr(stage, field, None) for field in TABLE}
    return {field: value for field, value in found.items() if value is not None and not callable(value)}


def _is_packaged(field: str, text: str) -> bool:
    return isinstance(TABLE[field].default, Mapping) and len(text.encode()) > PACKAGED_BYTES


def _is_default(field: str, value: Any) -> bool:
    return print_value(value) in ("", print_value(TABLE[field].default))


def _bounded(text: str) -> str:
    return REFERENCE.sub("x" * _TOKEN_BYTES, text)


def _stage_settings(stage: Stage, state: State, *, machine_arn: str, callback_url: str) -> dict[str, Any]:
    """Return the settings that a stage chooses, those of the same names and those of other names."""
    return {
        **_chosen(stage),
        "stage": stage.name,
        "table": state.table.table_name,
        "bucket": state.bucket.bucket_name,
        "machine_arn": machine_arn,
        "callback_url": callback_url,
        "open_turns": stage.most_turns,
        "memory_bucket_arn": state.memory_arn,
        "otlp_endpoint": stage.tracing_endpoint,
        "otlp_secret_arn": stage.tracing_secret_arn,
        "av_scan": stage.av,
        "descriptors_dir": PACKAGED_DESCRIPTORS if stage.descriptors_dir else "",
    }
