"""A device of a person: the real session on a real websocket, and all effects of it."""

from __future__ import annotations

import itertools
from collections import defaultdict

from stepline.adapters.system import SystemClock
from stepline.events.derive import derive
from stepline.events.filter import EventFilter
from stepline.events.types import TERMINAL
from stepline.local.client.change import (
    Acknowledged,
    EventsApplied,
    Refused,
    StreamReset,
    Synced,
    TextAppended,
    TurnEnded,
)
from stepline.local.client.session import Session
from stepline.local.client.state import ClientState
from stepline.local.client.websocket import dial_gateway
from stepline.local.command.batches import open_log
from stepline.local.stage.lifecycle import mint
from stepline.model.ids import make_lane

PATIENCE_S = 120
"""So long nothing may come: a busy machine is slow, and only a bug is slower."""
ANSWER = "answer."


class Impatience(SystemClock):
    """The clock of this machine, for a wait with a limit."""

    def __init__(self):
        self.hope()

    def hope(self):
        """Begin to wait anew."""
        self._until_s = super().monotonic_s() + PATIENCE_S

    def monotonic_s(self):
        now_s = super().monotonic_s()
        if now_s > self._until_s:
            raise AssertionError("no further effect arrives")
        return now_s


class Device:
    """One conversation on one device, with its effects, and its durable events by batch.

    `texts` holds the text of each lane of each stream, without text removed by a reset. A turn that ends with an error
    fails the test, unless it is expected that one `fails`.
    """

    def __init__(self, stage, conversation, *, dial=None, fails=False):
        deployed, user = stage.deployed, stage.user
        dial = dial or dial_gateway(deployed.socket_url, lambda: mint(deployed, user))
        self._clock, self._stored = Impatience(), lambda: stored_events(stage, conversation)
        self.session = Session(dial, ClientState(conversation=conversation), self._clock)
        self._fails = fails
        self.effects, self.events, self.texts = [], [], defaultdict(str)
        self._effects = self.session.effects()

    def __enter__(self):
        self.session.__enter__()
        return self

    def __exit__(self, *error):
        self.session.__exit__(*error)

    @property
    def state(self):
        return self.session.state

    def until(self, wanted):
        """Return the first later effect of a type, or the first for which `wanted` returns True."""
        self._clock.hope()
        for effect in self._effects:
            self._clock.hope()
            self._note(effect)
            if isinstance(effect, wanted) if isinstance(wanted, type) else wanted(effect):
                return effect
        raise AssertionError("a session's effects do not end")

    def until_event(self, kind, **data):
        """Return the first later durable event of a type, with this data."""
        found = []

        def wanted(effect):
            events = effect.events if isinstance(effect, EventsApplied) else ()
            found.extend(
                event for event in events if event.type == kind and event.data.items() >= data.items()
            )
            return bool(found)

        self.until(wanted)
        return found[0]

    def until_answering(self):
        """Wait until some text of an answer is shown; return its stream."""
        return self.until(lambda effect: isinstance(effect, TextAppended) and ANSWER in effect.lane).claim

    def until_idle(self):
        """Return the end of the turn that leaves the conversation idle."""
        return self.until(lambda effect: isinstance(effect, TurnEnded) and not self.state.open)

    def until_settled(self):
        """Return the last turn's end, once all messages of this device have ended."""
        if not self.settled():
            self.until(lambda _: self.settled())
        return self.ends()[-1]

    def settled(self):
        """Return True if a turn has ended since the last acknowledged message of this device, and none is open."""
        terminals = sum(event.type in TERMINAL for _, events in self.events for event in events)
        said = max((effect.frame.n for effect in self.effects if isinstance(effect, Acknowledged)), default=0)
        ended = max((end.n for end in self.ends()), default=0)
        resting = not self.state.open and not self.state.unacked
        return ended > said and resting and terminals == len(self.ends())

    def sync(self):
        """Request everything in the log, and wait until it has arrived; an earlier answer does not count."""
        newest = self._stored()[-1][0]
        self._clock.hope()
        self.session.listen()
        self.until(
            lambda effect: (
                isinstance(effect, Synced) and not self.state.behind() and self.events[-1][0] >= newest
            )
        )

    def ends(self):
        return [effect for effect in self.effects if isinstance(effect, TurnEnded)]

    def happened(self, kind):
        """Return the durable events of a type."""
        return [event for _, events in self.events for event in events if event.type == kind]

    def answer_of(self, claim):
        """Return the shown text of the answer of a stream."""
        return "".join(
            text for (stream, lane), text in self.texts.items() if stream == claim and ANSWER in lane
        )

    def _note(self, effect):
        self.effects.append(effect)
        match effect:
            case EventsApplied(n=n, events=events):
                self.events.append((n, events))
            case TextAppended(claim=claim, lane=lane, off=off, text=text):
                assert off == len(self.texts[claim, lane]), f"text of {lane} does not continue at its end"
                self.texts[claim, lane] += text
            case StreamReset(claim=claim):
                for key in [key for key in self.texts if key[0] == claim]:
                    del self.texts[key]
            case TurnEnded(outcome="error", code=code) if not self._fails:
                raise AssertionError(f"the turn ended with {code}")
            case Refused(frame=frame):
                raise AssertionError(f"refused with {frame.code}: {frame.message}")


def stored_batches(stage, conversation):
    """Return the batches of a conversation as the functions read them."""
    log, _ = open_log(stage.deployed)
    return log.since(make_lane("local", "default", conversation), 0, consistent=True)


def stored_events(stage, conversation):
    """Return the durable events of a conversation, derived from its log, by batch."""
    sift = EventFilter().sift
    derived = (
        (batch.n, derive(batch, make_lane("local", "default", conversation)))
        for batch in stored_batches(stage, conversation)
    )
    return [(n, sift(events).events) for n, events in derived if events]


def check_devices(stage, conversation, *devices):
    """Assert that each device has every durable event of the log once and in order, and the recorded answers."""
    expected = stored_events(stage, conversation)
    recorded = [
        event.data.get("answer", "") for _, events in expected for event in events if event.type in TERMINAL
    ]
    for device in devices:
        numbers = [n for n, _ in device.events]
        assert numbers == [n for n, _ in expected], (
            f"lost, repeated or out of order: {numbers} of {expected[-1][0]}"
        )
        assert device.events == expected
        assert [end.answer for end in device.ends()] == recorded
    for one, other in itertools.pairwise(devices):
        assert one.events == other.events
