"""Ingress and resume: a message is answered, and every client has the same events, also one that was cut."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stepline.local.client.change import Effect, EventsApplied, TextAppended
from stepline.local.proof.judge_stream import (
    fold_stored,
    join_text,
    judge_batches,
    judge_continuation,
    judge_ends,
    judge_texts,
)
from stepline.local.proof.proof_client import ProofClient
from stepline.local.proof.proof_row import Evidence, require
from stepline.local.proof.proved_stage import NotRunError, ProvedStage

QUESTION: Final = "Answer with one word."
TEXT: Final = " ".join(
    f"Heron {number} waits at the water, and heron {number} flies." for number in range(1, 61)
)
LONG: Final = f"Write a file herons.md with {TEXT} and read it back."
"""A request with a long stream from any model, since the file is to have this text."""


def prove_ingress(stage: ProvedStage, conversation: str) -> Evidence:
    """Send a message, and compare what arrived with what is stored."""
    with stage.listen(conversation) as client:
        client.session.say(QUESTION)
        settle_turn(client)
        stored = read_stored(stage, conversation)
        client.catch_up(stored[-1].n)
    judge_ends(client.ends)
    judge_batches(client.batches, stored)
    return {"turn": client.ends[-1].turn_id, "batches": len(client.batches)}


def prove_resume(stage: ProvedStage, conversation: str) -> Evidence:
    """Cut a client in mid-stream and let another continue from its state, beside a client that is not cut."""
    with stage.listen(conversation) as witness:
        witness.session.say(LONG)
        witness.until(begins_turn)
        with stage.listen(conversation) as cut:
            cut.session.listen()
            cut.until(shows_text)
        with stage.listen(conversation, after=cut.state) as resumed:
            settle_turn(resumed)  # it reads at once: text that is read after its decision is void
            settle_turn(witness)
            stored = read_stored(stage, conversation)
            resumed.catch_up(stored[-1].n)
    judge_ends(witness.ends)
    judge_ends([*cut.ends, *resumed.ends])
    judge_batches([*cut.batches, *resumed.batches], stored)
    after = judge_continuation(cut.pieces, resumed.pieces)
    shown = judge_texts(join_text([*cut.pieces, *resumed.pieces]), join_text(witness.pieces))
    return {
        "turn": witness.ends[-1].turn_id,
        "cut_after": cut.state.cursor,
        "characters": shown,
        "live": after,
    }


def prove_same(stage: ProvedStage, conversation: str) -> Evidence:
    """Let two clients follow one turn."""
    with stage.listen(conversation) as one, stage.listen(conversation) as other:
        one.session.say(LONG)
        one.until(begins_turn)
        other.session.listen()
        settle_turn(one)
        stored = read_stored(stage, conversation)
        one.catch_up(stored[-1].n)
        other.catch_up(stored[-1].n)
    for client in (one, other):
        judge_ends(client.ends)
        judge_batches(client.batches, stored)
    shown = judge_texts(join_text(one.pieces), join_text(other.pieces))
    return {"turn": one.ends[-1].turn_id, "batches": len(stored), "characters": shown}


def read_stored(stage: ProvedStage, conversation: str) -> Sequence[EventsApplied]:
    """Return the stored batches of a conversation, from the HTTP API. Raises NotHeldError if there are none."""
    page = stage.api.read_events(conversation)
    frames = [*page.events]
    while page.more:
        page = stage.api.read_events(conversation, before=page.first_n)
        frames = [*page.events, *frames]
    stored = fold_stored(conversation, frames)
    require(bool(stored), "the conversation has no stored events")
    return stored


def settle_turn(client: ProofClient) -> None:
    """Receive until the conversation is idle.

    Raises NotRunError if a turn waits for a person: a rule of the stage asks about a tool that the row uses.
    """
    client.settle()
    if client.state.approval:
        raise NotRunError(f"a rule of the stage asks a person about call {client.state.approval}")


def begins_turn(effect: Effect) -> bool:
    """Return True for the batch in which a turn begins."""
    return isinstance(effect, EventsApplied) and any(event.type == "chat.start" for event in effect.events)


def shows_text(effect: Effect) -> bool:
    """Return True for a piece of running text."""
    return isinstance(effect, TextAppended)
