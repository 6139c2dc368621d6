"""Backends of the ports: in memory, on moto, and on the emulator if STEPLINE_TEST_ENDPOINT names one.

Backends live as long as a test module and are never emptied: every test uses a new lane.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from stepline.adapters.aws.client import session
from stepline.adapters.memory.artifacts import MemoryArtifacts
from stepline.adapters.memory.channel import MemorySubscriptions
from stepline.adapters.memory.clock import MemoryClock
from stepline.adapters.memory.delta import MemoryDeltas
from stepline.adapters.memory.grant import MemoryGrants
from stepline.adapters.memory.log import MemoryLog
from stepline.adapters.memory.machine import MemoryMachine
from stepline.adapters.memory.replays.replay_rows import MemoryReplays
from stepline.adapters.memory.task import MemoryTasks
from stepline.adapters.memory.tenancy.accounts import MemoryAccounts, MemoryCosts, MemoryRate
from stepline.adapters.memory.tenancy.erasure import MemoryErasure
from stepline.adapters.memory.ticket import MemoryTickets
from stepline.adapters.memory.upload.quarantine import MemoryUploads
from stepline.adapters.redis import connection
from stepline.local.stage.deployed import credentials
from stepline.model.ids import Lane
from tests.support.aws import Aws, Faults, moto

from .redis_server import RedisServer

# The emulator's address is no setting of the product.
ENDPOINT = os.environ.get("STEPLINE_TEST_ENDPOINT", "")  # noqa: TID251


class Memory:
    """Every port in this process."""

    def __init__(self) -> None:
        self.clock = MemoryClock()
        self.log = MemoryLog()
        self.artifacts = MemoryArtifacts()
        self.subscriptions = MemorySubscriptions(self.clock)
        self.tickets = MemoryTickets(self.clock)
        self.rate = MemoryRate()
        self.accounts = MemoryAccounts()
        self.costs = MemoryCosts()
        self.deltas = MemoryDeltas(self.clock)
        self.machine = MemoryMachine()
        self.tasks = self.task_token = MemoryTasks(self.clock)
        self.grants = MemoryGrants(self.artifacts, self.clock)
        self.uploads = MemoryUploads()
        self.replays = MemoryReplays(self.clock)
        beside = (self.deltas, self.subscriptions, self.uploads, self.replays, self.costs)
        self.erasure = MemoryErasure(self.log, self.artifacts, *beside)


@pytest.fixture(scope="module")
def moto_aws() -> Iterator[Aws]:
    with moto(one_by_one=True):
        yield Aws()


@pytest.fixture(scope="module")
def emulator_aws() -> Iterator[Aws]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", ENDPOINT)
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        for name, value in credentials().items():
            patch.setenv(name, value)
        session.cache_clear()
        aws = Aws()
        yield aws
        aws.delete()
        session.cache_clear()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not ENDPOINT:
        terminalreporter.line("contract suites: not run on the emulator, STEPLINE_TEST_ENDPOINT names none")


MOTO = pytest.param("moto_aws", id="moto")
EMULATOR = pytest.param("emulator_aws", id="emulator", marks=pytest.mark.emulator)
STORED = [MOTO, EMULATOR] if ENDPOINT else [MOTO]


@pytest.fixture(params=["memory", *STORED])
def backend(request: pytest.FixtureRequest) -> Memory | Aws:
    found: Memory | Aws = Memory() if request.param == "memory" else request.getfixturevalue(request.param)
    return found


@pytest.fixture(params=STORED)
def aws(request: pytest.FixtureRequest) -> Aws:
    found: Aws = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def lane() -> Lane:
    return Lane(tenant="acme", project="docs", conversation=f"c-{uuid.uuid4().hex}")


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> Iterator[Faults]:
    found = Faults(monkeypatch)
    yield found
    found.close()


@contextmanager
def running(server: RedisServer) -> Iterator[RedisServer]:
    """Run a server, and have its clients wait for its answers: on a busy machine they may take longer than a second."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("CONNECT_S", "ANSWER_S"):
            patch.setattr(connection, name, 60.0)
        server.start()
        yield server
        server.stop()


@pytest.fixture(scope="module")
def redis_server(tmp_path_factory) -> Iterator[RedisServer]:
    with running(RedisServer(tmp_path_factory.mktemp("redis"))) as server:
        yield server


@pytest.fixture(scope="module")
def tls_server(tmp_path_factory) -> Iterator[RedisServer]:
    with running(RedisServer(tmp_path_factory.mktemp("redis-tls"), tls=True)) as server:
        yield server
