"""Which release runs the next step: one alone, two neighbours while one replaces the other, or any."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Final, Literal

from tests.contract.deploy_storm.release_tree import ReleaseTree

Mode = Literal["alone", "rolling", "mixed"]

SHARES: Final = (0.0, 0.1, 0.5, 0.9)
"""The share of steps that the later of two releases runs, as a deployment by parts moves on."""
MOVES: Final = 0.12
"""How often a deployment moves on at a step, and `BACK` how often it is rolled back instead."""
BACK: Final = 0.25


class Rollout:
    """The draw of one seed. `alone`: always the first. `rolling`: neighbours, forwards and back. `mixed`: any, at any step."""

    def __init__(self, mode: Mode, releases: Sequence[ReleaseTree], seed: str) -> None:
        self._mode = mode
        self._releases = tuple(releases)
        self._random = random.Random(f"rollout {seed}")
        most = len(SHARES) * (len(releases) - 1)
        self._at = self._random.randrange(most // 2 + 1) if mode == "rolling" else 0
        self._most = most

    def draw(self, fits: Callable[[ReleaseTree], bool] = lambda _: True) -> ReleaseTree:
        """Return the release of the next step, among those that fit."""
        if self._mode == "mixed":
            return self._random.choice([one for one in self._releases if fits(one)])
        found = self._releases[0] if self._mode == "alone" else self._move()
        return found if fits(found) else next(one for one in self._releases if fits(one))

    def _move(self) -> ReleaseTree:
        if self._random.random() < MOVES:
            step = -1 if self._random.random() < BACK else 1
            self._at = min(max(self._at + step, 0), self._most)
        former, part = divmod(self._at, len(SHARES))
        later = self._random.random() < SHARES[part]
        return self._releases[former + later]


class Return(Rollout):
    """The later of two releases alone, and as long as it `is_back` the former one, where that fits."""

    def __init__(self, former: ReleaseTree, later: ReleaseTree) -> None:
        super().__init__("alone", [later], "")
        self._former = former
        self.is_back = False

    def draw(self, fits: Callable[[ReleaseTree], bool] = lambda _: True) -> ReleaseTree:
        return self._former if self.is_back and fits(self._former) else super().draw(fits)
