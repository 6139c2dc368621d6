"""Calls that a function makes for a program: searches, tools of servers, and the model, each recorded and paid for once."""

import dataclasses
import sys
from types import ModuleType

import pytest
from msgspec.structs import replace

from stepline.adapters.memory.executor import MemoryExecutor
from stepline.adapters.memory.mcp.mcp_server import MemoryMcpServers, MemoryServer, said
from stepline.adapters.memory.model import MemoryModelClient, Say
from stepline.bootstrap.program_backend import ProgramBackends
from stepline.bundle.assembly import build_agent
from stepline.bundle.parts import Parts, load_tools
from stepline.errors import DependencyError, InputError, ToolError
from stepline.log.timeline_cache import History
from stepline.loop.programs.execute import execute
from stepline.loop.programs.serve_call import serve_call
from stepline.model.decision import RemoteTask
from stepline.model.entry import Resulted
from stepline.model.program.execution import Run, RunLimits, RuntimeProfile
from stepline.model.program.served_call import ServedCall
from stepline.model.usage import Usage
from stepline.ports.mcp.mcp_server import RemoteTool
from stepline.tools.context import NoServices, ReadCaps
from stepline.tools.served.program_calls import ProgramCalls
from stepline.tools.web.web_search import WEB_SEARCH_TOOL
from tests.contract.fault.simulation import PRICES
from tests.support.conversation import LANE, Conversation
from tests.support.generation import answered, coded

MODULE = "bundle_with_a_crm"
CRM = {"alias": "crm", "url": "https://crm.example/mcp"}
ADD, ASK, FIND, SEARCH = "mcp.crm.add", "model_tools.ask", "react.memsearch", "react.search_knowledge"
CALLS = ProgramCalls(tools=(FIND, SEARCH, "mcp.crm.*"), roles=("shop.classify",))


@pytest.fixture(autouse=True)
def _bundle(monkeypatch):
    module = ModuleType(MODULE)
    vars(module).update(TOOLS=(WEB_SEARCH_TOOL,), MCP_TOOL_SPECS=[CRM])
    monkeypatch.setitem(sys.modules, MODULE, module)
    load_tools.cache_clear()
    yield
    load_tools.cache_clear()


def documents(query, limit):
    return [{"path": f"ks:{query}.md", "title": query}][:limit]


class Services(NoServices):
    def __init__(self, model):
        self.model = model


class ServingConversation(Conversation):
    """A conversation whose program calls `body(host)`; `answers` are the model's, `added` what the server was asked."""

    def __init__(self, body, *answers, calls=CALLS, approvals=None):
        super().__init__(coded("calls()", "out.txt"), answered("done"), prices=PRICES)
        self.added = []
        self.lost = 0
        self.asked = MemoryModelClient(*answers)
        servers = MemoryMcpServers(crm=MemoryServer(tools=(RemoteTool(name="add"),), answer=self._add))
        self.ports = dataclasses.replace(self.ports, servers=servers)
        made = build_agent(
            ReadCaps(),
            parts=Parts(tools_module=MODULE, search=documents, program_calls=calls),
            runtime=(RuntimeProfile(backend="memory"), RunLimits()),
        )
        self.agent = dataclasses.replace(
            made, services=Services(self.asked), approvals=approvals or made.approvals
        )
        self.body = body
        self.backends["memory"] = MemoryExecutor(self._run)

    def _add(self, name, params):
        self.added.append(params)
        return said("added")

    def serve(self, call):
        answer = serve_call(self.own_ports, self.agent, self.history, call)
        if self.lost:
            self.lost -= 1
            raise DependencyError("the answer was lost")
        return answer

    def execute(self, step):
        return execute(self.own_ports, lambda profile: self.backends.get(profile.backend), step, self.serve)

    def _run(self, job):
        self.job = job
        app = dataclasses.replace(self.app, ports=self.ports, made=self.agent)
        self.host = ProgramBackends(app).tool_host(job)
        self.value = self.body(self.host)
        host = self.host
        return Run(calls=tuple(host.calls), events=tuple(host.events), sources=tuple(host.sources))

    def played(self):
        self.send("hello")
        self.run()
        return self

    @property
    def models(self):
        """The model calls of the turn but those of its rounds."""
        return [call for batch in self.batches() for call in batch.calls if call.role == "shop.classify"]


