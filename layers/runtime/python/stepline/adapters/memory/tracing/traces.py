"""Spans kept in the process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from stepline.ports.tracing.traces import EndedSpan


@dataclass(kw_only=True)
class MemoryTraces:
    """Keeps the sent spans."""

    texts: bool = False
    provider: str = "anthropic"
    spans: list[EndedSpan] = field(default_factory=list)

    def send(self, spans: Sequence[EndedSpan]) -> None:
        self.spans.extend(spans)
