"""Subscribers of a channel's text, and the handling of their failures.

A consumer is called with a delta's fields as keywords (`DeltaPayload`); an asynchronous one is awaited before the
next. A consumer that raises is logged, counted and skipped for the rest of the instance; the others continue.
Only `StreamPolicyViolation` is not a failure: it stops the generation.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NotRequired, Self, TypeAlias, TypedDict

logger = logging.getLogger(__name__)


class DeltaPayload(TypedDict):
    """One delta. `index` counts the deltas of a channel across its instances.

    The last delta of an instance has no text and is `completed`; if the instance was cut, `aborted` says why:
    `eof`, `cancelled`, `policy` or `provider_error`.
    """

    text: str
    index: int
    marker: str
    agent: str
    format: str
    artifact_name: str | None
    channel: str
    channel_instance: int
    completed: bool
    aborted: NotRequired[str]


Consume: TypeAlias = Callable[..., Any]
"""Takes a payload as keywords. An awaitable result is awaited."""

Factory: TypeAlias = Callable[[str, int], Consume | Sequence[Consume] | None]
"""Creates the consumers of one instance, from the channel's name and the instance's number."""


class StreamPolicyViolation(Exception):  # noqa: N818 - a verdict about a generation, under the name bundles know
    """Raised by a consumer to stop the generation; the caller of the stream gets it."""

    def __init__(self, code: str, message: str = "", extra: Mapping[str, Any] | None = None) -> None:
        super().__init__(message or code)
        self.code = code
        self.message = message
        self.extra = dict(extra or {})


class ChannelSubscribers:
    """The additional subscribers of channels, besides the main consumer. Channel names are case-insensitive."""

    def __init__(self) -> None:
        self._static: dict[str, list[Consume]] = {}
        self._factories: dict[str, list[Factory]] = {}

    def subscribe(self, channel: str, consume: Consume) -> Self:
        """Add a consumer for every instance of a channel."""
        self._static.setdefault(channel.lower(), []).append(consume)
        return self

    def subscribe_factory(self, channel: str, factory: Factory) -> Self:
        """Add a factory, called once for each instance, when it opens and before its text."""
        self._factories.setdefault(channel.lower(), []).append(factory)
        return self

    def static(self, channel: str) -> tuple[Consume, ...]:
        """Return the consumers of every instance, in order of subscription."""
        return tuple(self._static.get(channel.lower(), ()))

    def factories(self, channel: str) -> tuple[Factory, ...]:
        """Return the factories, in order of subscription."""
        return tuple(self._factories.get(channel.lower(), ()))


Subscribers: TypeAlias = ChannelSubscribers | Mapping[str, Sequence[Consume]]
"""Subscribers, or a mapping of channel to the consumers of every instance."""


def subscribers_of(given: Subscribers | None) -> ChannelSubscribers:
    """Return subscribers from either form."""
    if isinstance(given, ChannelSubscribers):
        return given
    made = ChannelSubscribers()
    for channel, consumers in (given or {}).items():
        for consume in consumers:
            made.subscribe(channel, consume)
    return made


class SubscriberError(TypedDict):
    """One consumer's failures: `count` failed instances, `error` is the first error."""

    channel: str
    subscriber: str
    count: int
    error: str


@dataclass(kw_only=True)
class Failures:
    """The failures of one generation, one row per consumer and channel."""

    _rows: dict[tuple[str, str], SubscriberError] = field(default_factory=dict)

    def count(self, channel: str, consume: object, error: BaseException) -> None:
        """Count a failure."""
        name = _name_of(consume)
        row = self._rows.setdefault(
            (channel, name),
            SubscriberError(
                channel=channel, subscriber=name, count=0, error=f"{type(error).__name__}: {error}"
            ),
        )
        row["count"] += 1

    def rows(self) -> list[SubscriberError]:
        """Return the rows in order of the first failure."""
        return list(self._rows.values())


def _name_of(consume: object) -> str:
    """Return a consumer's name for logs and reports."""
    return getattr(consume, "__qualname__", type(consume).__qualname__)


class Consumer:
    """One consumer of one instance, until it fails."""

    __slots__ = ("_channel", "_consume", "_failures", "_is_left_alone")

    def __init__(self, consume: Consume, channel: str, failures: Failures) -> None:
        self._consume = consume
        self._channel = channel
        self._failures = failures
        self._is_left_alone = False

    async def call(self, *args: Any, **payload: Any) -> Any:
        """Call the consumer, await an awaitable; return None after a failure.

        Raises only StreamPolicyViolation.
        """
        if self._is_left_alone:
            return None
        try:
            result = self._consume(*args, **payload)
            return await result if inspect.isawaitable(result) else result
        except StreamPolicyViolation:
            raise
        except (Exception, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and _is_cancelled():
                raise
            # the documented edge: a consumer's failure, including a cancelled awaitable, does not affect
            # others
            logger.exception(
                "stream subscriber failed",
                extra={"channel": self._channel, "subscriber": _name_of(self._consume)},
            )
            self._is_left_alone = True
            self._failures.count(self._channel, self._consume, error)
            return None


def _is_cancelled() -> bool:
    """Return True if the task that calls the consumers is being cancelled."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0
