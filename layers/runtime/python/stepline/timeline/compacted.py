"""The result of a compaction: memories that replace turns and rounds, and the pieces carried along with them.

Pure, and bounded in every part: a memory by its author, carried pieces by the constants below, and all the
rest by the room that the entry gives it. Pieces that do not change stay the same objects.
Source: docs/concepts/context.md#compaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, Literal

from msgspec.structs import asdict, replace

from stepline.model.base import Value
from stepline.model.entry import Compacted, Compacting
from stepline.model.plan_steps import Plan
from stepline.rendering.piece import Kind, Piece, byte_length
from stepline.rendering.turn_facts import Turn

if TYPE_CHECKING:
    from stepline.rendering.text_form import TextForm

CARRIED: Final[tuple[Kind, ...]] = ("event", "note")
"""Kinds that are carried along when a turn is compacted."""
CARRIED_MAX: Final = 32
"""Maximum carried pieces of each kind, the newest."""
CARRIED_BYTES: Final = 1_200
"""Maximum bytes of one carried piece."""
PLANS_BYTES: Final = 4_000
STAYING: Final[frozenset[Kind]] = frozenset(
    {"header", "prompt", "event", "note", "feedback", "card", "memory", "plans", "checkpoint"}
)
"""Kinds of the open turn that stay when its rounds are compacted."""
FIXED: Final[frozenset[Kind]] = frozenset({"memory", "checkpoint", "header"})
"""Kinds that use no part of the room: they are bounded already."""
PIECE_BYTES: Final = 320
"""The fewest bytes that a piece is cut to; if there is less room, the oldest pieces are dropped."""


class Compactions(Value):
    """The state of compaction in a conversation.

    `pending` began in the open turn and has not ended. `memory` and `checkpoint` are the newest entries whose
    summary and, in the open turn, checkpoint the model reads. `status` is that of the newest one that ended;
    `wasted`: it called a model without a result.
    """

    pending: Compacting | None = None
    memory: Compacted | None = None
    checkpoint: Compacted | None = None
    status: str = ""
    wasted: bool = False

    def begun(self, entry: Compacting) -> Compactions:
        """Return the state after a compaction has begun."""
        return replace(self, pending=entry)

    def ended(self, entry: Compacted) -> Compactions:
        """Return the state after a compaction has ended."""
        done = entry.status == "completed"
        return Compactions(
            memory=entry if done and entry.cut else self.memory,
            checkpoint=entry if done and entry.split else self.checkpoint,
            status=entry.status,
            wasted=entry.usage is not None and entry.reason not in ("", "steered"),
        )

    def turned(self) -> Compactions:
        """Return the state after the open turn has ended."""
        return replace(self, pending=None, checkpoint=None)


UNTOUCHED: Final = Compactions()


def give_up(begun: Compacting, at: str, *, status: Literal["skipped", "error"], reason: str) -> Compacted:
    """Return the end of a compaction that began and changes nothing."""
    fields = {**asdict(begun), "at": at}
    return Compacted(**fields, status=status, reason=reason, after_tokens=begun.before_tokens)


def compact(
    pieces: Sequence[Piece],
    n: int,
    entry: Compacted,
    *,
    first_kept: int,
    turns: Sequence[Turn],
    plans: Sequence[Plan],
    form: TextForm,
) -> list[Piece]:
    """Return the pieces with every turn before number `first_kept` replaced by a memory, if the entry cuts.

    The open turn's rounds up to `split` become a checkpoint. `n` is the entry's batch, `turns` are all turns,
    `plans` those that are neither current nor open.
    """
    kept = list(pieces)
    if entry.cut and first_kept:
        gone = [piece for piece in pieces if piece.turn < first_kept]
        kept = [piece for piece in pieces if piece.turn >= first_kept]
        memory = _memory(n, entry, turns[: first_kept - 1], form)
        kept[:0] = [memory, *_carried(gone, form), *_plans(n, plans, form)]
    if entry.split:
        kept = _split(kept, n, entry, form)
    return fit_room(kept, entry.room, form, keeps_events=entry.keeps_events) if entry.room else kept


def memory_path(entry: Compacted) -> str:
    """Return the path of a compaction's summary."""
    return f"su:{entry.turn}.conv.range.summary"


def checkpoint_path(entry: Compacted, n: int) -> str:
    """Return the path of the checkpoint of a compaction in batch `n`."""
    return f"ar:{entry.turn}.react.mid_turn.compaction.{n}"


def _memory(n: int, entry: Compacted, covered: Sequence[Turn], form: TextForm) -> Piece:
    path = memory_path(entry)
    return Piece(kind="memory", n=n, turn=0, text=form.memory(entry, path, covered), path=path)


def _carried(gone: Sequence[Piece], form: TextForm) -> list[Piece]:
    """Return the pieces that a memory carries along; those of an older memory stay unchanged."""
    return [
        piece if piece.turn == 0 else cut(replace(piece, turn=0), CARRIED_BYTES, form)
        for piece in newest_of_each(gone, CARRIED_MAX)
    ]


def _plans(n: int, plans: Sequence[Plan], form: TextForm) -> list[Piece]:
    text = form.plans(plans)
    return [cut(Piece(kind="plans", n=n, turn=0, text=text), PLANS_BYTES, form)] if text else []


