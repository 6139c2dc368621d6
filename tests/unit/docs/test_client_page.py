"""The client of docs/how-to/client.md against the use cases of the websocket, its connection cut at every frame."""

import json
import socket
import threading
from contextlib import contextmanager, suppress
from dataclasses import replace
from types import SimpleNamespace

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.server import serve

from stepline.adapters.memory.model import Say
from stepline.adapters.memory.relay import MemoryRelay
from stepline.delivery.posting import GatewayBroadcast
from stepline.delivery.resume import resume
from stepline.errors import Gone
from stepline.ingress.message import receive
from stepline.model.entry import Inbound
from stepline.model.tenancy.limits import Limits, ScopeLimits
from stepline.ports.channel import Principal
from tests.support.conversation import FAR, LANE, USER, Conversation, durable
from tests.support.generation import answered, called
from tests.unit.docs.source import DOCS, run_blocks

PAGE = DOCS / "how-to/client.md"
ANSWER = "All is quiet: nothing moves, nobody speaks, and the last lamp has gone out."
WAIT_S = 60
PRINCIPAL = Principal(tenant=LANE.tenant, project=LANE.project, user=USER, expires_at=FAR)


@pytest.fixture
def page():
    """The page's names, its blocks run one after the other."""
    names = run_blocks(PAGE)
    names["time"] = SimpleNamespace(sleep=lambda _: None)
    return names


class FarEnd:
    """A websocket over one conversation, and the target of its posts; the first connection is cut after `cut_after` frames.

    Then the turn pauses until the client has reconnected and resumed, so that the client is in the middle of it.
    """

    def __init__(self, conversation, cut_after):
        self.conversation = conversation
        self.connections = 0
        self.is_cut = False
        self._left = cut_after
        self._open = {}
        self._turns = []
        self._resumed = threading.Event()
        ports = conversation.ports
        conversation.ports = replace(
            ports,
            publisher=self,
            broadcast=GatewayBroadcast(
                subscriptions=ports.subscriptions, publisher=self, meter=ports.meter, clock=ports.clock
            ),
            relay=MemoryRelay(deltas=ports.deltas, subscriptions=ports.subscriptions, publisher=self),
        )

    def post(self, connection, frame):
        if connection not in self._open:
            raise Gone("the connection no longer exists", connection=connection)
        if connection == "k1" and self._left is not None:
            if not self._left:
                self.is_cut = True
                self._open.pop(connection).socket.shutdown(socket.SHUT_RDWR)
                assert self._resumed.wait(WAIT_S)
                return
            self._left -= 1
        try:
            self._open[connection].send(frame.decode())
        except ConnectionClosed as closed:  # the client has all it asked for
            raise Gone("the connection no longer exists", connection=connection) from closed

    def serve(self, websocket):
        self.connections += 1
        name = f"k{self.connections}"
        self._open[name] = websocket
        self.conversation.ports.subscriptions.connect(name, PRINCIPAL)
        with suppress(ConnectionClosed):
            for text in websocket:
                receive(self.conversation.ports, name, text)
                if json.loads(text)["action"] == "resume" and self.connections > 1:
                    self._resumed.set()
                while self.conversation.machine.queue:
                    self._turns.append(
                        threading.Thread(target=self.conversation.drive, args=self.conversation.take()[1:])
                    )
                    self._turns[-1].start()
        self._open.pop(name, None)

    def join(self):
        for turn in self._turns:
            turn.join(WAIT_S)
            assert not turn.is_alive()


@contextmanager
def reachable(far):
    """Yield the address of a far end."""
    with serve(far.serve, "127.0.0.1", 0, close_timeout=1) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"ws://127.0.0.1:{server.socket.getsockname()[1]}/live"
        far.join()
        server.shutdown()
        thread.join()


def converse(page, cut_after):
    """Let the page's client ask once over a connection that is cut; return the far end and what was shown."""
    far = FarEnd(Conversation(called("react.plan"), Say(text=answered(ANSWER), piece_chars=5)), cut_after)
    shown = []
    with reachable(far) as url:
        client = page["Client"](LANE.conversation, lambda: (url, "t"), lambda *what: shown.append(what))
        end = client.ask("hello")
    return far, end, shown


