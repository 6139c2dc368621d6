"""What happens on the stage, drawn by a seed: who says what in which conversation, and what the model answers.

A course is the same whichever releases play it. Each round, answer and text has a name of its own, so a repeated or a lost one shows.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from typing import Final, Literal

from tests.support.generation import answered, called, coded

Act = Literal["message", "fork", "branch"]
Midst = Literal["", "followup", "steer", "stop"]

CONVERSATIONS: Final = 3
MESSAGES: Final = 2
ROUNDS: Final = 3
TOOLS: Final = ("look", "keep", "send", "pay", "program")
VERDICTS: Final = ("approve", "approve", "deny", "edit")
LOST: Final = 0.05
"""How often the process of a step dies at its end: the step runs again, in a release that is drawn anew."""
WORDS: Final = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]


@dataclass(frozen=True)
class TurnPlan:
    """What the model does in a turn: its calls, then an answer; and what the user says in the midst of a round."""

    calls: tuple[str, ...]
    words: int
    midst: Midst
    at: int


@dataclass(frozen=True)
class Course:
    """A course. `acts` are what the users of its conversations do, in order."""

    seed: int
    acts: dict[str, tuple[Act, ...]] = field(compare=False)

    @property
    def forks(self) -> bool:
        return any(act != "message" for acts in self.acts.values() for act in acts)

    @property
    def remote(self) -> bool:
        """True if programs run in tasks."""
        return self.seed % 4 >= 2

    def turn(self, conversation: str, number: int) -> TurnPlan:
        """Return the plan of a conversation's turn, counted from 0."""
        drawn = random.Random(f"{self.seed} {conversation} {number}")
        calls = tuple(drawn.choice(TOOLS) for _ in range(drawn.randrange(ROUNDS + 1)))
        midst: Midst = drawn.choice(("", "", "followup", "steer", "stop"))
        return TurnPlan(calls, drawn.choice((5, 40, 200)), midst, drawn.randrange(len(calls) + 1))

    def generate(self, conversation: str, number: int, iteration: int, *, brief: bool) -> str:
        """Return what the model generates in a round; a turn that was steered is `brief`: it answers."""
        plan, name = self.turn(conversation, number), f"{conversation}/{number}/{iteration}"
        if brief or iteration >= len(plan.calls):
            words = " ".join(WORDS[at % len(WORDS)] for at in range(plan.words))
            return answered(f"{name}: {words}", suggested_followups=["And then?"])
        tool = plan.calls[iteration]
        if tool == "program":
            return coded(f"print({json.dumps(name)})", "a.csv", prog_name="count")
        return called(f"storm.{tool}", {"what": name}, notes=f"I call {tool}.")

    def loses(self, moment: str) -> bool:
        """Return True if the process of a step dies after its last write, before anything learns of it."""
        return random.Random(f"{self.seed} {moment}").random() < LOST

    def verdict(self, call: str) -> str:
        """Return what a person answers about a call, by what it would do."""
        return random.Random(f"{self.seed} {call}").choice(VERDICTS)


def draw_course(seed: int, *, forks: bool) -> Course:
    """Return the course of a seed."""
    drawn = random.Random(f"course {seed} {forks}")
    acts: dict[str, tuple[Act, ...]] = {}
    for number in range(CONVERSATIONS):
        said: list[Act] = ["message"] * drawn.randrange(1, MESSAGES + 1)
        if forks and (number == 0 or drawn.random() < 0.3):
            said.insert(drawn.randrange(1, len(said) + 1), drawn.choice(("fork", "branch")))
        acts[f"c-{number}"] = tuple(said)
    return Course(seed, acts)
