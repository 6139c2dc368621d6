"""docs/concepts/scale.md: what breaks first as more turns are open at once, from a simulation."""

from __future__ import annotations

from typing import Final

from bench.ordinary_turn import STREAM_S, measure
from bench.paced import TOKENS_A_SECOND
from bench.simulate.quota import QUOTAS
from bench.simulate.report import LIFTED, SIZES, effects_table, needs_table, open_run, rounded, sources
from bench.simulate.world import IDLE, RAMP_S, ROUNDS, UNCACHED, World
from docs.build import DOCS
from stepline.adapters.aws.table import ACCOUNT_SHARDS
from stepline.delivery.post_pace import MOST_INTERVAL_S
from stepline.ingress.enqueue import QUEUE_MAX
from stepline.model.tenancy.aws_price import UNITS
from stepline.model.tenancy.concurrency import divide
from stepline_cdk.function import SIZES as FUNCTION_SIZES

PATH: Final = DOCS / "concepts/scale.md"
MONTH_H: Final = 730
DEVICES: Final = 2
STREAMS: Final = 1_000
FUNCTIONS: Final = int(QUOTAS["executions of functions"].limit)

_HEAD: Final = """\
# Scale

Which quota is reached first when more turns are open at once, and how to raise it. The figures are from a simulation,
`make simulate`, which writes this page; a test compares them with the code. Nothing here was run at 100,000 turns on AWS.

## The simulation

- The turn is the measured one of [the cost page](../reference/cost.md#a-turn): each of its calls loads the table, by partition and index,
  the bucket, the gateway and the machine as measured on the wire. A turn has {rounds} rounds in the mean (from {least} to {most}),
  each streams {stream_s:g} s at {tokens} tokens a second, and lasts {turn_s:.0f} s when nothing waits.
- Text is posted at the relay's own intervals, and more rarely if the gateway refuses a piece, by the same two functions as
  in [a process](streaming.md).
- Each turn's client is connected, and {idle} more that read; they ping as [clients do](streaming.md#what-a-client-must-do).
- The number of turns rises for {ramp_min:.0f} minutes and then stays constant for one. The peaks below are means over a minute, of slots held
  the maximum at one time.
- The first table has no limits: it shows the demand. In the others the quotas apply. Then as many turns run as
  [the division of the executions](../how-to/deploy.md#how-many-turns-at-once) allows: {bound} of {executions:,}. {queue:,} more are queued, and further
  ones are refused and sent again.
- A round's prompt has {uncached:,} tokens that no cache has: that is an assumption, the rest is counted. One region, one stage, one
  provider of models, quotas of a new account in a large region, except the ten executions that a very new one has.

## The demand

Bold exceeds the default. *Reached at* is the number of turns at once that reach it.
"""

_DEFAULTS: Final = """
## With the defaults

*Breaks first* is the quota that the fewest turns reach. *First text* is the time from the message of a running turn to its first word,
without the model's own.
"""

_LIFTED: Final = """
The same if the model provider has no limit, by a contract or by several models:
"""

