"""docs/reference/cost.md: the cost of deployments, from their templates, and of turns, from what they ask AWS for."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Final

import aws_cdk as cdk

from bench.ordinary_turn import CPU_S, ROUNDS, STREAM_S, measure
from bench.paced import TOKENS_A_SECOND
from bench.turn_cost import TURNS, beside, parts, price, price_of_model
from docs.build import DOCS
from stepline.model.tenancy.aws_price import LIST_PRICES_AS_OF, PRICE_REGION, UNITS
from stepline_cdk.choice.operation import LOG_RETENTION_DAYS
from stepline_cdk.code import Code
from stepline_cdk.cost import (
    FREE,
    RUN_S,
    SECRET_CALLS,
    Line,
    Templates,
    price_idle,
    price_run,
)
from stepline_cdk.deployment import Deployment
from stepline_cdk.image import IMAGES_KEPT
from stepline_cdk.page_files import PageFiles, read_headers
from stepline_cdk.stage import Stage

PATH: Final = DOCS / "reference/cost.md"

_KEY: Final = "arn:aws:secretsmanager:us-east-1:111122223333:secret:model-AbCdEf"


def _choose(name: str, **choices: str) -> Stage:
    """Return a stage with the defaults of its name, as `-c` chooses it."""
    return Stage(name=name, model_secret_arn=_KEY, **choices)


DEPLOYMENTS: Final = {
    "`dev`": _choose("dev"),
    "`prod`": _choose("prod"),
    "`prod`, `snap_start=false`": _choose("prod", snap_start="false"),
    "`prod`, `exec_image=none`": _choose("prod", exec_image="none"),
    "`prod`, `dashboard=true`": _choose("prod", dashboard="true"),
}
"""Headings of the page → their stages."""

_HEAD: Final = f"""\
# What it costs

Generated from the templates by `make docs`; a test compares them. List prices of {PRICE_REGION}, {LIST_PRICES_AS_OF},
without free tiers, taxes and private agreements.

## Idle cost

US dollars a month:
"""

_NOTES: Final = f"""
- An alarm that adds up metrics is billed for each of them, and one that combines alarms costs 0.50 USD in addition, so alarms are
  saved by reading each condition once. The first ten metrics of an account are in its free tier, as are three dashboards.
- The model's key is a secret of yours; Bedrock needs none.
- A snapshot is billed for the memory its function is configured with, as long as its version exists. `socket` and `decide` have
  one, since the first token of a message waits for both; without snapshots the first message after a pause waits for their code
  to load. No other function has one: a client waits for `authorizer` when it connects, before it sends, and for `act` and
  `close` after the first token. The snapshot of a 256 MB function costs 0.99 USD a month, of a 512 MB one 1.98.
