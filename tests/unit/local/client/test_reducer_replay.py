"""Any loss, repetition and reordering, and a break at any point: the client ends with exactly the server's data.

The server of this test keeps a log whose batches mostly have events, and a running stream that is posted in fine pieces
and stored in coarse ones. Everything it posts may be lost, repeated, late, or cut by a break.
"""

from __future__ import annotations

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from stepline.local.client.change import (
    EventsApplied,
    LaneEnded,
    LaneKnown,
    StreamReset,
    TextAppended,
    TurnEnded,
)
from stepline.local.client.reducer import ClientState, fold_frame, resume_request
from stepline.model.wire.event import CONTROL_LANE, ClientEvent, DeltaFrame, SyncFrame, frame_events
from stepline.protocol.stream.lane import LaneClosed, LaneFacts, LaneOpened
from tests.support.budget import budget

C = "c1"
TEXTS = ("thinking", "answer")
LANES = (*TEXTS, CONTROL_LANE)
ALPHABET = "abcdefghijklmnopqrstuvwxyzé→🙂"


def event(kind, **data):
    return ClientEvent(type=kind, route="chat_step", ts="", data=data)


class Server:
    """The remote end, without a network."""

    def __init__(self):
        self.batches = []  # (n, prev, claim, events), including batches without events
        self.claim = 0
        self.open = False
        self.full = dict.fromkeys(LANES, "")
        self.stored = dict.fromkeys(LANES, 0)
        self.lane_events = []  # the posted events of its lanes

    @property
    def prev(self):
        return next((n for n, _, _, events in reversed(self.batches) if events), 0)

    def put(self, *events, claims=False):
        n = len(self.batches) + 1
        if claims:
            self.claim = n
            self.full = dict.fromkeys(LANES, "")
            self.stored = dict.fromkeys(LANES, 0)
            self.lane_events = []
        self.batches.append((n, self.prev, self.claim, events))
        return self.frames(n)

    def frames(self, n):
        _, prev, claim, events = self.batches[n - 1]
        return frame_events(C, n=n, prev=prev, claim=claim, events=events) if events else []

    def post(self, lane, chars):
        off = len(self.full[lane])
        return self.push(lane, "".join(ALPHABET[(off + i) % len(ALPHABET)] for i in range(chars)))

    def post_lane_event(self, lane, number, *, close):
        """Post the beginning or the end of a lane; after the texts there is one that never has any."""
        name = f"{lane}.{number}" if number else lane
        facts = LaneFacts(marker="canvas", artifact_name=f"a\u2028{number}.md")
        chars = len(self.full.get(name, ""))
        event = LaneClosed(lane=name, chars=chars) if close else LaneOpened(lane=name, facts=facts)
        self.lane_events.append(event)
        line = msgspec.json.encode(event).decode() + "\n"
        return [self.push(CONTROL_LANE, line[:20]), self.push(CONTROL_LANE, line[20:])]

    def push(self, lane, text):
        off = len(self.full[lane])
        self.full[lane] += text
        return DeltaFrame(conversation=C, claim=self.claim, lane=lane, off=off, text=text)

    def replay(self, request):
        frames = [
            frame for n in range(request["after"] + 1, len(self.batches) + 1) for frame in self.frames(n)
        ]
        if self.claim:
            stream = request.get("stream", {"claim": 0})
            have = stream["off"] if stream["claim"] == self.claim else {}
            for lane in LANES:
                off = have.get(lane, 0)
                if off < self.stored[lane]:
                    text = self.full[lane][off : self.stored[lane]]
                    frames.append(DeltaFrame(conversation=C, claim=self.claim, lane=lane, off=off, text=text))
        return [*frames, SyncFrame(conversation=C, n=self.prev, claim=self.claim, open=self.open)]


