"""Folds the events of a Converse stream, as botocore reads them, into the text that each adds and the facts so far.

Reasoning and tool use, which no request asks for, are no text. Each other field is a fact: one that cannot be read is
dropped and counted. An answer is complete when its `messageStop` has arrived; its tokens follow in `metadata`.

Source: docs.aws.amazon.com/bedrock, "ConverseStreamOutput".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from stepline.adapters.provider.client import NO_FIELDS, FactReader
from stepline.errors import ModelStreamBroken
from stepline.model.decision import Declined
from stepline.model.usage import Usage
from stepline.ports.model import AnswerFacts

_REASONS: Final[Mapping[str, str]] = {"tool_use": "end_turn"}
_DECLINING: Final = frozenset({"guardrail_intervened", "content_filtered"})


class ConverseFold:
    """The state of one answer."""

    def __init__(self) -> None:
        """Start with no events."""
        self._stop_reason = ""
        self._declined: Declined | None = None
        self._begun = False
        self._broken = False
        self._usage: Usage | None = None
        self._facts = FactReader()

    def take(self, event: Any) -> str:
        """Apply one event and return the text that it adds. Raises ModelStreamBroken `stream_malformed`."""
        if not isinstance(event, dict):
            self._facts.unread["event"] += 1
            return ""
        self._begun = True
        if delta := event.get("contentBlockDelta"):
            return self._read_text(self._facts.fields(delta, "delta"))
        if stop := event.get("messageStop"):
            self._end(self._facts.word(stop, "stopReason") or "end_turn")
        if metadata := event.get("metadata"):
            self._count(self._facts.fields(metadata, "usage"))
        return ""

    def facts(self) -> AnswerFacts:
        """Return the facts so far."""
        return AnswerFacts(
            stop_reason=self._stop_reason,
            ended=bool(self._stop_reason) and not self._broken,
            declined=self._declined,
            usage=self._usage or (Usage() if self._begun else None),
            counted=self._usage is not None,
            unread=self._facts.unread,
        )

    def _read_text(self, delta: Mapping[str, Any]) -> str:
        text = delta.get("text")
        if not isinstance(text, str | None):
            self._broken = True
            raise ModelStreamBroken("a delta of text without a text", code="stream_malformed")
        if "toolUse" in delta:
            self._facts.unread["toolUse"] = 1
        return text or ""

    def _end(self, reason: str) -> None:
        if reason in _DECLINING:
            self._declined = Declined(category=reason)
        self._stop_reason = "refusal" if reason in _DECLINING else _REASONS.get(reason, reason)

    def _count(self, used: Mapping[str, Any]) -> None:
        """Read the tokens; `inputTokens` has none of a cache."""
        if used is NO_FIELDS:
            return
        facts = self._facts
        names = ("inputTokens", "cacheReadInputTokens", "cacheWriteInputTokens", "outputTokens")
        plain, read, written, output = (facts.count(used, name) or 0 for name in names)
        hourly = sum(
            facts.count(detail, "inputTokens") or 0
            for detail in used.get("cacheDetails") or ()
            if isinstance(detail, dict) and detail.get("ttl") == "1h"
        )
        self._usage = Usage(
            input_tokens=plain,
            cache_read_tokens=read,
            cache_write_5m_tokens=max(0, written - hourly),
            cache_write_1h_tokens=min(hourly, written),
            output_tokens=output,
        )
