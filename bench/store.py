"""One tool round on the real adapters over moto: its number of calls, and its write units.

A round is 4.2 KB: a thought and a call of 600 bytes, and a result of 3.6 KB. Its conversation has a thousand
blocks, more than one page of a query; Decide and Act are two functions, each with its own cache. A warm
one has the conversation cached, a cold one reads it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from bench.budget import BUDGETS
from bench.conversation import Driver, InstantModel, converse, cut, make_agent, objects, say_call, stored
from bench.meter import Store, metered_store
from bench.row import MeasureError, Row
from stepline.adapters.aws.delta import DynamoDeltas
from stepline.adapters.aws.log import DynamoLog
from stepline.adapters.aws.subscription import DynamoSubscriptions
from stepline.adapters.relay import ThreadedRelay
from stepline.bootstrap.memory_wiring import in_memory
from stepline.delivery.posting import GatewayBroadcast
from stepline.log.bindings import Ports
from stepline.log.timeline_cache import History
from stepline.model.batch import decode_batch
from stepline.model.step import Step
from stepline.settings import Settings

BLOCKS = 1000
FEW_BLOCKS = 307
"""A conversation that takes less time to store, for the landing; its calls are the same."""
DELTAS = "DELTA"


def rows(blocks: int = BLOCKS) -> list[Row]:
    """Return `calls_per_round_warm`, `calls_per_round_cold` and `wru_per_round`, of a conversation of this length."""
    with metered_store() as store:
        driver = Driver(
            ports=_ports(store),
            agent=make_agent(result_chars=3600),
            model=InstantModel(say_call(thinking_chars=150, argument_chars=350)),
        )
        conversation = converse(blocks)
        for body in cut(stored(conversation), decode_batch, blocks):
            driver.ports.log.put(driver.lane, decode_batch(body))
        for key, body in objects(conversation).items():
            driver.ports.artifacts.put(key, body, mime="application/octet-stream")
        warm = [History(), History()]
        due = _round(driver, warm, driver.step())
        store.meter.clear()
        due = _round(driver, warm, due)
        calls_warm, units = Counter(store.meter.calls), Counter(store.meter.write_units)
        store.meter.clear()
        _round(driver, [History(), History()], due)
        calls_cold = Counter(store.meter.calls)
    return [
        _calls("calls_per_round_warm", calls_warm),
        _calls("calls_per_round_cold", calls_cold),
        _units(units),
    ]


def _ports(store: Store) -> Ports:
    base = in_memory(Settings.from_env({})).ports
    deltas = DynamoDeltas(store.table, base.clock)
    subscriptions = DynamoSubscriptions(store.table, base.clock)
    broadcast = GatewayBroadcast(
        subscriptions=subscriptions, publisher=base.publisher, meter=base.meter, clock=base.clock
    )
    return replace(
        base,
        log=DynamoLog(store.table),
        artifacts=store.artifacts,
        subscriptions=subscriptions,
        broadcast=broadcast,
        deltas=deltas,
        relay=ThreadedRelay(
            deltas=deltas,
            subscriptions=subscriptions,
            publisher=base.publisher,
            clock=base.clock,
            meter=base.meter,
        ),
    )


def _round(driver: Driver, histories: list[History], step: Step) -> Step:
    left = list(histories)
    after = driver.round(lambda: left.pop(0), step)
    if after.route != "decide" or left:
        raise MeasureError(f"not one tool round: {after.route}")
    return after


def _calls(metric: str, calls: Counter[str]) -> Row:
    goal, note = BUDGETS[metric].aim, f"on moto: {_listed(calls)}"
    return Row(metric=metric, value=calls.total(), unit="calls", goal=goal, note=note)


def _units(units: Counter[str]) -> Row:
    log = sum(spent for kind, spent in units.items() if kind != DELTAS)
    note = f"from item sizes; the stream's own are beside it: {units[DELTAS]} here, more with time"
    goal = BUDGETS["wru_per_round"].aim
    return Row(metric="wru_per_round", value=log, unit="WRU", goal=goal, note=note)


def _listed(calls: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in sorted(calls.items()))