_LEVERS: Final = """
## Conclusions

- **To {first} turns** the defaults suffice, and no turn waits. A new account only has to raise its
  [executions of functions](../how-to/deploy.md).
- **The model is first.** {model_turns} turns at once write all the tokens that the highest published tier allows, hidden thinking
  included. Everything else of the stage could run {factor:.0f} times as many.
- **Then the functions**: each stream holds an execution of `decide` while the model writes, so {functions} turns would take all, and {bound} run
  at once with room left for clients' calls. Raised by request; until then the others are queued and see their position.
- **Then the posts**, at {posts}: {posts_each:.1f} a second and turn at the usual rate. The relay slows down automatically, so text arrives in
  larger pieces and nothing else is lost; with a piece every {slowest:g} s the same rate supports {posts_rare} turns. A second device of each user
  halves that: {both} and {both_rare}.
- **The table's design holds** until every quota above was raised: its hottest shared partition is one of the {shards} rows of a
  tenant's spending, and only if one tenant has {tenant} turns at once; the index of open lanes supports {lanes}. A tenant with a budget of its
  own [holds each round](tenants.md#how-spending-is-counted) in one row, which supports {budget} turns at once. A conversation's own rows never conflict.

## Another transport

Only posts grow with devices as well as with turns. A publisher that is called once for all devices of a conversation, as
AppSync Events is by channel, could implement the port `Publisher` next to the gateway's: it would send the same frames, and resume and the
log would not change. It pays off once the quota of the gateway cannot be raised: from {posts_rare} turns at once with one
device, from {both_rare} with two. Below that users see no difference. It is not built.

## Long-lived workers

A function that streams waits almost all of its time, and is billed for it: {lambda_usd:.4f} USD an hour and stream with {mib} MB. A task with one
processor and 2 GB costs {task_usd:.4f} USD an hour, so it is cheaper as soon as it holds more than {even:.1f} streams at once, day and night. For {streams:,}
streams all month functions cost {lambda_month:,.0f} USD. That is the price of not having a fleet: its deployment, draining, placement
and the loss of many streams with one machine. Workers make sense if an account is not granted the executions that it needs (from {functions}
turns by default; {ten:,} need {needed}), or if a thousand turns at once are the usual state and not the peak. A worker would
replace only `decide`: the fence decides who may put, wherever it runs. It is not built either.

## Sources of the quotas

Read in November 2026; other regions have less.

"""


def render() -> str:
    """Return the page."""
    turn = measure()
    rounds = [number for number, share in ROUNDS for _ in range(share)]
    at = {name: rounded(_reached(name)) for name in QUOTAS}
    gb = FUNCTION_SIZES["decide"].memory_mib / 1024
    lambda_usd = gb * 3600 * UNITS["function time"].usd
    task_usd = UNITS["task processor"].usd + 2 * UNITS["task memory"].usd + UNITS["task address"].usd
    head = _HEAD.format(
        rounds=f"{sum(rounds) / len(rounds):.2g}",
        least=min(rounds),
        most=max(rounds),
        stream_s=STREAM_S,
        tokens=TOKENS_A_SECOND,
        turn_s=World(1, turn).turn_s,
        idle=IDLE,
        ramp_min=RAMP_S / 60,
        bound=divide(FUNCTIONS).open_turns,
        executions=FUNCTIONS,
        queue=QUEUE_MAX,
        uncached=UNCACHED,
    )
    levers = _LEVERS.format(
        first=at["model output"],
        model_turns=at["model output"],
        factor=_reached("executions of functions") / _reached("model output"),
        functions=at["executions of functions"],
        bound=divide(FUNCTIONS).open_turns,
        posts=at["posts and messages"],
        posts_each=open_run(1_000).demands["posts and messages"].peak() / 1_000,
        slowest=MOST_INTERVAL_S,
        posts_rare=rounded(_reached("posts and messages", slowest_s=MOST_INTERVAL_S)),
        both=rounded(_reached("posts and messages", devices=DEVICES)),
        both_rare=rounded(_reached("posts and messages", devices=DEVICES, slowest_s=MOST_INTERVAL_S)),
        shards=ACCOUNT_SHARDS,
        tenant=at["row of one tenant"],
        budget=rounded(1_000 / World(1_000, measure(limited=True)).run().share("row of one tenant")),
        lanes=at["index of open lanes"],
        lambda_usd=lambda_usd,
        mib=FUNCTION_SIZES["decide"].memory_mib,
        task_usd=task_usd,
        even=task_usd / lambda_usd,
        streams=STREAMS,
        lambda_month=STREAMS * lambda_usd * MONTH_H,
        needed=rounded(open_run(SIZES[2]).demands["executions of functions"].peak()),
        ten=SIZES[2],
    )
    tables = [needs_table(), [_DEFAULTS], effects_table(QUOTAS), [_LIFTED], effects_table(LIFTED)]
    return "\n".join([head, *(line for table in tables for line in table), levers + "\n".join(sources()), ""])


def _reached(name: str, *, devices: int = 1, slowest_s: float = 0.0) -> float:
    """Return how many turns at once reach a quota."""
    run = open_run(1_000, devices=devices, slowest_s=slowest_s)
    return float(1_000 / run.share(name))