def refused(host, tool_id, params=None):
    with pytest.raises(ToolError) as caught:
        host.call(tool_id, params or {})
    return caught.value.reason


def test_a_program_searches_memory_and_documents_and_cites_them():
    def body(host):
        hits = host.call(FIND, {"mode": "timeline"})
        rows = host.call(SEARCH, {"query": "roses"})
        web = host.call("web_tools.web_search", {"queries": "prompt caching", "n": 1})
        return hits, rows, web

    play = ServingConversation(body).played()
    hits, rows, web = play.value
    assert hits["status"] == "ok"
    assert [(row["sid"], row["path"]) for row in rows] == [(1, "ks:roses.md")]
    assert [row["sid"] for row in web] == [2]  # not the number of the document
    (result,) = play.entries(Resulted)
    assert [(row.sid, row.source_type) for row in result.sources] == [(1, "file"), (2, "web")]
    assert [(call.tool_id, call.status) for call in play.host.calls] == [
        (FIND, "ok"),
        (SEARCH, "ok"),
        ("web_tools.web_search", "ok"),
    ]


def test_a_cold_function_reads_the_log_from_its_newest_segment():
    play = ServingConversation(lambda host: host.call(FIND, {"mode": "timeline"}))
    play.ports = dataclasses.replace(
        play.ports, policy=dataclasses.replace(play.ports.policy, seal_batches=1)
    )
    begun = []

    def serve(call):
        log = play.own_ports.log
        read = log.since
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(log, "since", lambda lane, n, **rest: begun.append(n) or read(lane, n, **rest))
            return serve_call(play.own_ports, play.agent, History(), call)

    play.serve = serve
    play.played()
    assert begun[0] > 0


def test_a_program_calls_a_tool_of_a_server_once():
    play = ServingConversation(lambda host: host.call(ADD, {}))
    play.lost = 1
    play.played()
    assert play.value["text"] == "added"
    assert play.added == [{}]


def test_a_program_asks_the_model_and_its_turn_pays():
    def body(host):
        return host.call(ASK, {"prompt": "Is it about delivery?", "system": "Say yes or no."})

    play = ServingConversation(body, Say(text="yes", usage=Usage(input_tokens=9, output_tokens=1))).played()
    assert (play.value["text"], play.value["stop_reason"]) == ("yes", "end_turn")
    (request,) = play.asked.requests
    assert (request.role, request.max_tokens) == ("shop.classify", 1024)
    (call,) = play.models
    assert (call.usage.input_tokens, call.usage.output_tokens) == (9, 1)
    (result,) = play.entries(Resulted)
    assert (result.usage.input_tokens, result.usage.output_tokens) == (9, 1)


def test_a_model_call_whose_answer_was_lost_is_not_made_again():
    play = ServingConversation(lambda host: host.call(ASK, {"prompt": "x"}), "yes")
    play.lost = 1
    play.played()
    assert play.value["text"] == "yes"
    assert len(play.asked.requests) == len(play.models) == 1


def test_a_call_that_may_have_happened_is_not_made_again():
    def body(host):
        claimed = ServedCall(
            lane=LANE,
            turn=play.job.request.turn,
            exec_id=play.job.request.exec_id,
            ticket="",
            number=0,
            tool_id=ADD,
            params={},
        )
        from stepline.loop.programs import serve_call as module

        assert module._claim(play.ports, claimed) is None
        return refused(host, ADD)

    play = ServingConversation(body)
    play.played()
    assert (play.value, play.added) == ("call_unverified", [])


def test_a_run_that_was_lost_has_paid_for_its_model_calls():
    def body(host):
        host.call(ASK, {"prompt": "x"})
        raise DependencyError("the backend is gone")

    play = ServingConversation(body, Say(text="yes", usage=Usage(input_tokens=9, output_tokens=1))).played()
    (result,) = play.entries(Resulted)
    assert result.error["code"] == "sandbox_execution_failed"
    assert [(call.usage.input_tokens, call.usage.output_tokens) for call in play.models] == [(9, 1)]


