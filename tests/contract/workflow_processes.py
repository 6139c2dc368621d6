"""Processes over one backend that run a bundle's turns, for the tests of workflows."""

import asyncio
import queue
from dataclasses import replace

from bundles.default import WORKFLOW
from stepline.adapters.memory.channel import MemoryPublisher
from stepline.adapters.memory.model import MemoryModelClient
from stepline.adapters.memory.relay import MemoryRelay
from stepline.adapters.polling_signals import PollingSignals
from stepline.bootstrap.in_process import InProcess
from stepline.bootstrap.memory_wiring import in_memory
from stepline.log.journal import Journal
from stepline.settings import Settings

WAIT_S = 60


class Crash(BaseException):
    """An exception that no step catches: as if the process were gone."""


class Watched:
    """A log that reports each message that has entered it."""

    def __init__(self, log):
        self._log = log
        self.entered = queue.SimpleQueue()

    def __getattr__(self, name):
        return getattr(self._log, name)

    def put(self, lane, batch, *, message_id="", **fields):
        put = self._log.put(lane, batch, message_id=message_id, **fields)
        if message_id:
            self.entered.put(message_id)
        return put


class WorkflowProcesses:
    """Processes over one backend, and one conversation in it."""

    def __init__(self, backend, lane):
        self.backend = backend
        self.lane = lane
        self.log = Watched(backend.log)
        app = in_memory(Settings.from_env({}))
        publisher = MemoryPublisher()
        relay = MemoryRelay(deltas=backend.deltas, subscriptions=backend.subscriptions, publisher=publisher)
        ports = replace(
            app.ports,
            log=self.log,
            signals=PollingSignals(self.log, poll_s=0.01),
            artifacts=backend.artifacts,
            subscriptions=backend.subscriptions,
            tickets=backend.tickets,
            rate=backend.rate,
            accounts=backend.accounts,
            deltas=backend.deltas,
            publisher=publisher,
            relay=relay,
            machine=backend.machine,
            grants=backend.grants,
            tasks=backend.tasks,
            clock=backend.clock,
        )
        self.app = replace(app, ports=ports)

    def process(self, model):
        """Return the runtime of a new process."""
        return InProcess(replace(self.app, given=model, history=type(self.app.history)()))

    def entries(self, kind):
        batches = Journal(self.app.ports, self.lane, "test").since(0, consistent=True)
        return [entry for batch in batches for entry in batch.entries if isinstance(entry, kind)]

    def ask(self, runtime, text="How does it work?", workflow=WORKFLOW, user="ada", **payload):
        return asyncio.run(workflow(runtime, self.lane, user=user).process({"text": text, **payload}))


class Slow:
    """A model that says what `say` returns for a request, whenever that returns."""

    def __init__(self, say):
        self.say = say

    def stream(self, request):
        return MemoryModelClient(self.say(request)).stream(request)
