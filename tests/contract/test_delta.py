import pytest

from stepline.adapters.aws.table import delta_pk
from stepline.model.ids import Lane
from stepline.model.usage import ModelCall, Usage
from stepline.ports.relay import Delta, Deltas


@pytest.fixture
def deltas(backend) -> Deltas:
    return backend.deltas


def make_delta(off: int, text: str, name: str = "answer") -> Delta:
    return Delta(name=name, off=off, text=text)


def test_pieces_are_ordered_by_name_and_offset_not_by_arrival(deltas, lane):
    pieces = [
        make_delta(0, "grüß ", "answer"),
        make_delta(5, "dich \U0001f980", "answer"),
        make_delta(1000, "late", "answer"),
        make_delta(0, "plan", "record:react.plan"),
        make_delta(0, "hm", "thinking"),
    ]
    for piece in reversed(pieces):
        deltas.put(lane, 7, piece)
    assert deltas.since(lane, 7) == pieces


def test_the_same_piece_twice_is_one(deltas, lane):
    deltas.put(lane, 7, make_delta(0, "one"))
    deltas.put(lane, 7, make_delta(0, "one"))
    assert deltas.since(lane, 7) == [make_delta(0, "one")]


def test_pieces_that_are_stored_together_come_back_as_if_they_were_not(deltas, lane):
    together = [
        make_delta(0, "hm", "thinking"),
        make_delta(4, "wert", "answer"),
        make_delta(0, "{}\n", "lanes"),
    ]
    deltas.put(lane, 7, make_delta(0, "Ant", "answer"))
    deltas.put(lane, 7, *together)
    deltas.put(lane, 7, *together)
    assert deltas.since(lane, 7) == [make_delta(0, "Ant", "answer"), together[1], together[2], together[0]]


def test_claims_and_lanes_are_streams_of_their_own(deltas, lane):
    other = Lane(tenant=lane.tenant, project=lane.project, conversation=lane.conversation + "0")
    deltas.put(lane, 7, make_delta(0, "mine"))
    assert deltas.since(lane, 8) == []
    assert deltas.since(lane, 70) == []
    assert deltas.since(other, 7) == []


def test_a_long_stream_comes_back_whole(deltas, lane):
    pieces = [make_delta(n * 4096, "é" * 4096) for n in range(150)]  # 1.2 MB, more than a page
    for piece in pieces:
        deltas.put(lane, 7, piece)
    assert deltas.since(lane, 7) == pieces


def test_a_piece_expires_after_an_hour(backend, lane):
    backend.deltas.put(lane, 7, make_delta(0, "old"))
    backend.clock.pause(1800)
    backend.deltas.put(lane, 7, make_delta(3, "new"))
    backend.clock.pause(1801)
    assert backend.deltas.since(lane, 7) == [make_delta(3, "new")]


def test_an_expired_piece_is_not_shown_though_it_is_still_stored(aws, lane):
    aws.deltas.put(lane, 7, make_delta(0, "old"))
    aws.clock.pause(3601)
    assert aws.deltas.since(lane, 7) == []
    assert aws.table.get(delta_pk(lane, 7), "answer#000000000", consistent=True) is not None


def made(name: str, output: int = 1, *, cut: bool = False) -> ModelCall:
    used = Usage(input_tokens=9, output_tokens=output, estimated=cut)
    return ModelCall(role="decide", model="m", usage=used, nanos=3, priced=True, id=name)


def test_the_last_note_of_a_call_counts_and_is_no_text(deltas, lane):
    deltas.put(lane, 7, make_delta(0, "one"))
    deltas.note(lane, 7, made("b", cut=True))
    deltas.note(lane, 7, made("a"))
    deltas.note(lane, 7, made("b", output=50))
    deltas.note(lane, 8, made("c"))
    deltas.note(lane, 10, made("d"))
    late = {8: [made("c")], 10: [made("d")]}
    assert deltas.notes(lane, since=7) == {7: [made("a"), made("b", output=50)], **late}
    assert deltas.notes(lane, since=8) == late
    assert deltas.notes(lane, since=11) == {}
    assert deltas.since(lane, 7) == [make_delta(0, "one")]


def test_a_noted_call_stays_as_long_as_its_conversation(backend, lane):
    backend.deltas.note(lane, 7, made("a"))
    backend.clock.pause(400 * 24 * 3600)
    assert backend.deltas.notes(lane, since=0) == {7: [made("a")]}
