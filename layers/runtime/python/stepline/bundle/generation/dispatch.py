"""Dispatch a generation's channel events to the listeners, in order, with records for each channel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from stepline.bundle.generation.artifact_stream import (
    FOLLOWUP_MARKER,
    ArtifactSetup,
    CompositeJsonArtifactStreamer,
    FollowupStreamer,
)
from stepline.bundle.generation.channel_result import ChannelResult, plain_bodies, read_model
from stepline.bundle.generation.shown_text import ShownText
from stepline.bundle.generation.subscriber import (
    ChannelSubscribers,
    Consume,
    Consumer,
    DeltaPayload,
    Failures,
    StreamPolicyViolation,
)
from stepline.model.source import Citation
from stepline.protocol.parser.channel_parser import (
    ChannelClosed,
    ChannelEvent,
    ChannelOpened,
    CloseReason,
    Text,
    Transcript,
)
from stepline.protocol.parser.grammar import ChannelSpec

_WHOLE = ("normal", "implicit")
"""Close reasons of a complete instance; others are passed to the listeners."""


@dataclass(kw_only=True)
class _Account:
    """Records of one channel beside its text."""

    spec: ChannelSpec
    index: int = 0
    started_at: float | None = None
    finished_at: float | None = None
    shown: list[ShownText] = field(default_factory=list)


@dataclass(kw_only=True)
class _Live:
    """The open instance. `rest` are the consumers that have not received its end."""

    account: _Account
    instance: int
    shown: ShownText
    main: Consumer
    artifacts: CompositeJsonArtifactStreamer | FollowupStreamer | None
    others: list[Consumer] = field(default_factory=list)
    over: DeltaPayload | None = None
    rest: list[Consumer] = field(default_factory=list)


class Delivery:
    """The listeners of one generation. An opened instance is closed for every one of them, in every case."""

    def __init__(
        self,
        channels: Sequence[ChannelSpec],
        *,
        emit: Consume,
        agent: str,
        artifact_name: str | None,
        subscribers: ChannelSubscribers,
        sources: Mapping[int, Citation],
        artifacts: ArtifactSetup | None,
        failures: Failures,
        now_s: Callable[[], float],
    ) -> None:
        self._accounts = {spec.name: _Account(spec=spec) for spec in channels}
        self._emit = emit
        self._agent = agent
        self._artifact_name = artifact_name
        self._subscribers = subscribers
        self._sources = sources
        self._artifacts = artifacts
        self._failures = failures
        self._now_s = now_s
        self._live: _Live | None = None

    async def deliver(self, events: Sequence[ChannelEvent]) -> None:
        """Deliver events in order. Raises StreamPolicyViolation."""
        for event in events:
            match event:
                case ChannelOpened():
                    await self._open(event)
                case Text():
                    await self._pass(event.text)
                case ChannelClosed():
                    await self.close(event.reason)

    async def close(self, reason: CloseReason) -> None:
        """Close the open instance, if any; if interrupted and called again, it continues with the rest.

        Raises StreamPolicyViolation, but only after all consumers have received the end.
        """
        live = self._live
        if live is None:
            return
        violations: list[StreamPolicyViolation] = []
        aborted = "" if reason in _WHOLE else reason
        if live.over is None:
            live.account.finished_at = self._now_s()
            live.rest = [live.main, *live.others]
            tail = live.shown.close()
            tail_payload = self._payload(live, tail) if tail else None
            live.over = self._payload(live, "", aborted=aborted, completed=True)
            if tail_payload:
                await _call_all(list(live.rest), tail_payload, violations)
        while live.artifacts:
            try:
                await live.artifacts.finish(aborted)
                live.artifacts = None
            except StreamPolicyViolation as violation:
                violations.append(violation)
        await _call_all(live.rest, live.over, violations)
        self._live = None
        if violations:
            raise violations[0]

    def result(self, name: str, transcript: Transcript) -> ChannelResult:
        """Return the result of a channel."""
        account = self._accounts[name]
        instances = transcript.of(name)
        bodies = plain_bodies((one.raw for one in instances), account.spec.format)
        value, error = read_model(account.spec, bodies)
        used: set[int] = set()
        unresolved: set[int] = set()
        for shown, one in zip(account.shown, instances, strict=True):
            cited, unknown = shown.cited(one.raw, self._sources)
            used |= cited
            unresolved |= unknown
        return ChannelResult(
            raw="".join(one.raw for one in instances),
            obj=value,
            used_sources=sorted(used),
            unresolved_sids=sorted(unresolved),
            started_at=account.started_at,
            finished_at=account.finished_at,
            error=error,
            instances=bodies,
            truncated=bool(instances) and instances[-1].truncated,
        )

    async def _open(self, event: ChannelOpened) -> None:
        account = self._accounts[event.channel]
        spec = account.spec
        shown = ShownText(spec, self._sources)
        account.shown.append(shown)
        account.started_at = account.started_at or self._now_s()
        main = self._consumer(spec, self._emit)
        live = self._live = _Live(
            account=account,
            instance=event.instance,
            shown=shown,
            main=main,
            artifacts=self._artifacts_of(spec, event.instance, main),
        )
        live.others += [self._consumer(spec, one) for one in self._subscribers.static(spec.name)]
        for factory in self._subscribers.factories(spec.name):
            made = await self._consumer(spec, factory).call(spec.name, event.instance)
            consumers = made if isinstance(made, list | tuple) else [made]
            live.others += [self._consumer(spec, one) for one in consumers if one is not None]

    async def _pass(self, text: str) -> None:
        live = self._live
        assert live is not None  # the parser opens an instance before its text
        shown = live.shown.feed(text)
        payload = self._payload(live, shown) if shown else None
        if payload:
            await live.main.call(**payload)
        if live.artifacts:
            await live.artifacts.feed(text)
        if payload:
            for consumer in live.others:
                await consumer.call(**payload)

    def _payload(self, live: _Live, text: str, *, aborted: str = "", completed: bool = False) -> DeltaPayload:
        account = live.account
        index, account.index = account.index, account.index + 1
        payload = DeltaPayload(
            text=text,
            index=index,
            marker=account.spec.emit_marker,
            agent=self._agent,
            format=account.spec.format,
            artifact_name=self._artifact_name,
            channel=account.spec.name,
            channel_instance=live.instance,
            completed=completed,
        )
        if aborted:
            payload["aborted"] = aborted
        return payload

    def _consumer(self, spec: ChannelSpec, consume: Consume) -> Consumer:
        return Consumer(consume, spec.name, self._failures)

    def _artifacts_of(
        self, spec: ChannelSpec, instance: int, main: Consumer
    ) -> CompositeJsonArtifactStreamer | FollowupStreamer | None:
        setup = self._artifacts
        emit = partial(main.call, channel=spec.name, channel_instance=instance)
        if setup and setup.channel == spec.name:
            return CompositeJsonArtifactStreamer(
                setup.formats, self._sources, setup.marker, self._agent, emit
            )
        if spec.emit_marker != FOLLOWUP_MARKER or spec.format != "json":
            return None
        facts = {"marker": FOLLOWUP_MARKER, "agent": self._agent, "format": "json"}
        return FollowupStreamer(partial(emit, artifact_name=self._artifact_name, **facts))


async def _call_all(
    consumers: list[Consumer], payload: DeltaPayload, violations: list[StreamPolicyViolation]
) -> None:
    """Call all consumers, removing each from the list; violations are collected in `violations`."""
    while consumers:
        try:
            await consumers.pop(0).call(**payload)
        except StreamPolicyViolation as violation:
            violations.append(violation)
