"""What one model call consumed.

A cache that was read for less than it holds, and what we know of why.

What the open turn has come to so far, in numbers that ride in the state, so that its end needs no reading back.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Literal, TypeAlias

from msgspec.structs import astuple

from stepline.model.base import Row, Value

BYTES_PER_TOKEN: Final = (
    3.2  # of UTF-8; errs on the high side for English, measured with no tokenizer at hand
)


class Usage(Row):
    """Tokens by cache class.

    `input_tokens` are the ones neither read from nor written to a cache. `estimated` marks a call that ended
    before the provider counted all of it.
    """

    input_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_5m_tokens: int = 0
    cache_write_1h_tokens: int = 0
    output_tokens: int = 0
    estimated: bool = False

    @property
    def prompt_tokens(self) -> int:
        """Everything the model read, cached or not."""
        return (
            self.input_tokens
            + self.cache_read_tokens
            + self.cache_write_5m_tokens
            + self.cache_write_1h_tokens
        )


def estimate_tokens(text: str) -> int:
    """Return about how many tokens a text has, without a tokenizer; 0 for none."""
    return estimate_tokens_of(len(text.encode("utf-8", "surrogatepass")))


def estimate_tokens_of(size_bytes: int) -> int:
    """Return about how many tokens a text of so many bytes in UTF-8 has."""
    return -int(-size_bytes // BYTES_PER_TOKEN)


def sum_usages(usages: Iterable[Usage]) -> Usage:
    """Return what several calls consumed together."""
    # A long log has thousands: adding up columns costs a third of adding up values.
    columns = dict(
        zip(Usage.__struct_fields__, map(sum, zip(*map(astuple, usages), strict=True)), strict=False)
    )
    totals: dict[str, Any] = {**columns, "estimated": columns.get("estimated", 0) > 0}
    return Usage(**totals)


BustReason: TypeAlias = Literal["system", "model", "hide", "prune", "compaction", "feedback", "provider"]


class Bust(Value):
    """A warm request read fewer tokens from the cache than the one before left there. `provider`: no doing of ours."""

    reason: BustReason
    expected_tokens: int
    read_tokens: int


class Tally(Row):
    """Counts of the open turn; all zero while none is open.

    `rounds` are recorded decisions, refused ones included, `files` what was offered to the user, a file once
    each time it is written. `model_ms` is spent on decisions, `tools_ms` in tools. `opened_ms` is when the turn
    began, in milliseconds of the epoch; 0 if that was not counted yet.
    """

    usage: Usage = Usage()
    rounds: int = 0
    files: int = 0
    model_ms: int = 0
    tools_ms: int = 0
    opened_ms: int = 0
