"""Segments: the fold of a log up to a batch, as bytes, and timelines that continue from it as from the log."""

from __future__ import annotations

import hashlib
from dataclasses import fields, replace

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from stepline.context.request import render_timeline
from stepline.model.decision import LastingCall
from stepline.rendering.piece import Piece
from stepline.rendering.request_parts import Strand
from stepline.rendering.text_form import STANDARD
from stepline.timeline import segment
from stepline.timeline.fold import Timeline
from stepline.timeline.segment import APART, LATER, TIMELINE_SEGMENT_FORMAT, decode_segment, encode_segment
from tests.support.log_builder import LANE, LogBuilder, logs, patient

AT_HAND = ("base", "batches", "load")
DEFAULTED = frozenset({"keeps_events"})
"""Fields of values with a default, which were added to the format: an older segment may lack them, an older release ignores them."""
SHAPES = {
    1: "23363335e75bc4a5",
    2: "9aed5cde71e9217a",
    3: "8fbf745c99e04e4c",
    4: "551aab8d0f8eb6ea",
    5: "5b659d8584084e4e",
    6: "9ae76cdda5c16c47",
    7: "014eed5455626a27",
    8: "87a6d73fc8dff8b0",
    9: "da7070280d2dd04a",
    10: "b1189aa6c2511419",
    11: "8ed8eb2c3d3a91af",
    12: "862c82849bdc9747",
    13: "c7da01d664c9b4f1",
    14: "16028c41e02ef981",
}
"""Of each format, a digest of the fields that are stored: an old format in a new shape would say something else."""


def opened(timeline: Timeline, form=STANDARD) -> Timeline:
    found = decode_segment(encode_segment(timeline), LANE, form)
    assert found is not None
    return found


def same(one: Timeline, other: Timeline) -> bool:
    """Return True if two timelines differ at most in their loaded batches."""
    return all(
        getattr(one, part.name) == getattr(other, part.name)
        for part in fields(Timeline)
        if part.name not in AT_HAND
    )


@patient
@given(logs(forgetting=True), st.data())
def test_batches_after_a_segment_give_the_same_timeline_as_the_log(log: LogBuilder, data: st.DataObject):
    cut = data.draw(st.integers(0, len(log.batches)))
    sealed = opened(log.timeline(cut))
    assert same(sealed.extended(log.batches), log.timeline())
    assert render_timeline(sealed.extended(log.batches)) == render_timeline(log.timeline())


@patient
@given(logs(most=12, forgetting=True))
def test_a_log_may_be_sealed_after_every_batch(log: LogBuilder):
    timeline = Timeline.empty(LANE)
    for batch in log.batches:
        timeline = opened(timeline.extended([batch]))
    assert same(timeline, log.timeline())


@patient
@given(logs(forgetting=True), st.data())
def test_every_path_resolves_to_its_blocks_after_a_segment(log: LogBuilder, data: st.DataObject):
    cut = data.draw(st.integers(0, len(log.batches)))
    whole = log.timeline()
    reader = replace(opened(log.timeline(cut)), load=lambda after, upto: log.batches[after:upto])
    sealed = reader.extended(log.batches)
    assert sealed.whole().batches == whole.batches
    assert sealed.blocks() == whole.blocks()
    assert sealed.entries == whole.entries
    assert sealed.tail == whole.tail
    for block in whole.blocks():
        assert sealed.resolve(block.path) == whole.resolve(block.path)
        assert sealed.visible(block.path) == whole.visible(block.path)


def test_older_pieces_are_made_once_on_first_use():
    made = []
    pieces = list(short_timeline().pieces)

    def older():
        made.append(1)
        return pieces[:4]

    sequence = Strand(pieces[4:], before=4, older=older)
    assert len(sequence) == len(pieces)
    assert sequence[-1] is pieces[-1]
    assert sequence[4:] == pieces[4:]
    assert next(iter(reversed(sequence))) is pieces[-1]
    longer = sequence.copy()
    longer.append(pieces[0])
    assert len(longer) == len(pieces) + 1 == len(sequence) + 1
    assert made == []
    assert sequence[0] is pieces[0]
    assert sequence[2:6] == pieces[2:6]
    assert sequence == tuple(pieces)
    sealed = opened(short_timeline())
    assert sealed.pieces[0] is sealed.pieces[0]
    assert sealed.parts.sealed[0] is sealed.parts.sealed[0]


def test_another_layout_another_format_and_damage_are_no_segment():
    body = encode_segment(short_timeline())
    assert decode_segment(body, LANE, msgspec.structs.replace(STANDARD, name="other")) is None
    stamp = msgspec.msgpack.decode(body)
    later = msgspec.msgpack.encode([TIMELINE_SEGMENT_FORMAT + 1, *stamp[1:], "more"])
    assert decode_segment(later, LANE, STANDARD) is None
    assert decode_segment(body[: len(body) // 2], LANE, STANDARD) is None
    assert decode_segment(b"", LANE, STANDARD) is None


def test_a_format_has_one_shape():
    """If this fails, raise TIMELINE_SEGMENT_FORMAT and note its shape: segments of the previous format are then not read.

    A field in LATER or DEFAULTED, which an older segment may lack, needs no new format.
    """
    schema = msgspec.json.schema(tuple[segment._fold_decoder().type, segment.Segment, Piece])["$defs"]
    schema = {name: one for name, one in schema.items() if name != "LastingCall"}  # only in a field of LATER
    rows = sorted(len(one["prefixItems"]) for one in schema.values() if "prefixItems" in one)
    values = sorted(
        sorted({*one["properties"]} - {*LATER} - DEFAULTED) for one in schema.values() if "properties" in one
    )
    shape = msgspec.json.encode([rows, values], order="sorted")
    assert hashlib.sha256(shape).hexdigest()[:16] == SHAPES[TIMELINE_SEGMENT_FORMAT]


def test_every_field_is_stored_or_named_as_one_that_is_not():
    assert {part.name for part in fields(Timeline)} == APART | set(segment._stored())


def test_a_later_field_with_its_default_is_not_stored():
    timeline = short_timeline()
    stored = msgspec.msgpack.decode(msgspec.msgpack.decode(encode_segment(timeline))[2])
    assert not LATER.keys() & stored.keys()
    call = LastingCall(tool="t", call="tc_1", effect="once", turn_id="turn_1", iteration=0, n=9, at="")
    timeline.kept_effects = (call,)
    assert decode_segment(encode_segment(timeline), LANE, STANDARD).kept_effects == (call,)


def short_timeline() -> Timeline:
    log = LogBuilder()
    log.message("remember the number 7")
    log.act(("react.read", {"path": "x"}))
    log.result("fine")
    log.answer("done")
    log.close()
    log.message("again")
    return log.timeline()
