"""A stage under load: turns that begin, ask, stream, act and end as the measured one does, within an account's quotas.

`n` turns are open at once within five minutes, and stay so for a minute more. Turns that are alike go in cohorts of one weight, so
that a large stage takes no longer than a small one. Where a quota is reached, requests wait, as they do with retries;
a post of running text is dropped, and the relay posts less often, as the real one does.
"""

from __future__ import annotations

import itertools
import math
import random
import statistics
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from bench.ordinary_turn import STREAM_S, Call, OrdinaryTurn
from bench.paced import TOKENS_A_SECOND
from bench.simulate.engine import Bucket, Claim, Clock, Demand, Places, Process
from bench.simulate.quota import QUOTAS, Quota
from stepline.adapters.aws.table import ACCOUNT_SHARDS, OPEN_INDEX, account_pks, limits_pk
from stepline.adapters.relay import FIRST_S, POST_FIRST_S, POST_LATER_S, POSTS_PER_S
from stepline.delivery.post_pace import POST_INTERVAL_S, faster, least_interval_s, slower
from stepline.ingress.enqueue import QUEUE_FULL_S, QUEUE_MAX
from stepline.local.client.pace import Pace
from stepline.log.bindings import Policy
from stepline.model.tenancy.concurrency import divide
from stepline.model.tenancy.limits import scopes_of
from tests.contract.fault.simulation import LANE, USER

RAMP_S: Final = 300.0
HOLD_S: Final = 60.0
END_S: Final = RAMP_S + HOLD_S
COHORTS: Final = 150
ROUNDS: Final = ((1, 30), (2, 30), (3, 20), (5, 15), (12, 5))
"""Rounds of a turn, and how many of a hundred turns have that number."""
SLOTS_A_COHORT: Final = 20
IDLE: Final = 4
"""Connected clients without an open turn, for each that has one: people read their answers."""
UNCACHED: Final = 1_500
"""Tokens of a round's prompt that no cache has: the last answer, the call's result, the message."""
PACE: Final = Pace()
TENANT: Final = scopes_of(LANE.tenant, LANE.project, USER)[-1]
ABSENT_S: Final = Policy.absent_after_s


@dataclass
class Outcome:
    """The result of a run: the demand on each quota, the times that people waited, and the number of ended turns."""

    n: int
    demands: Mapping[str, Demand]
    first_text_s: list[tuple[float, float]] = field(default_factory=list)
    interval_s: list[tuple[float, float]] = field(default_factory=list)
    begun: float = 0.0
    ended: float = 0.0
    refused: float = 0.0
    connected: float = 0.0
    running: list[float] = field(default_factory=list)
    waiting: list[float] = field(default_factory=list)

    def share_late(self, name: str) -> float:
        """Return the share of a quota's requests that had to wait or were dropped."""
        demand = self.demands[name]
        return demand.late / demand.total if demand.total else 0.0

    def share(self, name: str, quota: Quota | None = None) -> float:
        """Return a quota's peak demand, over its limit."""
        return self.demands[name].peak() / (quota or QUOTAS[name]).limit


def percentile(weighed: list[tuple[float, float]], share: float) -> float:
    """Return the value below which a share of the weight is; 0 for none."""
    left = share * sum(weight for _, weight in weighed)
    for value, weight in sorted(weighed):
        left -= weight
        if left <= 0:
            return value
    return 0.0


