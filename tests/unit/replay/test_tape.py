"""The order of a recorded turn: events from outside arrive at their places, and the clock shows the recorded times."""

from random import Random

from stepline.model.entry import Decided, Inbound, Resulted
from stepline.replay import replay_turn as replaying
from stepline.replay.recorded_turn import find_turns, is_outside, is_repair, same_call
from tests.support.conversation import LANE, Conversation
from tests.support.generation import answered, called
from tests.support.recorded_talk import KINDS, TickingClock, replayer


def replayed_log(conversation, monkeypatch):
    """Return the batches of the first turn, and those of its replay."""
    kept = []
    report = replaying.report_turn
    monkeypatch.setattr(
        replaying,
        "report_turn",
        lambda turn, batches, **more: kept.append(batches) or report(turn, batches, **more),
    )
    turn = find_turns(LANE, conversation.batches())[0]
    replaying.replay_turn(turn, replayer(conversation), conversation.ports.artifacts)
    return turn.own, kept[0]


def test_batches_have_their_numbers_their_entries_and_their_times(monkeypatch):
    for kind in KINDS:
        recorded, replayed = replayed_log(kind(Random(5)), monkeypatch)
        assert [batch.n for batch in replayed] == [batch.n for batch in recorded]
        for old, new in zip(recorded, replayed, strict=True):
            assert [type(entry) for entry in new.entries] == [type(entry) for entry in old.entries]
            for one, other in zip(old.entries, new.entries, strict=True):
                if isinstance(one, Decided):
                    assert other.started_at == one.started_at
                if isinstance(one, Resulted | Inbound):
                    assert other == one


def test_a_message_during_a_generation_is_put_before_its_decision(monkeypatch):
    conversation = Conversation(
        called("react.read", {"paths": ["fi:x"]}), answered("Done."), answered("Both.")
    )
    conversation.clock = TickingClock()
    conversation.send("one")
    stream = conversation.model.stream
    waiting = [lambda: conversation.send("two", id="m2")]

    def asked(request):
        if waiting:
            waiting.pop()()
        return stream(request)

    monkeypatch.setattr(conversation.model, "stream", asked)
    conversation.run()
    recorded, replayed = replayed_log(conversation, monkeypatch)
    kinds = [[type(entry).__name__ for entry in batch.entries] for batch in replayed]
    assert kinds[:2] == [["Inbound"], ["Decided"]]
    assert [batch.state.rendered for batch in replayed] == [batch.state.rendered for batch in recorded]


def test_only_batches_of_the_turns_own_steps_are_made_again():
    conversation = next(kind for kind in KINDS if kind.__name__ == "_failures")(Random(3))
    own = [batch for turn in find_turns(LANE, conversation.batches()) for batch in turn.own]
    repairs = {
        type(e).__name__ for n, batch in enumerate(own) if is_repair(batch, own[:n]) for e in batch.entries
    }
    assert repairs == {"Reopened"}
    assert not any(is_outside(batch) for batch in own if any(isinstance(e, Decided) for e in batch.entries))


def test_calls_are_compared_by_tool_parameters_and_program():
    conversation = Conversation(
        called("react.read", {"paths": ["fi:x"]}), called("react.read", {"paths": ["fi:y"]})
    )
    conversation.send("read")
    conversation.model.add(answered("Done."))
    conversation.run()
    first, second, _ = conversation.entries(Decided)
    assert same_call(first.actions[0], first.actions[0])
    assert not same_call(first.actions[0], second.actions[0])
