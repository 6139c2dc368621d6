"""The steps of a script over a wire, without a socket: the adapter's request in its server's reading, the step in its bytes.

`SpokenCall` is a call of the memory twin's script (`Say`, `Fail`) whose request and answer pass through the adapter of a wire and
through the encoding of the scripted model. Each text of the request must arrive, in its order. A wire that has no field for
the counts of a step skips the test: chat completions count no written tokens. A suite whose fixture `wire` calls
`speak_over` runs over each wire; a landing runs it over Messages.
"""

from __future__ import annotations

import functools
import io
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest
import urllib3
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from msgspec.structs import replace

from stepline.adapters.anthropic.provider import AnthropicProvider
from stepline.adapters.aws.client import session
from stepline.adapters.chat.provider import ChatProvider
from stepline.adapters.converse.provider import ConverseProvider
from stepline.adapters.memory.model import Fail, MemoryModelStream, Say, end_at_limit
from stepline.adapters.provider.wire import WireProvider
from stepline.errors import (
    ContextLimit,
    DependencyError,
    ModelOverloaded,
    ModelRateLimited,
    ModelRefused,
    ModelStreamBroken,
    ModelTimeout,
    ModelUnreachable,
    SteplineError,
)
from stepline.local.scripted import event_stream as wire
from stepline.local.scripted.cache import CacheUse
from stepline.local.scripted.messages_request import parse_prompt
from stepline.local.scripted.wire.wire_format import WIRE_FORMATS
from stepline.model.decision import Declined
from stepline.model.usage import Usage, estimate_tokens
from stepline.ports.model import AnswerFacts, Media, ModelRequest, ProviderCall, RoleChoice

WIRE_COLUMNS: Final = (pytest.param("messages", id=pytest.HIDDEN_PARAM), "chat", "converse")
"""The parameters of a fixture `wire`. The name of a test has no word for Messages, so that it is the same with and without wires."""
_IDENT: Final = "msg_spoken"
_URL: Final = "http://model.test/v1"
_BROKEN: Final = {
    "messages": b'event: content_block_delta\ndata: {"type": "content_block_de\n\n',
    "chat": b'data: {"choices": [{"del\n\n',
    "converse": b"\0\0\0\x20" * 9,
}
_FULL: Final = "prompt is too long: 200001 tokens > 200000 maximum"
_REFUSALS: Final[dict[type[SteplineError], tuple[int, str]]] = {
    ModelRateLimited: (429, "rate_limit_error"),
    ModelOverloaded: (529, "overloaded_error"),
    ContextLimit: (400, "invalid_request_error"),
    ModelRefused: (400, "invalid_request_error"),
    DependencyError: (409, "conflict_error"),
}
"""An error of a script, and the status and the kind of its refusal."""


def speak_over(name: str, patch: pytest.MonkeyPatch) -> str:
    """Let every call of a script pass over a wire, and return its name."""
    patch.setattr(MemoryModelStream, "begin_call", functools.partial(SpokenCall, name))
    return name


def declined_over(name: str, declined: Declined) -> Declined:
    """Return a refusal as a wire has it: chat completions have words or a filter, Converse has a filter or a guardrail."""
    if name == "converse":
        return replace(declined, category="content_filtered", explanation="")
    if name == "chat":
        return replace(declined, category="" if declined.explanation else "content_filter")
    return declined


class _Body(io.BytesIO):
    """The body of an answer; with `silent` the server sends no more, and keeps the connection."""

    silent: bool = False

    def read1(self, size: int | None = -1, /) -> bytes:
        return self._or_silence(super().read1(size))

    def read(self, size: int | None = -1, /) -> bytes:
        return self._or_silence(super().read(size))

    def _or_silence(self, data: bytes) -> bytes:
        if self.silent and not data:
            raise TimeoutError("timed out")
        return data


