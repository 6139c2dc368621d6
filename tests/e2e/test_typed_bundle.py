"""A bundle with a typed tool, a result type, and programs that ask the model and search memory, on the stage."""

from __future__ import annotations

import json

import pytest

from tests.e2e.mode import obstacle
from tests.e2e.stage import a_word, answer_of
from tests.support.generation import answered, called, coded

pytestmark = pytest.mark.emulator

ROLE = "shop.classify"
BUNDLE = """
from pydantic import BaseModel

from stepline import BaseWorkflow, ProgramCalls, tool


class Price(BaseModel):
    article: str
    eur: float


@tool("shop.price", effect="pure", read_only=True)
def price(articles: list[str]) -> list[Price]:
    \"\"\"Look up what articles cost.\"\"\"
    return [Price(article=article, eur=12.5) for article in articles]


TOOLS = (price,)


class Shop(BaseWorkflow):
    tools_module = __name__
    result = Price
    program_calls = ProgramCalls(tools=("react.memsearch",), roles=("shop.classify",), model_calls=1)


WORKFLOW = Shop
"""
PROGRAM = """
from pathlib import Path

answer = model_tools.ask(prompt="Is {word} late?")
react.memsearch(query="lamps", scope="user")
refused = []
for tool, params in (("model_tools.ask", {{"prompt": "Again?"}}), ("mcp.crm.add", {{}})):
    try:
        agent_io_tools.tool_call(tool, params)
    except agent_io_tools.ToolCallError as error:
        refused.append(error.code)
Path("outputs/late.txt").write_text(f"{{answer['text']}} {{refused}}")
"""


@pytest.fixture(params=["process", "docker", "fargate"])
def shop(request, scripted, tmp_path):
    """The stage with the bundle, and programs in one mode."""
    if why := obstacle(scripted, request.param):
        pytest.skip(f"{request.param}: {why}")
    (tmp_path / "typed_shop.py").write_text(BUNDLE)
    scripted.command("up", "--bundle", "typed_shop", cwd=tmp_path, env={"EXEC_RUNTIME_MODE": request.param})
    yield scripted
    scripted.command("up", env={"EXEC_RUNTIME_MODE": "process"})


def test_a_typed_tool_a_program_that_asks_the_model_and_a_checked_value(shop, conversation):
    word, right = a_word(), {"article": "lamp", "eur": 12.5}
    program = coded(PROGRAM.format(word=word), "outputs/late.txt")
    for text in (
        called("shop.price", {"articles": "lamp"}),
        called("shop.price", {"articles": ["lamp"]}),
        program,
        "Not late.",
        answered("12.50 euros.", value={"article": "lamp"}),
        answered("12.50 euros.", value=right),
    ):
        shop.fault(kind="fixture", match=word, text=text)
    lines = shop.send(f"What does the lamp cost? {word}", conversation)
    assert answer_of(lines).startswith("12.50 euros.")
    (closed,) = shop.entries(conversation, "closed")
    assert json.loads(closed["value"]) == right
    results = shop.entries(conversation, "result")
    assert [(one["tool_id"], one["status"]) for one in results] == [
        ("shop.price", "ok"),
        ("exec_tools.execute_code_python", "ok"),
    ]
    heard = json.dumps(shop.model_requests(word)[-1]["body"])
    assert "Not late. ['model_calls_exceeded', 'tool_not_allowed']" in heard
    assert "value_invalid" in heard
    assert ROLE in {line["role"] for line in closed["bill"]}