- The version before is kept for a day after a deployment, for a [rollback](../how-to/deploy.md#roll-back), and its snapshots with it.
  Then the stack deletes it.
- Our own metrics cost 0.30 USD each in a month in which they are counted all the time, less by the hour; an idle stage
  counts none. Two of them are counted for each tenant.
- The code of a function is 133 MB, of which bytecode is 37: 126 MB of dependencies, 6 of the library, 1 of handlers
  (arm64, Python 3.13, `du`; Lambda takes 250). Storage of code is free up to 75 GB an account and region. The saving of bytecode
  at a cold start is in [measurements](bench.md).
- The functions that a turn waits for have the memory with which cost times time of a mean call is least: 256 MB (authorizer) or
  512 (socket, decide, act, close; a function that reads a conversation has at least that), [measured](bench.md) as `size_<function>`. Decide waits for the model: a round of five seconds costs
  0.000035 USD with 512 MB and twice that with 1,024, which would bring its first word 0.1 s earlier.
- A reader of a stream waits as long with any memory, so it costs by the memory alone: `stream` has 256 MB, and reads a page of
  1 MB with 59.
- Logs are kept for {LOG_RETENTION_DAYS} days, unless the stage [chooses otherwise](../how-to/deploy.md#logs).
- The chat page is files in S3 and a distribution of CloudFront: nothing while unused, and about 0.1 MB per visit.
- There is no NAT gateway, no interface endpoint, no cache and no customer-managed key: each costs more than all of this.

All other parts of a deployment cost nothing when idle:

| | is billed |
|---|---|"""

_TURN: Final = """
## A turn

AWS's bill for an ordinary turn, part by part: a message, a round that writes a file, a round that answers, each with {stream_s:g} s of
text at {tokens} tokens a second; one device listens, the functions are warm, nothing is limited. A meter in front of the services
bills each request on the wire (`bench/ordinary_turn.py`), so it follows the code; the time of a function is its waiting and
{cpu_ms:.0f} ms of a whole core. US dollars for a thousand such turns:

| | of one turn | USD |
|---|---|---|"""

_BESIDE: Final = """
The model is not in it: the same two rounds write {output:,} tokens, which are {model_usd:.2f} USD for a thousand turns of `{model}`,
and read their prompts. [A receipt](../concepts/receipts.md) says what a real turn has cost.

What costs beside such turns, or makes them dearer:

| | counted | USD | for each |
|---|---|---|---|"""

_BESIDE_NOTES: Final = """
- A conversation that is open in a browser costs its connection and its pings, whether anything is said or not: {idle:.3f} USD a month if it
  stays open day and night, as much as {idle_turns:.0f} turns.
- A long turn costs by its rounds: each has two or three transitions, {round_writes} write units and {round_posts} frames to a device."""

_RUN: Final = """
## One program

| | USD |
|---|---|
| its task: {seconds} s with the sizes of the template, from the pull of the image to the end, with a public address | {task:.4f} |
| its secret, by which it is handed over: one hour, the least that is billed, and {calls} requests | {secret:.4f} |
| **together** | **{usd:.4f}** |

The requests to the table and the bucket and the steps of the state machine are about a tenth of that. An image is built when its
sources have changed, about 0.03 USD each time; the newest {kept} are kept in ECR.

## Prices

| USD | for each |
|---|---|"""


def render() -> str:
    """Return the page."""
    deployments = synthesise()
    bills = {name: price_idle(templates) for name, templates in deployments.items()}
    lines = {line.what: None for bill in bills.values() for line in bill}
    task, secret = max(map(price_run, deployments.values()))
    return "\n".join(
        [
            _HEAD,
            f"| | {' | '.join(bills)} |",
            f"|---|{'---|' * len(bills)}",
            *(f"| {what} | {' | '.join(_cell(bill, what) for bill in bills.values())} |" for what in lines),
            f"| **together** | {' | '.join(f'**{_total(bill):.2f}**' for bill in bills.values())} |",
            _NOTES,
            *(f"| `{name}` | {how} |" for name, how in FREE.items() if how),
            *_turn(),
            _RUN.format(
                seconds=RUN_S,
                task=task,
                secret=secret,
                usd=task + secret,
                calls=SECRET_CALLS,
                kept=IMAGES_KEPT,
            ),
            *(f"| {_exact(price.usd)} | {price.unit} |" for price in UNITS.values()),
            "",
        ]
    )


def _turn() -> list[str]:
    """Return the lines about turns, and about what costs beside them."""
    turn, model = measure(), price_of_model()
    output = round(ROUNDS * STREAM_S * TOKENS_A_SECOND)
    found, more = parts(turn), beside(turn)
    idle = sum(one.usd for one in more if one.each == "month")
    decide, act = turn.calls[1], turn.calls[2]
    return [
        _TURN.format(stream_s=STREAM_S, tokens=TOKENS_A_SECOND, cpu_ms=CPU_S * 1000),
        *(f"| {part.name} | {part.much} | {part.usd * TURNS:.4f} |" for part in found),
        f"| **together** | | **{price(turn) * TURNS:.4f}** |",
        _BESIDE.format(output=output, model=model.model, model_usd=TURNS * output * model.output / 1e6),
        *(f"| {one.name} | {one.how} | {_exact(float(f'{one.usd:.3g}'))} | {one.each} |" for one in more),
        _BESIDE_NOTES.format(
            idle=idle,
            idle_turns=idle / price(turn),
            round_writes=decide.bill["write"] + act.bill["write"] + turn.stream.write_units,
            round_posts=decide.bill["post"] + act.bill["post"] + turn.stream.posts,
        ),
    ]


def _cell(bill: Iterable[Line], what: str) -> str:
    found = [line for line in bill if line.what == what]
    return f"{found[0].usd:.2f} ({found[0].much})" if found else ""


def _total(bill: Iterable[Line]) -> float:
    return sum(line.usd for line in bill)


def _exact(usd: float) -> str:
    return f"{usd:.10f}".rstrip("0").ljust(4, "0")


@cache
def synthesise() -> Mapping[str, Templates]:
    """Return the templates of every deployment of the page, by heading."""
    with tempfile.TemporaryDirectory() as folder:
        return {
            name: _synthesise(stage, Path(folder) / str(at))
            for at, (name, stage) in enumerate(DEPLOYMENTS.items())
        }


def _synthesise(stage: Stage, folder: Path) -> Templates:
    """Return the templates of a stage; `folder` is empty, and the cost does not depend on the code."""
    app = cdk.App(outdir=str(folder / "cdk.out"))
    (folder / "deps/python").mkdir(parents=True)
    code = Code.for_aws(DOCS.parent, deps=folder / "deps")
    page = folder / "page"
    page.mkdir()
    files = PageFiles(dist=page, headers=read_headers(DOCS.parent))
    Deployment(app, stage, code=code, packages=(), files=files)
    return {stack.stack_name: stack.template for stack in app.synth().stacks}
