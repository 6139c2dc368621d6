"""Tokens of an attempt whose process died: the provider bills them, so the next attempt records them, once."""

import dataclasses

import pytest
from msgspec.structs import replace

from stepline.ingress.delete import apply_deletion
from stepline.loop.decide import decide
from stepline.loop.sweep import sweep_lane
from stepline.model.entry import Closed, Decided, Reopened, TakenOver
from stepline.model.usage import ModelCall, sum_usages
from stepline.ports.model import DECISION_ROLE, ModelRequest, Part
from stepline.ports.relay import Delta
from stepline.tools.context import ToolContext, ToolOutput
from tests.support.conversation import LANE, USER, Conversation, tool
from tests.support.generation import answered, called

ASK = "test.ask"


class KilledError(BaseException):
    """The process is gone."""


def calls(conversation: Conversation) -> list[ModelCall]:
    return [call for batch in conversation.batches() for call in batch.calls]


def killed_while_deciding(conversation: Conversation, after: int = 3) -> None:
    """Die after this number of pieces of the generation."""
    model = conversation.model

    class Dying:
        def stream(self, request):
            running = model.stream(request)
            pieces = running.__iter__

            class Cut(type(running)):
                def __iter__(self):
                    for at, piece in enumerate(pieces()):
                        if at == after:
                            raise KilledError
                        yield piece

            running.__class__ = Cut
            return running

    with pytest.raises(KilledError):
        decide(conversation.own_ports, conversation.agent, Dying(), conversation.history, conversation.now())


def opened(*script) -> Conversation:
    conversation = Conversation(*script)
    conversation.send("what is new?")
    return conversation


def test_the_next_attempt_records_the_tokens_of_a_killed_one() -> None:
    conversation = opened(answered("It would have said this."), answered("Done."))
    killed_while_deciding(conversation, after=8)
    conversation.close(conversation.decide(attempt=1))
    cut, whole = calls(conversation)
    reopened = next(batch for batch in conversation.batches() if batch.calls)
    assert any(isinstance(entry, Reopened) for entry in reopened.entries)
    assert (cut.role, cut.usage.estimated, whole.usage.estimated) == (DECISION_ROLE, True, False)
    assert cut.usage.input_tokens == whole.usage.input_tokens > 0
    assert cut.usage.output_tokens > 0
    (closed,) = conversation.entries(Closed)
    assert closed.usage == sum_usages((cut.usage, whole.usage))
    assert conversation.state.input_tokens == closed.usage.prompt_tokens


def test_an_attempt_killed_after_its_answer_is_counted_exactly() -> None:
    conversation = opened(answered("Done."), answered("Done."))
    log = conversation.log
    put, conversation.log.put = log.put, _die
    with pytest.raises(KilledError):
        conversation.decide()
    conversation.log.put = put
    conversation.decide(attempt=1)
    first, second = calls(conversation)
    assert first.usage == second.usage
    assert not first.usage.estimated


def _die(*_args, **_fields):
    raise KilledError


def test_a_take_over_records_the_tokens_of_the_dead_execution() -> None:
    conversation = opened(answered("Lost."), answered("Done."))
    name, _ = conversation.take()
    killed_while_deciding(conversation)
    conversation.machine.end(name)
    conversation.clock.pause(2 * 3600)  # no sweep looked at it for long
    assert sweep_lane(conversation.ports, LANE) == "taken_over"
    (taken,) = [b for b in conversation.batches() if any(isinstance(e, TakenOver) for e in b.entries)]
    assert [call.usage.estimated for call in taken.calls] == [True]


def test_a_failed_turn_records_the_tokens_of_its_dead_attempt() -> None:
    conversation = opened(answered("Lost."))
    killed_while_deciding(conversation)
    conversation.close(error={"Error": "States.Timeout"})
    (closed,) = conversation.entries(Closed)
    (cut,) = calls(conversation)
    assert closed.code == "step_timeout"
    assert closed.bill == (replace(cut, id=""),)
    assert closed.usage == cut.usage


def asking(conversation: Conversation) -> list[int]:
    """Give the agent a tool that asks the model and dies when it gets its first answer."""
    runs: list[int] = []

    def ask(context: ToolContext) -> ToolOutput:
        runs.append(1)
        request = ModelRequest(role="test.tool", system=(), content=(Part(text="What?"),), max_tokens=50)
        with context.model.stream(request) as running:
            list(running)
        if len(runs) == 1:
            raise KilledError
        return ToolOutput(blocks=(context.result(ASK, "asked"),))

    conversation.use(tool(ASK, "pure", ask))
    services = dataclasses.replace(_Services(), model=conversation.model)
    conversation.agent = dataclasses.replace(conversation.agent, services=services)
    return runs


@dataclasses.dataclass(frozen=True)
class _Services:
    model: object = None
    settings: object = None
    secrets: object = None


def test_a_dead_tools_model_calls_are_recorded_with_its_result() -> None:
    conversation = Conversation(called(ASK), "an answer", "another one", answered("Done."))
    runs = asking(conversation)
    conversation.send()
    conversation.decide()
    with pytest.raises(KilledError):
        conversation.act()
    conversation.act(conversation.now(attempt=1))
    assert len(runs) == 2
    asked = [call for call in conversation.tail.calls if call.role == "test.tool"]
    assert len(asked) == len({call.id for call in asked}) == 2
    assert conversation.state.output_tokens == sum(call.usage.output_tokens for call in calls(conversation))


def test_recorded_tokens_of_a_dead_process_are_not_recorded_twice() -> None:
    conversation = opened("A title.", answered("Lost."), answered("Done."))
    conversation.agent = dataclasses.replace(conversation.agent, gate="Name it.")
    killed_while_deciding(conversation)
    conversation.decide(attempt=1)
    made = calls(conversation)
    assert len(made) == len({call.id for call in made})
    assert [call.role for call in made].count("gate.simple") == 1
    (decision,) = conversation.entries(Decided)
    assert decision.usage == made[-1].usage


def test_a_noted_prompt_is_exact_where_the_provider_counts_it() -> None:
    conversation = opened(answered("Lost."), answered("Done."))
    killed_while_deciding(conversation, after=1)
    ((noted,),) = conversation.ports.deltas.notes(LANE, since=0).values()
    conversation.decide(attempt=1)
    cut, whole = calls(conversation)
    assert (cut.id, cut.usage.input_tokens) == (noted.id, whole.usage.input_tokens)


def test_reports_of_a_tool_are_not_counted_as_output_of_its_model_call() -> None:
    conversation = opened(answered("Lost."), answered("Done."))
    killed_while_deciding(conversation, after=1)
    conversation.ports.deltas.put(
        LANE, conversation.state.claim, Delta(name="report.0.0", off=0, text="x" * 9_000)
    )
    conversation.decide(attempt=1)
    assert calls(conversation)[0].usage.output_tokens < 100


def test_a_conversation_that_is_deleted_in_mid_answer_records_what_that_has_used() -> None:
    conversation = opened(answered("Lost."))
    killed_while_deciding(conversation)
    deleted = apply_deletion(conversation.own_ports, LANE, USER)
    (cut,) = deleted.calls
    assert deleted.state.input_tokens == cut.usage.input_tokens > 0
