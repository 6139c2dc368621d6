"""A bundle's hooks in a turn: by the log, each runs once, and its additions are an entry."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from stepline.adapters.memory.artifacts import MemoryArtifacts
from stepline.adapters.memory.log import MemoryLog
from stepline.adapters.memory.model import MemoryModelClient
from stepline.bundle.hook import HookContext, hook_of
from stepline.errors import DependencyError, InputError, SteplineError
from stepline.loop.agent import Hooks
from stepline.model.batch import Batch
from stepline.model.entry import Closed, Contributed, Started
from stepline.ports.log import Put
from stepline.ports.model import ModelRequest, Part
from stepline.tools.context import Store
from tests.support.conversation import LANE, Conversation, event_types, text_of
from tests.support.faulty_log import StaleLog
from tests.support.generation import BROKEN, answered, called
from tests.support.log_invariant import chain, turns

READ = called("react.read", {"paths": ["fi:x"]})


class Killed(BaseException):
    """The process is gone."""


def hooked(
    *script: str, log: MemoryLog | None = None, **functions: Callable[[HookContext], Any]
) -> Conversation:
    """Return a conversation whose bundle has these hooks."""
    conversation = Conversation(*script, log=log)
    hooks = Hooks(**{name: hook_of(function) for name, function in functions.items()})
    conversation.agent = replace(conversation.agent, hooks=hooks)
    return conversation


def ends(conversation: Conversation) -> list[tuple[str, int, str]]:
    return [(e.hook, e.iteration, e.status) for e in conversation.entries(Contributed)]


def test_each_hook_runs_once_at_its_point_over_retries() -> None:
    ran: list[tuple[str, int]] = []

    def note(hook: HookContext) -> None:
        ran.append((hook.hook, hook.round))

    conversation = hooked(
        READ, BROKEN, answered("Done."), pre_run_hook=note, before_round=note, post_run_hook=note
    )
    conversation.send()
    conversation.run()
    assert ran == [
        ("pre_run_hook", 0),
        ("before_round", 0),
        ("before_round", 1),
        ("before_round", 2),
        ("post_run_hook", 2),
    ]
    assert ends(conversation) == [(name, at, "ok") for name, at in ran]
    assert not [*chain(conversation.batches()), *turns(conversation.batches())]
    assert (conversation.state.prepared, conversation.state.primed) == (0, 0)


def test_a_hooks_additions_follow_an_unchanged_prefix() -> None:
    def number(hook: HookContext) -> None:
        assert hook.contribute([{"text": f"Round {hook.round} of {hook.user}."}]) == hook.contribute(
            [{"text": f"Round {hook.round} of {hook.user}."}]
        )

    conversation = hooked(READ, answered("Done."), before_round=number)
    conversation.send()
    conversation.run()
    first, second = conversation.model.requests
    assert "Round 0 of ada." in text_of(first)
    assert text_of(second).count("Round 0 of ada.") == 1
    assert "Round 1 of ada." in text_of(second)
    kept = "".join(part.text for part in first.content[:-1] if isinstance(part, Part))
    assert text_of(second).startswith(kept.rstrip())


def test_a_hook_gets_the_turn_and_after_the_close_its_end() -> None:
    seen: dict[str, Any] = {}

    def look(hook: HookContext) -> None:
        messages = [message.text for message in hook.messages]
        prompt = hook.fetch(f"ar:{hook.turn}.user.prompt")["ret"]["text"]
        seen[hook.hook] = (hook.lane, messages, prompt, hook.closed)

    conversation = hooked(answered("Done."), pre_run_hook=look, post_run_hook=look)
    conversation.send()
    conversation.run()
    assert seen["pre_run_hook"] == (LANE, ["hello"], "hello", None)
    assert seen["post_run_hook"] == (LANE, ["hello"], "hello", conversation.entries(Closed)[0])


def test_a_hook_adds_nothing_to_an_ended_turn() -> None:
    refused: list[str] = []

    def add(hook: HookContext) -> None:
        with pytest.raises(InputError) as caught:
            hook.contribute([{"text": "too late"}])
        refused.append(caught.value.reason)

    conversation = hooked(answered("Done."), post_run_hook=add)
    conversation.send()
    conversation.run()
    assert refused == ["turn_not_open"]


def test_only_a_post_run_hook_rates_the_turn_as_a_machine() -> None:
    refused: list[tuple[str, str]] = []

    def rate(hook: HookContext) -> None:
        try:
            hook.rate("No source.", confidence=0.8, reaction="not_ok")
        except InputError as error:
            refused.append((hook.hook, error.reason))

    hooks = dict.fromkeys(("pre_run_hook", "before_round", "post_run_hook"), rate)
    conversation = hooked(answered("Done."), answered("Thanks."), **hooks)
    inbox = conversation.listen()
    conversation.send()
    conversation.run()
    assert refused == [("pre_run_hook", "turn_open"), ("before_round", "turn_open")]
    (row,) = conversation.log.conversation_feedback(LANE)
    assert (row.turn, row.origin, row.reaction) == (conversation.timeline().turns[0], "machine", "not_ok")
    assert event_types(inbox).count("turn.feedback") == 1
    assert ends(conversation)[-1] == ("post_run_hook", 0, "ok")
    conversation.send("and?", id="m2")
    conversation.run()
    assert "| machine | not_ok | No source." in text_of(conversation.model.requests[-1])


def test_a_hook_that_is_not_sure_enough_has_failed_and_the_turn_has_its_answer() -> None:
    conversation = hooked(answered("Done."), post_run_hook=lambda hook: hook.rate("Hm.", confidence=0.5))
    conversation.send()
    conversation.run()
    (ended,) = conversation.entries(Contributed)
    assert (ended.status, ended.code) == ("error", "bad_feedback")
    assert conversation.log.conversation_feedback(LANE) == []


def test_a_turn_that_cannot_be_prepared_ends_with_its_code_and_asks_no_model() -> None:
    def fail(_: HookContext) -> None:
        raise ZeroDivisionError

    conversation = hooked(pre_run_hook=fail)
    conversation.send()
    conversation.run()
    (closed,) = conversation.entries(Closed)
    assert (closed.outcome, closed.code) == ("error", "hook_failed")
    assert conversation.model.requests == []
    assert conversation.ports.meter.counts["HooksFailed"] == 1  # type: ignore[attr-defined]  # the memory twin's own


@pytest.mark.parametrize("name", ["before_round", "post_run_hook"])
def test_the_failure_of_another_hook_is_recorded_and_the_turn_has_its_answer(name: str) -> None:
    def fail(_: HookContext) -> None:
        raise DependencyError("away")

    conversation = hooked(answered("Done."), **{name: fail})
    conversation.send()
    conversation.run()
    (entry,) = conversation.entries(Contributed)
    assert (entry.status, entry.code) == ("error", "dependency")
    assert conversation.entries(Closed)[0].answer == "Done."


@pytest.mark.parametrize("name", ["pre_run_hook", "before_round", "post_run_hook"])
def test_a_killed_hook_is_not_run_again(name: str) -> None:
    ran: list[str] = []

    def die(hook: HookContext) -> None:
        ran.append(hook.hook)
        raise Killed

    conversation = hooked(answered("Done."), **{name: die})
    conversation.send()
    _, step = conversation.take()
    with pytest.raises(Killed):
        conversation.drive(step)
    again = conversation.now(attempt=1) if conversation.state.status == "open" else step
    conversation.history = type(conversation.history)()
    if name == "post_run_hook":
        conversation.close(again)
    else:
        conversation.decide(again)
        conversation.drive(conversation.now())
    assert ran == [name]
    assert ends(conversation) == [(name, 0, "unverified")]
    assert conversation.entries(Closed)[0].answer == "Done."
    shown = any("was interrupted" in text_of(request) for request in conversation.model.requests)
    assert shown == (name == "pre_run_hook")


def test_a_hook_of_another_attempt_is_left_to_it() -> None:
    def run_twice(hook: HookContext) -> None:
        ran.append(hook.hook)
        if len(ran) == 1:
            conversation.decide(conversation.now(attempt=1))

    ran: list[str] = []
    conversation = hooked(answered("Done."), pre_run_hook=run_twice)
    conversation.send()
    _, step = conversation.take()
    assert conversation.decide(step).route == "close"
    assert ran == ["pre_run_hook"]
    assert ends(conversation) == [("pre_run_hook", 0, "unverified")]
    assert len(conversation.entries(Started)) == 1


def test_a_stale_read_does_not_repeat_the_end_of_a_post_run_hook() -> None:
    def run_twice(hook: HookContext) -> None:
        ran.append(hook.hook)
        conversation.close(step)

    ran: list[str] = []
    conversation = hooked(answered("Done."), log=StaleLog(lag=1), post_run_hook=run_twice)
    conversation.send()
    _, step = conversation.take()
    conversation.drive(step)
    assert ran == ["post_run_hook"]
    assert ends(conversation) == [("post_run_hook", 0, "unverified")]


def test_the_end_of_a_hook_is_put_once_despite_a_lost_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []
    conversation = hooked(answered("Done."), pre_run_hook=lambda hook: ran.append(hook.hook))
    put = conversation.log.put

    def lose(lane: Any, batch: Batch, **fields: Any) -> Put:
        answer: Put = put(lane, batch, **fields)
        if any(isinstance(entry, Contributed) for entry in batch.entries):
            monkeypatch.undo()
            raise DependencyError("lost")
        return answer

    monkeypatch.setattr(conversation.log, "put", lose)
    conversation.send()
    _, step = conversation.take()
    with pytest.raises(DependencyError):
        conversation.decide(step)
    conversation.decide(conversation.now(attempt=1))
    assert ran == ["pre_run_hook"]
    assert ends(conversation) == [("pre_run_hook", 0, "ok")]


def test_a_value_stored_by_a_hook_is_found_by_its_user_only() -> None:
    found: list[Any] = []

    def look(hook: HookContext) -> None:
        found.append(hook.store.get("seen"))
        hook.store.put("seen", {"turns": len(found)})

    conversation = hooked(answered("One."), answered("Two."), pre_run_hook=look)
    for number in (1, 2):
        conversation.send(id=f"m{number}")
        conversation.run()
    assert found == [None, {"turns": 1}]
    artifacts = conversation.ports.artifacts
    for lane, user in (
        (LANE, "eve"),
        (structs.replace(LANE, tenant="other"), "ada"),
        (structs.replace(LANE, project="p"), "ada"),
    ):
        assert Store(artifacts=artifacts, lane=lane, user=user).get("seen") is None
    own = Store(artifacts=artifacts, lane=structs.replace(LANE, conversation="c-2"), user="ada")
    assert own.get("seen") == {"turns": 2}
    own.put("seen", None)
    assert own.get("seen") is None


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("../seen", 1, "bad_name"),
        ("a/b", 1, "bad_name"),
        ("", 1, "bad_name"),
        ("a", "x" * 300_000, "store_value_too_large"),
    ],
)
def test_a_value_is_stored_under_a_plain_name_and_is_not_large(name: str, value: Any, code: str) -> None:
    with pytest.raises(SteplineError) as caught:
        Store(artifacts=MemoryArtifacts(), lane=LANE, user="ada").put(name, value)
    assert caught.value.reason == code


def test_a_stop_before_the_round_leaves_its_hooks_unrun() -> None:
    ran: list[str] = []
    conversation = hooked(pre_run_hook=lambda hook: ran.append(hook.hook))
    conversation.send()
    conversation.send("", id="s1", kind="steer")
    conversation.run()
    assert ran == []
    assert conversation.entries(Closed)[0].reason == "stop"


def test_a_hooks_model_calls_are_charged_and_its_events_sent() -> None:
    def ask(hook: HookContext) -> None:
        assert hook.model is not None
        request = ModelRequest(role="*", system=(), content=(Part(text="2 + 2?"),), max_tokens=10)
        with hook.model.stream(request) as running:
            hook.contribute([{"text": f"It is {''.join(running)}."}])
        hook.emit("shop.prepared", {"sum": 4})

    class Services:
        settings = secrets = None
        model = MemoryModelClient("4")

    plain = hooked(answered("Done."))
    conversation = hooked(answered("Done."), pre_run_hook=ask)
    conversation.agent = replace(conversation.agent, services=Services())  # type: ignore[arg-type]  # it has no descriptors
    inbox = conversation.listen()
    for each in (plain, conversation):
        each.send()
        each.run()
    (entry,) = conversation.entries(Contributed)
    (closed,), (before,) = conversation.entries(Closed), plain.entries(Closed)
    assert entry.usage.output_tokens > 0
    assert closed.usage.output_tokens == before.usage.output_tokens + entry.usage.output_tokens
    assert conversation.state.output_tokens == plain.state.output_tokens + entry.usage.output_tokens
    assert conversation.timeline().usage.output_tokens == conversation.state.output_tokens
    assert "shop.prepared" in str(inbox)
    assert event_types(inbox)