def shown_events(conversation):
    """Return what a client that never lost anything has heard: the events of the log, from its first one on."""
    inbox = conversation.app.ports.publisher.open("late")
    ports = replace(conversation.ports, publisher=conversation.app.ports.publisher)
    resume(ports, LANE, user=USER, connection="late", until_s=FAR, after=0, have={}, claim=0)
    return [(n, event.type) for n, events in durable(inbox) for event in events]


def check(far, end, shown):
    """Compare the shown events with the log, and each lane with the model's text."""
    events = [(at, what["type"]) for lane, at, what in shown if lane == "event"]
    events = [(at, what["type"]) for lane, at, what in shown if lane == "event"]
    assert events == shown_events(far.conversation)
    assert (end["type"], end["data"]["answer"]) == ("chat.complete", ANSWER)
    answer = ""
    for lane, at, what in shown:
        if lane == "answer.0":
            assert at == len(answer)
            answer += what
    assert ANSWER.startswith(answer)
    return answer


def test_the_client_of_the_page_shows_running_text_and_every_event(page):
    far, end, shown = converse(page, None)
    assert check(far, end, shown) == ANSWER
    assert far.connections == 1
    assert sum(lane == "answer.0" for lane, _, _ in shown) > 1


def test_a_client_gets_exactly_the_events_missed_during_a_broken_connection(page):
    cut_after, streamed = 0, 0
    while True:
        far, end, shown = converse(page, cut_after)
        answer = check(far, end, shown)
        if not far.is_cut:
            break
        assert far.connections == 2
        streamed += answer == ANSWER
        cut_after += 1
    assert cut_after > 10
    assert streamed


def test_overlapping_pieces_are_one_text_and_a_newer_claim_begins_another(page):
    shown = []
    client = page["Client"]("c", None, lambda *what: shown.append(what))

    def hear(claim, off, text):
        return client.misses({"frame": "delta", "claim": claim, "lane": "answer.0", "off": off, "text": text})

    assert [hear(1, 0, "All is"), hear(1, 4, "is quiet"), hear(1, 0, "All"), hear(1, 20, "x")] == [
        *(False, False, False),
        True,
    ]
    assert hear(2, 0, "No.") is False
    assert hear(1, 12, " here") is False
    assert shown == [("answer.0", 0, "All is"), ("answer.0", 6, " quiet"), ("answer.0", 0, "No.")]


def test_the_parts_of_a_batch_may_arrive_in_any_order(page):
    shown = []
    client = page["Client"]("c", None, lambda *what: shown.append(what))
    whole = json.dumps([{"type": "chat.start"}, {"type": "chat.step"}])
    for part, piece in ((2, whole[9:]), (1, whole[:9]), (1, whole[:9])):
        client.misses({"frame": "events", "n": 1, "prev": 0, "part": part, "parts": 2, "piece": piece})
    assert shown == [("event", 1, {"type": "chat.start"}), ("event", 1, {"type": "chat.step"})]


def test_a_rate_limited_message_is_sent_again_when_the_server_allows_it(page):
    far = FarEnd(Conversation(Say(text=answered(ANSWER)), Say(text=answered(ANSWER))), None)
    ports, waited_s = far.conversation.ports, []

    def sleep(seconds):
        waited_s.append(seconds)
        ports.clock.pause(seconds)

    far.conversation.ports = replace(
        far.conversation.ports,
        policy=replace(ports.policy, limits=ScopeLimits(user=Limits(messages_per_minute=1))),
    )
    page["time"] = SimpleNamespace(sleep=sleep)
    with reachable(far) as url:
        for _ in range(2):
            page["Client"](LANE.conversation, lambda: (url, "t"), lambda *_: None).ask("hello")
    assert len(waited_s) == 1
    assert 1 < waited_s[0] <= 60
    said = [entry for entry in far.conversation.entries(Inbound) if entry.text == "hello"]
    assert len(said) == 2


def test_a_refused_message_is_reported_and_not_retried(page):
    far = FarEnd(Conversation(), None)
    with reachable(far) as url, pytest.raises(RuntimeError, match="bad_message: `text` must not be empty"):
        page["Client"](LANE.conversation, lambda: (url, "t"), print).ask("")
    assert far.connections == 1
