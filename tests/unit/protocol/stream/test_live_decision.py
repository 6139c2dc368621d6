"""What waits in a gate comes first, whatever comes meanwhile, and nothing of a refused action comes at all."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stepline.protocol.stream.live_decision import OutputGate


class Sink:
    """Keeps its input; `on_take` is called with each piece, as a writer that writes while others are served."""

    def __init__(self, on_take=None):
        self.got = []
        self.on_take = on_take

    def take(self, text):
        self.got.append(text)
        if self.on_take:
            self.on_take(text)

    def end(self):
        self.got.append(None)


def test_a_pending_gate_keeps_all_text_and_releases_it_in_order():
    gate, one, two = OutputGate(), Sink(), Sink()
    order = []
    one.on_take = two.on_take = order.append
    first, second = gate.guard(one), gate.guard(two)
    first.take("a")
    first.end()
    second.take("b")
    assert order == []
    gate.allow()
    second.take("c")
    second.end()
    assert order == ["a", "b", "c"]
    assert (one.got, two.got) == (["a", None], ["b", "c", None])


# What was written while a gate let go what it had kept came out before that.
def test_text_written_during_the_release_does_not_overtake_waiting_text():
    gate = OutputGate()
    sink = Sink(lambda text: text == "b0" and gate.push(sink, "late"))
    for text in ("b0", "b1", "b2"):
        gate.push(sink, text)
    gate.allow()
    gate.push(sink, "after")
    assert sink.got == ["b0", "b1", "b2", "late", "after"]


def test_a_denied_gate_drops_kept_and_later_text():
    gate, sink = OutputGate(), Sink()
    waiting = gate.guard(sink)
    waiting.take("a")
    gate.deny()
    waiting.take("b")
    waiting.end()
    gate.push(sink, "c")
    assert sink.got == []
    assert gate.guard(sink) is None


def test_an_open_gate_passes_text_directly():
    gate, sink = OutputGate(), Sink()
    gate.allow()
    assert gate.guard(sink) is sink


def test_forgotten_text_is_dropped_and_later_text_passes():
    gate, sink = OutputGate(), Sink()
    gate.push(sink, "a")
    gate.forget()
    gate.push(sink, "b")
    gate.allow()
    assert sink.got == ["b"]


@given(st.lists(st.sampled_from(["push", "allow", "deny"]), max_size=20))
def test_a_gate_passes_all_of_its_input_or_nothing(steps):
    gate, sink = OutputGate(), Sink()
    pushed, ruled = [], ""
    for number, step in enumerate(steps):
        if step == "push":
            gate.push(sink, str(number))
            pushed.append(str(number))
        elif not ruled:
            ruled = step
            getattr(gate, step)()
    assert sink.got == (pushed if ruled == "allow" else [])
