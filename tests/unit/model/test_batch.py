import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepline.errors import DependencyError
from stepline.model import batch as stored
from stepline.model.base import Row
from stepline.model.batch import (
    EMPTY,
    FORK_FORMAT,
    UNREADABLE,
    Batch,
    Cursor,
    Spill,
    State,
    decode_batch,
    encode_batch,
    without_depths,
)
from stepline.model.entry import Inbound
from stepline.model.usage import ModelCall, Tally, Usage
from tests.support.log_builder import LogBuilder, logs, patient


@patient
@given(logs())
def test_a_batch_is_decoded_to_an_equal_batch(log: LogBuilder) -> None:
    for batch in log.batches:
        assert decode_batch(encode_batch(batch)) == batch
        assert decode_batch(memoryview(encode_batch(batch))) == batch


def test_a_batch_holds_no_defaults_at_the_end_of_its_rows() -> None:
    said = Inbound(message_id="m", event="prompt", text="hi", user="ada", at="now")
    batch = Batch(n=1, by="b", at="now", entries=(said,), state=State(owner="ada"))
    assert msgspec.json.decode(encode_batch(batch)) == {
        "n": 1,
        "by": "b",
        "at": "now",
        "entries": [
            {"kind": "in", "message_id": "m", "event": "prompt", "text": "hi", "user": "ada", "at": "now"}
        ],
        "state": ["idle", "ada"],
    }


def test_every_field_of_a_batch_is_stored() -> None:
    whole = Batch(
        n=7,
        by="b",
        at="now",
        entries=(),
        state=State(owner="ada", cursor=Cursor(action=2), tally=Tally(rounds=1), segment=3),
        step="act/1",
        spilled=(Spill(at="/0", key="k", sha256="s", size_bytes=1),),
        calls=(ModelCall(role="r", model="m", usage=Usage(output_tokens=3), id="c", count=2),),
    )
    stored = msgspec.json.decode(encode_batch(whole))
    assert {*stored} == {*Batch.__struct_fields__} - {"v"}
    assert decode_batch(encode_batch(whole)) == whole


def test_unknown_fields_of_a_newer_batch_are_ignored() -> None:
    body = b'{"n":1,"by":"b","at":"now","mood":"fine","entries":[{"kind":"owner","user":"ada","role":"x"}],"state":[]}'
    assert decode_batch(body).state == State()


@pytest.mark.parametrize("kind", [State, Cursor, Usage])
def test_a_shorter_row_of_an_older_release_gets_defaults_for_new_fields(kind: type[Row]) -> None:
    whole = msgspec.json.decode(msgspec.json.encode(kind()))
    for length in range(len(whole)):
        assert msgspec.convert(whole[:length], kind) == kind()


@pytest.mark.parametrize("kind", [State, Cursor, Usage])
def test_extra_fields_of_a_newer_row_are_ignored(kind: type[Row]) -> None:
    longer = [*msgspec.json.decode(msgspec.json.encode(kind())), 7, ["new"], {"a": 1}]
    assert msgspec.json.decode(msgspec.json.encode(longer), type=kind) == kind()


def test_the_fields_of_a_row_keep_their_positions() -> None:
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
def test_a_batch_that_no_release_wrote_is_refused(body: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_batch(body)


TREES = st.recursive(
    st.text('ab[]{}\\",:', max_size=4) | st.integers() | st.none(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text('k[{"', max_size=2), inner, max_size=3)
    ),
)


def nested(depth: int) -> bytes:
    return b'{"a":[' * (depth // 2) + b'"x"' + b"]}" * (depth // 2)


def said(payload: bytes) -> bytes:
    """Return a batch with an event of this payload between two others."""
    entries = [
        Inbound(
            message_id=f"m{n}", event="form", text=f"text {n}", user="ada", at="now", payload={"p": "<p>"}
        )
        for n in range(3)
    ]
    body = encode_batch(Batch(n=1, by="b", at="now", entries=tuple(entries), state=State(owner="ada")))
    head, _, rest = body.partition(b'"<p>"')
    before, _, after = rest.partition(b'"<p>"')
    return head + b'"<p>"' + before + payload + after


@pytest.mark.parametrize("depth", [100, 300, 900, 3_000, 15_000])
def test_only_the_part_that_is_too_deep_in_a_batch_is_unreadable(depth: int) -> None:
    batch = decode_batch(said(b'{"deep":' + nested(depth) + b',"b":[1,"]"]}'))
    texts = [one.text for one in batch.entries if isinstance(one, Inbound)]
    payloads = [one.payload["p"] for one in batch.entries if isinstance(one, Inbound)]
    assert texts == ["text 0", "text 1", "text 2"]
    assert (payloads[0], payloads[2], payloads[1]["b"]) == ("<p>", "<p>", [1, "]"])
    assert UNREADABLE in json.dumps(payloads[1]["deep"])


@given(TREES)
def test_a_batch_within_the_depth_limit_is_read_unchanged(tree: object) -> None:
    body = b'{"a":' + nested(40) + b',"tree":' + msgspec.json.encode(tree) + b"}"
    assert without_depths(body) == body


def test_many_adjacent_brackets_do_not_count_as_depth() -> None:
    body = said(msgspec.json.encode({"rows": [[{}]] * 500}))
    assert decode_batch(body).entries[1].payload == {"p": {"rows": [[{}]] * 500}}  # type: ignore[union-attr]


def test_an_open_turn_is_routed_by_its_cursor_and_an_idle_lane_stops() -> None:
    for phase in ("decide", "act", "close"):
        cursor = Cursor(phase=phase)
        assert State(status="open", cursor=cursor).route() == phase
        assert State(status="idle", cursor=cursor).route() == "stop"


def test_a_batch_of_a_future_format_is_refused_with_its_own_error() -> None:
    newer = b'{"n":1,"by":"x","at":"","entries":[],"state":["idle"],"v":3}'
    unreadable = b'{"n":1,"by":"x","at":"","entries":[{"kind":"of a later year"}],"state":["idle"],"v":3}'
    for body in (newer, unreadable):
        with pytest.raises(DependencyError) as refused:
            decode_batch(body)
        assert refused.value.reason == "format_newer"
        assert str(refused.value).endswith("reads up to 2: a later release reads it")


def test_a_batch_of_a_future_format_names_a_release_that_reads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    body = encode_batch(Batch(n=4, by="me", at="", entries=(), state=State(forked=4), v=FORK_FORMAT))
    assert decode_batch(body).v == 2
    monkeypatch.setattr(stored, "FORMAT", 1)
    with pytest.raises(DependencyError, match=r"reads up to 1: release 0\.2\.0 reads it") as refused:
        decode_batch(body)
    assert refused.value.context == {"format": 2, "read_by": "0.2.0"}


def test_invalid_bytes_are_distinguished_from_those_of_a_later_release() -> None:
    with pytest.raises(msgspec.ValidationError):
        decode_batch(b'{"n":1,"by":"x","at":"","entries":[{"kind":"none"}],"state":["idle"]}')


def test_an_empty_log_has_an_empty_idle_batch() -> None:
    assert (EMPTY.n, EMPTY.entries, EMPTY.state) == (0, (), State())


def test_values_do_not_change() -> None:
    with pytest.raises(AttributeError):
        EMPTY.n = 1  # type: ignore[misc]  # that is the point
    assert Spill(at="/0", key="k", sha256="s", size_bytes=1) == Spill(
        at="/0", key="k", sha256="s", size_bytes=1
    )
