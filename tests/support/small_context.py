"""A conversation in a narrow context: results of any length, and a model with two scripts."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Final

from msgspec.structs import replace

from stepline.adapters.memory.log import MemoryLog
from stepline.adapters.memory.model import (
    TRIES,
    Fail,
    MemoryModelClient,
    MemoryModelStream,
    Say,
)
from stepline.adapters.provider.wire import RETRIED
from stepline.context.rules import ContextRules
from stepline.log.journal import Journal
from stepline.loop.agent import Summariser
from stepline.model.entry import Compacted, Compacting, Pruned
from stepline.ports.model import ModelClient, ModelRequest
from stepline.rendering.piece import byte_length
from stepline.timeline.fold import Timeline
from stepline.tools.context import ToolContext, ToolOutput
from tests.support.conversation import LANE, Conversation, tool
from tests.support.generation import answered, called

BIG: Final = "docs.look_up"
SUMMARISER: Final = Summariser(summary="Sum up the turns.", prefix="Sum up the rounds.")
SUMMARY: Final = "## Goals\nThe user wants a report on otters.\n## Next Steps\nWrite it."
BYTES_PER_TOKEN: Final = 3.2


class TwoScriptModel:
    """Answers rounds from one script, and summaries from another, or with `SUMMARY` after its end.

    `meanwhile` runs while a summary is written; a disobedient script writes more than is allowed.
    """

    def __init__(self, rounds: MemoryModelClient) -> None:
        self.rounds, self.summaries = rounds, MemoryModelClient()
        self.requests: list[ModelRequest] = []
        self.script: list[Say | Fail | str] = []
        self.meanwhile: list[Callable[[], object]] = []
        self.obeys = True

    def stream(self, request: ModelRequest) -> MemoryModelStream:
        self.requests.append(request)
        if not request.role.startswith("context.compaction."):
            return self.rounds.stream(request)
        if self.meanwhile:
            self.meanwhile.pop(0)()
        said = self.script.pop(0) if self.script else SUMMARY
        again = TRIES if isinstance(said, Fail) and isinstance(said.error, RETRIED) else 1
        self.summaries.add(*[said] * again)
        return self.summaries.stream(request if self.obeys else replace(request, max_tokens=10**6))


class SmallContext(Conversation):
    """A conversation with a budget in tokens; `texts` are the results of its tool, one after the other, then "nothing"."""

    def __init__(self, max_tokens: int = 8_000, *, log: MemoryLog | None = None, **rules: Any) -> None:
        super().__init__(log=log, context=ContextRules(max_tokens=max_tokens, **rules))
        self.texts: list[str] = []
        self.voices = TwoScriptModel(self.model)
        self.use(tool(BIG, "pure", self.look_up))
        self.agent = dataclasses.replace(self.agent, summariser=SUMMARISER)

    def look_up(self, context: ToolContext) -> ToolOutput:
        text = self.texts.pop(0) if self.texts else "nothing"
        return ToolOutput(blocks=(context.result(BIG, text),))

    @property
    def answering(self) -> ModelClient:
        return self.voices

    def turn(self, text: str, *found: str, answer: str = "Done.", notes: str = "I look.") -> None:
        """Run one turn: a round for each found text, and the answer."""
        self.plan(*found, answer=answer, notes=notes)
        self.send(text, id=f"m{self.tail.n}")
        self.run()

    def plan(self, *found: str, answer: str = "Done.", notes: str = "I look.") -> None:
        """Set the script of the next turn."""
        self.texts += found
        self.model.add(*(called(BIG, notes=notes) for _ in found), answered(answer))

    def talk(self, text: str, rounds: int = 12) -> None:
        """Run a turn whose rounds are so long that stubs of results do not help."""
        self.turn(text, *["x"] * rounds, notes=prose(2_000))

    def timeline(self) -> Timeline:
        return self.history.load(Journal(self.ports, LANE, "test"))

    def reductions(self) -> list[str]:
        """Return the kinds of the reductions, in order, compactions with their status."""
        found = []
        for batch in self.batches():
            for entry in batch.entries:
                if isinstance(entry, Pruned | Compacting):
                    found.append(type(entry).__name__)
                elif isinstance(entry, Compacted):
                    found.append(f"Compacted {entry.status}")
        return found

    def asked(self, role: str = "solver.") -> list[ModelRequest]:
        return [request for request in self.voices.requests if request.role.startswith(role)]


def tokens(request: ModelRequest) -> int:
    """Return the estimated tokens of a request."""
    return round(
        sum(byte_length(part.text) for part in (*request.system, *request.content)) / BYTES_PER_TOKEN
    )


def prose(size: int, word: str = "otter") -> str:
    """Return lines of text of about `size` bytes."""
    line = f"The {word} eats fish and swims in the river all day long.\n"
    return (line * (size // len(line) + 1))[:size]
