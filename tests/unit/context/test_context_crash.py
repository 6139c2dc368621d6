"""A crash at any put of any step, and the step again: the model reads what it would have read."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from stepline.model.entry import Compacted, Decided, Reopened, Resulted
from stepline.model.step import Step
from tests.support.draw import share
from tests.unit.context.simulated_context import LAB, CrashError, Engine, decision

LONG = {"name": "ada", "chars": 7_000}
WORDS = (
    decision((LAB, {"name": "ada", "chars": 400}), (LAB, {"name": "bob", "chars": 400, "hears": "hurry"})),
    decision(("react.write", {"path": "a.md", "channel": "canvas", "content": "# A\nfirst", "kind": "file"})),
    decision(answer="So it is written."),
    decision(answer="So it is, one more thing or not."),
    decision((LAB, LONG)),
    decision((LAB, LONG)),
    "{",
    decision((LAB, LONG), (LAB, LONG), notes="once more"),
    decision((LAB, LONG)),
    decision((LAB, LONG)),
    decision(answer="So it is."),
    decision(answer="Always."),
)
"""What the model says, decision by decision, in three turns."""


def live(engine: Engine) -> Iterator[Step]:
    """Live through three turns; yield every step before it is run."""
    for text, wait_s in (("look at it", 20), ("and at that", 400), ("still? " * 2_000, 0)):
        engine.say(text)
        while engine.conversation.state.status == "open":
            if engine.conversation.state.cursor.phase == "close" and engine.messages == 1:
                engine.say("one more thing")
            yield engine.step(cold=False)
        engine.conversation.clock.pause(wait_s)


def run(engine: Engine, step: Step) -> None:
    """Run a step as the state machine does: again if its process died."""
    engine.provider.words = [*WORDS, ""][len(engine.conversation.entries(Decided))]
    state = engine.conversation.states[step.route]
    try:
        state(step)
    except CrashError:
        engine.begin_process()
        state(replace(step, attempt=step.attempt + 1))


def lived(*, dies_in: int = -1, puts: int = 0, applies: bool = False) -> tuple[Engine, int]:
    """Return a conversation in which one step dies at one of its puts, if it reaches this put, and its number of steps."""
    engine, steps = Engine(), 0
    for step in live(engine):
        if steps == dies_in:
            engine.log.puts_left, engine.log.applies = puts, applies
        run(engine, step)
        engine.log.puts_left = None
        steps += 1
    return engine, steps


def read(engine: Engine) -> list[str]:
    """Return what the model reads; a compaction is named by its batch, which a step that began again moves."""
    return [
        re.sub(r"(compaction\.)\d+", r"\1n", piece.text) for piece in engine.folded().pieces if piece.text
    ]


def happened(engine: Engine) -> list[str]:
    """Return the kinds of entries in their order, but for what only says that a step began again."""
    entries = [entry for batch in engine.conversation.batches() for entry in batch.entries]
    return [type(entry).__name__ for entry in entries if not isinstance(entry, Reopened)]


UNHARMED, STEPS = lived()


def test_the_scripted_conversation_covers_every_kind_of_entry() -> None:
    kinds = happened(UNHARMED)
    assert {"Decided", "Resulted", "Closed", "Deferred", "Pruned", "Compacting", "Compacted"} <= set(kinds)
    assert len(UNHARMED.conversation.entries(Decided)) == len(WORDS)
    assert {entry.status for entry in UNHARMED.conversation.entries(Resulted)} == {"ok"}
    assert {entry.status for entry in UNHARMED.conversation.entries(Compacted)} == {"completed"}


@pytest.mark.parametrize("applies", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("puts", [0, 1, 2])
def test_rerunning_a_step_that_died_at_a_put_has_the_same_result(puts: int, applies: bool) -> None:
    for dies_in in share(range(STEPS), 3):
        engine, _ = lived(dies_in=dies_in, puts=puts, applies=applies)
        assert read(engine) == read(UNHARMED), dies_in
        assert happened(engine) == happened(UNHARMED), dies_in
