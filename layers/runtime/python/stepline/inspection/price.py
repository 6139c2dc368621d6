"""The list prices of the models, by date: what a call cost, where its price is known.

A model of Bedrock has the prices of its region, which are not known here. Source: the page "Pricing" of
platform.claude.com, read in November 2026.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from stepline.model.usage import Usage

READ: Final = "2026-11-24"
"""The date of the table."""
MILLION: Final = 1_000_000
WRITE_5M: Final = 1.25
WRITE_1H: Final = 2.0
"""The price of a token written to a cache, relative to a plain one."""


class Price(NamedTuple):
    """US dollars for a million tokens, for calls since a date; for prompts of more than `above` tokens, if that is not 0."""

    model: str
    plain: float
    read: float
    output: float
    since: str = ""
    above: int = 0


PRICES: Final = (
    # By the beginning of the model's name. The first row that fits counts: a version stands before its family, a newer
    # or narrower price before an older or wider one.
    Price("claude-fable-5-1", 10.0, 0.25, 50.0),
    Price("claude-mythos-5-1", 10.0, 0.25, 50.0),
    Price("claude-fable-5", 10.0, 1.0, 50.0),
    Price("claude-mythos-5", 10.0, 1.0, 50.0),
    Price("claude-opus-5-5", 4.0, 0.2, 20.0),
    Price("claude-opus-5", 5.0, 0.5, 25.0),
    Price("claude-opus-4-8", 5.0, 0.5, 25.0),
    Price("claude-opus-4-7", 5.0, 0.5, 25.0),
    Price("claude-opus-4-6", 5.0, 0.5, 25.0),
    Price("claude-opus-4-5", 5.0, 0.5, 25.0),
    Price("claude-sonnet-5-5", 2.0, 0.1, 10.0, since="2026-10-07"),
    Price("claude-sonnet-5", 2.0, 0.2, 10.0),
    Price("claude-sonnet-4", 3.0, 0.3, 15.0),
    Price("claude-haiku-5-5", 0.5, 0.05, 2.5, above=100_000),
    Price("claude-haiku-5-5", 0.1, 0.01, 0.5),
    Price("claude-haiku-4-5", 1.0, 0.1, 5.0),
)


def price_call(model: str, usage: Usage, at: str) -> float | None:
    """Return the cost of a call of `at` in US dollars; None if the price of the model is not known."""
    row = next(
        (
            row
            for row in PRICES
            if model.startswith(row.model)
            and at >= row.since
            and (not row.above or usage.prompt_tokens > row.above)
        ),
        None,
    )
    if row is None:
        return None
    plain = (
        usage.input_tokens + usage.cache_write_5m_tokens * WRITE_5M + usage.cache_write_1h_tokens * WRITE_1H
    )
    spent = plain * row.plain + usage.cache_read_tokens * row.read + usage.output_tokens * row.output
    return round(spent / MILLION, 8)
