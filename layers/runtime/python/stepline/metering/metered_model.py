"""A model client that adds each call to the ledger once, also if it failed, ended early, or was retried internally."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Self

from stepline.metering.convention import (
    FIRST_CHUNK_S,
    REQUEST_MODEL,
    answer_attributes,
    answer_texts,
    failure_code,
    request_attributes,
    request_texts,
)
from stepline.metering.ledger import Ledger
from stepline.metering.span import NO_SPAN, Span
from stepline.model.tenancy.price import Prices
from stepline.model.usage import ModelCall, Usage
from stepline.ports.model import Completion, ModelClient, ModelRequest, ModelStream


def _keep_nothing(_: ModelCall) -> None: ...


@dataclass(frozen=True, kw_only=True)
class Metering:
    """The ledger that calls are added to, and the prices that they have at the time `at` (ISO-8601).

    `note` stores a call outside this process, when the provider has counted its prompt and again at its end: if the process
    dies before a batch records the call, another process records it. `span` is the parent of the calls' spans.
    """

    ledger: Ledger = field(default_factory=Ledger)
    prices: Prices = field(default_factory=Prices)
    at: str = ""
    note: Callable[[ModelCall], None] = _keep_nothing
    span: Span = NO_SPAN

    def call(self, role: str, model: str, usage: Usage, *, id: str = "") -> ModelCall:  # noqa: A002 - the field's name
        """Return the row of a call, priced at `at`; its id is new if none is given."""
        return self.prices.call(role, model, usage, self.at, id=id or new_call_id())


def new_call_id() -> str:
    """Return a random id of 8 hex digits for a call; it distinguishes the calls in a conversation's log."""
    return secrets.token_hex(4)


@dataclass(frozen=True, kw_only=True)
class MeteredModel:
    """A model whose streams are metered; the tokens of each call, with its failed tries, are appended to `usages`."""

    model: ModelClient
    metering: Metering
    usages: list[Usage] = field(default_factory=list)

    def stream(self, request: ModelRequest) -> MeteredStream:
        return MeteredStream(self.model.stream(request), request, self.metering, self.usages)


class MeteredStream:
    """A call that is added to the ledger once.

    That is when its iteration ends, fails or is abandoned, or at the end of its `with` block.
    """

    def __init__(
        self, running: ModelStream, request: ModelRequest, metering: Metering, usages: list[Usage]
    ) -> None:
        self._running = running
        self._request = request
        self._span = NO_SPAN
        self._metering = metering
        self._usages = usages
        self._id = new_call_id()
        self._begun = False
        self._entered = False
        self._recorded = False

    def __enter__(self) -> Self:
        self._running.__enter__()
        self._entered = True
        return self

    def __exit__(self, *exc: object) -> None:
        self._running.__exit__(*exc)
        self._record()

    def __iter__(self) -> Iterator[str]:
        """Yield the text. The first piece may be empty: the provider has then only counted the prompt."""
        noted = False
        self._begun = True
        if self._metering.span.traced:
            self._trace()
        try:
            for piece in self._running:
                if not noted:
                    noted = True
                    self._span.set({FIRST_CHUNK_S: self._span.seconds()})
                    self._metering.note(self._call(self._running.completion()))
                if piece:
                    yield piece
        except GeneratorExit:  # abandoned midway: the end of the `with` block knows more
            if not self._entered:
                self._record()
            raise
        except BaseException as error:
            self._span.fail(failure_code(error))
            self._record()
            raise
        self._record()

    def abort(self) -> None:
        self._running.abort()

    def completion(self) -> Completion:
        return self._running.completion()

    def _record(self) -> None:
        if self._recorded or not self._begun:
            return
        self._recorded = True
        made, metering = self._running.completion(), self._metering
        self._usages.append(made.cost)
        calls = [
            metering.call(self._request.role, one.model, one.usage)
            for one in made.tries
            if _counts(one.usage)
        ]
        if _counts(made.usage):
            calls.append(self._call(made))
        for call in calls:
            metering.ledger.called(call)
            metering.note(call)
        if self._span.traced:
            self._end_trace(made)

    def _trace(self) -> None:
        """Begin a span: from now on the provider is called."""
        span, model = self._metering.span, self._running.completion().model
        self._span = span.begin(
            f"chat {model}",
            {**request_attributes(self._request, span.provider), REQUEST_MODEL: model},
            kind="client",
        )
        if span.texts:
            self._span.set(request_texts(self._request))

    def _end_trace(self, made: Completion) -> None:
        self._span.set(answer_attributes(made))
        if self._span.texts:
            self._span.set(answer_texts(made.text, made.stop_reason))
        self._span.end()

    def _call(self, made: Completion) -> ModelCall:
        return self._metering.call(self._request.role, made.model, made.usage, id=self._id)


def _counts(usage: Usage) -> bool:
    return bool(usage.prompt_tokens or usage.output_tokens)
