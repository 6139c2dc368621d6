"""Folds the events of a Messages stream into a completion: what arrived so far, and what it cost."""

from __future__ import annotations

from typing import Any

from stepline.model.usage import Usage, estimate_tokens
from stepline.ports.model import Completion, ModelRequest

ABORTED = "aborted"
CUT = "cut"


class MessageFold:
    """The state of one answer. Blocks that are no text (native thinking, tool use) leave no text behind."""

    def __init__(self, request: ModelRequest, *, model: str, retries: int = 0) -> None:
        """Begin with nothing received for `request`, after `retries` failed tries."""
        self._request = request
        self._model = model
        self._retries = retries
        self._message_id = ""
        self._pieces: list[str] = []
        self._counts: Usage | None = None
        self._stop_reason = ""
        self.ended = False

    def take(self, event: Any) -> str:
        """Take one event of the SDK and return the text it adds. Unknown events change nothing.

        Raises AttributeError or TypeError for an event that lacks what its type promises.
        """
        match event.type:
            case "content_block_delta" if event.delta.type == "text_delta":
                text = event.delta.text
                if not isinstance(text, str):
                    raise TypeError("a text delta without a text")
                self._pieces.append(text)
                return text
            case "message_start":
                self._message_id = event.message.id or ""
                self._model = event.message.model or self._model
                self._counts = _fold_usage(Usage(), event.message.usage)
            case "message_delta":
                self._stop_reason = event.delta.stop_reason or self._stop_reason
                self._counts = _fold_usage(self._counts or Usage(), event.usage)
            case "message_stop":
                self.ended = True
            case _:
                pass
        return ""

    def completion(self, *, aborted: bool) -> Completion:
        """Return what the call came to; one that did not end is counted by estimate where nobody counted."""
        text = "".join(self._pieces)
        early = ABORTED if aborted else CUT
        return Completion(
            text=text,
            stop_reason=(self._stop_reason or "end_turn") if self.ended else early,
            usage=self._usage(text),
            model=self._model,
            message_id=self._message_id,
            aborted=aborted and not self.ended,
            retries=self._retries,
        )

    def _usage(self, text: str) -> Usage:
        if self.ended and self._counts:
            return self._counts
        parts = (*self._request.system, *self._request.content)
        counted = self._counts or Usage(input_tokens=sum(estimate_tokens(part.text) for part in parts))
        return Usage(
            input_tokens=counted.input_tokens,
            cache_read_tokens=counted.cache_read_tokens,
            cache_write_5m_tokens=counted.cache_write_5m_tokens,
            cache_write_1h_tokens=counted.cache_write_1h_tokens,
            output_tokens=max(counted.output_tokens, estimate_tokens(text)),
            estimated=True,
        )


def _fold_usage(old: Usage, new: Any) -> Usage:
    """Return the newer counts; a count that an event leaves out stays as it was. All counts are cumulative."""
    if new is None:
        return old
    detail = getattr(new, "cache_creation", None)
    written = getattr(new, "cache_creation_input_tokens", None)
    if detail is not None:
        write_5m, write_1h = detail.ephemeral_5m_input_tokens, detail.ephemeral_1h_input_tokens
    elif written is None or written == old.cache_write_5m_tokens + old.cache_write_1h_tokens:
        write_5m, write_1h = old.cache_write_5m_tokens, old.cache_write_1h_tokens
    else:
        write_5m, write_1h = written, 0
    return Usage(
        input_tokens=_newer(getattr(new, "input_tokens", None), old.input_tokens),
        cache_read_tokens=_newer(getattr(new, "cache_read_input_tokens", None), old.cache_read_tokens),
        cache_write_5m_tokens=write_5m or 0,
        cache_write_1h_tokens=write_1h or 0,
        output_tokens=_newer(getattr(new, "output_tokens", None), old.output_tokens),
    )


def _newer(new: int | None, old: int) -> int:
    return old if new is None else new
