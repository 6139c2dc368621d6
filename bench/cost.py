"""The input cost of a long conversation, beside its own ideal and transcripts with automatic caching.

Three conversations of the workload, or sixty with FULL=1, and as many that were held out, go through the loop itself over the memory twins;
every request is accounted for by the scripted server's cache, on a clock of its own.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from bench.actor import REQUEST_S, Played, play
from bench.hindsight import least_dollars
from bench.purse import Bill
from bench.row import Limit, MeasureError, Row
from bench.transcript import PEERS, bill_transcript
from bench.workload import FACTS, Script, all_cold, write_script
from bundles.default import WORKFLOW
from stepline.bootstrap.agent_choice import read_caps
from stepline.bundle.assembly import build_agent
from stepline.context.rules import ContextRules
from stepline.protocol.decision.fanout import FanoutRule
from stepline.settings import Settings

CONVERSATIONS: Final = 3
CONVERSATIONS_FULL: Final = 60
HELD_OUT: Final = 1_000
"""The first seed of the conversations by which no policy was chosen."""
WIDE: Final = {"linear": False, "fanout": True}
GOALS: Final = {"linear": 0.60, "fanout": 0.40}
HINDSIGHT_TIMES: Final = {"linear": None, "fanout": 1.03}
"""Goals over the best pruning in hindsight, where the share of a transcript's price is below it; see the page."""
OWN_GOAL: Final = 1.01
L5M_GOAL: Final = 1.05
AN_HOUR: Final = ContextRules(ttl_s=3600)
SLOW_S: Final = 1200.0
SLOW_GOAL: Final = 0.60
UNREDUCED: Final = ContextRules(max_tokens=10_000_000, window_tokens=20_000_000, ttl_s=0, horizon_requests=0)


def rows() -> list[Row]:
    """Return the rows of `cost_…`."""
    full = os.environ.get("FULL") == "1"  # noqa: TID251 - a switch of this measurement, not a setting of the app
    count = CONVERSATIONS_FULL if full else CONVERSATIONS
    found: list[Row] = []
    for shape, wide in WIDE.items():
        scripts = [write_script(seed, wide=wide) for seed in range(count)]
        held = [write_script(seed, wide=wide) for seed in range(HELD_OUT, HELD_OUT + count)]
        cold = [all_cold(script, SLOW_S) for script in scripts]
        shipped = [play(script, wide=wide) for script in scripts]
        check_facts(shipped)
        goal, times = GOALS[shape], HINDSIGHT_TIMES[shape]
        found += [
            own_ideal(shape, shipped),
            own_cache(shape, shipped),
            *(
                policy(
                    f"cost_{what}_x_automatic_{shape}", chosen, played, wide=wide, goal=goal, times=over_limit
                )
                for what, chosen, played, over_limit in (
                    ("full_policy", scripts, shipped, times),
                    ("held_out", held, _played(held, wide=wide), times),
                    ("all_gaps_cold", cold, _played(cold, wide=wide), None),
                )
            ),
            journal(shape, scripts, shipped, wide=wide),
        ]
        if not wide:
            found += hours(scripts, shipped)
            found.insert(0, l5m([play(script, wide=wide, context=UNREDUCED) for script in scripts]))
    return found


def _played(scripts: Sequence[Script], *, wide: bool) -> list[Played]:
    """Return the conversations as shipped, after a check of their facts."""
    played = [play(script, wide=wide) for script in scripts]
    check_facts(played)
    return played


def own_ideal(shape: str, played: Sequence[Played]) -> Row:
    """Return our price over that of the same requests with optimal marks."""
    ours, ideal = _sum([one.decisions for one in played]), _sum([one.ideal for one in played])
    return Row(
        metric=f"cost_x_own_ideal_{shape}",
        value=_ratio(ours.dollars, ideal.dollars),
        unit="x",
        limit=Limit("marks everywhere", 1.0),
        goal=OWN_GOAL,
        note=f"{_share(ours)}, {sum(one.busts for one in played)} busts",
    )


def own_cache(shape: str, played: Sequence[Played]) -> Row:
    """Return the price of our rounds at a provider that caches by itself, over that without a cache; the peer is Anthropic's."""
    own, marked = _sum([one.own_cache for one in played]), _sum([one.decisions for one in played])
    return Row(
        metric=f"cost_own_cache_x_uncached_{shape}",
        value=_ratio(own.dollars, own.uncached_dollars),
        unit="x",
        peers={"marks": _ratio(marked.dollars, marked.uncached_dollars)},
        note=f"{_share(own)}; with marks {_share(marked)}",
    )


def l5m(played: Sequence[Played]) -> Row:
    """Return our price without any reduction, over that of its text without ANNOUNCE and SOURCES POOL."""
    check_facts(played)
    ours, text = _sum([one.bill for one in played]), sum(one.ideal.cached_dollars for one in played)
    return Row(
        metric="cost_x_l5m_with_announce",
        value=_ratio(ours.dollars, text),
        unit="x",
        limit=Limit("each token once in 5 min", 1.0),
        goal=L5M_GOAL,
        note=f"${ours.dollars / len(played):.2f} a conversation, {_share(ours)}, "
        f"{ours.plain / ours.requests:.0f} tokens a request are not cached",
    )


