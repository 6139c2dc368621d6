"""The price table of model calls, by date. A deployment overrides it with its own prices (`STEPLINE_PRICES`).

A model of Bedrock has the prices of its region, which are not known here. Sums are kept in billionths of a US dollar,
so that they are whole numbers. Source: the page "Pricing" of platform.claude.com, read in November 2026.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from stepline.errors import InputError
from stepline.model.base import Value
from stepline.model.tenancy.limits import NANOS_PER_USD
from stepline.model.usage import ModelCall, Usage

PRICES_AS_OF: Final = "2026-11-24"
"""The date of the table."""
WRITE_5M: Final = 1.25
WRITE_1H: Final = 2.0
"""The price of a token written to a cache, relative to a plain one."""
SCRIPTED: Final = "scripted"
"""The name by which the local stage calls its scripted model."""
NANOS_PER_TOKEN: Final = 1_000
"""Of a dollar for a million tokens."""


class ModelPrice(Value, forbid_unknown_fields=True):
    """US dollars for a million tokens of the models whose names begin with `model`, for calls since a date.

    With `above` it applies to prompts of more tokens than that.
    """

    model: str
    plain: float
    read: float
    output: float
    since: str = ""
    above: int = 0

    def holds(self, model: str, usage: Usage, at: str) -> bool:
        """Return True if a call of `at` has this price."""
        named = model.startswith(self.model) and at >= self.since
        return named and (not self.above or usage.prompt_tokens > self.above)


def _row(
    model: str, plain: float, read: float, output: float, *, since: str = "", above: int = 0
) -> ModelPrice:
    return ModelPrice(model=model, plain=plain, read=read, output=output, since=since, above=above)


MODELS: Final = (
    # The first row that matches counts: a version precedes its family, a newer or narrower price an older or wider one.
    _row("claude-fable-5-1", 10.0, 0.25, 50.0),
    _row("claude-mythos-5-1", 10.0, 0.25, 50.0),
    _row("claude-fable-5", 10.0, 1.0, 50.0),
    _row("claude-mythos-5", 10.0, 1.0, 50.0),
    _row("claude-opus-5-5", 4.0, 0.2, 20.0),
    _row("claude-opus-5", 5.0, 0.5, 25.0),
    _row("claude-opus-4-8", 5.0, 0.5, 25.0),
    _row("claude-opus-4-7", 5.0, 0.5, 25.0),
    _row("claude-opus-4-6", 5.0, 0.5, 25.0),
    _row("claude-opus-4-5", 5.0, 0.5, 25.0),
    _row("claude-sonnet-5-5", 2.0, 0.1, 10.0, since="2026-10-07"),
    _row("claude-sonnet-5", 2.0, 0.2, 10.0),
    _row("claude-sonnet-4", 3.0, 0.3, 15.0),
    _row("claude-haiku-5-5", 0.5, 0.05, 2.5, above=100_000),
    _row("claude-haiku-5-5", 0.1, 0.01, 0.5),
    _row("claude-haiku-4-5", 1.0, 0.1, 5.0),
    _row(SCRIPTED, 0.0, 0.0, 0.0),
)


class Prices(Value, forbid_unknown_fields=True):
    """The prices of a deployment: `models` override those of the table, `units` are its own unit prices by name."""

    models: tuple[ModelPrice, ...] = ()
    units: Mapping[str, float] = msgspec.field(default_factory=dict, name="aws")

    def nanos(self, model: str, usage: Usage, at: str) -> int | None:
        """Return the cost of a call of `at` in billionths of a dollar; None if the price of the model is not known."""
        row = next((row for row in (*self.models, *MODELS) if row.holds(model, usage, at)), None)
        if row is None:
            return None
        plain = (
            usage.input_tokens
            + usage.cache_write_5m_tokens * WRITE_5M
            + usage.cache_write_1h_tokens * WRITE_1H
        )
        spent = plain * row.plain + usage.cache_read_tokens * row.read + usage.output_tokens * row.output
        return round(spent * NANOS_PER_TOKEN)

    def call(self, role: str, model: str, usage: Usage, at: str, *, id: str = "") -> ModelCall:  # noqa: A002 - the field's name
        """Return the record of a call of `at`."""
        nanos = self.nanos(model, usage, at)
        return ModelCall(
            role=role, model=model, usage=usage, nanos=nanos or 0, priced=nanos is not None, id=id
        )


def read_prices(given: Mapping[str, Any]) -> Prices:
    """Return the prices of the setting; the table's alone if it is empty. Raises InputError `bad_prices`."""
    try:
        return msgspec.convert(given, Prices)
    except msgspec.ValidationError as error:
        raise InputError(f"STEPLINE_PRICES: {error}", code="bad_prices") from error


def dollars(nanos: int) -> float:
    """Return billionths of a dollar in dollars."""
    return nanos / NANOS_PER_USD