class Replay(RuleBasedStateMachine):
    big_chars = 40_000

    def __init__(self):
        super().__init__()
        self.server = Server()
        self.client = ClientState(conversation=C)
        self.flight = []
        self.applied = []
        self.screen = {}
        self.known = []
        self.ended = []
        self.ends = 0

    def fold(self, frame):
        self.client, effects = fold_frame(self.client, frame)
        for effect in effects:
            match effect:
                case EventsApplied():
                    self.applied.append((effect.n, effect.prev, effect.events))
                case StreamReset():
                    self.screen = {}
                case LaneKnown(claim=claim, lane=lane, facts=facts):
                    self.known.append((claim, lane, facts))
                case LaneEnded(claim=claim, lane=lane, chars=chars):
                    assert chars <= len(self.screen.get((claim, lane), ""))
                    self.ended.append((claim, lane, chars))
                case TextAppended(claim=claim, lane=lane, off=off, text=text):
                    shown = self.screen.get((claim, lane), "")
                    assert off == len(shown)
                    self.screen[claim, lane] = shown + text
                case TurnEnded():
                    self.ends += 1

    @rule()
    def the_turn_opens(self):
        if not self.server.open:
            self.server.open = True
            self.flight += self.server.put(event("chat.start"), claims=True)

    @rule(lane=st.sampled_from(TEXTS), chars=st.integers(1, 40))
    def the_model_streams(self, lane, chars):
        if self.server.claim:
            self.flight.append(self.server.post(lane, chars))

    @rule(lane=st.sampled_from(TEXTS), number=st.integers(0, 2), close=st.booleans())
    def the_stream_reports_a_lane(self, lane, number, close):
        if self.server.claim:
            self.flight += self.server.post_lane_event(lane, number, close=close)

    @rule(lane=st.sampled_from(LANES))
    def the_stream_is_stored(self, lane):
        self.server.stored[lane] = len(self.server.full[lane])

    @rule()
    def the_round_restarts(self):
        if self.server.claim:
            self.flight += self.server.put(event("round.restarted"), claims=True)

    @rule(big=st.booleans())
    def the_round_is_decided(self, big):
        if self.server.claim:
            body = "x" * self.big_chars if big else ""
            self.flight += self.server.put(event("solver.react.decision", claim=self.server.claim, body=body))
            self.server.put()  # a batch without events
            self.flight += self.server.put(event("react.tool.result"), claims=True)

    @rule(promote=st.booleans())
    def the_turn_closes(self, promote):
        if self.server.open:
            started = (event("chat.start"),) if promote else ()
            self.flight += self.server.put(event("chat.complete", answer="done"), *started, claims=True)
            if not promote:
                self.server.claim, self.server.open = 0, False

    @rule(pick=st.integers(0, 1_000))
    def a_frame_arrives(self, pick):
        if self.flight:
            self.fold(self.flight.pop(pick % len(self.flight)))

    @rule(pick=st.integers(0, 1_000))
    def a_frame_arrives_and_will_come_again(self, pick):
        if self.flight:
            self.fold(self.flight[pick % len(self.flight)])

    @rule(pick=st.integers(0, 1_000))
    def a_frame_is_lost(self, pick):
        if self.flight:
            self.flight.pop(pick % len(self.flight))

    @rule()
    def the_client_asks_for_the_rest(self):
        self.flight += self.server.replay(resume_request(self.client))

    @rule()
    def the_connection_breaks(self):
        self.flight.clear()
        self.the_client_asks_for_the_rest()

    @invariant()
    def the_events_are_a_prefix_of_the_log(self):
        log = [(n, prev, events) for n, prev, _, events in self.server.batches if events]
        assert self.applied == log[: len(self.applied)]

    @invariant()
    def the_text_is_a_prefix_of_the_stream(self):
        if self.client.streaming() and self.client.claim == self.server.claim:
            for lane in LANES:
                assert self.server.full[lane].startswith(self.client.text(lane))
                shown = self.screen.get((self.client.claim, lane), "")
                assert shown == ("" if lane == CONTROL_LANE else self.client.text(lane))

    @invariant()
    def known_lanes_were_reported_in_order(self):
        if self.client.streaming() and self.client.claim == self.server.claim:
            opened = [(e.lane, e.facts) for e in self.server.lane_events if isinstance(e, LaneOpened)]
            known = [(lane, facts) for claim, lane, facts in self.known if claim == self.server.claim]
            assert known == opened[: len(known)]

    def teardown(self):
        self.flight.clear()
        for lane in LANES:
            self.the_stream_is_stored(lane)
        missing = self.server.replay(resume_request(self.client))
        events = {frame.n for frame in missing if hasattr(frame, "parts")}
        assert not events & {n for n, _, _ in self.applied}, "a replay repeats what the client has"
        for frame in missing:
            self.fold(frame)
        assert not self.client.behind()
        assert [n for n, _, _ in self.applied] == [n for n, _, _, events in self.server.batches if events]
        closes = [e for _, _, _, events in self.server.batches for e in events if e.type == "chat.complete"]
        assert self.ends == len(closes)
        assert self.client.open == self.server.open
        if self.server.claim:
            assert {lane: self.client.text(lane) for lane in LANES} == self.server.full
            opened = [(e.lane, e.facts) for e in self.server.lane_events if isinstance(e, LaneOpened)]
            assert [
                (lane, facts) for claim, lane, facts in self.known if claim == self.server.claim
            ] == opened
            last = {e.lane: e.chars for e in self.server.lane_events if isinstance(e, LaneClosed)}
            ended = [(lane, chars) for claim, lane, chars in self.ended if claim == self.server.claim]
            assert {(lane, chars) for lane, chars in last.items() if chars} <= set(ended)


TestReplay = Replay.TestCase
TestReplay.settings = settings(max_examples=budget(25, 3000), stateful_step_count=60)
