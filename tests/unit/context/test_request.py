"""The request: append-only before its marks, and closed against forgery."""

from __future__ import annotations

from itertools import pairwise
from textwrap import dedent

from hypothesis import given

from stepline.context.request import MARKS_MAX, render
from stepline.model.ids import call_id
from stepline.ports.model import Part
from stepline.timeline.fold import CACHE_DEAD_S, Timeline
from tests.support.log_builder import Story, patient, stories
from tests.support.rendered_text import forged


def sent(story: Story, upto: int) -> tuple[Part, ...]:
    return render(story.timeline(upto), system="rules", announce="now").content


def requests_of(story: Story) -> list[tuple[Timeline, tuple[Part, ...]]]:
    """Return every request whose decision was recorded, and the one that would come next."""
    timeline, requests = story.timeline(0), []
    for asked in [*story.asks, len(story.batches)]:
        timeline = timeline.extended(story.batches[timeline.n : asked])
        requests.append((timeline, render(timeline, system="rules", announce="now").content))
    return requests


def marked(parts: tuple[Part, ...]) -> list[int]:
    return [i for i, part in enumerate(parts) if part.cache]


def bytes_before_marks(parts: tuple[Part, ...]) -> list[str]:
    return ["".join(part.text for part in parts[: i + 1]) for i in marked(parts)]


@patient
@given(stories())
def test_what_stands_before_a_mark_stands_in_the_next_request_too(story: Story):
    requests = requests_of(story)
    for (_, request), (_, following) in pairwise(requests):
        whole = "".join(part.text for part in following)
        assert all(whole.startswith(prefix) for prefix in bytes_before_marks(request))


@patient
@given(stories())
def test_while_a_cache_may_live_the_parts_stay_the_same_and_the_last_tail_is_marked_again(story: Story):
    requests = requests_of(story)
    for (before, request), (timeline, following) in pairwise(requests):
        opened = [turn.started_at for turn in timeline.history if turn.opened > before.n]
        if any(timeline.asked.idle_s(at) > CACHE_DEAD_S for at in opened):
            continue  # a turn began with a dead cache, and may have ended before anybody was asked
        tail = marked(request)[-1]
        assert [part.text for part in following[: tail + 1]] == [part.text for part in request[: tail + 1]]
        assert tail in marked(following)


@patient
@given(stories())
def test_marks_are_few_the_tail_is_marked_and_announce_never_is(story: Story):
    parts = sent(story, len(story.batches))
    assert parts[-1] == Part(text="now")
    assert 1 + len(marked(parts)) <= MARKS_MAX
    assert all(part.text for part in parts)
    if len(parts) > 1:
        assert parts[-2].cache


@patient
@given(stories())
def test_no_text_of_anybody_forges_structure(story: Story):
    text = "".join(part.text for part in sent(story, len(story.batches))[:-1])
    assert forged(text) == []
    prompts = sum(len(turn.prompts) for turn in story.timeline().history)
    places = [line for line in text.splitlines() if line.startswith("[path: ") and ".user.prompt" in line]
    assert len(places) == len(set(places)) == prompts
    assert "\0" not in text


@patient
@given(stories())
def test_every_round_that_begins_ends(story: Story):
    while story.state.cursor.phase == "act" and story.state.status == "open":
        story.result()
    lines = "".join(part.text for part in sent(story, len(story.batches))).splitlines()
    tops = sum(line.startswith("┌──") for line in lines)
    assert lines.count("└────────────────────────┘") == tops


def test_a_turn_that_fails_in_mid_round_ends_the_round_too():
    story = Story()
    story.message()
    story.act(("react.read", {}), ("react.read", {}))
    story.result()
    story.close(code="step_failed")
    text = "".join(part.text for part in sent(story, len(story.batches))[:-1])
    assert text.endswith("\n  fine\n└────────────────────────┘\n\n[TURN ENDED] error: step_failed\n")


def test_a_turn_reads_like_this():
    story = Story()
    story.message("Write a poem.\n[USER MESSAGE]")
    params = {"path": "poem.md", "content": "roses " * 40}
    story.act(("react.write", params), thinking=("I write.",), notes="Writing.")
    story.message("Make it short!")
    story.result("written", tool="react.write", blocks=(story.file("poem.md"),))
    story.message("And with a title.")
    story.answer("Done.", thinking=("It is there.",), rendered=4)
    text = "".join(part.text for part in sent(story, len(story.batches)))
    call, cut = call_id("turn_0001", 0, 0), ("roses " * 40)[:100]
    assert text == dedent(f"""\

        ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━
        TURN turn_0001 (started at 2026-11-21T10:00:00.000Z)
        ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━

        [ts: 2026-11-21T10:00:00.000Z]
        [USER MESSAGE]
        [path: ar:turn_0001.user.prompt]
          Write a poem.
          [USER MESSAGE]

        ┌──────── ROUND 1 ────────┐
        [thinking]
          I write.
        [AI Agent say]: Writing.
        [TOOL CALL {call}].call react.write
        [path: tc:turn_0001.{call}.call]
        Params: {{"path":"poem.md","content":"{cut}… [140 more characters]"}}

        [ts: 2026-11-21T10:00:02.000Z]
        [FOLLOWUP DURING TURN]
        [path: ar:turn_0001.external.followup.m2]
          Make it short!
        [TOOL RESULT {call}].result react.write
        status: ok
        logical_path: fi:turn_0001.outputs/poem.md
        mime: text/markdown
        size_bytes: 42
        content: stored, not shown here; react.read shows it
        └────────────────────────┘

        ┌──────── ROUND 2 ────────┐
        [decided before it could read: ar:turn_0001.external.followup.m3]
        [thinking]
          It is there.

        [ts: 2026-11-21T10:00:04.000Z]
        [FOLLOWUP DURING TURN]
        [path: ar:turn_0001.external.followup.m3]
          And with a title.
        └────────────────────────┘

        [ASSISTANT MESSAGE]
        [path: ar:turn_0001.assistant.completion.attempt.1]
          Done.
        now""")


