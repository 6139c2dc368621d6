"""Fifty clients in twenty conversations whose connections break while answers stream: all see the same, and all of it."""

from __future__ import annotations

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import pytest

from stepline.local.client.change import Acknowledged, EventsApplied
from stepline.local.client.websocket import dial_gateway
from stepline.local.stage.lifecycle import mint
from stepline.model.entry import Decided
from tests.e2e.broken_connection import Cable
from tests.e2e.mode import unhindered
from tests.e2e.session_client import PATIENCE_S, Device, check_devices, stored_batches
from tests.e2e.stage import Stage, a_word
from tests.e2e.test_recovery import check_log
from tests.support.budget import budget

pytestmark = pytest.mark.emulator

CLIENTS, CONVERSATIONS = budget((16, 6), (50, 20))
TURNS_AT_ONCE = 8
DIALS_AT_ONCE = 5
TOKEN_DELAY_MS = 20
RESUMES = 0.02
"""The share of actions that are a needless resume."""


class Party:
    """One conversation and its devices. The first one begins, the second says more in mid-turn, the rest listen."""

    def __init__(self, deployed, conversation, chance, devices):
        self.stage, self.conversation = Stage(deployed), conversation
        self.words = [a_word(), a_word()]
        self.cables = [self._cable(chance) for _ in range(devices)]
        self.devices = [Device(self.stage, conversation, dial=cable) for cable in self.cables]
        self._begun = threading.Event()
        self.stage.fault(kind="slow_tokens", match=self.words[0], count=9, token_delay_ms=TOKEN_DELAY_MS)

    def _cable(self, chance):
        """Return a cable that breaks a few times, at first soon, then soon or late."""
        deployed, user = self.stage.deployed, self.stage.user
        pulls = [chance.randrange(1, 4), *(chance.randrange(1, 40) for _ in range(chance.randrange(3)))]
        return Cable(dial_gateway(deployed.socket_url, lambda: mint(deployed, user)), pulls)

    def begin(self, device):
        """Say something, so that there is a conversation to listen to."""
        device.session.say(f"Tell me about the word {self.words[0]}.")
        device.until(Acknowledged)
        self._begun.set()

    def join(self, device):
        """Listen from the beginning, as soon as there is something to listen to."""
        assert self._begun.wait(5 * PATIENCE_S)
        device.session.listen()
        device.until(EventsApplied)

    def check(self):
        """Assert that every device has all of it, once and in order, and that no text was shown that is not recorded."""
        for device in self.devices:
            device.sync()
            device.__exit__(None, None, None)
        check_devices(self.stage, self.conversation, *self.devices)
        check_log(self.stage, self.conversation)
        answers = {
            entry.claim: entry.answer
            for batch in stored_batches(self.stage, self.conversation)
            for entry in batch.entries
            if isinstance(entry, Decided) and entry.answer
        }
        for device in self.devices:
            assert all(answers[claim].startswith(device.answer_of(claim)) for claim in answers)
        said = "".join(answers.values())
        assert all(word in said for word in self.words)


class Storm:
    """Plays the conversation of every device; open turns and dials at once are limited."""

    def __init__(self):
        self._turns = threading.Semaphore(TURNS_AT_ONCE)
        self._dials = threading.Semaphore(DIALS_AT_ONCE)

    def live(self, party, at):
        device = party.devices[at]
        with self._dials:
            device.__enter__()
        with self._turns if at == 0 else nullcontext():
            (party.join if at else party.begin)(device)
            if at == 1:
                device.session.say(f"And the word {party.words[1]}?")
            chance = random.Random(f"{party.conversation}-{at}")
            while not device.settled():
                device.until(lambda _: device.settled() or chance.random() < RESUMES)
                device.session.listen()


def test_a_storm_of_reconnects_leaves_every_client_with_the_same_events(scripted, conversation, report):
    scripted.send("Hello there.", f"{conversation}-warm")
    chance, storm = random.Random(7), Storm()
    sizes = [2 + (at < CLIENTS - 2 * CONVERSATIONS) for at in range(CONVERSATIONS)]
    began_s = time.monotonic()
    with unhindered(scripted), ThreadPoolExecutor(CLIENTS) as pool:
        parties = [
            Party(scripted.deployed, f"{conversation}-{at}", chance, size) for at, size in enumerate(sizes)
        ]
        lives = [pool.submit(storm.live, party, at) for party in parties for at in range(len(party.devices))]
        for life in lives:
            life.result()
    for party in parties:
        party.check()
    cables = [cable for party in parties for cable in party.cables]
    pulled = sum(cable.pulled for cable in cables)
    events = sum(len(batch) for party in parties for device in party.devices for _, batch in device.events)
    report(
        f"{len(lives)} clients, {len(parties)} conversations, {pulled} broken connections, {events} events, "
        f"{time.monotonic() - began_s:.0f} s"
    )
    assert len(lives) == CLIENTS
    assert pulled >= CONVERSATIONS  # a busy machine sends longer deltas, and so fewer frames