class SpokenCall:
    """One step of a script (`ProviderCall`) over a wire."""

    def __init__(
        self, name: str, request: ModelRequest, role: RoleChoice, next_step: Callable[[], Say | Fail]
    ) -> None:
        self._name = name
        self._format = WIRE_FORMATS[name]
        self._request = request
        self._model = role.model
        self._next_step = next_step
        self._line = line_of(name)
        self._call: ProviderCall = self._line.provider.call(request, role)

    @property
    def facts(self) -> AnswerFacts:
        return self._call.facts

    def send(self) -> None:
        step = self._next_step()
        step = end_at_limit(step, self._request.max_tokens) if isinstance(step, Say) else step
        unheard = isinstance(step, Fail) and isinstance(step.error, ModelTimeout | ModelUnreachable)
        if isinstance(step, Fail) and unheard and not step.after_chars:
            raise step.error  # there is no answer
        self._line.reply = functools.partial(self._reply, step)
        self._call.send()

    def __iter__(self) -> Iterator[str]:
        return iter(self._call)

    def renew(self) -> bool:
        return self._call.renew()

    def close(self) -> None:
        self._call.close()

    def shut_down(self) -> None:
        self._call.shut_down()

    def _reply(self, step: Say | Fail, body: Any) -> urllib3.HTTPResponse:
        self._check(body)
        if isinstance(step, Fail) and not step.after_chars and not isinstance(step.error, ModelStreamBroken):
            return self._refuse(step.error)
        encode = self._format.begin(body)
        sent = [one if isinstance(one, bytes) else encode(one) for one in self._events(step)]
        answer = _Body(b"".join(sent))
        answer.silent = isinstance(step, Fail) and isinstance(step.error, ModelTimeout)
        return urllib3.HTTPResponse(
            answer, headers={"content-type": self._format.mime}, status=200, preload_content=False
        )

    def _check(self, body: Any) -> None:
        """Read the request as the server does: every text of it has arrived, once and in its order."""
        prompt = parse_prompt(self._format.read(body, self._model))
        parts = [part for part in self._request.content if isinstance(part, Media) or part.text.strip()]
        texts = ["" if isinstance(part, Media) else part.text for part in parts]
        assert prompt.newest_message == "\n".join(texts)
        assert prompt.system == "\n".join(one.text for one in self._request.system if one.text.strip())

    def _refuse(self, error: SteplineError) -> urllib3.HTTPResponse:
        status, kind = next(row for ours, row in _REFUSALS.items() if isinstance(error, ours))
        words = _FULL if isinstance(error, ContextLimit) else str(error)
        status, body = self._format.refuse(status, kind, words)
        wait_s = error.context.get("retry_after_s")
        headers = [] if wait_s is None else [self._format.asks_wait(float(str(wait_s)))]
        return urllib3.HTTPResponse(
            io.BytesIO(json.dumps(body).encode()), headers=headers, status=status, preload_content=False
        )

    def _events(self, step: Say | Fail) -> Iterator[wire.Event | bytes]:
        """Yield the events of a step as those of Messages."""
        said = step if isinstance(step, Say) else Say(text=step.text[: step.after_chars])
        counted = said.usage or Usage(
            input_tokens=sum(part.tokens for part in (*self._request.system, *self._request.content)),
            output_tokens=estimate_tokens(said.text),
        )
        self._check_counts(counted)
        use = CacheUse(
            read=counted.cache_read_tokens,
            write_5m=counted.cache_write_5m_tokens,
            write_1h=counted.cache_write_1h_tokens,
            plain=counted.input_tokens,
        )
        yield from wire.opening(ident=_IDENT, model=self._model, use=use)
        yield wire.block_start(0, {"type": "text", "text": ""})
        for at in range(0, len(said.text), said.piece_chars):
            yield wire.delta(said.text[at : at + said.piece_chars])
        if isinstance(step, Fail):
            yield from self._break(step.error)
            return
        refusal = wire.refusal(said.declined.category, said.declined.explanation)
        stop = refusal if said.stop_reason == "refusal" else wire.Stop(reason=said.stop_reason)
        yield {"type": "content_block_stop", "index": 0}
        yield from wire.closing(stop=stop, counts=wire.usage(use, output_tokens=counted.output_tokens))

    def _break(self, error: SteplineError) -> Iterator[wire.Event | bytes]:
        """End an answer early: with bytes that no one can read, or with an error; a cut and a silence have nothing more."""
        if error.reason == "stream_malformed":
            yield _BROKEN[self._name]
        elif not isinstance(error, ModelStreamBroken | ModelTimeout):
            _, kind = next(row for ours, row in _REFUSALS.items() if isinstance(error, ours))
            words = _FULL if isinstance(error, ContextLimit) else str(error)
            yield wire.error(kind, words, request_id="req_in_stream")

    def _check_counts(self, counted: Usage) -> None:
        """Skip the test if the wire has no field for its counts."""
        unsaid = ""
        if counted.estimated:
            unsaid = "a count that is an estimate"
        elif self._name == "chat" and (counted.cache_write_5m_tokens or counted.cache_write_1h_tokens):
            unsaid = "written tokens"
        elif self._name == "converse" and counted.cache_write_1h_tokens:
            unsaid = "tokens written for an hour"
        if unsaid:
            pytest.skip(f"{self._name} has no field for {unsaid}")


class Line:
    """The provider of a wire; its connection is `reply`, the answer to the body of the next request."""

    def __init__(self, provider: WireProvider) -> None:
        self.provider = provider
        self.reply: Callable[[Any], urllib3.HTTPResponse]

    def request(self, *_: str, body: bytes, **__: Any) -> urllib3.HTTPResponse:
        """Answer as urllib3's pool does."""
        return self.reply(json.loads(body))

    def answer(self, request: AWSPreparedRequest, **_: Any) -> AWSResponse:
        """Answer as botocore's session does."""
        raw = self.reply(json.loads(request.body))
        return AWSResponse(request.url, raw.status, raw.headers, raw)


@functools.cache
def line_of(name: str) -> Line:
    """Return the line of a wire, which all calls of a process use in turn."""
    if name == "converse":
        with _account():
            found = Line(ConverseProvider(base_url=_URL))
            served: Any = found.provider.transport()
        served._client.meta.events.register_first("before-send.bedrock-runtime.*", found.answer)
        return found
    key = functools.partial(str, "key")
    if name == "chat":
        found = Line(ChatProvider(api_key=key, base_url=_URL, takes=("pictures", "documents")))
    else:
        found = Line(AnthropicProvider(api_key=key, base_url=_URL))
    served = found.provider.transport()
    served._pool = found
    return found


@contextmanager
def _account() -> Iterator[None]:
    """Have credentials that no account has, while a client is made."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, "testing")
        patch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
        session.cache_clear()
        yield
        session.cache_clear()
