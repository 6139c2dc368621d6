"""A proof: one claim about a stage, and the function that tries it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from stepline.local.proof.proved_stage import ProvedStage

Evidence: TypeAlias = Mapping[str, str | int]
"""Ids, codes and numbers by name, which say what was seen."""


class NotHeldError(Exception):
    """A claim does not hold; the message is the sentence of the report."""


@dataclass(frozen=True, kw_only=True)
class Proof:
    """A row of the table of proofs. `claim` is one sentence; `turns` is the most turns of the model that it takes.

    `usd` is what AWS charges for it besides, `drift` names the known differences of an emulator that touch it.

    `needs` names what the stage or this machine must have, or is "". `prove` gets the stage and the name of a new
    conversation, and returns what it saw. It raises NotHeldError, NotRunError, or a SteplineError of the client.
    """

    name: str
    claim: str
    prove: Callable[[ProvedStage, str], Evidence]
    turns: int = 1
    usd: float = 0.0
    needs: str = ""
    drift: tuple[str, ...] = ()


def require(holds: bool, sentence: str) -> None:
    """Raise NotHeldError with this sentence unless the condition holds."""
    if not holds:
        raise NotHeldError(sentence)
