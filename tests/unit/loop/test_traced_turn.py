"""The spans of a turn: one trace over all its processes, and no text unless it is requested."""

import subprocess
import sys
from dataclasses import replace

import pytest

from stepline.adapters.memory.model import TRIES, Fail
from stepline.adapters.memory.tracing.traces import MemoryTraces
from stepline.errors import ModelUnreachable
from stepline.loop.close import follow_closing
from stepline.loop.decide import decide
from stepline.loop.sweep import sweep_lane
from stepline.model.ids import person, root_span_id, trace_id
from stepline.model.program.execution import Run
from stepline.tools.context import ToolContext, ToolOutput
from stepline.tools.registry import Tool
from stepline.tools.spec import ToolSpec
from tests.support.conversation import LANE, USER, Conversation
from tests.support.generation import answered, called, coded

ASK = "test.ask"
PROMPT, ARGUMENT, RESULT, ANSWER = "xprompt", "xargument", "xresult", "xanswer"


class KilledError(BaseException):
    """The process is gone."""


def traced(*script, texts: bool = False) -> tuple[Conversation, MemoryTraces]:
    conversation = Conversation(*script)
    traces = MemoryTraces(texts=texts)
    conversation.ports = replace(conversation.ports, traces=traces)
    return conversation, traces


def with_tool(*script, texts: bool = False) -> tuple[Conversation, MemoryTraces]:
    conversation, traces = traced(*script, texts=texts)

    def ask(params, context: ToolContext) -> ToolOutput:
        conversation.clock.pause(3)
        return ToolOutput(blocks=(context.result(ASK, {"said": RESULT}),))

    schema = {"type": "object", "properties": {"q": {"type": "string"}}, "additionalProperties": False}
    spec = ToolSpec(purpose="p", returns="r", read_only=False, tool_id=ASK, schema=schema, effect="pure")
    conversation.use(Tool(spec=spec, run=ask))
    return conversation, traces


def names(traces: MemoryTraces) -> list[str]:
    return [span.name for span in traces.spans]


def tree(traces: MemoryTraces) -> dict[str, list[str]]:
    """The names of the spans below each, by its name."""
    by_id = {span.id: span.name for span in traces.spans}
    found: dict[str, list[str]] = {}
    for span in traces.spans:
        found.setdefault(by_id.get(span.parent, ""), []).append(span.name)
    return found


@pytest.mark.parametrize("texts", [False, True])
def test_a_turn_is_one_trace_with_texts_only_on_request(texts: bool) -> None:
    conversation, traces = with_tool(called(ASK, {"q": ARGUMENT}), answered(ANSWER), texts=texts)
    conversation.send(PROMPT)
    turn = conversation.state.turn
    conversation.run()
    assert {span.trace for span in traces.spans} == {trace_id(LANE, turn)}
    below = tree(traces)
    (chat,) = set(below["decide"])
    assert chat.startswith("chat ")
    assert below == {
        "": ["invoke_agent default"],
        "invoke_agent default": ["decide", "act", "decide", "close"],
        "decide": [chat, chat],
        "act": [f"execute_tool {ASK}"],
    }
    (root,) = [span for span in traces.spans if span.parent == 0]
    assert root.id == root_span_id(LANE, turn)
    shown = repr(traces.spans)
    assert {text: text in shown for text in (PROMPT, ARGUMENT, RESULT, ANSWER)} == dict.fromkeys(
        (PROMPT, ARGUMENT, RESULT, ANSWER), texts
    )
    assert USER not in [value for span in traces.spans for value in span.attributes.values()]
    assert LANE.tenant not in [value for span in traces.spans for value in span.attributes.values()]


def test_spans_have_the_names_of_the_conventions_for_generative_models() -> None:
    conversation, traces = with_tool(called(ASK), answered(ANSWER))
    conversation.send(PROMPT)
    conversation.run()
    chat = next(span for span in traces.spans if span.name.startswith("chat"))
    assert chat.kind == "client"
    assert chat.attributes["gen_ai.operation.name"] == "chat"
    assert chat.attributes["gen_ai.provider.name"] == "anthropic"
    assert chat.attributes["gen_ai.request.model"] == chat.attributes["gen_ai.response.model"]
    assert chat.attributes["gen_ai.usage.input_tokens"] > 0 < chat.attributes["gen_ai.usage.output_tokens"]
    assert chat.attributes["gen_ai.response.finish_reasons"] == ("end_turn",)
    assert chat.attributes["gen_ai.response.time_to_first_chunk"] == 0
    ran = next(span for span in traces.spans if span.name.startswith("execute_tool"))
    assert ran.attributes["gen_ai.operation.name"] == "execute_tool"
    assert ran.attributes["gen_ai.tool.name"] == ASK
    assert ran.attributes["gen_ai.tool.call.id"].startswith("tc_")
    assert (ran.ended - ran.began).total_seconds() == 3
    root = next(span for span in traces.spans if span.parent == 0)
    assert root.attributes["gen_ai.operation.name"] == "invoke_agent"
    assert root.attributes["gen_ai.agent.name"] == "default"
    assert root.attributes["gen_ai.conversation.id"] == LANE.conversation
    assert root.attributes["user.hash"] == person(LANE.tenant, LANE.project, USER)
    assert (root.attributes["stepline.rounds"], root.attributes["stepline.outcome"]) == (2, "completed")
    assert (root.ended - root.began).total_seconds() == 3


