"""An ordinary turn's cost by its parts, and other costs, at list prices: measured counts times unit prices.

Source: docs/reference/cost.md#a-turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from statistics import mean
from typing import Final, NamedTuple

from bench.budget import BUDGETS
from bench.ordinary_turn import ROUNDS, STREAM_S, Call, OrdinaryTurn, measure
from bench.paced import TOKENS_A_SECOND
from bench.row import Row
from stepline.adapters.anthropic.provider import AnthropicProvider
from stepline.delivery.stream_page import PAUSE_FIRST_S, PAUSE_GROWTH, PAUSE_MOST_S, WAIT_MOST_S
from stepline.local.client.pace import Pace
from stepline.local.cloud.former_versions import ROLLBACK_S
from stepline.model.tenancy.aws_price import UNITS
from stepline.model.tenancy.price import MODELS, ModelPrice
from stepline_cdk.function import SIZES, SNAPSHOTS

FUNCTIONS: Final = ("socket", "decide", "act", "close")
GB: Final = 1e9
MONTH_S: Final = 730 * 3600
MONTH_MINUTES: Final = 730 * 60
TURNS: Final = 1_000
PACE: Final = Pace()
WAIT_S: Final = 0.05
"""A call of the authorizer or of a function of the HTTP API, warm."""
BOUND: Final = 996
HIDDEN_TOKENS: Final = 1_000
SCANNED_BYTES: Final = 1_000_000
TRACE_BYTES: Final = 8_000
"""The size of such a turn's spans as X-Ray stores them, by the page on tracing."""


class Part(NamedTuple):
    """A part of a turn's cost: how much of it is used, and US dollars."""

    name: str
    much: str
    usd: float


class Beside(NamedTuple):
    """A cost beside turns, or beyond an ordinary one: its unit, its price's subject, US dollars."""

    name: str
    how: str
    each: str
    usd: float


def parts(turn: OrdinaryTurn) -> list[Part]:
    """Return a turn's cost by part."""
    return [*_functions(turn), *_services(turn)]


def _functions(turn: OrdinaryTurn) -> Iterator[Part]:
    for name in FUNCTIONS:
        calls = [call for call in turn.calls if call.function == name]
        much = f"{len(calls)} of {mean(call.seconds for call in calls):.2f} s, {SIZES[name].memory_mib} MB"
        yield Part(f"function `{name}`", much, sum(map(price_call, calls)))


def _services(turn: OrdinaryTurn) -> Iterator[Part]:
    streamed = turn.stream.write_units * ROUNDS
    written, read = turn.total("write"), turn.total("read_x2") / 2
    puts, gets = turn.total("put"), turn.total("get")
    frames, shown = turn.total("post"), turn.stream.posts * ROUNDS * turn.devices
    log_bytes = sum(call.log_bytes for call in turn.calls)
    yield _part("states of the machine", "transitions", turn.transitions, "transition")
    yield _part("table, written", "units", written, "write unit")
    yield _part("table, running text", "units", streamed, "write unit")
    yield _part("table, read", "units", read, "read unit")
    usd = puts * UNITS["S3 put"].usd + gets * UNITS["S3 get"].usd
    yield Part("objects", f"{puts} put, {gets} got", usd)
    yield _part("the message", "message", 1, "message")
    yield _part("posts of events", "frames", frames, "post")
    yield _part("posts of running text", "frames", shown, "post")
    yield Part("logs", f"{log_bytes / 1000:.1f} KB", log_bytes / GB * UNITS["log"].usd)


def _part(name: str, counted: str, much: float, unit: str) -> Part:
    return Part(name, f"{much:g} {counted}", much * UNITS[unit].usd)


def price_call(call: Call) -> float:
    """Return the price of a call's function alone."""
    return _price_time(call.function, call.seconds)


def _price_time(function: str, seconds: float) -> float:
    gb = SIZES[function].memory_mib / 1024
    return seconds * gb * UNITS["function time"].usd + UNITS["function call"].usd


def price_asked(call: Call) -> float:
    """Return the price of a client's request with everything it causes."""
    return (
        price_call(call)
        + call.bill.get("read_x2", 0) / 2 * UNITS["read unit"].usd
        + call.bill.get("write", 0) * UNITS["write unit"].usd
        + call.bill.get("post", 0) * UNITS["post"].usd
        + call.log_bytes / GB * UNITS["log"].usd
        + UNITS["message"].usd
    )


def beside(turn: OrdinaryTurn) -> list[Beside]:
    """Return the costs beside an ordinary turn, and those that raise its price."""
    return [*_more_turns(turn), *_clients(turn), *_by_time(turn)]


