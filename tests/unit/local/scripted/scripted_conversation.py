"""A conversation with the scripted model: the real loop over the memory twins, and simulated programs."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from stepline.adapters.anthropic.call import plan_call
from stepline.adapters.anthropic.provider import AnthropicProvider
from stepline.adapters.memory.executor import MemoryExecutor
from stepline.adapters.memory.model import MemoryModelStream, Say
from stepline.bootstrap.memory_wiring import in_memory
from stepline.ingress.approval_answer import ApprovalAnswer, answer_request
from stepline.local.scripted.fault import spoil_prefix
from stepline.local.scripted.messages_request import parse_prompt
from stepline.local.scripted.policy import answer_prompt
from stepline.loop.programs.make_outcome import claim_run
from stepline.model.entry import ApprovalRequested, Closed, Decided, Resulted
from stepline.model.program.execution import CollectedFile, Run
from stepline.ports.model import RoleChoice
from stepline.settings import Settings
from tests.support.conversation import LANE, USER, Conversation
from tests.support.files import pdf, picture

ROLE = RoleChoice(model=AnthropicProvider.default_model)
DRAWN = '{"ok": true, "ret": {"pages": 1}}\n'
TABLE = "| month | total |\n|---|---:|\n| 2026-01 | 12.50 |\n"
CSV = b"month,total\n2026-01,12.50\n2026-02,13.50\n"


class ScriptedClient:
    """The scripted model without its server.

    `asked` is the newest request on its wire; the number `spoiled` of its next answers get a text before them.
    """

    spoiled = 0
    asked: Mapping[str, Any] = {}

    def stream(self, request):
        self.asked = plan_call(request, ROLE)
        text = answer_prompt(parse_prompt(self.asked))
        if self.spoiled:
            self.spoiled, text = self.spoiled - 1, spoil_prefix(text)
        return MemoryModelStream(request, lambda: Say(text=text))


class ScriptedConversation(Conversation):
    """A conversation with the scripted model. `run` of a program prints `printed` and writes the promised files."""

    def __init__(self, *said, **settings):
        super().__init__()
        variables = {
            "EXEC_RUNTIME_MODE": "process",
            "STEPLINE_EXEC_PYTHON": "python",
            "STEPLINE_EXEC_HOME": ".",
        }
        self.app = in_memory(Settings.from_env({**variables, **settings}))
        self.ports, self.agent, self.model = self.app.ports, self.app.agent, ScriptedClient()
        self.log, self.machine, self.clock = self.ports.log, self.ports.machine, self.ports.clock
        self.printed = TABLE
        self.error = ""
        self.backends["process"] = MemoryExecutor(self._ran)
        self.messages = 0
        for text in said:
            self.say(text)

    def say(self, text, *followups):
        """Send messages, the first of which opens a turn; let the turn run to its end and return its answer.

        A call that waits for an approval is approved.
        """
        for one in (text, *followups):
            self.hear(text=one)
        self.run()
        while self.state.parked:
            self._approve()
            self.run()
        closed = self.entries(Closed)[-1]
        assert closed.outcome == "completed", closed
        return closed.answer

    def _approve(self):
        asked = self.entries(ApprovalRequested)[-1]
        self.messages += 1
        said = {"message_id": f"m{self.messages}", "user": USER}
        answer_request(
            self.ports, LANE, ApprovalAnswer(call_id=asked.action.call_id, verdict="approved", **said)
        )

    def hear(self, **event):
        """Deliver a message, or an event of a `kind`."""
        self.messages += 1
        self.send(**{"text": "", **event}, id=f"m{self.messages}")

    def begin(self, text, steps=2):
        """Begin a turn and run this many steps of it."""
        self.hear(text=text)
        self.execution, self.step = self.take()
        for _ in range(steps):
            self.step = self.states[self.step.route](self.step)

    def finish(self):
        """Run the open turn to its end; return its answer."""
        self.drive(self.step)
        self.machine.end(self.execution)
        self.run()
        return self.entries(Closed)[-1].answer

    def lose_run(self):
        """Let the launched program begin, and its worker end without a report."""
        assert claim_run(self.ports.artifacts, LANE, self.state.turn, self.state.running, "another")
        self.step = self.act(replace(self.step, error={"Error": "Lambda.Unknown"}))

    def rounds(self):
        """Return the tools of every round with actions, in order."""
        decisions = [entry for entry in self.entries(Decided) if entry.actions]
        return [[action.tool_id.rpartition(".")[2] for action in entry.actions] for entry in decisions]

    def actions(self):
        return [action for entry in self.entries(Decided) for action in entry.actions]

    def notices(self):
        return [notice.code for entry in self.entries(Decided) for notice in entry.notices]

    def stored(self, name):
        """Return the bytes of a file in the log, and their key."""
        blocks = [block for entry in self.entries(Resulted) for block in entry.blocks if block.body]
        key = next(block.body.key for block in blocks if block.path.endswith(f"/{name}"))
        return self.ports.artifacts.get(key), key

    def statuses(self):
        return [entry.status for entry in self.entries(Resulted)]

    def _ran(self, job):
        files = []
        for promised in job.request.contract:
            made = {"png": picture(), "pdf": pdf(2), "csv": CSV}
            body = made.get(promised.filename.rpartition(".")[2]) or promised.filename.encode()
            sha256 = hashlib.sha256(body).hexdigest()
            (job.spool / sha256).write_bytes(body)
            files.append(CollectedFile(path=promised.filename, sha256=sha256, size_bytes=len(body)))
        printed = DRAWN if job.request.code.startswith("agent_io_tools.run_granted(") else self.printed
        return Run(
            returncode=1 if self.error else 0,
            error=self.error,
            program_log=printed,
            log_bytes=len(printed),
            files=tuple(() if self.error else files),
        )
