"""Which release runs the next step: one alone, two neighbours while one replaces the other, or any."""

from __future__ import annotations

import random
from collections import Counter
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
        self.drawn: Counter[str] = Counter()

    def draw(self, fits: Callable[[ReleaseTree], bool] = lambda _: True) -> ReleaseTree:
        """Return the release of the next step, among those that fit."""
        if self._mode == "alone":
            found = self._releases[0]
        elif self._mode == "mixed":
            found = self._random.choice([one for one in self._releases if fits(one)])
        else:
            found = self._move()
            if not fits(found):
                found = next(one for one in self._releases if fits(one))
        self.drawn[found.name] += 1
        return found

    def _move(self) -> ReleaseTree:
        if self._random.random() < MOVES:
            step = -1 if self._random.random() < BACK else 1
            self._at = min(max(self._at + step, 0), self._most)
        former, part = divmod(self._at, len(SHARES))
        later = self._random.random() < SHARES[part]
        return self._releases[former + later]
