"""The simulation of a stage under load: nothing gets lost in it, and its figures move with what they are made of."""

import math

import pytest

from bench.ordinary_turn import measure
from bench.simulate.engine import Bucket, Claim, Clock, Demand, Places
from bench.simulate.quota import PARTITION_WRITES, QUOTAS, Quota
from bench.simulate.report import effects_table, needs_table, reached
from bench.simulate.world import World, percentile
from stepline.adapters.aws.table import OPEN_INDEX, OPEN_SHARDS, account_pks, limits_pk
from stepline.ingress.enqueue import QUEUE_MAX
from stepline.model.tenancy.concurrency import divide
from stepline.model.tenancy.limits import scopes_of
from tests.contract.fault.simulation import LANE, USER

GATEWAY = "posts and messages"
FUNCTIONS = "executions of functions"


@pytest.fixture(scope="module")
def turn():
    return measure()


def scaled(name: str, factor: float) -> dict[str, Quota]:
    return {name: QUOTAS[name].scaled(factor)}


# --- time and waiting


def test_a_bucket_gives_its_burst_at_once_and_then_its_rate():
    clock, demand = Clock(), Demand()
    bucket = Bucket(clock, Quota("", 10, "", "", burst=20), demand)
    assert [bucket.take(10) for _ in range(4)] == [0, 0, 1, 2]
    assert (demand.total, demand.late) == (40, 20)


def test_an_offer_to_an_empty_bucket_is_refused_and_not_owed():
    clock, demand = Clock(), Demand()
    bucket = Bucket(clock, Quota("", 10, "", "", burst=10), demand)
    assert [bucket.offer(10) for _ in range(3)] == [True, False, False]
    clock.run(1.0)
    assert bucket.offer(10)


def test_slots_are_claimed_in_order_and_released():
    clock, order = Clock(), []
    places = Places(2, Demand())

    def hold(name):
        yield Claim(places, 1)
        order.append((name, clock.now_s))
        yield 5.0
        places.free(1, clock)

    for name in "abcd":
        clock.start(hold(name))
    clock.run(math.inf)
    assert order == [("a", 0), ("b", 0), ("c", 5), ("d", 5)]
    assert (places.taken, places.waiting, places.demand.peak_level) == (0, 0, 2)


# --- the world


@pytest.mark.parametrize("quotas", [{}, QUOTAS, scaled(FUNCTIONS, 0.05), scaled(GATEWAY, 0.02)])
def test_every_turn_that_began_ends_or_is_refused(turn, quotas):
    world = World(200, turn, quotas=quotas)
    world.run()
    found = world.drain()
    assert found.begun == pytest.approx(found.ended + found.refused)
    assert found.begun > 1_000
    assert (world._slots.taken, world._functions.taken) == (pytest.approx(0), pytest.approx(0))


def test_a_simulation_is_repeatable_and_similar_from_another_seed(turn):
    one, again, other = (World(300, turn, seed=seed).run() for seed in (1, 1, 2))
    peaks = [{name: run.demands[name].peak() for name in QUOTAS} for run in (one, again, other)]
    assert peaks[0] == peaks[1] != peaks[2]
    posts = [peak[GATEWAY] for peak in peaks]
    assert posts[2] == pytest.approx(posts[0], rel=0.1)


def test_the_simulation_opens_the_requested_number_of_turns(turn):
    run = World(1_000, turn).run()
    assert sum(run.running) / len(run.running) == pytest.approx(1_000, rel=0.1)


def test_more_turns_never_ask_for_less(turn):
    runs = [World(n, turn).run() for n in (50, 500, 5_000)]
    for name in QUOTAS:
        peaks = [run.demands[name].peak() for run in runs]
        assert peaks == sorted(peaks), name
        assert peaks[1] > peaks[0] or name == "executions asked for"


def test_half_a_quota_is_reached_by_half_as_many_turns(turn):
    halves = {name: quota.scaled(0.5) for name, quota in QUOTAS.items()}
    whole, half = ({one.name: one.turns for one in reached(turn, quotas)} for quotas in (QUOTAS, halves))
    assert half == pytest.approx({name: turns / 2 for name, turns in whole.items()})
    assert set(whole) == set(QUOTAS)


