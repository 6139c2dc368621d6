"""A program that has calls made by a function, as its part of the story of tests/stacks/test_calls.py."""

import dataclasses

from stepline.adapters.embedded.memory_index import EmbeddedMemoryIndex
from stepline.adapters.memory.model import MemoryModelClient
from stepline.log.timeline_cache import History
from stepline.loop.programs.serve_call import serve_call
from stepline.model.memory_row import MemoryRow, MemoryScope
from stepline.model.program.served_call import ServedCall
from stepline.model.tenancy.consumption import Consumption, InvocationCost
from stepline.ports.memory_index import MemoryQuery
from stepline.tools.registry import Registry
from stepline.tools.served.program_calls import ProgramCalls
from tests.support.conversation import LANE, USER

SERVED = (("react.memsearch", {"mode": "timeline", "scope": "user"}), ("model_tools.ask", {"prompt": "hi"}))
SCOPE = MemoryScope(tenant=LANE.tenant, project=LANE.project, user=USER)
ROW = MemoryRow(
    conversation=LANE.conversation,
    turn="turn_1",
    kind="prompt",
    path="ar:turn_1.user.prompt",
    text="hi",
    at="",
    n=1,
)


def declare_calls(conversation):
    """A function makes calls of its programs, and asks the model for them."""
    calls = ProgramCalls(tools=("react.memsearch",), roles=("*",))
    agent = conversation.agent
    registry = Registry(calls.grant(agent.registry.tools))
    execution = dataclasses.replace(agent.execution, served=calls.limits)
    services = dataclasses.make_dataclass("Given", ["settings", "secrets", "model"])(
        agent.services.settings, agent.services.secrets, MemoryModelClient("yes")
    )
    conversation.agent = dataclasses.replace(agent, registry=registry, execution=execution, services=services)


def serve_calls(conversation, job):
    with conversation.calls.by("serve"):
        for number, (tool_id, params) in enumerate(SERVED):
            request = job.request
            call = ServedCall(
                lane=LANE,
                turn=request.turn,
                exec_id=request.exec_id,
                ticket=request.served.ticket,
                number=number,
                tool_id=tool_id,
                params=params,
            )
            assert serve_call(conversation.ports, conversation.agent, History(), call).code == ""
        search_rows(conversation)
        cost = InvocationCost(turn=job.request.turn, function="serve", at="2026-11-26", used=Consumption())
        conversation.ports.costs.put(LANE, cost)


def search_rows(conversation):
    for _ in range(2):
        index = EmbeddedMemoryIndex(conversation.ports)
        index.search(MemoryQuery(scope=SCOPE, text="x"))
        index.add(SCOPE, [ROW])
