import msgspec
import pytest
from hypothesis import given

from stepline.errors import DependencyError
from stepline.model.base import Row
from stepline.model.batch import EMPTY, Batch, Cursor, Spill, State, decode_batch, encode_batch
from stepline.model.entry import Inbound
from stepline.model.usage import Usage
from tests.support.log_builder import LogBuilder, logs, patient

TALLY = [[0, 0, 0, 0, 0, False], *[0] * 10]
"""Of a lane without a turn."""


@patient
@given(logs())
def test_a_batch_reads_back_as_it_was_written(log: LogBuilder) -> None:
    for batch in log.batches:
        assert decode_batch(encode_batch(batch)) == batch
        assert decode_batch(memoryview(encode_batch(batch))) == batch


def test_a_batch_holds_no_defaults_beside_the_row_of_its_state() -> None:
    said = Inbound(message_id="m", event="prompt", text="hi", user="ada", at="now")
    batch = Batch(n=1, by="b", at="now", entries=(said,), state=State(owner="ada"))
    assert msgspec.json.decode(encode_batch(batch)) == {
        "n": 1,
        "by": "b",
        "at": "now",
        "entries": [
            {"kind": "in", "message_id": "m", "event": "prompt", "text": "hi", "user": "ada", "at": "now"}
        ],
        "state": [
            "idle",
            "ada",
            "",
            0,
            0,
            0,
            0,
            [0, "decide", 0],
            "",
            *[0] * 11,
            TALLY,
            False,
            *[0] * 9,
            "",
            *[0] * 9,
        ],
    }


def test_a_batch_of_the_next_release_is_read_without_what_is_new_in_it() -> None:
    body = b'{"n":1,"by":"b","at":"now","mood":"fine","entries":[{"kind":"owner","user":"ada","role":"x"}],"state":[]}'
    assert decode_batch(body).state == State()


@pytest.mark.parametrize("kind", [State, Cursor, Usage])
def test_a_shorter_row_of_an_older_release_gets_the_defaults_of_what_was_added_since(kind: type[Row]) -> None:
    whole = msgspec.json.decode(msgspec.json.encode(kind()))
    for length in range(len(whole)):
        assert msgspec.convert(whole[:length], kind) == kind()


@pytest.mark.parametrize("kind", [State, Cursor, Usage])
def test_a_longer_row_of_the_next_release_is_read_without_what_it_has_beyond_ours(kind: type[Row]) -> None:
    longer = [*msgspec.json.decode(msgspec.json.encode(kind())), 7, ["new"], {"a": 1}]
    assert msgspec.json.decode(msgspec.json.encode(longer), type=kind) == kind()


def test_the_fields_of_a_row_keep_their_places() -> None:
    """A stored row has no names: a field that moves would be read as another. Only append to these."""
    assert State.__struct_fields__[:19] == (
        *("status", "owner", "turn", "opened", "epoch", "claim", "attempt", "cursor", "running", "rendered"),
        *("decided", "actions", "takeovers", "round_retries", "turn_retries", "credits"),
        *("input_tokens", "output_tokens", "prev"),
    )
    assert Cursor.__struct_fields__[:3] == ("iteration", "phase", "action")
    assert Usage.__struct_fields__[:6] == (
        *("input_tokens", "cache_read_tokens", "cache_write_5m_tokens", "cache_write_1h_tokens"),
        *("output_tokens", "estimated"),
    )


@pytest.mark.parametrize(
    "body", [b"", b"{}", b"[]", b'{"n":1,"by":"b","at":"","entries":[{"kind":"new"}],"state":[]}']
)
def test_what_no_release_wrote_is_refused(body: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_batch(body)


def test_an_open_turn_goes_where_its_cursor_stands_and_an_idle_lane_nowhere() -> None:
    for phase in ("decide", "act", "close"):
        cursor = Cursor(phase=phase)
        assert State(status="open", cursor=cursor).route() == phase
        assert State(status="idle", cursor=cursor).route() == "stop"


def test_a_batch_of_a_format_to_come_is_left_to_those_who_read_it() -> None:
    newer = b'{"n":1,"by":"x","at":"","entries":[],"state":["idle"],"v":2}'
    unreadable = b'{"n":1,"by":"x","at":"","entries":[{"kind":"of a later year"}],"state":["idle"],"v":2}'
    for body in (newer, unreadable):
        with pytest.raises(DependencyError) as refused:
            decode_batch(body)
        assert refused.value.reason == "format_newer"


def test_bytes_that_nobody_wrote_are_told_from_those_of_a_later_release() -> None:
    with pytest.raises(msgspec.ValidationError):
        decode_batch(b'{"n":1,"by":"x","at":"","entries":[{"kind":"none"}],"state":["idle"]}')


def test_before_the_first_batch_there_is_an_idle_nothing() -> None:
    assert (EMPTY.n, EMPTY.entries, EMPTY.state) == (0, (), State())


def test_values_do_not_change() -> None:
    with pytest.raises(AttributeError):
        EMPTY.n = 1  # type: ignore[misc]  # that is the point
    assert Spill(at="/0", key="k", sha256="s", size_bytes=1) == Spill(
        at="/0", key="k", sha256="s", size_bytes=1
    )
