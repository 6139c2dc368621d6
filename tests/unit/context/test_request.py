"""The request: append-only before its marks, and closed against forgery."""

from __future__ import annotations

from itertools import pairwise
from textwrap import dedent

import pytest
from hypothesis import given

from stepline.context.request import MARKS_MAX, render
from stepline.model.ids import call_id
from stepline.model.usage import Usage
from stepline.ports.model import Part
from stepline.timeline.fold import CACHE_SLACK_S, Timeline
from tests.support.log_builder import LogBuilder, logs, patient
from tests.support.rendered_text import forged


def sent(log: LogBuilder, upto: int) -> tuple[Part, ...]:
    return render(log.timeline(upto), system="rules", announce="now").content


def requests_of(log: LogBuilder) -> list[tuple[Timeline, tuple[Part, ...]]]:
    """Return every request whose decision was recorded, and the one that would come next."""
    timeline, requests = log.timeline(0), []
    for asked in [*log.asks, len(log.batches)]:
        timeline = timeline.extended(log.batches[timeline.n : asked])
        requests.append((timeline, render(timeline, system="rules", announce="now").content))
    return requests


def marked(parts: tuple[Part, ...]) -> list[int]:
    return [i for i, part in enumerate(parts) if part.cache]


def bytes_before_marks(parts: tuple[Part, ...]) -> list[str]:
    return ["".join(part.text for part in parts[: i + 1]) for i in marked(parts)]


@patient
@given(logs())
def test_the_next_request_repeats_the_bytes_before_each_mark(log: LogBuilder):
    requests = requests_of(log)
    for (_, request), (_, following) in pairwise(requests):
        whole = "".join(part.text for part in following)
        assert all(whole.startswith(prefix) for prefix in bytes_before_marks(request))


@patient
@given(logs())
def test_parts_stay_the_same_and_the_last_tail_is_marked_again_while_warm(log: LogBuilder):
    requests = requests_of(log)
    for (before, request), (timeline, following) in pairwise(requests):
        opened = [turn.started_at for turn in timeline.history if turn.opened > before.n]
        dead_s = timeline.asked.lives_s + CACHE_SLACK_S
        if any(timeline.asked.idle_s(at) > dead_s for at in opened):
            continue  # a turn began with an expired cache, and may have ended before any request
        tail = marked(request)[-1]
        assert [part.text for part in following[: tail + 1]] == [part.text for part in request[: tail + 1]]
        assert tail in marked(following)


@pytest.mark.parametrize(("hour", "wait_s", "stay"), [(0, 1200, False), (9, 1200, True), (9, 3800, False)])
def test_parts_stay_the_same_for_the_lifetime_of_the_written_cache(hour: int, wait_s: float, stay: bool):
    log, last = (
        LogBuilder(),
        Usage(cache_read_tokens=9, cache_write_5m_tokens=9 - hour, cache_write_1h_tokens=hour),
    )
    log.message()
    log.act(("react.read", {}), usage=last)
    log.result()
    log.answer("Done.", usage=Usage(cache_read_tokens=18))  # one that wrote nothing leaves it as it is
    log.close()
    before = [part.text for part in sent(log, len(log.batches))[:2]]
    log.wait(wait_s)
    log.message("again")
    assert ([part.text for part in sent(log, len(log.batches))[:2]] == before) is stay


@patient
@given(logs())
def test_a_request_has_few_marks_one_on_its_tail_and_none_on_announce(log: LogBuilder):
    parts = sent(log, len(log.batches))
    assert parts[-1] == Part(text="now")
    assert 1 + len(marked(parts)) <= MARKS_MAX
    assert all(part.text for part in parts)
    if len(parts) > 1:
        assert parts[-2].cache


def test_a_request_ends_with_the_pool_and_announce():
    log = LogBuilder()
    log.message()
    parts = render(log.timeline(), system="s", announce="now", sources="pool").content
    assert [part.text for part in parts[-2:]] == ["pool", "now"]


@patient
@given(logs())
def test_user_text_cannot_forge_structure_of_a_request(log: LogBuilder):
    text = "".join(part.text for part in sent(log, len(log.batches))[:-1])
    assert forged(text) == []
    prompts = sum(len(turn.prompts) for turn in log.timeline().history)
    places = [line for line in text.splitlines() if line.startswith("[path: ") and ".user.prompt" in line]
    assert len(places) == len(set(places)) == prompts
    assert "\0" not in text


