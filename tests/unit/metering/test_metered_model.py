"""A metered model records each call once, whatever ends it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

import pytest

from stepline.adapters.memory.model import Fail, MemoryModelClient, Say
from stepline.errors import ModelOverloaded, ModelStreamBroken, SteplineError
from stepline.metering.ledger import Ledger
from stepline.metering.metered_model import MeteredModel, Metering
from stepline.model.tenancy.price import read_prices
from stepline.model.usage import ModelCall, Usage
from stepline.ports.model import Completion, ModelRequest, ModelStream, Part

REQUEST = ModelRequest(
    role="test", system=(Part(text="Be brief."),), content=(Part(text="Go."),), max_tokens=99
)
PRICES = read_prices({"models": [{"model": "memory", "plain": 1, "read": 1, "output": 1}]})
CUT = ModelStreamBroken("cut", code="stream_cut")
LONG = "word " * 20


class Metered:
    def __init__(self, *script: Say | Fail | str) -> None:
        self.noted: list[ModelCall] = []
        self.ledger = Ledger()
        self.model = MeteredModel(
            model=MemoryModelClient(*script),
            metering=Metering(ledger=self.ledger, prices=PRICES, note=self.noted.append),
        )

    def read(self, most: int = 999) -> list[str]:
        with self.model.stream(REQUEST) as running:
            return [piece for _, piece in zip(range(most), running, strict=False)]


def test_a_call_has_its_role_its_tokens_and_its_price() -> None:
    metered = Metered("Done.")
    metered.read()
    (call,) = metered.ledger.calls
    assert (call.role, call.model, call.priced, call.usage.estimated) == ("test", "memory", True, False)
    assert call.nanos == 1_000 * (call.usage.prompt_tokens + call.usage.output_tokens) > 0


def test_each_failed_try_that_used_tokens_is_a_separate_call() -> None:
    metered = Metered(Fail(error=CUT), Fail(error=ModelOverloaded("busy")), "Done.")
    metered.read()
    cut, answer = metered.ledger.calls
    assert cut.usage.input_tokens == answer.usage.input_tokens > 0
    assert (cut.usage.estimated, answer.usage.estimated) == (True, False)
    assert cut.id != answer.id


def test_a_call_that_failed_midway_is_recorded() -> None:
    metered = Metered(Fail(error=CUT, text=LONG, after_chars=16))
    with pytest.raises(SteplineError):
        metered.read()
    (call,) = metered.ledger.calls
    assert call.usage.output_tokens > 0


def test_a_call_that_was_abandoned_midway_is_recorded_once() -> None:
    metered = Metered(LONG)
    metered.read(most=2)
    (call,) = metered.ledger.calls
    assert call.usage.estimated


def test_a_call_abandoned_without_a_with_block_is_recorded() -> None:
    metered = Metered(LONG)
    pieces = iter(metered.model.stream(REQUEST))
    next(pieces)
    del pieces
    assert len(metered.ledger.calls) == 1


def test_an_aborted_call_is_recorded_with_what_was_read() -> None:
    metered = Metered(LONG)
    with metered.model.stream(REQUEST) as running:
        for _ in running:
            running.abort()
    (call,) = metered.ledger.calls
    assert call.usage.input_tokens > 0


def test_a_call_that_was_refused_or_never_sent_used_nothing() -> None:
    metered = Metered(*[Fail(error=ModelOverloaded("busy"))] * 3)
    with pytest.raises(ModelOverloaded):
        metered.read()
    with metered.model.stream(REQUEST):
        pass
    assert metered.ledger.calls == ()


def test_a_call_is_noted_when_its_prompt_is_counted_and_at_its_end() -> None:
    metered = Metered(LONG)
    metered.read()
    first, last = metered.noted
    assert (first.id, first.usage.input_tokens) == (last.id, last.usage.input_tokens)
    assert metered.ledger.calls == (last,)


class Counting:
    """A provider that counts the prompt before it writes anything."""

    def stream(self, _: ModelRequest) -> ModelStream:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def __iter__(self) -> Iterator[str]:
        yield ""
        yield "text"

    def abort(self) -> None: ...

    def completion(self) -> Completion:
        return Completion(text="", stop_reason="cut", usage=Usage(input_tokens=7), model="memory")


def test_a_prompt_count_before_any_text_is_noted_but_not_yielded() -> None:
    metered = Metered()
    model = MeteredModel(model=Counting(), metering=metered.model.metering)
    with model.stream(REQUEST) as running:
        pieces = iter(running)
        assert next(pieces) == "text"
        assert [call.usage.input_tokens for call in metered.noted] == [7]