def test_a_round_of_several_actions_reads_like_this():
    story = Story()
    story.message()
    calls = [story.call(i) for i in range(2)]
    story.answer(
        "All done.", ("react.plan", {"steps": ["a"]}), notices=(story.dropped(1),), notes="✓ [1] done"
    )
    story.result("planned", tool="react.plan")
    story.close()
    text = "".join(part.text for part in sent(story, len(story.batches))[:-1])
    assert text[text.index("┌──") :] == dedent(f"""\
        ┌──────── ROUND 1 ────────┐
        [AI Agent say]: ✓ [1] done
        [TOOL CALL {calls[0]}].call react.plan
        Params: {{"steps":["a"]}}
        [PROTOCOL VIOLATION]
        [path: tc:turn_0001.{calls[1]}.notice]
        code: multi_action_bundle_duplicate
        message:
          Action 2 was not run.
        extra: {{"index":2,"parent_tool_call_id":"{calls[1]}"}}

        [ASSISTANT MESSAGE]
        [path: ar:turn_0001.assistant.completion.attempt.1]
          All done.
        [TOOL RESULT {calls[0]}].result react.plan
        status: ok
        logical_path: tc:turn_0001.{calls[0]}.result
          planned
        └────────────────────────┘

        [TURN ENDED] complete; answer: ar:turn_0001.assistant.completion
    """)


def test_an_answer_stands_once_whether_it_was_deferred_or_recorded():
    story = Story()
    story.message()
    story.answer("the first answer", rendered=1)
    story.message("wait")
    story.defer()
    story.answer("the second answer")
    story.close()
    text = "".join(part.text for part in sent(story, len(story.batches)))
    assert text.count("the first answer") == text.count("the second answer") == 1
    assert "[ASSISTANT MESSAGE ATTEMPT OUTCOME]" in text
    assert "[TURN ENDED] complete; answer: ar:turn_0001.assistant.completion\n" in text


def test_an_answer_nobody_decided_stands_at_the_end():
    story = Story()
    story.message()
    story.reject()
    story.close(answer="I could not finish.")
    text = "".join(part.text for part in sent(story, len(story.batches)))
    assert "[ASSISTANT MESSAGE]\n[path: ar:turn_0001.assistant.completion]\n  I could not finish.\n" in text


def test_an_event_that_came_too_late_opens_the_next_turn_with_its_origin():
    story = Story()
    story.message("first")
    story.message("second")
    story.answer(rendered=1)
    story.close()
    last = sent(story, len(story.batches))[-2].text
    assert (
        "[path: ar:turn_0004.user.prompt]\n[carried over from: ar:turn_0001.external.followup.m2]\n  second\n"
        in last
    )


def test_a_working_summary_and_the_steps_of_plans_stay_out_of_the_timeline():
    story = Story()
    story.message()
    story.act(("react.plan", {}))
    story.result(tool="react.plan", plans=(story.plan("secret step"),))
    story.answer("done", summary="Goal: secret summary")
    story.close()
    text = "".join(part.text for part in sent(story, len(story.batches))[:-1])
    assert "secret" not in text
    assert text.endswith("[OPEN PLANS]\nplan_id=plan:turn_0001:0a (current): 0 of 1 steps done\n")


def test_a_large_result_is_previewed_and_a_read_is_not():
    story = Story()
    story.message()
    story.act(("web_tools.web_fetch", {}), ("react.read", {}))
    story.result("word " * 4000, tool="web_tools.web_fetch")
    story.result("word " * 4000, tool="react.read")
    text = "".join(part.text for part in sent(story, len(story.batches)))
    assert text.count("[TOOL RESULT PREVIEW TRUNCATED]") == 1
    assert text.count("word ") == 2400 + 4000


def test_after_a_dead_cache_the_turns_before_are_one_part():
    story = Story()
    story.message()
    for _ in range(4):
        story.act(("react.read", {}))
        story.result()
    story.answer()
    story.close()
    story.wait(20)
    story.message("soon")
    assert len(sent(story, len(story.batches))) > 4
    story.answer()
    story.close()
    story.wait(3600)
    story.message("much later")
    parts = sent(story, len(story.batches))
    assert len(parts) == 3
    assert marked(parts) == [0, 1]
