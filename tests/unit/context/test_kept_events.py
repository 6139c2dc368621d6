"""Messages and events of the open turn are in each of its later requests, in both layouts."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given

from stepline.context.journal.turn_course import DETAILS
from stepline.context.request import render
from stepline.model.file.attachment import Attachment
from stepline.timeline.fold import Timeline
from tests.support.journal_request import digest, section
from tests.support.kept_events import lost_events
from tests.support.log_builder import LogBuilder, logs, patient
from tests.unit.context.caching_provider import text_of

EVENTS = "SOLVER.REACT.EVENTS (oldest -> newest)"
SAID = "Only Swiss rivers, please. " * 24
"""640 characters, as long as a message that a user writes during a turn."""


def in_timeline(timeline: Timeline) -> str:
    return "".join(text_of(part) for part in render(timeline, system="Be kind.").content)


both = pytest.mark.parametrize("layout", [in_timeline, digest], ids=["timeline", "journal"])


@both
@patient
@given(logs(forgetting=True))
def test_each_request_shows_every_event_of_its_turn(layout: Callable[..., str], log: LogBuilder) -> None:
    for upto in range(1, len(log.batches) + 1):
        timeline = log.timeline(upto)
        assert lost_events(timeline, layout(timeline)) == []


def work(log: LogBuilder, rounds: int) -> None:
    for number in range(rounds):
        log.act(("lab.look", {"name": str(number)}), notes="I look.")
        log.result(f"found {number}")


@both
def test_a_followup_of_the_second_round_is_whole_in_the_last_of_fifty(layout: Callable[..., str]) -> None:
    log = LogBuilder()
    log.message("Which rivers are long?")
    work(log, 1)
    log.message(SAID)
    for _ in range(48):
        work(log, 1)
        assert f"  {SAID.rstrip()}" in layout(log.timeline())


@both
def test_a_steer_is_in_both_rounds_that_it_leaves(layout: Callable[..., str]) -> None:
    log = steered()
    assert f"  {SAID.rstrip()}" in layout(log.timeline())
    work(log, 2)
    assert f"  {SAID.rstrip()}" in layout(log.timeline())


def steered() -> LogBuilder:
    log = LogBuilder()
    log.message("Which rivers are long?")
    work(log, 60)
    log.message(SAID, event="steer")
    log.heed()
    return log


def test_a_steer_of_a_turn_without_room_is_still_in_both_rounds_that_it_leaves() -> None:
    log = steered()
    for _ in range(2):
        timeline = log.timeline()
        text = digest(timeline, budget_tokens=3_500)
        assert section(text, EVENTS).startswith("- … ")
        assert lost_events(timeline, text) == []
        log.act(*[("react.write", {"path": f"{n}.md"}) for n in range(8)])
        for _ in range(8):
            log.result(tool="react.write")


@pytest.mark.parametrize("budget", [80_000, 20_000, 9_000])
def test_events_are_shortened_before_one_of_them_is_omitted(budget: int) -> None:
    log = LogBuilder()
    log.message("Which rivers are long?")
    for number in range(16):
        log.message(f"Number {number}: {SAID}", payload={"rows": ["x" * 300] * 5})
        work(log, 6)
    text = digest(log.timeline(), budget_tokens=budget)
    assert lost_events(log.timeline(), text) == []


def test_the_row_of_a_shortened_event_has_its_text_and_names_its_other_contents() -> None:
    log = LogBuilder()
    log.message("Which rivers are long?")
    files = [
        Attachment(filename=f"{n}.pdf", mime="application/pdf", size_bytes=4, sha256="1" * 64) for n in "ab"
    ]
    log.message(f"Look: {SAID * 40}", payload={"rows": ["x" * 300] * 9}, attachments=tuple(files))
    path = f"ar:{log.turn}.external.followup.m2"
    events = section(digest(log.timeline(), budget_tokens=5_000), EVENTS)
    assert f"[path: {path}]\n[EVENT PREVIEW TRUNCATED]\n" in events
    assert "\n  Look: Only Swiss rivers" in events
    assert f"...[truncated]: {path} has a payload and 2 files\n" in events


def test_only_the_oldest_events_of_hundreds_are_counted_instead_of_shown() -> None:
    log = LogBuilder()
    log.message("Which rivers are long?")
    for number in range(200):
        log.message(f"Number {number}: {SAID}")
    work(log, 3)
    text = digest(log.timeline(), budget_tokens=30_000)
    lost = lost_events(log.timeline(), text)
    assert DETAILS[-2].events == 100
    assert lost == [f"ar:{log.turn}.external.followup.m{n}" for n in range(2, 102)]
    assert section(text, EVENTS).startswith(f"- … {len(lost) + 3} more\n")
