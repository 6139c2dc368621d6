"""The tables of a simulation: the demand on each quota, the first to break, and the effect that users notice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from statistics import mean
from typing import Final, NamedTuple

from bench.ordinary_turn import OrdinaryTurn, measure
from bench.simulate.quota import QUOTAS, Quota
from bench.simulate.world import Outcome, World, percentile
from stepline.delivery.post_pace import MOST_INTERVAL_S

SIZES: Final = (10, 1_000, 10_000, 100_000)
"""Turns at once."""
WHOLE: Final = 0.999
MODEL: Final = ("model output", "model requests", "model input")
LIFTED: Final = {name: quota for name, quota in QUOTAS.items() if name not in MODEL}
"""The quotas without those of the model's provider, as by a contract with it."""
RARE: Final = "posts and messages, text every 2 s"


class Reached(NamedTuple):
    """A quota, and the number of turns at once that reach it."""

    name: str
    turns: float


@cache
def open_run(n: int, *, devices: int = 1, slowest_s: float = 0.0) -> Outcome:
    """Return the demand of `n` turns at once without any limit."""
    return World(n, measure(devices=devices), slowest_s=slowest_s).run()


def reached(turn: OrdinaryTurn, quotas: Mapping[str, Quota], n: int = 1_000) -> list[Reached]:
    """Return the quotas in the order in which more turns at once reach them."""
    run = World(n, turn).run()
    found = [
        Reached(name, n / run.share(name, quota)) for name, quota in quotas.items() if run.share(name, quota)
    ]
    return sorted(found, key=lambda one: one.turns)


def needs_table(sizes: Sequence[int] = SIZES) -> list[str]:
    """Return the table of the demand on each quota."""
    order = [one.name for one in reached(measure(), QUOTAS)]
    lines = [
        f"| quota | counts | default | {' | '.join(f'{n:,}' for n in sizes)} | reached at | lever |",
        f"|---|---|---|{'---|' * len(sizes)}---|---|",
    ]
    for name in order:
        lines.append(_needs(name, name, 0.0, sizes))
        if name == "posts and messages":
            lines.append(_needs(RARE, name, MOST_INTERVAL_S, sizes))
    return lines


def _needs(title: str, name: str, slowest_s: float, sizes: Sequence[int]) -> str:
    quota = QUOTAS[name]
    asked = [open_run(n, slowest_s=slowest_s).demands[name].peak() for n in sizes]
    at = 1_000 / open_run(1_000, slowest_s=slowest_s).share(name)
    cells = [f"**{_round(much)}**" if much > quota.limit else _round(much) for much in asked]
    lever = quota.lever if title == name else "none left: another transport, or the quota"
    return f"| {title} | {quota.counts} | {_round(quota.limit)} | {' | '.join(cells)} | {rounded(at)} | {lever} |"


def effects_table(quotas: Mapping[str, Quota], sizes: Sequence[int] = SIZES) -> list[str]:
    """Return the table of the first quotas to break at each size, and the effects that users notice."""
    turn = measure()
    lines = [
        "| turns at once | breaks first | then | run | queued | refused or not connected | first text, p50 | p95 | text every |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    order = reached(turn, quotas)
    for n in sizes:
        over = [one.name for one in order if one.turns < n]
        found = World(n, turn, quotas=quotas).run()
        lines.append(_effects(n, over, found))
    return lines


def _effects(n: int, over: Sequence[str], found: Outcome) -> str:
    first, then = over[0] if over else "nothing", ", ".join(over[1:3])
    running, waiting = mean(found.running), mean(found.waiting)
    is_away = found.refused or found.connected < WHOLE
    away = max(0.0, n - running - waiting) if is_away else 0.0
    text = [_seconds(percentile(found.first_text_s, share)) for share in (0.5, 0.95)]
    every = _seconds(percentile(found.interval_s, 0.95))
    return (
        f"| {n:,} | {first} | {then} | {_round(round(running))} | {_round(round(waiting))} | {_round(away)} "
        f"| {text[0]} | {text[1]} | {every} |"
    )


def sources() -> list[str]:
    """Return where each quota was read."""
    pages: dict[str, list[str]] = {}
    for name, quota in QUOTAS.items():
        pages.setdefault(quota.source, []).append(name)
    return [f"- {page}: {', '.join(names)}" for page, names in pages.items()]


def rounded(number: float) -> str:
    """Return a number of turns with two significant digits."""
    return f"{float(f'{number:.2g}'):,.0f}"


def _round(number: float) -> str:
    return f"{float(f'{number:.3g}'):,.10g}" if number < 1_000 else f"{float(f'{number:.3g}'):,.0f}"


def _seconds(number: float) -> str:
    return f"{float(f'{number:.2g}'):g} s"
