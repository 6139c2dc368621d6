"""Stepline: a serverless runtime for one timeline-first ReAct agent.

These are the names that authors of bundles, services and clients import. Everything else is private to its package
and may change. A name is loaded when you use it, so importing this package costs nothing.

    bundles     BaseWorkflow, HookContext, tool, Tool, ToolSpec, ToolContext, ToolOutput, search_memory, Skill,
                Knowledge, NamespaceResolver, PathScope, ProgramCalls, and the streaming of channels
    services    event_source, follow; in_memory and InProcess for tests and your own processes
    clients     Session, ClientState
    errors      SteplineError and its classes: each has a stable `code`
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from stepline.bootstrap.event_source import EventSource, event_source
    from stepline.bootstrap.in_process import InProcess
    from stepline.bootstrap.memory_wiring import in_memory
    from stepline.bundle.generation.artifact_stream import CompositeJsonArtifactStreamer
    from stepline.bundle.generation.model_service import ModelService, system_message, user_message
    from stepline.bundle.generation.stream import stream_with_channels
    from stepline.bundle.generation.subscriber import ChannelSubscribers
    from stepline.bundle.hook import HookContext
    from stepline.bundle.knowledge_index import Knowledge
    from stepline.bundle.namespaces.namespace_resolver import NamespaceResolver, PathScope
    from stepline.bundle.skills.skill import Skill
    from stepline.bundle.turn_payload import PayloadLike, TurnResult
    from stepline.bundle.workflow import BaseWorkflow
    from stepline.delivery.follow import follow
    from stepline.errors import (
        AuthError,
        BusyError,
        ContextLimit,
        DependencyError,
        InputError,
        LimitError,
        ModelOverloaded,
        ModelRateLimited,
        ModelRefused,
        NotFoundError,
        PathError,
        SteplineError,
        ToolError,
        UnknownOutcome,
    )
    from stepline.local.client.session import Session
    from stepline.local.client.state import ClientState
    from stepline.model.ids import Lane
    from stepline.protocol.parser.grammar import ChannelSpec
    from stepline.settings import Settings
    from stepline.tools.context import ToolContext, ToolOutput
    from stepline.tools.memory.recall import search_memory
    from stepline.tools.registry import Tool
    from stepline.tools.served.program_calls import ProgramCalls
    from stepline.tools.spec import ToolSpec
    from stepline.tools.typed.typed_function import tool

_ERRORS: Final = (
    "AuthError BusyError ContextLimit DependencyError InputError LimitError ModelOverloaded ModelRateLimited ModelRefused"
    " NotFoundError PathError SteplineError ToolError UnknownOutcome"
)
_HOMES: Final = {
    name: module
    for module, names in {
        "bootstrap.memory_wiring": "in_memory",
        "bootstrap.event_source": "EventSource event_source",
        "bootstrap.in_process": "InProcess",
        "bundle.generation.artifact_stream": "CompositeJsonArtifactStreamer",
        "bundle.generation.model_service": "ModelService system_message user_message",
        "bundle.generation.stream": "stream_with_channels",
        "bundle.generation.subscriber": "ChannelSubscribers",
        "bundle.hook": "HookContext",
        "bundle.turn_payload": "PayloadLike TurnResult",
        "bundle.knowledge_index": "Knowledge",
        "bundle.namespaces.namespace_resolver": "NamespaceResolver PathScope",
        "bundle.skills.skill": "Skill",
        "tools.served.program_calls": "ProgramCalls",
        "bundle.workflow": "BaseWorkflow",
        "delivery.follow": "follow",
        "errors": _ERRORS,
        "local.client.session": "Session",
        "local.client.state": "ClientState",
        "model.ids": "Lane",
        "protocol.parser.grammar": "ChannelSpec",
        "settings": "Settings",
        "tools.context": "ToolContext ToolOutput",
        "tools.memory.recall": "search_memory",
        "tools.registry": "Tool",
        "tools.spec": "ToolSpec",
        "tools.typed.typed_function": "tool",
    }.items()
    for name in names.split()
}

__all__ = [
    "AuthError",
    "BaseWorkflow",
    "BusyError",
    "ChannelSpec",
    "ChannelSubscribers",
    "ClientState",
    "CompositeJsonArtifactStreamer",
    "ContextLimit",
    "DependencyError",
    "EventSource",
    "HookContext",
    "InProcess",
    "InputError",
    "Knowledge",
    "Lane",
    "LimitError",
    "ModelOverloaded",
    "ModelRateLimited",
    "ModelRefused",
    "ModelService",
    "NamespaceResolver",
    "NotFoundError",
    "PathError",
    "PathScope",
    "PayloadLike",
    "ProgramCalls",
    "Session",
    "Settings",
    "Skill",
    "SteplineError",
    "Tool",
    "ToolContext",
    "ToolError",
    "ToolOutput",
    "ToolSpec",
    "TurnResult",
    "UnknownOutcome",
    "event_source",
    "follow",
    "in_memory",
    "search_memory",
    "stream_with_channels",
    "system_message",
    "tool",
    "user_message",
]


def __getattr__(name: str) -> Any:
    """Load a public name when it is used for the first time."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
