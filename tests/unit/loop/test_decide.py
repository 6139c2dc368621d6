import logging
from typing import Any

import pytest

from stepline.adapters.memory.model import Fail, Say
from stepline.errors import (
    ContextLimit,
    Fenced,
    ModelRefused,
    ModelStreamBroken,
    ModelTimeout,
    SteplineError,
)
from stepline.loop.sweep import replace_owner
from stepline.model.entry import Closed, Decided, Reopened
from stepline.model.program.execution import Run
from stepline.model.usage import Usage
from stepline.model.wire.event import CONTROL_LANE, DeltaFrame
from stepline.rendering.status_answer import CAUSES
from tests.support.conversation import LANE, Conversation, of, text_of
from tests.support.faulty_log import BusyLog, LosingLog, StaleLog
from tests.support.generation import BROKEN, answered, called, coded, said, start_tag
from tests.support.steered_conversation import SteeredConversation

READ = called("react.read", {"paths": ["fi:turn_x.outputs/a.md"]}, notes="reading")


def opened(*script: Any, **fields: Any) -> Conversation:
    conversation = Conversation(*script, **fields)
    conversation.send("what is new?")
    return conversation


def decided(conversation: Conversation) -> Decided:
    return conversation.entries(Decided)[-1]


# --- records


def test_a_call_is_recorded_before_it_runs() -> None:
    conversation = opened(READ)
    following = conversation.decide()
    entry = decided(conversation)
    assert (following.route, following.iteration, conversation.state.actions) == ("act", 0, 1)
    assert (entry.accepted, entry.action, entry.notes, entry.thinking) == (
        True,
        "call_tool",
        "reading",
        ("Let me see.",),
    )
    assert entry.actions[0].params == {"paths": ["fi:turn_x.outputs/a.md"]}
    assert (entry.claim, conversation.state.rendered, entry.raw) == (1, 1, "")


def test_a_decision_says_when_its_thinking_was_and_how_many_rounds_are_left() -> None:
    conversation = SteeredConversation(called("react.read", {"paths": ["fi:x"]}), BROKEN)
    conversation.at(3, lambda: conversation.clock.pause(1.5))
    conversation.decide()
    conversation.act()
    conversation.decide()
    first, second = conversation.decided
    assert (first.thinking, first.thinking_ms) == (("Let me see.",), ((0, 1500),))
    assert (second.thinking, second.thinking_ms) == ((), ())
    most = conversation.ports.policy.max_iterations
    assert [first.rounds_left, second.rounds_left] == [most - 1, most - 2]


