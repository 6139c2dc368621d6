"""A long conversation for measuring cost: its messages, its tool results, and its user's pauses.

Twenty turns of six tool rounds and an answer. A result has 900 tokens at the median (log-normal, sigma 0.6).
Four pauses in five last 30 to 240 seconds, three in twenty 5 to 40 minutes, one in twenty 1 to 4 hours. In
the wide variant three rounds in twenty have the maximum number of calls. The same seed gives the same
conversation.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Final

from stepline.protocol.decision.fanout import ACTIONS_MAX

TURNS: Final = 20
TOOL_ROUNDS: Final = 6
FACTS: Final = 20
WIDE_SHARE: Final = 0.15
RESULT_TOKENS: Final = 900
RESULT_SIGMA: Final = 0.6
RESULT_TOKENS_MAX: Final = 8_000
BYTES_PER_TOKEN: Final = 4
SUMMARY_TOKENS: Final = 560
RECOVERY_SHARE: Final = 0.15
_WORDS: Final = (
    *("quarter", "margin", "freight", "harbour", "ledger", "audit", "tender", "vessel", "copper", "timber"),
    *("region", "supply", "forecast", "demand", "station", "border", "permit", "survey", "budget", "carrier"),
)


@dataclass(frozen=True)
class Call:
    """One call of the tool: `name` is its argument, `text` its result; `source` says that it has one to cite."""

    name: str
    text: str
    source: bool = False

    @property
    def mark(self) -> str:
        """The last line of the result, which shows that it is complete."""
        return self.text.rpartition("\n")[2]


@dataclass(frozen=True)
class ToolRound:
    """The model's text in one round, and its calls."""

    thinking: str
    notes: str
    calls: tuple[Call, ...]


@dataclass(frozen=True)
class Turn:
    """The user's message after `gap_s` of silence, and its answer."""

    gap_s: float
    prompt: str
    rounds: tuple[ToolRound, ...]
    answer: str
    summary: str


@dataclass(frozen=True)
class Script:
    """A whole conversation; `facts` are the names of the calls whose results have planted facts."""

    seed: int
    turns: tuple[Turn, ...]
    facts: frozenset[str]

    @property
    def calls(self) -> dict[str, Call]:
        """Every call by its name."""
        return {call.name: call for turn in self.turns for step in turn.rounds for call in step.calls}


def write_script(seed: int, *, wide: bool) -> Script:
    """Return the conversation of a seed."""
    draw = random.Random(f"{seed} {wide}")
    names = [
        [_names(turn, step, wide=wide, draw=draw) for step in range(TOOL_ROUNDS)] for turn in range(TURNS)
    ]
    facts = frozenset(draw.sample([name for turn in names for step in turn for name in step], FACTS))
    turns = tuple(_turn(number, rounds, facts, draw) for number, rounds in enumerate(names))
    return Script(seed=seed, turns=turns, facts=facts)


def make_summary() -> str:
    """Return the summary that a compaction gets from a model, ours or a peer's."""
    return " ".join(
        ["The work so far, its goals and its open ends."] * (SUMMARY_TOKENS * BYTES_PER_TOKEN // 46)
    )


def all_cold(script: Script, gap_s: float) -> Script:
    """Return the conversation with the same pause before every turn but the first."""
    turns = (script.turns[0], *(replace(turn, gap_s=gap_s) for turn in script.turns[1:]))
    return replace(script, turns=turns)


def _names(turn: int, step: int, *, wide: bool, draw: random.Random) -> list[str]:
    count = ACTIONS_MAX if wide and draw.random() < WIDE_SHARE else 1
    return [f"finding-{turn + 1}-{step + 1}-{n + 1}" for n in range(count)]


def _turn(number: int, rounds: list[list[str]], facts: frozenset[str], draw: random.Random) -> Turn:
    played = tuple(
        ToolRound(
            thinking=_prose(draw, 160),
            notes=_prose(draw, 80),
            calls=tuple(
                Call(name=name, text=_result(name, name in facts, draw), source=step % 2 == 0 and not n)
                for n, name in enumerate(names)
            ),
        )
        for step, names in enumerate(rounds)
    )
    return Turn(
        gap_s=_gap_s(draw) if number else 0.0,
        prompt=_prose(draw, 400),
        rounds=played,
        answer=_prose(draw, 1200),
        summary=f"Title: {_prose(draw, 40)}\nGoal: {_prose(draw, 120)}\nOutcome: {_prose(draw, 300)}\n"
        f"Refs: none\nRetrieval anchors: phrases[{_prose(draw, 60)}], entities[]",
    )


def _gap_s(draw: random.Random) -> float:
    kind = draw.random()
    if kind < 0.80:
        return draw.uniform(30, 240)
    if kind < 0.95:
        return draw.uniform(300, 2400)
    return draw.uniform(3600, 14400)


def _result(name: str, planted: bool, draw: random.Random) -> str:
    tokens = min(RESULT_TOKENS * draw.lognormvariate(0, RESULT_SIGMA), RESULT_TOKENS_MAX)
    lines = [f"{name}: what was found"]
    fact = f"The number of {name} is {draw.getrandbits(64):016x}."
    size = len(lines[0]) + len(fact)
    while size < tokens * BYTES_PER_TOKEN:
        lines.append(_prose(draw, 100))
        size += len(lines[-1]) + 1
    if planted:
        lines.insert(draw.randrange(1, len(lines) + 1), fact)
    return "\n".join([*lines, f"End of {name}, {draw.getrandbits(32):08x}."])


def _prose(draw: random.Random, chars: int) -> str:
    words = " ".join(draw.choices(_WORDS, k=chars // 6))
    return f"{words[: chars - 1].rstrip()}."
