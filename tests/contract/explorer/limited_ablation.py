"""The rules of charges and slots (R24), taken back one at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from . import limited
from .ablation import ROUGH, Ablation
from .limited import LEFT, LIMITS, OVER, SLOTS
from .schedule import SAY, Scenario
from .simulation import Simulation

ALONE: Final = Scenario((("a", SAY, 0),), aborts=True)
NEXT: Final = Scenario((("a", SAY, 0), ("b", SAY, 12)))
"""The second turn opens right after the end of the first one."""


def _limited(**fields: Any) -> Callable[[], Simulation]:
    return lambda: Simulation(limits=LIMITS, **fields)


LIMITED: Final = (
    Ablation(
        rule="R24 a charge is made on the version it was planned from",
        breaks=OVER | LEFT,
        simulation=lambda: Simulation(limits=LIMITS, accounts=limited.Unversioned()),
    ),
    Ablation(
        rule="R24 a charge and its counters are one transaction",
        breaks=OVER,
        simulation=_limited(accounts_of=lambda me, adapter: limited.InTwoWrites(me, "accounts", adapter)),
        faults=ROUGH,
    ),
    Ablation(
        rule="R24 an older batch charges nothing",
        breaks=LEFT,
        patch=limited.charges_older,
        simulation=_limited(),
        scenario=lambda _: NEXT,
        schedule=limited.LateSettlement,
    ),
    Ablation(
        rule="R24 whoever meets a closing batch settles it",
        breaks=LEFT,
        patch=limited.settles_once,
        simulation=_limited(),
        faults=ROUGH,
    ),
    Ablation(
        rule="R24 a turn is settled before its mark is removed",
        breaks=LEFT,
        patch=limited.settles_last,
        simulation=_limited(),
        scenario=lambda _: ALONE,
        schedule=limited.LostSettlement,
    ),
    Ablation(
        rule="R24 a turn takes its slot in the transaction that opens it",
        breaks=SLOTS,
        simulation=_limited(proxy=limited.SlotsLater),
        faults=ROUGH,
    ),
    Ablation(
        rule="R24 a slot is freed in the transaction that removes the mark",
        breaks=SLOTS,
        simulation=_limited(proxy=limited.FreesLater),
        faults=ROUGH,
    ),
    Ablation(
        rule="R24 a slot is freed only with its own mark",
        breaks=SLOTS,
        simulation=lambda: Simulation(limits=LIMITS, log=limited.FreesAnything()),
        faults=ROUGH,
    ),
)
