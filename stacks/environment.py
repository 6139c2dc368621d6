"""The environment of each group of functions: the settings it needs, and no others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from stacks.stage import Stage
from stacks.state import StateStack
from stepline.settings import env

_EVERYWHERE: Final = (
    *("redis_secret_arn", "max_iterations", "event_credit", "limits", "model_provider", "model_roles"),
    *("prices", "context_max_tokens", "context_window_tokens", "bundles", "bundle_props", "assembly"),
)
"""Choices of a stage that every group of functions has as the setting of the same name."""
_LOOP: Final = (
    *("bundle", "multi_action", "max_actions_per_round", "protocol", "agent_version", "context_layout"),
    *("cache_ttl_s", "keep_recent_turns", "keep_intact_turns", "cache_minimum_tokens", "workspace"),
    *("search_corpus", "search_provider", "search_url", "search_secret_arn", "tracing"),
    *("clamav_host", "clamav_port"),
    *("steer_poll_ms", "mcp_timeout_s", "mcp_list_ttl_s", "mcp_task_s", "finalize_rounds"),
    *("finalize_max_tokens", "approvals", "approval_wait_s", "model_secret_arn"),
    *("exec_mode", "exec_image", "exec_python", "exec_home", "descriptors_dir"),
)
"""Those that the loop's functions have in addition."""


def ingress_environment(
    stage: Stage,
    state: StateStack,
    *,
    machine_arn: str,
    callback_url: str,
    socket_url: str,
    eraser_arn: str,
    origins: tuple[str, ...],
) -> dict[str, str]:
    """Return the variables of the ingress functions; `origins` are those of the pages that may ask."""
    return env(
        **_shared(stage, state, machine_arn=machine_arn, callback_url=callback_url),
        **state.trust._asdict(),
        socket_url=socket_url,
        eraser_arn=eraser_arn,
        allowed_origins=origins,
        user_messages_per_minute=stage.user_messages_per_minute,
        rates=stage.rates,
        inspect=stage.inspect,
        memory_bucket_arn=state.memory_arn,
    )


def event_environment(
    stage: Stage, state: StateStack, *, machine_arn: str, callback_url: str
) -> dict[str, str]:
    """Return the variables of services that submit events."""
    return env(**_shared(stage, state, machine_arn=machine_arn, callback_url=callback_url))


def loop_environment(
    stage: Stage,
    state: StateStack,
    *,
    machine_arn: str,
    callback_url: str,
    packages: tuple[str, ...],
    fargate: dict[str, Any],
) -> dict[str, str]:
    """Return the variables of the loop's functions; `fargate` are the settings of tasks."""
    return env(
        **_shared(stage, state, machine_arn=machine_arn, callback_url=callback_url),
        **{name: getattr(stage, name) for name in _LOOP},
        memory_bucket_arn=state.memory_arn,
        otlp_endpoint=stage.tracing_endpoint,
        otlp_secret_arn=stage.tracing_secret_arn,
        av_scan=stage.av,
        exec_packages=packages,
        **fargate,
    )


def without_redis(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables for a function without the right to read the URL of a Redis: it works without it."""
    return {name: value for name, value in environment.items() if name not in env(redis_secret_arn="")}


def _shared(stage: Stage, state: StateStack, *, machine_arn: str, callback_url: str) -> dict[str, Any]:
    return {
        "stage": stage.name,
        "table": state.table.table_name,
        "bucket": state.bucket.bucket_name,
        "machine_arn": machine_arn,
        "callback_url": callback_url,
        "open_turns": stage.most_turns,
        **{name: getattr(stage, name) for name in _EVERYWHERE},
    }