def test_a_decision_says_how_long_its_program_took_to_write() -> None:
    text = coded("print(1)\n", "a.csv")
    conversation = SteeredConversation(text)
    conversation.programs(lambda _: Run(returncode=0))
    conversation.at(text.index("print(1)") // 8 + 1, lambda: conversation.clock.pause(0.75))
    conversation.decide()
    (entry,) = conversation.decided
    assert (entry.accepted, entry.code_ms) == (True, 750)


def test_an_unusual_stop_reason_is_recorded() -> None:
    conversation = opened(READ, Say(text="", stop_reason="refusal"))
    conversation.decide()
    assert decided(conversation).stop_reason == ""
    conversation.act()
    conversation.decide()
    assert decided(conversation).stop_reason == "refusal"


def test_an_answer_goes_to_the_close() -> None:
    conversation = opened(answered("All quiet.", suggested_followups=["And tomorrow?"]))
    assert conversation.decide().route == "close"
    assert (decided(conversation).answer, decided(conversation).followups) == (
        "All quiet.",
        ("And tomorrow?",),
    )


def test_a_call_is_named_alike_by_every_attempt_of_its_round() -> None:
    names = []
    for attempt in (0, 1):
        conversation = opened(READ)
        conversation.decide(attempt=attempt)
        names.append(decided(conversation).actions[0].call_id)
    assert names[0] == names[1]


def test_a_calls_usage_is_counted_with_all_cached_tokens() -> None:
    usage = Usage(
        input_tokens=1,
        cache_read_tokens=20,
        cache_write_5m_tokens=300,
        cache_write_1h_tokens=4000,
        output_tokens=7,
    )
    conversation = opened(Say(text=BROKEN, usage=usage), Say(text=answered("done"), usage=usage))
    conversation.decide()
    assert (conversation.state.input_tokens, conversation.state.output_tokens) == (4321, 7)
    conversation.decide()
    conversation.close()
    assert (conversation.state.input_tokens, conversation.state.output_tokens) == (8642, 14)


def test_numbers_and_texts_of_a_models_json_are_unchanged() -> None:
    content = {"big": 2**80, "small": 1e-9, "text": "🦜\u2028", "none": None, "list": [True, []]}
    conversation = opened(
        called("react.write", {"path": "a.json", "channel": "internal", "content": content})
    )
    conversation.decide()
    assert decided(conversation).actions[0].params["content"] == content


# --- rejected decisions


def test_a_rejected_decision_runs_nothing_and_is_shown_next_round() -> None:
    conversation = opened(BROKEN, answered("done"))
    following = conversation.decide()
    entry, state = decided(conversation), conversation.state
    assert (following.route, following.iteration) == ("decide", 1)
    assert (entry.accepted, entry.actions, entry.raw) == (False, (), BROKEN)
    assert (state.round_retries, state.turn_retries, state.claim) == (1, 1, conversation.tail.n)
    conversation.decide(following)
    assert entry.notices[-1].code in text_of(conversation.model.requests[1])
    assert (conversation.state.round_retries, conversation.state.turn_retries) == (0, 1)


def test_a_round_that_stays_broken_ends_the_turn_with_an_error() -> None:
    conversation = opened(BROKEN, BROKEN, BROKEN, round_retries=2)
    conversation.run()
    conversation.model.assert_read()
    assert [entry.accepted for entry in conversation.entries(Decided)] == [False, False, True]
    assert (decided(conversation).action, decided(conversation).ended) == ("exit", "violations")
    assert decided(conversation).answer == ""
    assert conversation.state.status == "idle"
    closed = conversation.entries(Closed)[-1]
    assert (closed.outcome, closed.code, closed.answer) == ("error", "model_protocol", "")


def test_a_turn_has_a_separate_bound_for_broken_decisions() -> None:
    plan = called("react.plan", {"steps": ["one"]})
    conversation = opened(BROKEN, plan, BROKEN, plan, BROKEN, turn_retries=2)
    conversation.run()
    conversation.model.assert_read()
    closed = conversation.entries(Closed)[-1]
    assert (closed.outcome, closed.reason) == ("completed", "violations")
    assert closed.answer.startswith(CAUSES["violations"])


def test_a_bound_of_no_retries_gives_up_at_once() -> None:
    conversation = opened(BROKEN, round_retries=0)
    assert conversation.decide().route == "close"
    conversation.close()
    assert conversation.entries(Closed)[-1].code == "model_protocol"


def test_the_last_round_takes_an_answer_and_nothing_else() -> None:
    conversation = opened(READ, READ, max_iterations=2)
    conversation.run()
    assert "LAST ROUND" not in text_of(conversation.model.requests[0])
    assert "LAST ROUND" in text_of(conversation.model.requests[1])
    entry = decided(conversation)
    assert (entry.action, entry.actions, entry.ended) == ("exit", (), "max_iterations")
    assert entry.answer.startswith(CAUSES["max_iterations"])
    assert entry.notices[-1].code == "last_round_requires_answer"
    assert conversation.entries(Closed)[-1].reason == "max_iterations"


def test_a_followup_gives_the_last_round_back() -> None:
    conversation = opened(READ, answered("both"), max_iterations=1)
    conversation.send(id="second")
    assert conversation.decide().route == "act"
    assert "LAST ROUND" not in text_of(conversation.model.requests[0])


# --- messages in between


def test_a_followup_in_mid_answer_moves_the_decision_only() -> None:
    log = BusyLog()
    conversation = opened(answered("done"), log=log)
    log.rivals = [lambda: conversation.send("wait", id="second")]
    following = conversation.decide()
    assert len(conversation.model.requests) == 1
    assert (following.route, conversation.tail.n) == ("close", 3)
    assert conversation.state.rendered == 1


def test_a_lost_answer_of_the_put_does_not_ask_the_model_again() -> None:
    log = LosingLog()
    conversation = opened(answered("done"), log=log)
    log.lose(True)
    conversation.decide()
    assert (len(conversation.model.requests), conversation.tail.n) == (1, 2)


# --- attempts, claims and epochs


def test_a_later_attempt_reopens_the_round_under_its_own_claim() -> None:
    conversation = opened(answered("done"))
    inbox = conversation.listen()
    conversation.decide(attempt=1)
    assert conversation.entries(Reopened) == [Reopened(iteration=0, attempt=1)]
    assert (decided(conversation).claim, conversation.state.rendered) == (2, 2)
    assert {frame.claim for frame in of(DeltaFrame, inbox)} == {2}


def test_an_attempt_that_was_given_up_stops_before_it_asks() -> None:
    conversation = opened(
        Fail(error=ModelTimeout("busy")),
        Fail(error=ModelTimeout("busy")),
        Fail(error=ModelTimeout("busy")),
    )
    step = conversation.now()
    with pytest.raises(ModelTimeout):
        conversation.decide(conversation.now(attempt=1))
    with pytest.raises(Fenced):
        conversation.decide(step)
    assert len(conversation.model.requests) == 1


def test_an_attempt_that_is_overtaken_while_it_listens_cannot_decide() -> None:
    log = BusyLog()
    conversation = opened(answered("slow"), answered("fast"), log=log)
    step = conversation.now()
    log.rivals = [lambda: conversation.decide(conversation.now(attempt=1))]
    assert conversation.decide(step).route == "close"
    assert [entry.answer for entry in conversation.entries(Decided)] == ["fast"]


def test_a_claim_lost_in_the_middle_of_the_round_fences() -> None:
    log = BusyLog()
    conversation = opened(answered("slow"), *[Fail(error=ModelTimeout("busy"))] * 3, log=log)
    step = conversation.now()

    def retry() -> None:
        with pytest.raises(ModelTimeout):
            conversation.decide(conversation.now(attempt=1))

    log.rivals = [retry]
    with pytest.raises(Fenced):
        conversation.decide(step)
    assert conversation.entries(Decided) == []


def test_a_retry_of_a_recorded_decision_continues_after_it() -> None:
    conversation = opened(READ)
    step = conversation.now()
    first = conversation.decide(step)
    again = conversation.decide(conversation.now(iteration=0, attempt=1))
    assert (again, len(conversation.model.requests)) == (first, 1)


def test_an_older_epoch_decides_nothing() -> None:
    conversation = opened(answered("late"))
    step = conversation.now()
    replace_owner(conversation.ports, LANE, conversation.tail)
    assert conversation.decide(step).route == "stop"
    assert conversation.entries(Decided) == []


def test_a_step_that_reads_late_looks_again_before_it_gives_up() -> None:
    log = StaleLog(lag=1)
    conversation = Conversation(READ, answered("done"), log=log)
    conversation.send()
    conversation.run()
    assert [entry.action for entry in conversation.entries(Decided)] == ["call_tool", "complete"]
    assert conversation.state.status == "idle"


# --- the model's failures


@pytest.mark.parametrize(
    "error",
    [
        ModelTimeout("late"),
        ModelStreamBroken("cut", code="stream_cut"),
        ContextLimit("too long"),
        ModelRefused("no"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_model_failure_keeps_its_type_and_the_round(error: SteplineError) -> None:
    conversation = opened(*[Fail(error=error, text=(start_tag("thinking") + "Hm"), after_chars=20)] * 3)
    before = conversation.now(), conversation.state.claim
    with pytest.raises(type(error)) as caught:
        conversation.decide()
    assert caught.value.reason == error.reason
    assert (conversation.now(), conversation.state.claim) == before


# --- listeners


def texts(inbox: list[bytes]) -> dict[str, str]:
    """Return each lane's text, joined by offset as a client does, without the lanes' metadata."""
    found: dict[str, str] = {}
    for frame in of(DeltaFrame, inbox):
        have = found.get(frame.lane, "")
        assert frame.off == len(have)
        found[frame.lane] = have + frame.text
    found.pop(CONTROL_LANE, None)
    return found


def test_thinking_notes_and_answer_are_streamed() -> None:
    conversation = opened(READ, answered("All **quiet**.\n"))
    inbox = conversation.listen()
    conversation.decide()
    assert texts(inbox) == {"thinking.0": "Let me see.", "notes.0": "reading"}
    inbox.clear()
    conversation.act()
    conversation.decide()
    assert texts(inbox) == {"thinking.0": "Let me see.", "answer.0": "All **quiet**.\n"}


@pytest.mark.parametrize("piece_chars", [1, 7, 10_000])
def test_an_answer_is_held_back_until_the_decision_says_that_it_answers(piece_chars: int) -> None:
    late = '{"final_answer": "Kept.", "notes": "", "action": "complete"}'
    conversation = opened(Say(text=said(late), piece_chars=piece_chars))
    inbox = conversation.listen()
    conversation.decide()
    assert texts(inbox)["answer.0"] == "Kept."


@pytest.mark.parametrize(
    "body",
    [
        '{"final_answer": "Never shown.", "action": "call_tool", "tool_call": null}',
        '{"action": "call_tool", "final_answer": "Never shown.", "tool_call": {"tool_id": "react.read"}}',
        '{"final_answer": "Never shown."}',
    ],
)
def test_the_answer_of_a_decision_that_does_not_answer_is_never_shown(body: str) -> None:
    conversation = opened(said(body))
    inbox = conversation.listen()
    conversation.decide()
    assert "answer.0" not in texts(inbox)


def test_the_stored_stream_is_what_was_shown_and_what_was_recorded() -> None:
    conversation = opened(answered("Long. " * 200))
    inbox = conversation.listen()
    conversation.decide()
    stored = {}
    for delta in conversation.ports.deltas.since(LANE, 1):
        stored[delta.name] = stored.get(delta.name, "") + delta.text
    stored.pop(CONTROL_LANE)
    assert stored == texts(inbox)
    assert stored["answer.0"] == decided(conversation).answer


def test_a_round_is_counted_without_logging_its_texts(
    caplog: pytest.LogCaptureFixture,
) -> None:
    conversation = opened(answered("secret answer"))
    conversation.clock.pause(60)
    with caplog.at_level(logging.INFO):
        conversation.decide()
    counts = conversation.ports.meter.counts
    assert (counts["RoundsDecided"], "FirstDeltaMs" in counts, counts["FirstDeltaMs"]) == (1, True, 0)
    assert "secret" not in caplog.text