def newest_of_each(pieces: Iterable[Piece], most: int) -> list[Piece]:
    """Return the newest `most` pieces of each carried kind, in order, without stops."""
    found = [piece for piece in pieces if piece.kind in CARRIED and (piece.hint or piece.kind != "event")]
    left = dict.fromkeys(CARRIED, most)
    chosen: list[Piece] = []
    for piece in reversed(found):
        if left[piece.kind]:
            left[piece.kind] -= 1
            chosen.append(piece)
    return chosen[::-1]


def is_settled(piece: Piece, split: int) -> bool:
    """Return True if a piece of the open turn goes to the checkpoint of a split after batch `split`."""
    return piece.n <= split and (piece.kind == "checkpoint" or piece.kind not in STAYING)


def _split(pieces: Sequence[Piece], n: int, entry: Compacted, form: TextForm) -> list[Piece]:
    newest = pieces[-1].turn
    found: list[Piece] = []
    position = -1
    for piece in pieces:
        if piece.turn == newest and is_settled(piece, entry.split):
            position = len(found) if position < 0 else position
            continue
        found.append(piece)
    if position >= 0:
        path = checkpoint_path(entry, n)
        text = form.checkpoint(entry, path)
        found.insert(position, Piece(kind="checkpoint", n=entry.split, turn=newest, text=text, path=path))
    return found


def fit_room(pieces: Sequence[Piece], room: int, form: TextForm, *, keeps_events: bool = True) -> list[Piece]:
    """Return the pieces with all but the memories in `room` bytes: the longest are cut, to the same length.

    If they do not fit even then, the oldest carried pieces are dropped first, then the oldest events and notes of earlier
    turns and notes of the newest one, then the oldest prompts and events except the first prompt. Entries of earlier
    releases do not `keeps_events`: a fold of theirs drops by the number of pieces, and events before prompts.
    """
    loose = [piece for piece in pieces if piece.kind not in FIXED]
    loose = _affordable(loose, room) if keeps_events else _fewer(loose, room // PIECE_BYTES)
    limit = max(PIECE_BYTES, share(map(_size, loose), room))
    kept = {id(piece) for piece in loose}
    return [
        cut(piece, limit, form) if piece.kind not in FIXED else piece
        for piece in pieces
        if piece.kind in FIXED or id(piece) in kept
    ]


def omits_events(pieces: Sequence[Piece], room: int) -> bool:
    """Return True if `room` is too small for the messages and events of the newest turn."""
    loose = [piece for piece in pieces if piece.kind not in FIXED]
    newest = max((piece.turn for piece in loose), default=0)
    kept = {id(piece) for piece in _affordable(loose, room)}
    return any(
        piece.turn == newest and piece.kind in ("prompt", "event") and id(piece) not in kept
        for piece in loose
    )


def _affordable(pieces: Sequence[Piece], room: int) -> list[Piece]:
    """Return the pieces without those that have no room, each cut to `PIECE_BYTES`."""
    newest = max([1, *(piece.turn for piece in pieces)])
    early = [piece for piece in pieces if not piece.turn or (piece.turn < newest and piece.kind in CARRIED)]
    notes = [piece for piece in pieces if piece.turn == newest and piece.kind == "note"]
    prompts = [piece for piece in pieces if 0 < piece.turn < newest and piece.kind == "prompt"]
    said = [piece for piece in pieces if piece.turn == newest and piece.kind in ("prompt", "event")]
    first = next((piece for piece in said if piece.kind == "prompt"), None)
    excess = sum(min(_size(piece), PIECE_BYTES) for piece in pieces) - room
    gone: set[int] = set()
    for piece in (*early, *notes, *prompts, *said):
        if excess > 0 and piece is not first:
            excess -= min(_size(piece), PIECE_BYTES)
            gone.add(id(piece))
    return [piece for piece in pieces if id(piece) not in gone]


def _fewer(pieces: Sequence[Piece], most: int) -> list[Piece]:
    """Return at most about `most` pieces, as releases up to 0.1.0 chose them."""
    excess = len(pieces) - most
    prompts = [piece for piece in pieces if piece.turn and piece.kind == "prompt"]
    dispensable = [
        *(piece for piece in pieces if piece.turn == 0),
        *(piece for piece in pieces if piece.turn and piece.kind in CARRIED),
        *prompts[1:],
    ]
    gone = {id(piece) for piece in dispensable[: max(0, excess)]}
    return [piece for piece in pieces if id(piece) not in gone]


def share(sizes: Iterable[int], room: int) -> int:
    """Return the common maximum length for a sum of `room`: shorter items leave their unused share to longer ones."""
    ordered, left = sorted(sizes), room
    for index, size in enumerate(ordered):
        fair = left // (len(ordered) - index)
        if size > fair:
            return fair
        left -= size
    return max(ordered, default=0)


def cut(piece: Piece, most_bytes: int, form: TextForm) -> Piece:
    """Return the piece with its text cut, or the piece itself if it is short enough."""
    if _size(piece) <= most_bytes:
        return piece
    return replace(piece, text=form.clipped(piece, most_bytes), shows="")


def _size(piece: Piece) -> int:
    return byte_length(piece.text)
