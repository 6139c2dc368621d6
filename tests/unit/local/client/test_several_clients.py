"""Several devices of one user in one conversation, on the real loop.

Whatever is lost, repeated or reordered on the way, all devices end with the same state, and every message is admitted
once.
"""

from __future__ import annotations

import json

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from msgspec.structs import replace

from stepline.adapters.memory.model import Say
from stepline.events.derive import derive
from stepline.ingress.message import receive
from stepline.local.client.change import EventsApplied, HandedBack, Steered, TurnEnded
from stepline.local.client.control import Control
from stepline.local.client.outgoing import Said
from stepline.local.client.reducer import fold_frame, resume_request
from stepline.local.client.state import ClientState, note_message, send_request
from stepline.model.entry import Closed, Dropped, Inbound, SteeredEntry
from stepline.model.tenancy.limits import Limits, ScopeLimits
from stepline.model.wire.event import decode_frame
from stepline.model.wire.live_event import STEER, STOP
from tests.support.budget import budget
from tests.support.conversation import LANE, Conversation, follow
from tests.support.generation import answered, called

NAMES = ("phone", "laptop", "tablet")
READ = called("react.read", {"paths": ["so:sources_pool"]}, notes="I look.")
ANSWER = answered("A rather long answer, " * 20)
HUGE = Say(text=answered("A huge answer, " * 3_000), piece_chars=4_000)


class Device:
    """One client: its state, the frames on the way to it, and the effects it showed its user."""

    def __init__(self, conversation, name):
        self.conversation = conversation
        self.name = name
        self.lives = 0
        self.state = ClientState(conversation=LANE.conversation)
        self.flight = []
        self.shown = []
        self.connect()

    @property
    def connection(self):
        return f"{self.name}.{self.lives}"

    def connect(self):
        self.lives += 1
        self.flight.clear()
        self.inbox = self.conversation.connect(self.connection)

    def ask(self, request):
        receive(self.conversation.ports, self.connection, json.dumps(request))

    def take(self):
        """Read the gateway's messages since the last call."""
        self.flight += [decode_frame(body) for body in self.inbox]
        self.inbox.clear()

    def fold(self, frame):
        self.state, effects = fold_frame(self.state, frame)
        self.shown += [
            effect
            for effect in effects
            if isinstance(effect, EventsApplied | TurnEnded | Steered | HandedBack)
        ]

    def fold_all(self):
        self.take()
        while self.flight:
            self.fold(self.flight.pop(0))

    def known(self):
        """Return the state without facts that may differ between devices: settled text, and the newest known batch."""
        live = self.state.streaming()
        return replace(
            self.state,
            newest=self.state.cursor,
            lanes=self.state.lanes if live else {},
            control=self.state.control if live else Control(),
        )


class Devices(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.conversation = Conversation(
            *[READ, HUGE, READ, ANSWER] * 30, limits=ScopeLimits(user=Limits(messages_per_minute=0))
        )
        self.devices = [Device(self.conversation, name) for name in NAMES]
        self.said = 0
        self.step = None

    def say(self, device, said):
        self.said += 1
        message_id = f"m{self.said}"
        device.state = note_message(device.state, message_id, said)
        device.ask(send_request(device.state, message_id))

    @rule(who=st.sampled_from(range(3)))
    def a_device_speaks(self, who):
        self.say(self.devices[who], Said(text=f"message {self.said}"))

    @rule(who=st.sampled_from(range(3)), stops=st.booleans())
    def a_device_steers(self, who, stops):
        self.say(self.devices[who], Said(kind=STOP) if stops else Said(kind=STEER, text="shorter"))

    @rule(who=st.sampled_from(range(3)))
    def a_device_repeats_everything(self, who):
        device = self.devices[who]
        for message_id in list(device.state.unacked):
            device.ask(send_request(device.state, message_id))

    @rule()
    def the_turn_goes_on(self):
        if self.step is None:
            if not self.conversation.machine.queue:
                return
            self.execution, step = self.conversation.take()
            self.step = ("decide", step)
        state, step = self.step
        step = self.conversation.states[state](step)
        self.step = None if step.route in ("stop", "done") else (follow(state, step.route), step)
        if self.step is None:
            self.conversation.machine.end(self.execution)

    @rule(who=st.sampled_from(range(3)), pick=st.integers(0, 1_000), again=st.booleans())
    def a_frame_arrives(self, who, pick, again):
        device = self.devices[who]
        device.take()
        if device.flight:
            at = pick % len(device.flight)
            device.fold(device.flight[at] if again else device.flight.pop(at))

    @rule(who=st.sampled_from(range(3)), share=st.integers(1, 4))
    def frames_are_lost(self, who, share):
        device = self.devices[who]
        device.take()
        device.flight = [frame for at, frame in enumerate(device.flight) if at % share]

    @rule(who=st.sampled_from(range(3)))
    def everything_arrives(self, who):
        self.devices[who].fold_all()

    @rule(who=st.sampled_from(range(3)))
    def a_device_asks_for_the_rest(self, who):
        device = self.devices[who]
        device.ask(resume_request(device.state))

    @rule(who=st.sampled_from(range(3)), closes=st.booleans())
    def a_connection_breaks(self, who, closes):
        device = self.devices[who]
        if closes:  # else the server does not know, and posts to it for a while
            self.conversation.ports.publisher.close(device.connection)
        device.connect()
        device.ask(resume_request(device.state))

    @invariant()
    def every_device_showed_a_prefix_of_the_log(self):
        log = [batch.n for batch in self.conversation.batches() if derive(batch)]
        for device in self.devices:
            shown = [effect.n for effect in device.shown if isinstance(effect, EventsApplied)]
            assert shown == log[: len(shown)]

    def teardown(self):
        for device in self.devices:
            for message_id in list(device.state.unacked):
                device.ask(send_request(device.state, message_id))
        while self.step or self.conversation.machine.queue:
            self.the_turn_goes_on()
        for device in self.devices:
            device.fold_all()
            device.ask(resume_request(device.state))
            device.fold_all()
            assert not device.state.unacked
            assert not device.state.open
            assert device.state.queued == {}
        first, *others = (device.known() for device in self.devices)
        assert others == [first, first]
        shown = [device.shown for device in self.devices]
        assert shown[0] == shown[1] == shown[2]
        handed = [(e.message_id, e.n) for e in shown[0] if isinstance(e, HandedBack)]
        assert handed == [(entry.message_id, entry.n) for entry in self.conversation.entries(Dropped)]
        assert sum(isinstance(effect, Steered) for effect in shown[0]) == len(
            self.conversation.entries(SteeredEntry)
        )
        assert sum(isinstance(effect, TurnEnded) for effect in shown[0]) == len(
            self.conversation.entries(Closed)
        )
        texts = {entry.message_id: entry.text for entry in self.conversation.entries(Inbound)}
        assert all(e.text == texts[e.message_id] for e in shown[0] if isinstance(e, HandedBack))
        admitted = [entry.message_id for entry in self.conversation.entries(Inbound)]
        assert sorted(admitted) == sorted(f"m{number}" for number in range(1, self.said + 1))


TestDevices = Devices.TestCase
TestDevices.settings = settings(max_examples=budget(15, 600), stateful_step_count=40, deadline=None)
