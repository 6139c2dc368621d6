"""The usage of model calls.

A `Bust` is a request that read less from a cache than the cache held, with the known cause. A `Tally` counts the open
turn in the state, so that its end need not read the log again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal, TypeAlias

from msgspec.structs import astuple, replace

from stepline.model.base import Row, Value

BYTES_PER_TOKEN: Final = (
    3.2  # of UTF-8; errs on the high side for English, measured with no tokenizer at hand
)


class Usage(Row):
    """Tokens by cache class.

    `input_tokens` are those neither read from nor written to a cache. `estimated` marks a call that ended
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
        """All input tokens, cached or not."""
        return (
            self.input_tokens
            + self.cache_read_tokens
            + self.cache_write_5m_tokens
            + self.cache_write_1h_tokens
        )


class ModelCall(Row):
    """One call of a model: its role, the model that answered, its tokens, and its cost when it was made.

    `nanos` are billionths of a US dollar; without `priced` the model's price was not known, and they are 0. `id` is
    unique in its conversation, so that two processes that know a call record it once. `count` calls of one kind may be
    in one row, if a batch would have too many; `id` then has those of all, with commas between.
    """

    role: str
    model: str
    usage: Usage
    nanos: int = 0
    priced: bool = False
    id: str = ""
    count: int = 1


def estimate_tokens(text: str) -> int:
    """Return an estimate of a text's tokens, without a tokenizer; 0 for no text."""
    return estimate_tokens_of(len(text.encode("utf-8", "surrogatepass")))


def estimate_tokens_of(size_bytes: int) -> int:
    """Return an estimate of the tokens of a text with this size in UTF-8."""
    return -int(-size_bytes // BYTES_PER_TOKEN)


def sum_usages(usages: Iterable[Usage]) -> Usage:
    """Return the sum of several calls' usage."""
    # A long log has thousands: adding columns takes a third of the time of adding values.
    columns = dict(
        zip(Usage.__struct_fields__, map(sum, zip(*map(astuple, usages), strict=True)), strict=False)
    )
    totals: dict[str, Any] = {**columns, "estimated": columns.get("estimated", 0) > 0}
    return Usage(**totals)


CALLS_MAX: Final = 64
"""The most rows of calls in a batch: beyond it, those of one role and model are one row."""
IDS_MAX: Final = 256
"""The most ids in the rows of a batch."""


def join_calls(calls: Sequence[ModelCall]) -> tuple[ModelCall, ...]:
    """Return the rows of these calls, few enough for a batch."""
    if len(calls) <= CALLS_MAX:
        return tuple(calls)
    kinds = _by_kind(calls)
    most = max(1, IDS_MAX // len(kinds))
    return tuple(replace(_sum(same), id=",".join(call.id for call in same[-most:])) for same in kinds)


def sum_calls(calls: Iterable[ModelCall]) -> tuple[ModelCall, ...]:
    """Return a line for each role and model, with separate lines for calls without a price; a line has no id."""
    return tuple(_sum(same) for same in _by_kind(calls))


def _by_kind(calls: Iterable[ModelCall]) -> list[list[ModelCall]]:
    kinds: dict[tuple[str, str, bool], list[ModelCall]] = {}
    for call in calls:
        kinds.setdefault((call.role, call.model, call.priced), []).append(call)
    return list(kinds.values())


def _sum(same: Sequence[ModelCall]) -> ModelCall:
    return replace(
        same[0],
        usage=sum_usages(call.usage for call in same),
        nanos=sum(call.nanos for call in same),
        id="",
        count=sum(call.count for call in same),
    )


def call_ids(calls: Iterable[ModelCall]) -> frozenset[str]:
    """Return the ids of all calls in these rows."""
    return frozenset(one for call in calls for one in call.id.split(",") if one)


BustReason: TypeAlias = Literal[
    "system", "tools", "model", "hide", "prune", "compaction", "feedback", "provider"
]


class Bust(Value):
    """A warm request read fewer tokens from the cache than the previous one had left there.

    `provider`: not caused by Stepline.
    """

    reason: BustReason
    expected_tokens: int
    read_tokens: int


class Tally(Row):
    """Counts of the open turn; all zero while none is open.

    `rounds` are recorded decisions, including refused ones, `files` the files offered to the user, once for each time
    they are written. `model_ms` is spent on decisions, `tools_ms` in tools and in the runs of programs. `opened_ms` is
    the turn's start, in milliseconds of the epoch; 0 if not recorded. `starting_ms` is the time to start programs,
    `collecting_ms` the time to collect their files, `waiting_ms` the time spent waiting for the provider, and
    `preparing_ms` that of titles, summaries and hooks. `summary_from_ms` is the start of a summary that is being made,
    0 for none.
    """

    usage: Usage = Usage()
    rounds: int = 0
    files: int = 0
    model_ms: int = 0
    tools_ms: int = 0
    opened_ms: int = 0
    starting_ms: int = 0
    collecting_ms: int = 0
    waiting_ms: int = 0
    preparing_ms: int = 0
    summary_from_ms: int = 0
