import hashlib
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepline.adapters.memory.artifacts import MemoryArtifacts
from stepline.errors import DependencyError, LimitError
from stepline.log.spill import SPILL_MIN_BYTES, hydrate, spill
from stepline.loop.hooks.run_hook import hook_call
from stepline.model.batch import BATCH_MAX_BYTES, STATE_MAX_BYTES, Batch, Cursor, State, encode_batch
from stepline.model.block import Produced
from stepline.model.decision import Action
from stepline.model.entry import Decided, Entry, Inbound, Resulted
from stepline.model.ids import turn_id
from stepline.model.usage import Tally, Usage
from tests.support.conversation import LANE, Conversation

AT = "2026-01-01T00:00:00.000Z"
LIMIT = BATCH_MAX_BYTES
COUNTS = [name for name in Usage.__struct_fields__ if name.endswith("_tokens")]


def batch(*entries: Entry, step: str = "admit", **state: Any) -> Batch:
    return Batch(n=7, by="nonce", at=AT, step=step, entries=entries, state=State(turn="turn_1", **state))


def inbound(text: str) -> Inbound:
    return Inbound(message_id="m", event="prompt", text=text, user="ada", at=AT)


texts = st.one_of(
    st.text(st.characters(codec="utf-8"), max_size=60),
    st.builds(
        lambda char, count: char * count,
        st.sampled_from(["x", "ü", "\0", '"', "🦜"]),
        st.integers(80, 12_000),
    ),
)
values = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**70), 2**70),
        st.floats(allow_nan=False, allow_infinity=False),
        texts,
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["a", "a/b", "~", "~1", "", "0"]), inner, max_size=3),
    ),
    max_leaves=6,
)
entries = st.one_of(
    st.builds(inbound, texts),
    st.builds(
        lambda params, answer, thinking, code: Decided(
            iteration=0,
            claim=1,
            action="call_tool",
            started_at=AT,
            answer=answer,
            thinking=tuple(thinking),
            actions=(Action(call_id="tc_0", tool_id="t", params=params, code=code),),
        ),
        st.dictionaries(st.sampled_from(["content", "a/b", "~0"]), values, max_size=3),
        texts,
        st.lists(texts, max_size=2),
        st.none() | texts,
    ),
    st.builds(
        lambda text, meta: Resulted(
            call_id="tc_0",
            tool_id="t",
            iteration=0,
            status="ok",
            at=AT,
            blocks=(Produced(text=text, meta=meta),),
        ),
        texts,
        st.dictionaries(st.just("m"), values, max_size=1),
    ),
)


@given(st.lists(entries, min_size=1, max_size=2))
def test_a_spilled_batch_is_small_and_is_restored_whole(found: list[Entry]) -> None:
    whole, artifacts = batch(*found), MemoryArtifacts()
    small = spill(artifacts, LANE, whole, limit_bytes=LIMIT)
    assert len(encode_batch(small)) <= LIMIT
    assert hydrate(artifacts, small) == whole
    assert {piece.key for piece in small.spilled} == artifacts.objects.keys()


@given(st.lists(entries, min_size=1, max_size=3))
def test_a_batch_below_the_limit_is_not_spilled(found: list[Entry]) -> None:
    whole, artifacts = batch(*found), MemoryArtifacts()
    limit = len(encode_batch(whole))
    assert spill(artifacts, LANE, whole, limit_bytes=limit) is whole
    assert artifacts.objects == {}


def test_the_largest_string_is_spilled_first_and_short_ones_stay() -> None:
    artifacts = MemoryArtifacts()
    whole = batch(inbound("s" * SPILL_MIN_BYTES), inbound("l" * LIMIT))
    small = spill(artifacts, LANE, whole, limit_bytes=LIMIT)
    assert [piece.at for piece in small.spilled] == ["/1/text"]


def test_strings_are_weighed_as_the_json_they_become() -> None:
    short, artifacts = "\0" * 400, MemoryArtifacts()
    whole = batch(*(inbound(short) for _ in range(20)))
    small = spill(artifacts, LANE, whole)
    assert len(encode_batch(small)) <= BATCH_MAX_BYTES < len(encode_batch(whole))
    assert hydrate(artifacts, small) == whole


def test_a_body_is_named_by_its_content_below_its_lane_and_turn() -> None:
    artifacts, text = MemoryArtifacts(), "ü" * BATCH_MAX_BYTES
    digest = hashlib.sha256(text.encode()).hexdigest()
    (piece,) = spill(artifacts, LANE, batch(inbound(text))).spilled
    assert piece.key == f"att/acme/support/c-1/turn_1/{digest}"
    assert (piece.sha256, piece.size_bytes) == (digest, 2 * BATCH_MAX_BYTES)