def test_a_taken_over_turn_continues_its_trace_and_ends_it_once() -> None:
    conversation, traces = traced(answered("Lost."), answered(ANSWER))
    conversation.send(PROMPT)
    turn = conversation.state.turn
    name, _ = conversation.take()
    dead = replace(conversation.own_ports, traces=Dead())
    with pytest.raises(KilledError):
        decide(dead, conversation.agent, conversation.model, conversation.history, conversation.now())
    conversation.machine.end(name)
    conversation.clock.pause(2 * 3600)
    assert sweep_lane(conversation.ports, LANE) == "taken_over"
    conversation.run()
    assert {span.trace for span in traces.spans} == {trace_id(LANE, turn)}
    assert tree(traces)["invoke_agent default"] == ["take_over", "decide", "close"]
    assert names(traces).count("invoke_agent default") == 1
    (over,) = [span for span in traces.spans if span.name == "take_over"]
    (decided,) = [span for span in traces.spans if span.name == "decide"]
    assert over.attributes["stepline.takeovers"] == 1
    assert decided.attributes["stepline.epoch"] == over.attributes["stepline.epoch"] > 1


class Dead(MemoryTraces):
    """A process that ends before its spans are sent."""

    def send(self, spans) -> None:
        raise KilledError


def test_an_end_whose_effects_are_carried_out_by_the_sweeper_is_the_same_span() -> None:
    conversation, traces = traced(answered(ANSWER))
    conversation.send(PROMPT)
    conversation.run()
    (first,) = [span for span in traces.spans if span.parent == 0]
    traces.spans.clear()
    follow_closing(conversation.ports, LANE, conversation.tail)
    again, sweep = traces.spans
    assert again == first
    assert (sweep.name, sweep.parent) == ("sweep", first.id)


def test_a_failed_call_of_the_model_fails_its_span_and_the_step_by_their_codes() -> None:
    conversation, traces = traced(*[Fail(ModelUnreachable("no way to secret.example"))] * TRIES)
    conversation.send(PROMPT)
    conversation.run()
    failed = {span.name.partition(" ")[0]: span.failed for span in traces.spans if span.failed}
    assert failed == {
        "chat": "model_unreachable",
        "decide": "model_unreachable",
        "invoke_agent": "model_unreachable",
    }
    assert "secret.example" not in repr(traces.spans)


@pytest.mark.parametrize("texts", [False, True])
def test_the_run_of_a_program_is_a_span_wherever_it_ran(texts: bool) -> None:
    conversation, traces = traced(coded("print(1)", "totals.csv"), answered(ANSWER), texts=texts)
    conversation.programs(lambda _: Run(returncode=0, seconds=2.5))
    conversation.send(PROMPT)
    conversation.run()
    (ran,) = [span for span in traces.spans if span.name.startswith("execute_tool")]
    assert ran.attributes["stepline.program.place"] == "process"
    assert ("print(1)" in repr(ran), "Status: " in repr(ran)) == (texts, texts)
    assert tree(traces)["act"] == [ran.name]
    assert "execute" in tree(traces)["invoke_agent default"]


def test_without_the_switch_no_package_of_opentelemetry_is_loaded() -> None:
    program = (
        "import sys\n"
        "from tests.support.conversation import Conversation\n"
        "from tests.support.generation import answered\n"
        "from stepline.bootstrap.aws_wiring import on_aws\n"
        "from stepline.bootstrap.loop_app import LoopApp\n"
        "from stepline.adapters.memory.clock import MemoryMeter\n"
        "from stepline.settings import Settings\n"
        "made = Conversation(answered('Done.'))\n"
        "made.send('hello')\n"
        "made.run()\n"
        "assert made.state.status == 'idle'\n"
        "wired = on_aws(Settings.from_env({}), MemoryMeter(), LoopApp)\n"
        "assert wired.ports.traces is None\n"
        "print(*[n for n in sys.modules if n.startswith(('opentelemetry', 'google.protobuf', 'stepline.adapters.tracing'))])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
