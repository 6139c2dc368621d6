"""A segment: the timeline of a log up to a batch, as bytes, to save reading and folding those batches.

It is a cache. The log has the same content, and a reader that cannot use a segment reads the log instead. The
texts of earlier requests are stored once, joined as they were sent, and the facts about their pieces next to
them: texts are needed for a request, facts only to prune, quote or find a piece.
Source: docs/concepts/log.md#segments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from functools import cache
from typing import Any, Final, get_type_hints

import msgspec
from msgspec.structs import replace

from stepline.model.base import Row
from stepline.model.ids import Lane
from stepline.ports.model import Part
from stepline.rendering.piece import Piece
from stepline.rendering.request_parts import MARK_NAMES, Marks, RequestParts, Strand
from stepline.rendering.text_form import TextForm
from stepline.timeline.fold import Timeline

TIMELINE_SEGMENT_FORMAT: Final = 14
"""The version of the encoding. Raise it when the meaning of a field of the fold changes, or when
the fold turns an entry into something else; a reader knows only its own version.
"""

LATER: Final[dict[str, Any]] = {"steady_part": 0, "kept_effects": ()}
"""Fields that were added to the format, with their values in a segment that lacks them; such values are not stored."""

APART: Final = frozenset({"lane", "form", "parts", "base", "batches", "load"})
"""Fields of a timeline that are stored in another form, or not at all."""


_STORED: Final = object()
"""Equal to no value: a field that is no later one is stored with any."""


class Segment(Row):
    """The raw parts of a segment. Each of the bytes fields is a separate MessagePack value.

    `fold` are the other fields of the timeline, `parts` the texts of its sealed parts in UTF-8, `facts` the pieces in
    them, without their texts, `sizes` the characters of each of those texts, and `loose` the pieces after
    them.
    """

    v: int
    layout: str
    fold: memoryview = memoryview(b"")
    parts: memoryview = memoryview(b"")
    facts: memoryview = memoryview(b"")
    sizes: memoryview = memoryview(b"")
    loose: memoryview = memoryview(b"")


class _Stamp(Row):
    v: int
    layout: str


_STAMP = msgspec.msgpack.Decoder(_Stamp)
_SEGMENT = msgspec.msgpack.Decoder(Segment)
_TEXTS = msgspec.msgpack.Decoder(list[memoryview])
_PIECES = msgspec.msgpack.Decoder(tuple[Piece, ...])
_SIZES = msgspec.msgpack.Decoder(tuple[int, ...])
_encode = msgspec.msgpack.encode


def encode_segment(timeline: Timeline) -> bytes:
    """Return the timeline as bytes, without its lane and its batches."""
    parts = timeline.parts
    end = parts.ends[-1] if parts.ends else 0
    pieces = tuple(timeline.pieces)
    sealed = pieces[:end]
    fold = {**{name: getattr(timeline, name) for name in _stored()}, **parts.marks()}
    stored = Segment(
        v=TIMELINE_SEGMENT_FORMAT,
        layout=timeline.form.name,
        fold=_view({name: value for name, value in fold.items() if value != LATER.get(name, _STORED)}),
        parts=_view([part.raw for part in parts.sealed]),
        facts=_view([replace(piece, text="") for piece in sealed]),
        sizes=_view([len(piece.text) for piece in sealed]),
        loose=_view(pieces[end:]),
    )
    return _encode(stored)


def decode_segment(body: bytes, lane: Lane, form: TextForm) -> Timeline | None:
    """Return the decoded timeline, with no batch loaded; None for another form or format."""
    try:
        stamp = _STAMP.decode(body)
        if stamp.v != TIMELINE_SEGMENT_FORMAT or stamp.layout != form.name:
            return None
        stored = _SEGMENT.decode(body)
        fold = _fold_decoder().decode(stored.fold)
        loose = _PIECES.decode(stored.loose)
    except msgspec.DecodeError:
        return None
    parts = cache(lambda: _parts(stored.parts, fold.chain))
    return Timeline(
        **{name: getattr(fold, name) for name in _stored()},
        lane=lane,
        form=form,
        base=fold.n,
        parts=RequestParts(
            Strand(
                loose,
                before=fold.ends[-1] if fold.ends else 0,
                older=cache(lambda: _pieces(parts(), stored.facts, stored.sizes)),
            ),
            Strand(before=len(fold.ends), older=parts),
            **{name: getattr(fold, name) for name in MARK_NAMES},
        ),
    )


def _parts(texts: memoryview, chain: bytes) -> tuple[Part, ...]:
    """Return the parts with their texts as bytes of the segment: a round reads few of thousands as text.

    `chain` is the digest of all of them.
    """
    parts = [Part(raw=view) for view in _TEXTS.decode(texts)]
    if parts:
        parts[-1] = Part(raw=parts[-1].raw, chain=chain)
    return tuple(parts)


def _pieces(parts: Sequence[Part], facts: memoryview, sizes: memoryview) -> tuple[Piece, ...]:
    """Return the pieces of the parts, each with its share of their text."""
    text, at, found = "".join([part.text for part in parts]), 0, []
    for piece, size in zip(_PIECES.decode(facts), _SIZES.decode(sizes), strict=True):
        found.append(replace(piece, text=text[at : at + size]))
        at += size
    return tuple(found)


def _view(value: Any) -> memoryview:
    return memoryview(_encode(value))


@cache
def _stored() -> tuple[str, ...]:
    """Return the fields of a timeline that are stored unchanged: all but those in `APART`."""
    return tuple(one.name for one in fields(Timeline) if one.name not in APART)


@cache
def _fold_decoder() -> msgspec.msgpack.Decoder[Any]:
    hints = get_type_hints(Timeline) | get_type_hints(Marks)
    first = [(name, hints[name]) for name in (*_stored(), *MARK_NAMES) if name not in LATER]
    later = [(name, hints[name], value) for name, value in LATER.items()]
    return msgspec.msgpack.Decoder(msgspec.defstruct("Fold", [*first, *later], gc=False))
