"""The exporter of ended spans: the operations of a turn, their times and their outcomes, for operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, Literal, Protocol, TypeAlias

from stepline.model.base import Value

Attribute: TypeAlias = str | int | float | bool | tuple[str, ...]
Attributes: TypeAlias = Mapping[str, Attribute]
SpanKind: TypeAlias = Literal["internal", "client"]
"""`client`: the time is spent in a remote service."""

NO_ATTRIBUTES: Final[Attributes] = {}


class EndedSpan(Value):
    """A span that has ended; `parent` is 0 for the root span, `failed` is the code of a failure, never a text."""

    trace: int
    id: int
    parent: int
    name: str
    kind: SpanKind
    attributes: Attributes
    began: datetime
    ended: datetime
    failed: str = ""


class Traces(Protocol):
    @property
    def texts(self) -> bool:
        """True if attributes may contain texts of users and of the model."""

    @property
    def provider(self) -> str:
        """The model's provider, by its name in OpenTelemetry's conventions."""

    def send(self, spans: Sequence[EndedSpan]) -> None:
        """Send the spans of one step, in a bounded time and without raising: nothing depends on them."""