def _more_turns(turn: OrdinaryTurn) -> Iterator[Beside]:
    both, limited = measure(devices=2), measure(limited=True)
    plain = price(turn)
    yield Beside("a second device that listens", "its posts", "turn", price(both) - plain)
    yield Beside(
        "limits of its tenant", "holds, charges and a place, in the table", "turn", price(limited) - plain
    )
    bound = price(measure(open_turns=BOUND))
    yield Beside("a bound on the stage's turns at once", "its place, in the table", "turn", bound - plain)
    yield Beside(
        "its trace, with `tracing=on` to X-Ray",
        f"{TRACE_BYTES // 1000} KB of spans, [as stored](../how-to/trace-a-turn.md), at the price of logs",
        "turn",
        TRACE_BYTES / GB * UNITS["log"].usd,
    )
    yield Beside(
        "the scan of an uploaded file, with `av=guardduty`",
        f"{SCANNED_BYTES // 10**6} MB",
        "file",
        UNITS["scanned file"].usd + SCANNED_BYTES / GB * UNITS["scanned GB"].usd,
    )
    gb = sum(SIZES[name].memory_mib for name in SNAPSHOTS) / 1024
    yield Beside(
        "new environments of all functions with snapshots",
        f"{gb:g} GB restored",
        "time",
        gb * UNITS["restore"].usd,
    )
    yield Beside(
        "snapshots of the versions before, kept for a rollback",
        f"{gb:g} GB, {ROLLBACK_S // 3600} hours",
        "deployment",
        gb * ROLLBACK_S * UNITS["snapshot"].usd,
    )
    model = price_of_model()
    held_s = HIDDEN_TOKENS / TOKENS_A_SECOND
    yield Beside(
        f"{HIDDEN_TOKENS:,} tokens of hidden thinking, model",
        f"output of `{model.model}`; they are billed like visible output",
        "round",
        HIDDEN_TOKENS * model.output / 1e6,
    )
    yield Beside(
        f"{HIDDEN_TOKENS:,} tokens of hidden thinking, AWS",
        f"`decide` waits {held_s:.0f} s longer",
        "round",
        _price_time("decide", held_s) - UNITS["function call"].usd,
    )


def _clients(turn: OrdinaryTurn) -> Iterator[Beside]:
    pings = MONTH_S / PACE.idle_ping_every_s
    connections = MONTH_S / mean(PACE.replace_s)
    listing = (
        UNITS["request"].usd
        + _price_time("authorizer", WAIT_S)
        + _price_time("api", WAIT_S)
        + turn.listed_units * UNITS["read unit"].usd
    )
    opening = (
        _price_time("authorizer", WAIT_S)
        + price_asked(turn.connect)
        + 2 * UNITS["write unit"].usd  # the ticket, issued and redeemed
        + listing
    )
    yield Beside(
        "an idle connected client, its connection",
        f"{MONTH_MINUTES:,} minutes",
        "month",
        MONTH_MINUTES * UNITS["connection"].usd,
    )
    yield Beside(
        "〃, its pings",
        f"{pings:,.0f}, each a message, a call of `socket` and an answer",
        "month",
        pings * price_asked(turn.ping),
    )
    yield Beside("〃, its list of conversations", f"{pings:,.0f} requests", "month", pings * listing)
    yield Beside("〃, connecting anew", f"{connections:,.0f} times", "month", connections * opening)
    looks = _count_looks()
    waits = MONTH_S / WAIT_MOST_S
    wait = (
        UNITS["request"].usd
        + _price_time("authorizer", WAIT_S)
        + _price_time("stream", WAIT_MOST_S)
        + (looks * 0.5 + 2) * UNITS["read unit"].usd
    )
    yield Beside(
        "a reader of a stream that waits day and night",
        f"{waits:,.0f} requests of {WAIT_MOST_S} s, each with {looks} looks",
        "month of waiting",
        waits * wait,
    )


def _count_looks() -> int:
    """Return how often a reader looks for the next batch in one wait, after its first read."""
    left_s, pause_s, looks = float(WAIT_MOST_S), PAUSE_FIRST_S, 0
    while left_s > 0:
        left_s, looks = left_s - pause_s, looks + 1
        pause_s = min(pause_s * PAUSE_GROWTH, PAUSE_MOST_S)
    return looks


def _by_time(turn: OrdinaryTurn) -> Iterator[Beside]:
    series = len(turn.series)
    yield Beside(
        "metrics that turns count",
        f"{series} series",
        "month in which all are counted",
        series * UNITS["metric"].usd,
    )
    yield Beside("metrics of one more tenant", "2 series", "month of use", 2 * UNITS["metric"].usd)


def price(turn: OrdinaryTurn) -> float:
    """Return the cost of a turn."""
    return sum(part.usd for part in parts(turn))


def price_of_model() -> ModelPrice:
    """Return the price of the model that rounds ask unless a deployment chooses another."""
    name = AnthropicProvider.default_model
    return next(row for row in MODELS if name.startswith(row.model))


def shares(turn: OrdinaryTurn) -> Mapping[str, float]:
    """Return the cost of a thousand turns by part."""
    return {part.name.replace("`", ""): round(part.usd * TURNS, 4) for part in parts(turn)}


def rows() -> list[Row]:
    """Return `turn_usd_1000`."""
    turn = measure()
    note = (
        f"{ROUNDS} rounds of {STREAM_S:g} s, one device, warm, without the model: {turn.total('write')} write units and "
        f"{turn.total('read_x2') / 2:g} read units on the wire, {turn.transitions} transitions"
    )
    return [
        Row(
            metric="turn_usd_1000",
            value=round(price(turn) * TURNS, 4),
            unit="USD",
            goal=BUDGETS["turn_usd_1000"].aim,
            peers=shares(turn),
            note=note,
        )
    ]
