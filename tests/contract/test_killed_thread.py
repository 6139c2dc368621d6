"""A worker that dies before any write of a recorded conversation, and clients that read it by either way meanwhile."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stepline.local.client.change import Effect, EventsApplied
from stepline.local.client.state import ClientState
from tests.contract.fault.killed_thread import (
    SAMPLE,
    SEQUELS,
    STORED,
    KilledConversation,
    Sequel,
    count_writes,
    recording,
    stories,
)
from tests.support.budget import budget
from tests.support.conversation import LANE, frames
from tests.support.draw import share
from tests.support.fold import fold_frames
from tests.support.log_invariant import chain, turns
from tests.support.stream_client import StreamClient

NAMES = list(stories())
EVERY = budget(7, 1, nightly=1)
"""A landing lets a client begin to read at each seventh write."""


def applied(effects: list[Effect]) -> list[tuple[int, Any]]:
    return [(effect.n, effect.events) for effect in effects if isinstance(effect, EventsApplied)]


def play(name: str, at: int, sequel: Sequel, *, every: int) -> None:
    """Play a story with readers of its stream; each must end with what the websocket's client has.

    One reads before each write. The others begin at every `every`-th write, pause for half of the remaining ones, and
    then read the rest.
    """
    writes = count_writes(stories()[name])
    readers: list[tuple[int, StreamClient]] = []

    def look() -> None:
        now = conversation.writes - 1
        if not conversation.batches():
            return
        always.read()
        if now % every == 0:
            readers.append(((now + writes) // 2, StreamClient(conversation)))
            readers[-1][1].read()
        for due, reader in readers:
            if due == now:
                reader.read()

    conversation = KilledConversation.of(stories()[name](), at, sequel, look)
    always = StreamClient(conversation)
    conversation.play()
    assert [*chain(conversation.batches()), *turns(conversation.batches())] == []
    _, effects = fold_frames(ClientState(conversation=LANE.conversation), frames(conversation.received))
    late = StreamClient(conversation)
    late.catch_up()
    for reader in (always, *(reader for _, reader in readers)):
        reader.catch_up()
        assert reader.shown() == late.shown()
        assert applied(reader.effects) == applied(list(effects))
    assert late.state.cursor == conversation.watched.cursor
    assert late.state.open == conversation.watched.open


@pytest.mark.parametrize("name", share(NAMES, 4))
def test_a_stream_read_from_any_write_on_ends_like_a_websocket(name: str) -> None:
    play(name, -1, "retried", every=EVERY)


@pytest.mark.parametrize("name", share(NAMES, 8))
def test_a_stream_ends_like_a_websocket_whichever_write_the_worker_dies_before(name: str) -> None:
    rows = [(at, sequel) for at in range(count_writes(stories()[name])) for sequel in SEQUELS]
    for at, sequel in share(rows, 8):
        play(name, at, sequel, every=10)


def test_the_recorded_sample_matches_the_current_code() -> None:
    stored = json.loads(STORED.read_text(encoding="utf-8"))
    made = [json.loads(json.dumps(recording(*row))) for row in SAMPLE]
    assert stored == made, "run: python -m tests.contract.fault.killed_thread sample"
