"""Replays of single rounds over the memory twins: the test calls the function itself."""

from __future__ import annotations

from dataclasses import replace

from stepline.adapters.memory.model import MODEL, Fail, MemoryModelClient, Say
from stepline.adapters.memory.replays.replay_rows import MemoryReplays
from stepline.adapters.memory.tenancy.erasure import MemoryErasure
from stepline.inspection.replay_request import ReplayPorts
from stepline.log.bindings import Ports
from stepline.loop.agent import Agent
from stepline.loop.replays.replay_round import ChosenModel, ReplayDesk, replay_round
from stepline.metering.ledger import Ledger
from stepline.ports.model import ModelClient
from stepline.ports.round_replay import ReplayCall
from tests.support.conversation import Conversation

OTHER = "memory-large"


def replay_ports(ports: Ports, started: list[ReplayCall] | None = None) -> ReplayPorts:
    """Return the ports of the API; the calls of the function are added to `started`."""
    rows = MemoryReplays(ports.clock)
    if isinstance(ports.erasure, MemoryErasure):
        ports.erasure.erase_also(rows)
    return ReplayPorts(
        replays=rows, start=(started if started is not None else []).append, models=(MODEL, OTHER)
    )


class Replays:
    """Replays of a conversation's rounds, by a model with a script of its own."""

    def __init__(self, conversation: Conversation, *script: Say | Fail | str) -> None:
        self.conversation = conversation
        self.model = MemoryModelClient(*script)
        self.client: ModelClient = self.model
        self.started: list[ReplayCall] = []
        self.ports = replay_ports(conversation.ports, self.started)
        self.chosen: list[tuple[str, str]] = []
        self.ledger = Ledger()

    def make(self, call: ReplayCall | None = None) -> str:
        """Make the oldest replay that was started, or one again."""
        self.ledger = Ledger()
        desk = ReplayDesk(
            ports=replace(self.conversation.ports, ledger=self.ledger),
            replays=self.ports.replays,
            history=self.conversation.history,
            agent=lambda: self.conversation.agent,
            choose=self._choose,
        )
        return replay_round(desk, call or self.started.pop(0))

    def _choose(self, _agent: Agent, model: str, effort: str) -> ChosenModel:
        self.chosen.append((model, effort))
        return ChosenModel(client=self.client, named=model or MODEL)
