"""What the bench counts: the ideal beside which requests are held, the transcript, and the conversation itself."""

from __future__ import annotations

import statistics
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.actor import play
from bench.hindsight import least_dollars
from bench.purse import DOLLARS_PER_TOKEN, LIFE_S, Bill, Ideal, common_bytes
from bench.transcript import PEERS, Window, bill_transcript
from bench.workload import FACTS, TOOL_ROUNDS, TURNS, all_cold, write_script
from stepline.context.rules import ContextRules
from stepline.local.scripted.cache import CacheUse, PromptCache
from stepline.local.scripted.messages_request import parse_prompt
from stepline.protocol.decision.fanout import ACTIONS_MAX


def a_prompt(*texts, tail=""):
    """Return a request of blocks with a mark at the last, and optionally a block after it."""
    blocks = [{"type": "text", "text": text} for text in texts]
    blocks[-1]["cache_control"] = {"type": "ephemeral"}
    if tail:
        blocks.append({"type": "text", "text": tail})
    return parse_prompt(
        {"model": "claude-sonnet-5", "max_tokens": 1, "messages": [{"role": "user", "content": blocks}]}
    )


@given(st.binary(max_size=40), st.binary(max_size=40), st.binary(max_size=40))
def test_the_common_beginning_is_the_longest_one(start, one, other):
    size = common_bytes(start + one, start + other)
    assert (start + one)[:size] == (start + other)[:size]
    assert size >= len(start)
    assert (start + one)[: size + 1] != (start + other)[: size + 1] or size == min(
        len(one), len(other)
    ) + len(start)


def test_the_ideal_reads_any_prefix_shared_with_an_earlier_request():
    ideal = Ideal()
    ideal.take(a_prompt("a" * 4000, "b" * 400), 0.0)
    ideal.take(a_prompt("a" * 3000, "a" * 1000 + "b" * 200 + "c" * 800, tail="d" * 80), 1.0)
    assert (ideal.bill.read, ideal.bill.write_5m, ideal.bill.plain) == (1050, 1100 + 200, 20)


def test_the_ideal_lives_no_longer_than_a_cache():
    late, alive = Ideal(), Ideal()
    for ideal, gap_s in ((late, LIFE_S), (alive, LIFE_S - 1)):
        for at_s in (0.0, gap_s):
            ideal.take(a_prompt("a" * 4000), at_s)
    assert (late.bill.read, alive.bill.read) == (0, 1000)


@given(st.lists(st.integers(1, 6), min_size=1, max_size=12), st.integers(1, 400))
def test_no_request_costs_less_than_its_ideal(growth, gap_s):
    now_s, paid, ideal, blocks = 0.0, Bill(), Ideal(), ["s" * 4096]
    cache = PromptCache(now_s=lambda: now_s)
    for count in growth:
        blocks += [f"{n}" * 40 for n in range(count)]
        prompt = a_prompt(*blocks, tail="now")
        use = cache.look(prompt, workspace="w")
        cache.commit(use)
        paid.add(use)
        ideal.take(prompt, now_s)
        now_s += gap_s
    assert paid.dollars >= ideal.bill.dollars * (1 - 1e-9)


def test_a_bill_adds_up_by_its_prices():
    bill = Bill()
    bill.add(CacheUse(read=1000, write_5m=400, write_1h=100, plain=50), output=10)
    bill.merge(bill)
    assert bill.dollars == pytest.approx(2 * (100 + 500 + 200 + 50 + 50) * DOLLARS_PER_TOKEN)
    assert bill.read_share == pytest.approx(1000 / 1550)


def test_a_growing_transcript_reads_all_but_its_new_text():
    script = write_script(1, wide=False)
    peer = bill_transcript(script, system="s" * 8192, request_s=6, window=PEERS["never"])
    bill = peer.bill
    assert (peer.compactions, peer.recoveries, peer.in_sight) == (0, 0, FACTS)
    cold = sum(turn.gap_s + 6 >= LIFE_S for turn in script.turns)
    assert bill.requests == TURNS * (TOOL_ROUNDS + 1)
    assert bill.plain == 0
    assert bill.read_share > 0.9
    assert cold > 0


def test_a_transcript_is_compacted_in_time_and_looks_up_lost_results():
    script = write_script(1, wide=True)
    never, third, alone = (
        bill_transcript(script, system="s" * 8192, request_s=6, window=window)
        for window in (Window(), Window(100_000), Window(100_000, kept=0))
    )
    assert 0 < alone.compactions < third.compactions
    assert min(alone.recoveries, third.recoveries) > 0
    assert max(alone.in_sight, third.in_sight) < never.in_sight
    for peer in (third, alone):
        extra = peer.compactions + peer.recoveries
        assert peer.bill.requests == never.bill.requests + extra
        assert peer.bill.output > 0
        assert peer.bill.dollars < never.bill.dollars


def test_with_all_gaps_cold_no_turn_but_the_first_begins_with_a_cache():
    script = all_cold(write_script(1, wide=False), LIFE_S + 1)
    assert {turn.gap_s for turn in script.turns[1:]} == {LIFE_S + 1}
    assert script.turns[0].gap_s == 0
    assert script.calls == write_script(1, wide=False).calls


@pytest.mark.parametrize("wide", [False, True])
def test_a_conversation_is_the_one_of_its_seed_and_its_facts_are_planted(wide):
    script = write_script(7, wide=wide)
    assert script == write_script(7, wide=wide)
    assert script != write_script(8, wide=wide)
    planted = [name for name, call in script.calls.items() if f"The number of {name} is" in call.text]
    assert (len(planted), set(planted)) == (FACTS, set(script.facts))
    widths = {len(step.calls) for turn in script.turns for step in turn.rounds}
    assert widths == ({1, ACTIONS_MAX} if wide else {1})


def test_results_have_their_documented_size():
    sizes = [
        len(call.text) / 4 for seed in range(5) for call in write_script(seed, wide=False).calls.values()
    ]
    assert 850 < statistics.median(sizes) < 1000


def test_a_turn_without_anything_to_shorten_costs_at_least_its_ideal():
    script = write_script(0, wide=True)
    played = play(replace(script, turns=script.turns[:1], facts=frozenset()), wide=True)
    assert least_dollars(played, ContextRules()) == pytest.approx(played.ideal.dollars, rel=1e-3)


def test_the_best_pruning_in_hindsight_costs_less_the_less_is_kept():
    script = write_script(0, wide=True)
    turns = tuple(replace(turn, gap_s=60.0) for turn in script.turns[:5])
    played = play(replace(script, turns=turns, facts=frozenset()), wide=True)
    kept = [(99, 1_000_000), (99, 6_000), (2, 6_000), (2, 0)]
    least = [
        least_dollars(played, ContextRules(keep_turns=keep, intact_tokens=intact)) for keep, intact in kept
    ]
    assert least == sorted(least, reverse=True)
    assert least[-1] < least[0]
    assert least_dollars(played, ContextRules()) <= played.bill.dollars