def test_spilled_output_of_the_model_has_its_own_key_prefix() -> None:
    small = spill(MemoryArtifacts(), LANE, batch(inbound("x" * BATCH_MAX_BYTES), step="decide/1"))
    assert small.spilled[0].key.startswith("out/acme/support/c-1/turn_1/")


def test_the_body_is_stored_before_the_batch_that_names_it() -> None:
    conversation = Conversation()
    tails: list[int] = []
    put = conversation.ports.artifacts.put

    class Watching:
        def put(self, key: str, body: bytes, *, mime: str) -> bool:
            tails.append(conversation.tail.n)
            return put(key, body, mime=mime)

        def get(self, key: str) -> bytes:
            return conversation.app.ports.artifacts.get(key)

    conversation.ports = replace(conversation.ports, artifacts=Watching())
    conversation.send("x" * 2 * BATCH_MAX_BYTES)
    assert tails == [0]
    assert conversation.tail.spilled[0].key in conversation.app.ports.artifacts.objects  # type: ignore[attr-defined]  # the memory twin's own


def test_a_batch_of_small_parts_only_that_is_too_large_is_refused() -> None:
    many = batch(*(inbound("x" * (SPILL_MIN_BYTES - 3)) for _ in range(100)))
    with pytest.raises(LimitError) as caught:
        spill(MemoryArtifacts(), LANE, many)
    assert caught.value.reason == "batch_too_large"


@pytest.mark.parametrize("words", ["x", "y" * 600])
def test_a_result_with_many_files_is_spilled_as_one_body(words: str) -> None:
    def block(i: int) -> Produced:
        return Produced(path=f"fi:turn_1.files/part_{i}.csv", mime="text/csv", meta={"of": i, "said": words})

    whole = batch(
        Resulted(
            call_id="tc_1",
            tool_id="t",
            iteration=0,
            status="ok",
            at=AT,
            blocks=tuple(block(i) for i in range(700)),
        )
    )
    artifacts = MemoryArtifacts()
    small = spill(artifacts, LANE, whole)
    assert len(encode_batch(small)) <= LIMIT
    assert hydrate(artifacts, small) == whole


def test_a_stored_body_that_differs_from_its_hash_is_not_used() -> None:
    artifacts = MemoryArtifacts()
    small = spill(artifacts, LANE, batch(inbound("x" * BATCH_MAX_BYTES)))
    artifacts.objects[small.spilled[0].key] = b"forged"
    with pytest.raises(DependencyError) as caught:
        hydrate(artifacts, small)
    assert caught.value.reason == "body_mismatch"


def test_a_missing_body_is_reported_as_missing() -> None:
    small = spill(MemoryArtifacts(), LANE, batch(inbound("x" * BATCH_MAX_BYTES)))
    with pytest.raises(DependencyError) as caught:
        hydrate(MemoryArtifacts(), small)
    assert caught.value.reason == "body_missing"


def test_the_largest_legal_state_fits_into_its_limit() -> None:
    conversation = Conversation()
    turn, large = turn_id(conversation.clock.now(), "seed"), 10**12
    state = State(
        status="open",
        owner='"' * 256,
        turn=turn,
        opened=large,
        epoch=large,
        claim=large,
        attempt=99,
        cursor=Cursor(iteration=9999, phase="decide", action=999),
        running=hook_call("before_round", conversation.now(turn=turn, iteration=9999)),
        rendered=large,
        decided=large,
        actions=999,
        takeovers=99,
        round_retries=99,
        turn_retries=99,
        credits=9999,
        input_tokens=large,
        output_tokens=large,
        prev=large,
        executes=999,
        tally=Tally(
            usage=Usage(**dict.fromkeys(COUNTS, 10**9), estimated=True),
            rounds=9999,
            files=99_999,
            model_ms=10**9,
            tools_ms=10**9,
            opened_ms=2 * large,
        ),
        ends=True,
        segment=large,
        titled=large,
        steered=large,
        finalize=999,
        waits=99,
        until_ms=2 * large,
        declined=9999,
        prepared=large,
        primed=9999,
        bundle="b" * 32,
        parked=large,
        turns=99_999_999,
        begun_ms=2 * large,
        spent_nanos=10**15,
        stored_bytes=10**15,
        deleted=large,
        unremembered=large,
        importing=large,
        queued=large,
        forked=large,
        branch_of="c" * 64,
    )
    assert all(getattr(state, name) != getattr(State(), name) for name in state.__struct_fields__)
    assert len(msgspec.json.encode(state)) <= STATE_MAX_BYTES


def test_a_state_that_outgrew_its_limit_is_never_stored() -> None:
    with pytest.raises(LimitError) as caught:
        spill(MemoryArtifacts(), LANE, batch(owner="x" * STATE_MAX_BYTES))
    assert caught.value.reason == "state_too_large"
