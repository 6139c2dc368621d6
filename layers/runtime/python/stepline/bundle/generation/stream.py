"""Call a model once and stream its answer by channel: to a consumer, to subscribers, to a canvas.

For applications with their own prompts; the agent's loop does not use it. It is asynchronous, because its
callers are: the model is read by one thread (`ModelPump`), everything else happens in the caller's task.
Source: docs/how-to/stream-channels.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, overload

from stepline.bundle.generation.artifact_stream import plan_artifacts
from stepline.bundle.generation.channel_result import StreamMeta
from stepline.bundle.generation.dispatch import Delivery
from stepline.bundle.generation.generate import Generation, Results, log_results, plan_parser
from stepline.bundle.generation.model_service import MessageLike, ModelService, plan_request, service_of
from stepline.bundle.generation.shown_text import SourceLike, read_sources
from stepline.bundle.generation.subscriber import Consume, Consumer, Failures, Subscribers, subscribers_of
from stepline.ports.model import ModelClient
from stepline.protocol.parser.grammar import ChannelSpec


@overload
async def stream_with_channels(
    svc: ModelService | ModelClient,
    *,
    messages: Sequence[MessageLike],
    role: str,
    channels: Sequence[ChannelSpec],
    emit: Consume,
    agent: str,
    artifact_name: str | None = None,
    sources_list: Sequence[SourceLike] | None = None,
    subscribers: Subscribers | None = None,
    raw_emit: Consume | None = None,
    max_tokens: int = 8000,
    temperature: float = 0.3,
    debug: bool = False,
    composite_cfg: Mapping[str, str] | None = None,
    composite_channel: str | None = None,
    composite_marker: str = "canvas",
    return_full_raw: Literal[False] = False,
) -> Results: ...


@overload
async def stream_with_channels(
    svc: ModelService | ModelClient,
    *,
    messages: Sequence[MessageLike],
    role: str,
    channels: Sequence[ChannelSpec],
    emit: Consume,
    agent: str,
    artifact_name: str | None = None,
    sources_list: Sequence[SourceLike] | None = None,
    subscribers: Subscribers | None = None,
    raw_emit: Consume | None = None,
    max_tokens: int = 8000,
    temperature: float = 0.3,
    debug: bool = False,
    composite_cfg: Mapping[str, str] | None = None,
    composite_channel: str | None = None,
    composite_marker: str = "canvas",
    return_full_raw: Literal[True],
) -> tuple[Results, StreamMeta]: ...


async def stream_with_channels(
    svc: ModelService | ModelClient,
    *,
    messages: Sequence[MessageLike],
    role: str,
    channels: Sequence[ChannelSpec],
    emit: Consume,
    agent: str,
    artifact_name: str | None = None,
    sources_list: Sequence[SourceLike] | None = None,
    subscribers: Subscribers | None = None,
    raw_emit: Consume | None = None,
    max_tokens: int = 8000,
    temperature: float = 0.3,
    debug: bool = False,
    composite_cfg: Mapping[str, str] | None = None,
    composite_channel: str | None = None,
    composite_marker: str = "canvas",
    return_full_raw: bool = False,
) -> Results | tuple[Results, StreamMeta]:
    """Call a model and return each channel's result; with `return_full_raw` also the data about the whole.

    A failure of the model is not raised: the text so far is returned, and the second value's `service_error`
    has the reason. A cancelled task or a consumer's `StreamPolicyViolation` stops the model, closes the open
    instance to its listeners with the reason, and is raised when the model's thread has ended. Arguments are
    explained in docs/how-to/stream-channels.md#arguments; a `temperature` has no effect on a model that takes
    none, as no current one does. Raises ValueError for contradicting arguments, before any call.
    """
    setup = plan_artifacts(channels, composite_cfg, composite_channel, composite_marker)
    service, failures = service_of(svc), Failures()
    delivery = Delivery(
        channels,
        emit=emit,
        agent=agent,
        artifact_name=artifact_name,
        subscribers=subscribers_of(subscribers),
        sources=read_sources(sources_list or ()),
        artifacts=setup,
        failures=failures,
        now_s=service.now_s,
    )
    generation = Generation(
        client=service.client,
        request=plan_request(messages, role=role, max_tokens=max_tokens, temperature=temperature),
        parser=plan_parser(channels),
        delivery=delivery,
        raw_listener=Consumer(raw_emit, "", failures) if raw_emit else None,
    )
    await generation.run()
    results = generation.results(channels)
    if debug:
        log_results(results)
    return (results, generation.meta(failures)) if return_full_raw else results
