"""ANNOUNCE as a function of the log and the recorded facts of its round."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from datetime import timedelta

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from stepline.context.announce import CONSTRAINT_CHARS, Saved, announce, show_workspace
from stepline.model.batch import decode_batch, encode_batch
from stepline.model.decision import RoundFacts, Sent, shorten_digest
from stepline.model.ids import utc
from stepline.rendering.quote import clip
from stepline.timeline.fold import Timeline
from stepline.timeline.workspace import SavedFile
from tests.support.log_builder import LANE, LogBuilder, logs, patient
from tests.support.strategies import FORGERIES

LINES = st.one_of(st.sampled_from(FORGERIES), st.text(max_size=500)).map(
    lambda text: text.encode("utf-8", "ignore").decode()
)


@st.composite
def round_facts(draw: st.DrawFn, log: LogBuilder) -> RoundFacts:
    """Any facts of the next round of a log."""
    finalize = draw(st.integers(0, 3))
    return RoundFacts(
        now=utc(log.now + timedelta(milliseconds=draw(st.integers(0, 10**8)))),
        iteration=draw(st.integers(0, 20)),
        max_iterations=draw(st.integers(1, 20)),
        last_round=draw(st.booleans()),
        finalize=finalize,
        finalize_tools=("react.write", "react.plan") if finalize else (),
        extra=tuple(draw(st.lists(LINES.map(lambda line: clip(line, CONSTRAINT_CHARS)), max_size=3))),
        workspace=draw(st.sampled_from(["", "[WORKSPACE]\nimplementation: git"])),
    )


@patient
@given(st.data())
def test_the_announce_is_rendered_again_from_the_stored_log_and_facts(data: st.DataObject) -> None:
    log = data.draw(logs(forgetting=True))
    facts = data.draw(round_facts(log))
    text = announce(log.timeline(), facts)
    stored = msgspec.json.encode(Sent(digest="", round_facts=facts.without_decided()))
    known = msgspec.json.decode(stored, type=Sent).restore_facts(
        started_at=facts.now, iteration=facts.iteration
    )
    batches = [decode_batch(encode_batch(batch)) for batch in log.batches]
    assert known == facts
    assert announce(Timeline.empty(LANE).extended(batches), known) == text


def test_a_quiet_round_records_only_its_limit() -> None:
    facts = RoundFacts(max_iterations=15, now="2026-11-21T10:00:00.000Z", iteration=4)
    assert msgspec.json.encode(facts.without_decided()) == b'{"max_iterations":15}'


def test_facts_of_the_first_format_are_json_with_their_own_time() -> None:
    text = (
        '{"now":"2026-11-21T10:00:00.007Z","iteration":0,"max_iterations":15,"last_round":true,"extra":["x"]}'
    )
    sent = Sent(digest="0" * 64, layout="journal", facts=text)
    assert sent.restore_facts(started_at="2026-11-21T10:00:00.000Z", iteration=0) == RoundFacts(
        max_iterations=15, now="2026-11-21T10:00:00.007Z", iteration=0, last_round=True, extra=("x",)
    )


@given(st.binary(min_size=32, max_size=32))
def test_a_recorded_digest_is_the_beginning_of_the_whole_one(sha256: bytes) -> None:
    short = shorten_digest(sha256.hex())
    assert len(short) == 20
    assert Sent(digest=short).sha256 == sha256.hex()[:30]
    assert Sent(digest=urlsafe_b64encode(sha256[:16]).rstrip(b"=").decode()).sha256 == sha256.hex()[:32]
    assert Sent(digest=sha256.hex()).sha256 == sha256.hex()


@given(LINES)
def test_a_line_that_is_clipped_twice_is_unchanged(line: str) -> None:
    once = clip(line, CONSTRAINT_CHARS)
    assert clip(once, CONSTRAINT_CHARS) == once


def test_the_section_of_a_projects_history_is_a_fact() -> None:
    log = LogBuilder()
    log.message()
    file = SavedFile(path="app/a", blob="b", key="k", sha256="0", size_bytes=1, turn=log.turn)
    section = show_workspace(log.timeline(), Saved(turn=log.turn, files=(file,)))
    facts = RoundFacts(max_iterations=15, now=utc(log.now), iteration=0, workspace=section)
    assert f"\n{section}\n" in announce(log.timeline(), facts)