def policy(
    metric: str,
    scripts: Sequence[Script],
    played: Sequence[Played],
    *,
    wide: bool,
    goal: float,
    times: float | None,
) -> Row:
    """Return the price of all our requests, over that of a transcript that is compacted at 180k.

    The peers are the other transcripts, over the same one, and the limit the best pruning in hindsight. With `times`
    the goal is that multiple of the limit.
    """
    fanout = FanoutRule(mode="safe_fanout") if wide else FanoutRule()
    system = build_agent(read_caps(Settings.from_env({})), parts=WORKFLOW.parts(), fanout=fanout).system
    ours, dollars, compared = _sum([one.bill for one in played]).dollars, {}, []
    for name, window in PEERS.items():
        peers = [bill_transcript(one, system=system, request_s=REQUEST_S, window=window) for one in scripts]
        dollars[name] = _sum([one.bill for one in peers]).dollars
        compared.append(
            f"{name} {_ratio(ours, dollars[name])} (${dollars[name] / len(scripts):.2f}, "
            f"{sum(one.in_sight for one in peers)} facts in sight)"
        )
    least = dollars[next(iter(PEERS))]
    return Row(
        metric=metric,
        value=_ratio(ours, least),
        unit="x",
        peers={name: _ratio(spent, least) for name, spent in dollars.items()},
        limit=Limit("best pruning in hindsight", _ratio(sum(map(_hindsight, played)), least)),
        goal=None if times else goal,
        goal_times=times,
        note=f"${ours / len(played):.2f} a conversation, all {FACTS * len(scripts)} facts read by path; over {', over '.join(compared)}; "
        f"{_counts(played)}",
    )


def _hindsight(played: Played) -> float:
    return least_dollars(played, ContextRules())


def journal(shape: str, scripts: Sequence[Script], shipped: Sequence[Played], *, wide: bool) -> Row:
    """Return the price of the same conversations in the layout `journal`, over ours in the timeline."""
    older = [play(script, wide=wide, layout="journal") for script in scripts]
    check_facts(older)
    theirs, ours = _sum([one.bill for one in older]), _sum([one.bill for one in shipped])
    return Row(
        metric=f"cost_journal_x_timeline_{shape}",
        value=_ratio(theirs.dollars, ours.dollars),
        unit="x",
        peers={"timeline": 1.0},
        note=f"${theirs.dollars / len(older):.2f} a conversation, ${ours.dollars / len(shipped):.2f} in the timeline; "
        f"{theirs.requests} requests, {ours.requests} in the timeline; "
        f"{theirs.prompt / theirs.requests:.0f} tokens a request, {ours.prompt / ours.requests:.0f} in the timeline; "
        f"{_share(theirs)}, {ours.read_share:.1%} in the timeline",
    )


def hours(scripts: Sequence[Script], shipped: Sequence[Played]) -> list[Row]:
    """Return the rows of caches that live for an hour, for the conversations as they are and for slow ones."""
    kept = [play(script, wide=False, context=AN_HOUR, ttl="1h") for script in scripts]
    check_facts(kept)
    slow = [pausing(script) for script in scripts]
    both = (
        [play(one, wide=False) for one in slow],
        [play(one, wide=False, context=AN_HOUR, ttl="1h") for one in slow],
    )
    return [
        hour("cost_hour_x_five_minutes", shipped, kept),
        hour("cost_hour_x_five_minutes_slow", *both, goal=SLOW_GOAL),
    ]


def pausing(script: Script) -> Script:
    """Return the conversation with one tool round a turn at most, and a long pause before each."""
    turns = tuple(replace(turn, gap_s=SLOW_S, rounds=turn.rounds[:1]) for turn in script.turns)
    return replace(script, turns=turns, facts=frozenset())


def hour(metric: str, short: Sequence[Played], kept: Sequence[Played], goal: float | None = None) -> Row:
    """Return our price with caches of an hour, over that with caches of five minutes."""
    ours, other = _sum([one.bill for one in kept]), _sum([one.bill for one in short])
    return Row(
        metric=metric,
        value=_ratio(ours.dollars, other.dollars),
        unit="x",
        peers={"5 min": 1.0},
        goal=goal,
        note=f"${ours.dollars / len(kept):.2f} a conversation, ${other.dollars / len(short):.2f} with five minutes; "
        f"{_share(ours)}; {_counts(kept)}",
    )


def check_facts(played: Sequence[Played]) -> None:
    """Raise MeasureError unless all planted facts were read by path."""
    found = sum(one.facts for one in played)
    if found != FACTS * len(played):
        raise MeasureError(f"{found} of {FACTS * len(played)} facts came back")


def _counts(played: Sequence[Played]) -> str:
    counted = {
        "recoveries": sum(one.recoveries for one in played),
        "prunings": sum(one.prunes for one in played),
        "compactions": sum(one.compactions for one in played),
        "without effect": sum(one.skipped for one in played),
        "busts": sum(one.busts for one in played),
    }
    largest = max(one.largest for one in played)
    return ", ".join(f"{count} {name}" for name, count in counted.items()) + f", at most {largest} tokens"


def _share(bill: Bill) -> str:
    return f"{bill.read_share:.1%} of the input read from the cache"


def _ratio(ours: float, other: float) -> float:
    return round(ours / other, 4)


def _sum(bills: Sequence[Bill]) -> Bill:
    total = Bill()
    for bill in bills:
        total.merge(bill)
    return total
