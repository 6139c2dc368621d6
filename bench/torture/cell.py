"""A cell of the matrix: a verdict, and one sentence of evidence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

Verdict: TypeAlias = Literal[
    "lost", "repeated", "stuck", "wrong", "refused", "holds", "not offered", "not run"
]
MEANINGS: Final[dict[Verdict, str]] = {
    "holds": "what the fault's row requires was seen",
    "lost": "a message, a call or an answer is missing",
    "repeated": "a message, an answer, a piece of it or an effect is there twice",
    "stuck": "a deadline passed and the turn was still open, or the next message was not answered",
    "wrong": "an answer or a stream is not the model's, or an effect happened without its approval",
    "refused": "the client received an error, nothing is there twice, and the conversation continues",
    "not offered": "the documentation has no way to do it",
    "not run": "the fault cannot be made here",
}


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A verdict on a subject under a fault, its evidence, and the seconds that the cell took."""

    verdict: Verdict
    evidence: str
    seconds: float


class CellError(Exception):
    """The subject does not hold; the message is the evidence."""

    def __init__(self, verdict: Verdict, evidence: str) -> None:
        """Keep the verdict."""
        super().__init__(evidence)
        self.verdict: Verdict = verdict


def require(condition: bool, verdict: Verdict, evidence: str) -> None:
    """Raise CellError with this verdict unless the condition holds."""
    if not condition:
        raise CellError(verdict, evidence)
