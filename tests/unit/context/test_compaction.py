"""What any context engine of this kind has to keep when it compacts, by the numbers of the conformance list."""

from __future__ import annotations

from itertools import pairwise

from stepline.context.compaction import Outline, measure_need, plan_outline, round_starts, trial
from stepline.context.rules import ContextRules
from stepline.model.block import Produced
from stepline.model.entry import Compacted, Compacting, Decided
from stepline.timeline.fold import Timeline
from tests.support.log_builder import LogBuilder
from tests.support.small_context import SmallContext, prose, tokens

TIGHT = ContextRules(max_tokens=8_000)


def test_a_compaction_reduces_or_is_skipped_without_a_second_vain_call() -> None:
    for said in ("", "word " * 9_000, "## Goals\nOtters."):
        conversation = SmallContext(8_000)
        conversation.voices.obeys = False
        conversation.voices.script += [said] * 50
        for number in range(6):
            conversation.talk(f"Question {number}", rounds=10)
        ended = conversation.entries(Compacted)
        assert ended
        for entry in ended:
            assert (
                entry.after_tokens < entry.before_tokens if entry.status == "completed" else not entry.usage
            )
        vain = [bool(entry.usage and entry.reason) for entry in ended]
        assert not any(one and other for one, other in pairwise(vain))
        assert {entry.id for entry in conversation.entries(Compacting)} == {
            entry.id for entry in ended if entry.usage
        }
        assert max(tokens(request) for request in conversation.voices.requests) <= 8_000
        assert all(entry.accepted for entry in conversation.entries(Decided))


def worked(rounds: int = 8) -> LogBuilder:
    """Return an open turn after a finished one: it has rounds of long notes, an event, a note and a plan."""
    log = LogBuilder()
    log.message("What do otters eat?")
    log.answer("Fish.")
    log.close()
    log.message("Write a report on otters.")
    for number in range(rounds):
        plans = (log.plan("read", "write", current=True),) if number == 1 else ()
        log.act(("docs.look_up", {"q": f"otters {number}"}), notes=f"note {number} {prose(3_000)}")
        if number == 2:
            log.message("Include sea otters, please.")
        text = Produced(text=f"found {number} {prose(3_000)}")
        kept = Produced(type="react.note", path=f"fi:{log.turn}.files/note.md", text="[P] metric units")
        log.result(blocks=(text, kept) if number == 3 else (text,), tool="docs.look_up", plans=plans)
    return log


def outline_of(timeline: Timeline) -> Outline:
    need = measure_need(
        timeline,
        TIGHT,
        overhead_bytes=2_000,
        before_tokens=20_000,
        at="2026-11-22T10:00:00.000Z",
        forced=False,
    )
    outline = plan_outline(timeline, need, TIGHT)
    assert outline is not None
    return outline


def test_a_split_turn_keeps_its_prompt_its_live_events_its_notes_its_plan_and_the_newest_round() -> None:
    timeline = worked().timeline()
    outline = outline_of(timeline)
    assert outline.entry.split
    entry = Compacted(
        **{
            **{name: getattr(outline.entry, name) for name in Compacted.__struct_fields__},
            "summary": "They talked about fish.",
            "checkpoint": "Two books were read.",
        }
    )
    after = trial(timeline, entry)
    shown = "".join(piece.text for piece in after.pieces)
    for kept in (
        "Write a report on otters.",
        "Include sea otters, please.",
        "[P] metric units",
        "note 7",
        "found 7",
    ):
        assert kept in shown
    for gone in ("note 0", "found 0"):
        assert gone not in shown
    assert "Two books were read." in shown
    assert [plan.steps for plan in after.plans.values()] == [("read", "write")]
    assert len(round_starts(after)) < len(round_starts(timeline))
    assert [piece.kind for piece in after.pieces].count("checkpoint") == 1


def test_blocks_removed_by_a_compaction_stay_readable_by_path() -> None:
    timeline = worked().timeline()
    outline = outline_of(timeline)
    after = trial(timeline, outline.entry)
    paths = {piece.path for piece in timeline.pieces if piece.path}
    assert paths - {piece.path for piece in after.pieces}
    for path in paths:
        assert [block.text for block in after.resolve(path)] == [
            block.text for block in timeline.resolve(path)
        ]


def test_a_second_checkpoint_replaces_the_first() -> None:
    log = worked()
    timeline = log.timeline()
    first = trial(timeline, outline_of(timeline).entry)
    assert [piece.kind for piece in first.pieces].count("checkpoint") == 1
    log.put(first.state, *first.batches[-1].entries)
    for number in range(6):
        log.act(("docs.look_up", {"q": "more"}), notes=f"later {number} {prose(3_000)}")
        log.result(f"found later {number}", tool="docs.look_up")
    second = trial(log.timeline(), outline_of(log.timeline()).entry)
    kinds = [piece.kind for piece in second.pieces]
    assert kinds.count("checkpoint") == 1
    assert "later 5" in "".join(piece.text for piece in second.pieces)


def test_a_summary_and_a_checkpoint_are_read_by_the_paths_that_they_show() -> None:
    conversation = SmallContext(8_000)
    for number in range(40):
        conversation.turn(f"Question {number}", answer=prose(400))
    conversation.talk("And now for more.")
    ended = [entry for entry in conversation.entries(Compacted) if entry.status == "completed"]
    timeline = conversation.timeline()
    shown = {piece.kind: piece for piece in timeline.pieces if piece.kind in ("memory", "checkpoint")}
    assert (
        timeline.resolve(shown["memory"].path)[0].text == [entry.summary for entry in ended if entry.cut][-1]
    )
    assert timeline.resolve(shown["checkpoint"].path)[0].text == [e.checkpoint for e in ended if e.split][-1]
