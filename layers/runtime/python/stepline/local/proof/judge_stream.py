"""Judges of a conversation's events and running text. Pure: each raises NotHeldError with the reason."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from stepline.local.client.change import EventsApplied, TextAppended, TurnEnded
from stepline.local.client.reducer import fold_frame
from stepline.local.client.state import ClientState
from stepline.local.proof.proof_row import require
from stepline.model.wire.event import EventFrame


def fold_stored(conversation: str, frames: Iterable[EventFrame]) -> list[EventsApplied]:
    """Return the batches of stored frames, oldest first, as a client applies them."""
    state, batches = ClientState(conversation=conversation), list[EventsApplied]()
    for frame in frames:
        state, effects = fold_frame(state, frame)
        batches += [effect for effect in effects if isinstance(effect, EventsApplied)]
    return batches


def judge_batches(received: Sequence[EventsApplied], stored: Sequence[EventsApplied]) -> None:
    """Require that a client received every stored batch once and in order, each after the one that it names."""
    received = [batch for batch in received if batch.n <= stored[-1].n]  # others were appended since
    numbers = [batch.n for batch in received]
    require(
        numbers == [batch.n for batch in stored],
        f"the client received the batches {numbers}, and {[batch.n for batch in stored]} are stored",
    )
    previous = 0
    for batch in received:
        require(batch.prev == previous, f"batch {batch.n} names {batch.prev} before it, and not {previous}")
        previous = batch.n
    odd = [one.n for one, other in zip(received, stored, strict=True) if one.events != other.events]
    require(not odd, f"the events of the batches {odd} are not those that are stored")


def judge_ends(ends: Sequence[TurnEnded], turns: int = 1) -> None:
    """Require this number of turns, each ended once and with an answer."""
    ids = [end.turn_id for end in ends]
    require(len(set(ids)) == len(ids), f"a turn ended twice: {ids}")
    require(len(ids) == turns, f"{len(ids)} turns ended, and not {turns}")
    failed = [end.code or end.reason for end in ends if not end.answered]
    require(not failed, f"a turn ended without an answer: {failed}")


def join_text(pieces: Iterable[TextAppended]) -> dict[tuple[int, str], str]:
    """Return the text of each lane of each stream. Raises NotHeldError if a piece does not continue its lane."""
    texts: dict[tuple[int, str], str] = {}
    for piece in pieces:
        key = (piece.claim, piece.lane)
        before = texts.get(key, "")
        require(
            piece.off == len(before),
            f"a piece of lane {piece.lane} begins at character {piece.off}, and not at {len(before)}",
        )
        texts[key] = before + piece.text
    return texts


def judge_texts(one: Mapping[tuple[int, str], str], other: Mapping[tuple[int, str], str]) -> int:
    """Require that two clients were shown the same running text; return how many characters both were shown.

    A client may lack the end of a lane: the recorded decision replaces it, in a batch that both have.
    """
    shown = 0
    for key in one.keys() & other.keys():
        most = min(len(one[key]), len(other[key]))
        require(one[key][:most] == other[key][:most], f"the texts of lane {key[1]} differ")
        shown += most
    require(shown > 0, "no running text was shown to both clients")
    return shown


def judge_continuation(before: Sequence[TextAppended], after: Sequence[TextAppended]) -> int:
    """Require that the stream of a cut client continues after the cut; return the characters that came then."""
    cut = {piece.claim for piece in before}
    came = sum(len(piece.text) for piece in after if piece.claim in cut)
    require(came > 0, "the stream did not continue after the cut")
    return came
