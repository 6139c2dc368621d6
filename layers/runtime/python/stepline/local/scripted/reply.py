"""A planned reply: its status, text and events, and the point where a fault breaks it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from stepline.local.scripted import event_stream as wire
from stepline.local.scripted.cache import CacheUse
from stepline.local.scripted.fault import MALFORMED_ANSWER, Fault, spoil_prefix, spoil_quote
from stepline.local.scripted.messages_request import BadRequestError, Prompt, count_tokens
from stepline.local.scripted.policy import answer_prompt
from stepline.local.scripted.thought import ScriptedThought
from stepline.model.base import Value

PIECE_CHARS: Final = 4
THOUGHT: Final = "I follow fixed rules, and think nothing. "
_ERRORS: Final = {
    "rate_limited": (429, "rate_limit_error", "This request would exceed your organization's rate limit"),
    "overloaded": (529, "overloaded_error", "Overloaded"),
    "invalid_request": (400, "invalid_request_error", "messages: this request is refused on demand"),
    "server_error": (500, "api_error", "Internal server error"),
}
_BROKEN_EVENT: Final = b'event: content_block_delta\ndata: {"type": "content_block_de\n\n'


class ScriptedReply(Value):
    """The reply to send. For a status other than 200, `text` is the error's message.

    The stream breaks after character `break_at`, in the way that `broken` names.
    """

    text: str
    use: CacheUse
    status: int = 200
    error_type: str = ""
    retry_after_s: float | None = None
    model: str = ""
    thought: ScriptedThought = ScriptedThought()
    stop: wire.Stop = wire.Stop()
    broken: str = ""
    break_at: int = 0
    token_delay_ms: float | None = None
    first_delay_ms: float = 0

    @property
    def counts(self) -> wire.Event:
        """The `usage` of the whole answer."""
        output = self.thought.tokens + count_tokens(self.text)
        return wire.usage(self.use, output_tokens=max(1, output), thinking_tokens=self.thought.tokens)

    @property
    def thoughts(self) -> str:
        """The text of the thinking; empty if hidden."""
        return (THOUGHT * self.thought.tokens)[: self.thought.tokens * 4] if self.thought.shown else ""

    def message(self, prompt: Prompt) -> wire.Event:
        """Return the answer in one piece."""
        content = [wire.thinking_block(self.thoughts)] if self.thought.tokens else []
        content += [{"type": "text", "text": self.text}] if self.text else []
        model = self.model or prompt.model
        return wire.message(content, ident=wire.message_id(), model=model, stop=self.stop, counts=self.counts)

    def events(
        self, prompt: Prompt, *, token_delay_ms: float
    ) -> Iterator[tuple[float, wire.Event | bytes | None]]:
        """Yield events, each with the delay before it in ms; None means to cut the connection."""
        delay_ms = token_delay_ms if self.token_delay_ms is None else self.token_delay_ms
        index = int(self.thought.tokens > 0)
        for event in self._opening(prompt, index):
            yield 0, event
        text = self.text[: self.break_at] if self.broken else self.text
        for at in range(0, len(text), PIECE_CHARS):
            yield (delay_ms if at else self.first_delay_ms), wire.delta(text[at : at + PIECE_CHARS], index)
        match self.broken:
            case "cut":
                yield 0, None
            case "malformed_stream":
                yield 0, _BROKEN_EVENT
            case "error_in_stream":
                yield 0, wire.error(self.error_type, "Overloaded", request_id="req_in_stream")
            case _:
                if not self._starved:
                    yield 0, {"type": "content_block_stop", "index": index}
                for event in wire.closing(stop=self.stop, counts=self.counts):
                    yield 0, event

    def _opening(self, prompt: Prompt, index: int) -> Iterator[wire.Event]:
        """Yield the events before the first text, which is block `index`."""
        yield from wire.opening(ident=wire.message_id(), model=self.model or prompt.model, use=self.use)
        if self.thought.tokens:
            yield from wire.thinking(self.thoughts)
        if not self._starved:
            yield wire.block_start(index, {"type": "text", "text": ""})
        yield {"type": "ping"}

    @property
    def _starved(self) -> bool:
        """True if thinking left no room for a text."""
        return self.stop.reason == "max_tokens" and not self.text


def plan_reply(
    prompt: Prompt,
    fault: Fault | None,
    *,
    thought: ScriptedThought,
    use: CacheUse,
    window_tokens: int,
    fixtures: Path | None,
) -> ScriptedReply:
    """Return the reply to a request under a fault. Raises BadRequestError where the provider would refuse."""
    if fault is not None and fault.kind in _ERRORS:
        status, kind, words = _ERRORS[fault.kind]
        return ScriptedReply(
            text=words, use=use, status=status, error_type=kind, retry_after_s=fault.retry_after_s
        )
    _check_window(prompt, window_tokens, forced=fault is not None and fault.kind == "context_limit")
    if fault is not None and fault.kind == "thinking":
        thought = replace(thought, tokens=fault.thinking_tokens)
    thought = replace(thought, tokens=min(thought.tokens, prompt.max_tokens))
    text, stop = _finish(prompt, _text(prompt, fault, fixtures), prompt.max_tokens - thought.tokens)
    if fault is None:
        return ScriptedReply(text=text, use=use, thought=thought, stop=stop)
    if fault.kind == "refusal":
        stop = wire.refusal(fault.category, fault.explanation)
    elif fault.stop_reason:
        stop = replace(stop, reason=fault.stop_reason)
    broken = fault.kind if fault.kind in ("cut", "malformed_stream", "error_in_stream") else ""
    return ScriptedReply(
        text=text,
        use=use,
        model=fault.model,
        thought=thought,
        stop=stop,
        error_type=fault.error_type,
        broken=broken,
        break_at=min(fault.after_chars, len(text)),
        token_delay_ms=fault.token_delay_ms,
        first_delay_ms=fault.first_delay_ms,
    )


def _text(prompt: Prompt, fault: Fault | None, fixtures: Path | None) -> str:
    if fault is None:
        return answer_prompt(prompt)
    match fault.kind:
        case "refusal":
            text = fault.text
        case "malformed_protocol":
            text = MALFORMED_ANSWER
        case "bad_prefix":
            text = spoil_prefix(answer_prompt(prompt), fault.text)
        case "unescaped_quote":
            text = spoil_quote(answer_prompt(prompt))
        case "fixture" if not fault.text:
            text = _fixture(fault.name, fixtures)
        case _:
            text = fault.text or answer_prompt(prompt)
    return text


def _fixture(name: str, fixtures: Path | None) -> str:
    if fixtures is None or not name or Path(name).name != name:
        raise BadRequestError(f"no such fixture: {name!r}", status=404, kind="not_found_error")
    path = fixtures / name
    if not path.is_file():
        raise BadRequestError(f"no such fixture: {name!r}", status=404, kind="not_found_error")
    return path.read_bytes().decode("utf-8", "surrogatepass")


def _check_window(prompt: Prompt, window_tokens: int, *, forced: bool) -> None:
    if forced or prompt.tokens > window_tokens:
        raise BadRequestError(
            f"prompt is too long: {max(prompt.tokens, window_tokens + 1)} tokens > {window_tokens} maximum"
        )
    if prompt.tokens + prompt.max_tokens > window_tokens:
        raise BadRequestError(
            f"input length and `max_tokens` exceed context limit: {prompt.tokens} + {prompt.max_tokens} > "
            f"{window_tokens}, decrease input length or `max_tokens` and try again"
        )


def _finish(prompt: Prompt, text: str, max_tokens: int) -> tuple[str, wire.Stop]:
    """Stop a text at the first stop sequence or at `max_tokens`, whichever comes first."""
    ends = [(at, stop) for stop in prompt.stop_sequences if stop and (at := text.find(stop)) >= 0]
    stop = wire.Stop()
    if ends:
        at, sequence = min(ends)
        text, stop = text[:at], wire.Stop(reason="stop_sequence", sequence=sequence)
    if count_tokens(text) > max_tokens:
        text = text.encode("utf-8", "surrogatepass")[: max_tokens * 4].decode("utf-8", "ignore")
        return text, wire.Stop(reason="max_tokens")
    return text, stop
