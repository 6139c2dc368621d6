"""The environment of each group of functions: the settings it needs, and no others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stacks.stage import Stage
from stacks.state import StateStack
from stepline.settings import env


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
        bundle=stage.bundle,
        multi_action=stage.multi_action,
        max_actions_per_round=stage.max_actions_per_round,
        protocol=stage.protocol,
        agent_version=stage.agent_version,
        context_layout=stage.context_layout,
        cache_ttl_s=stage.cache_ttl_s,
        keep_recent_turns=stage.keep_recent_turns,
        keep_intact_turns=stage.keep_intact_turns,
        cache_minimum_tokens=stage.cache_minimum_tokens,
        workspace=stage.workspace,
        search_corpus=stage.search_corpus,
        search_provider=stage.search_provider,
        search_url=stage.search_url,
        search_secret_arn=stage.search_secret_arn,
        memory_bucket_arn=state.memory_arn,
        tracing=stage.tracing,
        otlp_endpoint=stage.tracing_endpoint,
        otlp_secret_arn=stage.tracing_secret_arn,
        av_scan=stage.av,
        clamav_host=stage.clamav_host,
        steer_poll_ms=stage.steer_poll_ms,
        mcp_timeout_s=stage.mcp_timeout_s,
        mcp_list_ttl_s=stage.mcp_list_ttl_s,
        mcp_task_s=stage.mcp_task_s,
        finalize_rounds=stage.finalize_rounds,
        finalize_max_tokens=stage.finalize_max_tokens,
        approvals=stage.approvals,
        approval_wait_s=stage.approval_wait_s,
        model_secret_arn=stage.model_secret_arn,
        exec_mode=stage.exec_mode,
        exec_image=stage.exec_image,
        exec_python=stage.exec_python,
        exec_home=stage.exec_home,
        exec_packages=packages,
        descriptors_dir=stage.descriptors_dir,
        **fargate,
    )


def without_redis(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables for a function without the right to read the URL of a Redis: it works without."""
    return {name: value for name, value in environment.items() if name not in env(redis_secret_arn="")}


def _shared(stage: Stage, state: StateStack, *, machine_arn: str, callback_url: str) -> dict[str, Any]:
    return {
        "stage": stage.name,
        "table": state.table.table_name,
        "bucket": state.bucket.bucket_name,
        "machine_arn": machine_arn,
        "callback_url": callback_url,
        "redis_secret_arn": stage.redis_secret_arn,
        "open_turns": stage.most_turns,
        "max_iterations": stage.max_iterations,
        "event_credit": stage.event_credit,
        "limits": stage.limits,
        "model_provider": stage.model_provider,
        "model_roles": stage.model_roles,
        "prices": stage.prices,
        "context_max_tokens": stage.context_max_tokens,
        "context_window_tokens": stage.context_window_tokens,
        "bundles": stage.bundles,
        "bundle_props": stage.bundle_props,
        "assembly": stage.assembly,
    }