@pytest.mark.parametrize(
    ("calls", "tool_id", "code"),
    [
        (None, ADD, "tool_not_allowed"),
        (None, ASK, "tool_not_allowed"),
        (None, FIND, "tool_not_allowed"),
        (None, SEARCH, "tool_not_allowed"),
        (ProgramCalls(tools=(FIND,)), ASK, "tool_not_allowed"),
        (ProgramCalls(tools=("mcp.other.*",)), ADD, "tool_not_allowed"),
    ],
)
def test_a_call_that_the_bundle_does_not_declare_is_refused_by_name(calls, tool_id, code):
    play = ServingConversation(lambda host: refused(host, tool_id, {"prompt": "x"}), calls=calls).played()
    assert play.value == code
    assert play.host.calls[0].tool_id == tool_id


def test_a_tool_that_needs_a_person_is_not_a_programs():
    play = ServingConversation(
        lambda host: refused(host, ADD), approvals=lambda spec: "always" if spec.tool_id == ADD else "never"
    ).played()
    assert play.value == "tool_not_allowed"


@pytest.mark.parametrize(
    ("limits", "code"),
    [
        ({"calls": 1}, "served_calls_exceeded"),
        ({"model_calls": 1}, "model_calls_exceeded"),
        ({"model_tokens": 1100}, "model_tokens_exceeded"),
        ({"model_usd": 0.0103}, "model_usd_exceeded"),
    ],
)
def test_a_run_that_has_used_its_calls_is_refused_with_the_limits_code(limits, code):
    def body(host):
        host.call(ASK, {"prompt": "x"})
        return refused(host, ASK, {"prompt": "y"})

    answer = Say(text="yes", usage=Usage(input_tokens=100, output_tokens=1))
    play = ServingConversation(body, answer, "no", calls=replace(CALLS, **limits)).played()
    assert play.value == code


def test_a_role_that_is_not_declared_is_refused():
    play = ServingConversation(
        lambda host: refused(host, ASK, {"prompt": "x", "role": "gate.simple"})
    ).played()
    assert play.value == "bad_params"


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"ticket": "guessed"}, "unauthorized"),
        ({"exec_id": "tc_000000000000"}, "unauthorized"),
        ({"tool_id": "react.write"}, "tool_not_allowed"),
        ({"number": 50}, "served_calls_exceeded"),
        ({"number": -1}, "served_calls_exceeded"),
        ({"bundle": "other"}, "run_over"),
    ],
)
def test_a_function_makes_no_call_that_is_not_the_runs(fields, code):
    def body(_host):
        request = play.job.request
        call = ServedCall(
            lane=LANE,
            turn=request.turn,
            exec_id=request.exec_id,
            ticket=request.served.ticket,
            number=0,
            tool_id=FIND,
            params={},
        )
        return play.serve(replace(call, **fields)).code

    play = ServingConversation(body)
    play.played()
    assert play.value == code


def test_a_run_that_is_over_makes_no_calls():
    play = ServingConversation(lambda host: host).played()
    assert refused(play.host, FIND, {"mode": "timeline"}) == "run_over"


def test_a_task_of_a_server_is_waited_for():
    play = ServingConversation(lambda host: host.call(ADD, {}))
    answers = iter([RemoteTask(id="t"), said("added late")])
    server = MemoryServer(
        tools=(RemoteTool(name="add"),), answer=lambda *_: RemoteTask(id="t"), poll=lambda _: next(answers)
    )
    play.ports = dataclasses.replace(play.ports, servers=MemoryMcpServers(crm=server))
    assert play.played().value["text"] == "added late"


@pytest.mark.parametrize("name", ["react.write", "react.none", "shop.none", "exec_tools.execute_code_python"])
def test_a_declared_name_that_programs_never_call_is_refused_with_the_bundle(name):
    with pytest.raises(InputError) as caught:
        ServingConversation(lambda _: None, calls=ProgramCalls(tools=(name,)))
    assert caught.value.reason == "program_tool_invalid"