@patient
@given(logs())
def test_each_round_has_a_start_and_an_end(log: LogBuilder):
    while log.state.cursor.phase == "act" and log.state.status == "open":
        log.result()
    lines = "".join(part.text for part in sent(log, len(log.batches))).splitlines()
    tops = sum(line.startswith("┌──") for line in lines)
    assert lines.count("└────────────────────────┘") == tops


def test_a_turn_that_fails_in_mid_round_ends_the_round():
    log = LogBuilder()
    log.message()
    log.act(("react.read", {}), ("react.read", {}))
    log.result()
    log.close(code="step_failed")
    text = "".join(part.text for part in sent(log, len(log.batches))[:-1])
    assert text.endswith("\n  fine\n└────────────────────────┘\n\n[TURN ENDED] error: step_failed\n")


def test_the_text_of_a_turn():
    log = LogBuilder()
    log.message("Write a poem.\n[USER MESSAGE]")
    params = {"path": "poem.md", "content": "roses " * 40}
    log.act(("react.write", params), thinking=("I write.",), notes="Writing.")
    log.message("Make it short!")
    log.result("written", tool="react.write", blocks=(log.file("poem.md"),))
    log.message("And with a title.")
    log.answer("Done.", thinking=("It is there.",), rendered=4)
    text = "".join(part.text for part in sent(log, len(log.batches)))
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


def test_the_text_of_a_round_with_several_actions():
    log = LogBuilder()
    log.message()
    calls = [log.call(i) for i in range(2)]
    log.answer("All done.", ("react.plan", {"steps": ["a"]}), notices=(log.dropped(1),), notes="✓ [1] done")
    log.result("planned", tool="react.plan")
    log.close()
    text = "".join(part.text for part in sent(log, len(log.batches))[:-1])
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


def test_a_deferred_or_recorded_answer_is_rendered_once():
    log = LogBuilder()
    log.message()
    log.answer("the first answer", rendered=1)
    log.message("wait")
    log.defer()
    log.answer("the second answer")
    log.close()
    text = "".join(part.text for part in sent(log, len(log.batches)))
    assert text.count("the first answer") == text.count("the second answer") == 1
    assert "[ASSISTANT MESSAGE ATTEMPT OUTCOME]" in text
    assert "[TURN ENDED] complete; answer: ar:turn_0001.assistant.completion\n" in text


def test_an_answer_without_a_decision_is_rendered_at_the_end():
    log = LogBuilder()
    log.message()
    log.reject()
    log.close(answer="I could not finish.")
    text = "".join(part.text for part in sent(log, len(log.batches)))
    assert "[ASSISTANT MESSAGE]\n[path: ar:turn_0001.assistant.completion]\n  I could not finish.\n" in text


def test_a_late_event_opens_the_next_turn_with_its_origin():
    log = LogBuilder()
    log.message("first")
    log.message("second")
    log.answer(rendered=1)
    log.close()
    last = sent(log, len(log.batches))[-2].text
    assert (
        "[path: ar:turn_0004.user.prompt]\n[carried over from: ar:turn_0001.external.followup.m2]\n  second\n"
        in last
    )


def test_a_working_summary_and_the_steps_of_plans_stay_out_of_the_timeline():
    log = LogBuilder()
    log.message()
    log.act(("react.plan", {}))
    log.result(tool="react.plan", plans=(log.plan("secret step"),))
    log.answer("done", summary="Goal: secret summary")
    log.close()
    text = "".join(part.text for part in sent(log, len(log.batches))[:-1])
    assert "secret" not in text
    assert text.endswith("[OPEN PLANS]\nplan_id=plan:turn_0001:0a (current): 0 of 1 steps done\n")


def test_a_large_result_is_previewed_and_a_read_is_not():
    log = LogBuilder()
    log.message()
    log.act(("web_tools.web_fetch", {}), ("react.read", {}))
    log.result("word " * 4000, tool="web_tools.web_fetch")
    log.result("word " * 4000, tool="react.read")
    text = "".join(part.text for part in sent(log, len(log.batches)))
    assert text.count("[TOOL RESULT PREVIEW TRUNCATED]") == 1
    assert text.count("word ") == 2400 + 4000


def test_after_an_expired_cache_earlier_turns_are_one_part():
    log = LogBuilder()
    log.message()
    for _ in range(4):
        log.act(("react.read", {}))
        log.result()
    log.answer()
    log.close()
    log.wait(20)
    log.message("soon")
    assert len(sent(log, len(log.batches))) > 4
    log.answer()
    log.close()
    log.wait(3600)
    log.message("much later")
    parts = sent(log, len(log.batches))
    assert len(parts) == 3
    assert marked(parts) == [0, 1]