@pytest.mark.parametrize("name", ["executions started", "transitions", "index of open lanes", GATEWAY])
def test_no_request_waits_for_a_quota_below_its_limit(turn, name):
    (limit,) = reached(turn, scaled(name, 1 / 20))
    below, above = (
        World(round(limit.turns * factor), turn, quotas=scaled(name, 1 / 20)).run() for factor in (0.7, 1.4)
    )
    assert below.share_late(name) < 0.01
    assert above.share_late(name) > 0.02


def test_one_shard_of_open_lanes_bears_a_sixteenth(turn):
    name = "index of open lanes"
    many, one = (reached(turn, quotas)[0].turns for quotas in (scaled(name, 1), scaled(name, 1 / 16)))
    assert len(OPEN_SHARDS) == 16
    assert many == pytest.approx(16 * one)


def test_ten_thousand_turns_of_one_tenant_write_less_to_each_row_than_a_partition_takes(turn):
    name = "row of one tenant"
    assert World(10_000, turn).run().demands[name].peak() < PARTITION_WRITES / 2


def test_the_conditions_of_a_limited_tenant_meet_in_one_row():
    name = "row of one tenant"
    free, limited = (World(1_000, measure(limited=is_limited)).run() for is_limited in (False, True))
    assert limited.demands[name].peak() > 4 * free.demands[name].peak()


def test_a_single_turn_posts_as_the_real_relay_does(turn):
    world = World(1, turn)
    world.clock.start(world._stream(1.0))
    world.clock.run(math.inf)
    assert world.demands[GATEWAY].total == pytest.approx(turn.stream.posts)
    assert world.demands["table, written"].total == pytest.approx(turn.stream.write_units)


def test_text_comes_more_rarely_where_the_gateway_refuses_and_the_rate_is_used(turn):
    whole = World(300, turn).run()
    quotas = scaled(GATEWAY, 0.25 * whole.demands[GATEWAY].peak() / QUOTAS[GATEWAY].limit)
    run = World(300, turn, quotas=quotas).run()
    demand = run.demands[GATEWAY]
    sent = (demand.total - demand.late) / 360
    assert percentile(run.interval_s, 0.5) > 2 * percentile(whole.interval_s, 0.5)
    assert demand.total < 0.6 * whole.demands[GATEWAY].total
    assert sent > 0.6 * quotas[GATEWAY].limit


def test_turns_beyond_the_bound_are_queued_in_the_simulation(turn):
    run = World(5_000, turn, quotas={FUNCTIONS: QUOTAS[FUNCTIONS]}).run()
    most = divide(int(QUOTAS[FUNCTIONS].limit)).open_turns
    assert 0.95 * most <= max(run.running) <= most
    assert max(run.waiting) <= QUEUE_MAX
    assert run.refused
    assert run.demands[FUNCTIONS].peak() <= QUOTAS[FUNCTIONS].limit


def test_a_client_that_cannot_connect_sends_nothing(turn):
    run = World(2_000, turn, quotas=scaled("new connections", 0.01)).run()
    assert run.connected < 0.3
    assert run.begun < 0.5 * World(2_000, turn).run().begun


# --- what it is made of


@pytest.mark.parametrize("limited", [False, True])
def test_every_partition_that_turns_of_a_tenant_share_is_looked_at(limited):
    """A new one belongs into the table of quotas, or into this list with its reason."""
    *_, project, tenant = scopes_of(LANE.tenant, LANE.project, USER)
    known = {*account_pks(tenant), limits_pk(tenant), *OPEN_SHARDS}
    like_the_tenants = {*account_pks(project), limits_pk(project), f"SLOT#{tenant.key()}"}
    user = scopes_of(LANE.tenant, LANE.project, USER)[0].key()
    shared = {
        touch.partition
        for call in measure(limited=limited).calls
        for touch in call.touches
        if not any(own in touch.partition for own in (LANE.conversation, f"#{USER}", user, "SOCKET#"))
    }
    assert shared <= known | like_the_tenants
    assert {touch.index_name for call in measure().calls for touch in call.touches} == {
        "",
        "GSI1",
        OPEN_INDEX,
    }


def test_the_tables_have_a_line_for_each_quota_and_each_size():
    needs = needs_table((10, 100))
    assert len(needs) == 2 + len(QUOTAS) + 1
    assert all(line.count("|") == needs[0].count("|") for line in needs)
    effects = effects_table(QUOTAS, (10, 100))
    assert [line.split(" | ")[0] for line in effects[2:]] == ["| 10", "| 100"]
    assert "nothing" in effects[2]