class World:
    """One run. Requests to a quota that is not among `quotas` are only counted.

    `slowest_s` is the least interval between two posts of a stream.
    """

    def __init__(
        self,
        n: int,
        turn: OrdinaryTurn,
        *,
        quotas: Mapping[str, Quota] | None = None,
        slowest_s: float = 0.0,
        seed: int = 1,
    ) -> None:
        self.n = n
        self.turn = turn
        self.clock = Clock()
        self.demands: dict[str, Demand] = defaultdict(Demand)
        self._quotas = quotas or {}
        self._connected = self._coming = 0.0
        self._buckets = {name: self._bucket(name) for name, quota in QUOTAS.items() if quota.kind == "rate"}
        functions = self._quotas.get("executions of functions")
        limit = functions.limit if functions else None
        self._functions = Places(limit, self.demands["executions of functions"])
        self._slots = Places(limit and divide(int(limit)).open_turns, Demand())
        self._slowest_s = max(slowest_s, least_interval_s(int(self._slots.limit or 0)))
        self._marks: dict[int, tuple[float, float]] = {}
        self._numbers = itertools.count()
        self._warm = 0.0
        self._chance = random.Random(seed)
        self.outcome = Outcome(n, self.demands)

    def _bucket(self, name: str) -> Bucket:
        return Bucket(self.clock, self._quotas.get(name), self.demands[name])

    # --- events

    def run(self) -> Outcome:
        """Run the simulation."""
        weight = max(1.0, round(self.n / COHORTS))
        if self._slots.limit is not None:  # cohorts that are larger than the places would leave some empty
            weight = max(1.0, min(weight, self._slots.limit // SLOTS_A_COHORT))
        rate = self.n / self.turn_s / weight
        self.clock.start(self._arrivals(rate, weight))
        self.clock.start(self._people())
        self.clock.run(END_S)
        return self.outcome

    @cached_property
    def turn_s(self) -> float:
        """The mean time of a turn when nothing waits."""
        first, round_calls, last = self._parts
        rounds = statistics.mean([number for number, share in ROUNDS for _ in range(share)])
        each = sum(call.seconds for call in round_calls)
        acted = round_calls[-1].seconds
        return first.seconds + rounds * each - acted + last.seconds

    @cached_property
    def _parts(self) -> tuple[Call, tuple[Call, Call], Call]:
        """The measured calls: of the message, of a round that acts, and of the end."""
        first, decide, act, *_, last = self.turn.calls
        return first, (decide, act), last

    def drain(self) -> Outcome:
        """Let everything that was begun end."""
        self.clock.run(math.inf)
        return self.outcome

    def _arrivals(self, rate: float, weight: float) -> Process:
        """Begin turns: more and more of them within the rise, then as many as end."""
        rounds, shares = zip(*ROUNDS, strict=True)
        while self.clock.now_s < END_S:
            yield self._chance.uniform(0.5, 1.5) / (rate * max(1 / RAMP_S, self._connected))
            (chosen,) = self._chance.choices(rounds, shares)
            self.outcome.begun += weight
            self.clock.start(self._turn(weight, chosen))

    def _people(self) -> Process:
        """Open connections within the rise, and let those without a turn ping."""
        while self.clock.now_s < END_S:
            self.demands["executions asked for"].reach(self._stale())
            if self.clock.now_s >= RAMP_S:
                self.outcome.running.append(self._slots.taken)
                self.outcome.waiting.append(self._slots.waiting)
            here = self.n * (1 + IDLE)
            if self.clock.now_s < RAMP_S:
                self._ask(self.turn.connect, here / RAMP_S)
                self._buckets["new connections"].take(here / RAMP_S)
            most = self._quotas["new connections"].limit if "new connections" in self._quotas else math.inf
            self._connected = min(1.0, self._connected + min(1 / RAMP_S, most / here))
            self.outcome.connected = self._connected
            pings = self._connected * self.n * (IDLE / PACE.idle_ping_every_s + 1 / PACE.ping_every_s)
            self._buckets["posts and messages"].take(pings)
            self._buckets["posts and messages"].offer(pings * self.turn.ping.bill["post"])
            self._ask(self.turn.ping, pings)
            yield 1.0

    def _turn(self, weight: float, rounds: int) -> Process:
        first, (decide, act), last = self._parts
        came_s, mark = self.clock.now_s, next(self._numbers)
        yield self._buckets["posts and messages"].take(weight)
        for tries in itertools.count(1):
            if self._coming + weight <= self._room():
                break
            yield from self._invoke(
                self.turn.ping, weight
            )  # a refused message reads as much as a ping, and writes nothing
            if tries == PACE.tries:
                self.outcome.refused += weight
                return
            yield QUEUE_FULL_S
        self._coming += weight
        yield from self._invoke(first, weight)
        self._coming -= weight
        yield Claim(self._slots, weight)
        self._marks[mark] = (self.clock.now_s, weight)
        yield self._buckets["executions started"].take(weight)
        for number in range(rounds):
            yield from self._decide(decide, weight, came_s if not number else None)
            if number + 1 < rounds:
                yield from self._invoke(act, weight)
        yield from self._invoke(last, weight)
        del self._marks[mark]
        self._slots.free(weight, self.clock)
        self.outcome.ended += weight

    def _room(self) -> float:
        """Return how many turns may begin or be queued now."""
        if self._slots.limit is None:
            return math.inf
        return self._slots.limit + QUEUE_MAX - self._slots.taken - self._slots.waiting

    def _stale(self) -> float:
        return sum(
            weight for since_s, weight in self._marks.values() if self.clock.now_s - since_s > ABSENT_S
        )

    def _decide(self, call: Call, weight: float, came_s: float | None) -> Process:
        """Ask the model when its provider lets us, and stream what it writes."""
        waits_s = (
            self._buckets["model requests"].take(weight),
            self._buckets["model output"].take(weight * TOKENS_A_SECOND * STREAM_S),
            self._buckets["model input"].take(weight * UNCACHED),
        )
        yield max(waits_s)
        yield Claim(self._functions, weight)
        yield self._environments(weight)
        if came_s is not None:
            self.outcome.first_text_s.append((self.clock.now_s - came_s, weight))
        yield from self._stream(weight)
        yield self._work(call, weight, call.seconds - STREAM_S)
        self._functions.free(weight, self.clock)

    def _environments(self, weight: float) -> float:
        """Return the wait for environments of Decide that have not started."""
        new = max(0.0, self._functions.taken - self._warm)
        self._warm += new
        return self._buckets["new environments of Decide"].take(new) if new else 0.0

    def _stream(self, weight: float) -> Process:
        """Post as the relay does, second by second; a refused piece makes the next ones less frequent, a sent one more frequent."""
        pace_s, stored = POST_INTERVAL_S, self.turn.stream.write_units / round(STREAM_S)
        for second in range(round(STREAM_S)):
            base_s = POST_FIRST_S if second < FIRST_S else POST_LATER_S
            base_s = max(base_s, self.turn.devices / POSTS_PER_S, self._slowest_s)
            left_s = 1.0
            while left_s > 0:
                every_s = max(base_s, pace_s)
                part = min(1.0, left_s / every_s)
                taken = self._buckets["posts and messages"].offer(part * weight * self.turn.devices)
                pace_s = faster(pace_s) if taken else slower(every_s)
                left_s -= every_s
            self.outcome.interval_s.append((max(base_s, pace_s), weight))
            self._buckets["table, written"].take(weight * stored)
            yield 1.0

    def _invoke(self, call: Call, weight: float) -> Process:
        yield Claim(self._functions, weight)
        yield self._work(call, weight, call.seconds)
        self._functions.free(weight, self.clock)

    def _work(self, call: Call, weight: float, seconds: float) -> float:
        """Return the duration of a call with its requests."""
        wait_s = self._ask(call, weight)
        if call.transitions:
            wait_s = max(wait_s, self._buckets["transitions"].take(weight * call.transitions))
        posts = call.bill.get("post", 0)
        if posts and not self._buckets["posts and messages"].offer(weight * posts):
            wait_s = max(wait_s, 1.0)  # a step waits for its posts for a second at most; clients resume
        return seconds + wait_s

    def _ask(self, call: Call, weight: float) -> float:
        """Return the wait for the table, the bucket and the log."""
        written: Counter[str] = Counter()
        read: Counter[str] = Counter()
        for touch in call.touches:
            units = written if touch.is_write else read
            units[touch.index_name] += touch.units
            units[touch.partition] += touch.units
        whole, *shards = (written[pk] for pk in account_pks(TENANT))
        asked = {
            "table, written": written[""],
            "table, read": read[""],
            "index of open lanes": written[OPEN_INDEX],
            "row of one tenant": whole + sum(shards) / ACCOUNT_SHARDS,
            "limits of one tenant": read[limits_pk(TENANT)],
            "objects put": float(call.bill.get("put", 0)),
            "log requests": 1.0,
        }
        return max(self._buckets[name].take(weight * amount) for name, amount in asked.items() if amount)
