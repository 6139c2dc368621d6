"""`tool`: a function with annotated parameters is a tool, with its schema, its checks and its result."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from datetime import date
from enum import Enum
from typing import Annotated, Any, Literal, NotRequired

import pytest
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from stepline.errors import ToolError
from stepline.testing import Conversation, answer, call_tool
from stepline.tools.context import ToolContext, ToolOutput
from stepline.tools.registry import Registry, Tool
from stepline.tools.spec import render_tool_card
from stepline.tools.typed.typed_function import tool

from .conftest import ToolConversation


class Currency(Enum):
    EUR = "eur"
    USD = "usd"


class Node(BaseModel):
    """A node of the tree."""

    label: str
    children: list[Node] = []


@dataclass
class Point:
    x: int
    y: float = 0.0


class Options(TypedDict):
    sort: str
    limit: NotRequired[int]


class Price(BaseModel):
    eur: float
    valid: date


CALLS: list[dict[str, Any]] = []


@tool("shop.price", effect="pure", read_only=True)
def price(
    name: Annotated[str, "what to look up"],
    *,
    root: Node,
    points: list[Point],
    options: Options,
    context: ToolContext,
    currency: Currency = Currency.EUR,
    copy: Literal["one", "two"] = "one",
    near: Node | Point | None = None,
    count: Annotated[int, Field(ge=1, description="how many")] = 3,
    by_name: dict[str, Point] | None = None,
    pair: tuple[int, str] = (1, "a"),
) -> Price:
    """Look up what something costs."""
    CALLS.append({**locals(), "context": context.call_id})
    return Price(eur=12.5, valid=date(2026, 11, 28))


CARD = """\
## shop.price
Look up what something costs.
params:
  name (string, required): what to look up
  root (Node, required): A node of the tree.
    label (string, required)
    children (list of Node, default []): A node of the tree.
  points (list of Point, required)
    x (integer, required)
    y (number, default 0.0)
  options (Options, required)
    sort (string, required)
    limit (integer)
  currency ("eur" | "usd", default "eur")
  copy ("one" | "two", default "one")
  near (Node | Point | null, default null)
  count (integer, default 3): how many
  by_name (map of Point | null, default null)
  pair ([integer, string], default [1, "a"])
returns: eur (number), valid (date string)"""

VALID = {"name": "lamp", "root": {"label": "a"}, "points": [{"x": 1}], "options": {"sort": "up"}}


def conversation_of(*tools: Tool) -> ToolConversation:
    return ToolConversation(registry=Registry(tools))


def test_a_card_shows_every_type_with_its_fields_once():
    assert render_tool_card(price.spec) == CARD
    assert price.spec.schema["additionalProperties"] is False


def test_the_function_gets_values_of_its_types_and_its_result_is_json():
    CALLS.clear()
    output = conversation_of(price).call("shop.price", {**VALID, "currency": "usd", "near": {"x": "2"}})
    assert output.status == "ok"
    (call,) = CALLS
    assert (call["root"], call["points"], call["options"]) == (Node(label="a"), [Point(1)], {"sort": "up"})
    assert (call["currency"], call["near"], call["count"], call["pair"]) == (
        Currency.USD,
        Point(2),
        3,
        (1, "a"),
    )
    assert call["context"]
    assert output.ret == {"eur": 12.5, "valid": "2026-11-28"}
    assert output.blocks[0].text == '{"status":"ok","result":{"eur":12.5,"valid":"2026-11-28"}}'


@pytest.mark.parametrize(
    ("params", "named"),
    [
        ({"name": 1}, "name: "),
        ({"root": {"label": "a", "children": [{"labl": "b"}]}}, "root.children[0].label: "),
        ({"points": [{"x": 1}, {"x": "far"}]}, "points[1].x: "),
        ({"options": {}}, "options.sort: "),
        ({"currency": "yen"}, "currency: "),
        ({"copy": "three"}, "copy: "),
        ({"count": 0}, "count: "),
        ({"pair": [1, 2, 3]}, "pair: "),
        ({"nme": "lamp"}, "nme: "),
    ],
    ids=str,
)
def test_a_violated_type_is_an_error_that_names_the_parameter(params, named):
    assert price.spec.validate(VALID) == []
    problems = price.spec.validate({**VALID, **params})
    assert problems
    assert all(problem.startswith(named) for problem in problems)
    output = conversation_of(price).call("shop.price", {**VALID, **params})
    assert output.error["code"] == "bad_params"


def test_errors_of_a_call_are_bounded():
    problems = price.spec.validate({**VALID, "points": [{"x": "y" * 1_000}] * 50})
    assert len(problems) == 10
    assert all(len(problem) <= 300 for problem in problems)


def test_a_reference_is_checked_when_it_is_bound():
    params = {**VALID, "root": "ref:fi:turn_1.outputs/a.json"}
    assert price.spec.validate(params, unbound=["root"]) == []
    assert price.spec.validate({**params, "name": 1}, unbound=["root"])[0].startswith("name: ")


@tool("shop.say")
def say(text: str) -> str:
    return text


@tool("shop.done")
async def done(*, force: bool = False) -> None:
    if force:
        raise ToolError("it is in use", code="in_use")


@tool("shop.list", purpose="List points.", returns="points", strategies=("exploration",))
def points(count: int):
    return [Point(number) for number in range(count)]


@tool("shop.raw")
def raw(context: ToolContext) -> ToolOutput:
    return ToolOutput(blocks=(context.result("shop.raw", {"status": "ok", "mine": True}),))


def test_results_are_a_text_or_a_status_or_any_value():
    conversation = conversation_of(say, done, points, raw)
    assert conversation.call("shop.say", {"text": "# Hi"}).blocks[0].mime == "text/markdown"
    assert conversation.call("shop.done", {}).blocks[0].text == '{"status":"ok"}'
    assert conversation.call("shop.done", {"force": True}).error["code"] == "in_use"
    assert conversation.call("shop.list", {"count": 2}).ret == [{"x": 0, "y": 0.0}, {"x": 1, "y": 0.0}]
    assert conversation.call("shop.raw", {}).blocks[0].text == '{"status":"ok","mine":true}'


def test_without_a_docstring_a_tool_has_its_name_and_fields_replace_the_rest():
    assert say.spec.purpose == "say"
    assert say.spec.effect == "once"
    assert (points.spec.purpose, points.spec.returns) == ("List points.", "points")
    assert points.spec.strategies == ("exploration",)


@pytest.mark.parametrize("function", [lambda name: name, lambda *names: names, lambda **names: names])
def test_a_parameter_without_a_type_is_refused_at_the_import(function):
    with pytest.raises(TypeError, match="needs an annotation"):
        tool("shop.bad")(function)


def test_a_violated_type_is_a_notice_that_the_model_corrects(tmp_path, monkeypatch):
    (tmp_path / "typed_shop.py").write_text(
        "from stepline import BaseWorkflow, tool\n\n"
        "@tool('shop.double')\ndef double(number: int) -> int:\n    '''Double it.'''\n    return 2 * number\n\n"
        "TOOLS = (double,)\n\n"
        "class Shop(BaseWorkflow):\n    tools_module = 'typed_shop'\n\n"
        "WORKFLOW = Shop\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    with Conversation("typed_shop") as conversation:
        turn = conversation.run(
            "Double three.",
            decisions=[
                call_tool("shop.double", {"number": "three"}),
                call_tool("shop.double", {"number": 3}),
                answer("Six."),
            ],
        )
    (notice,) = turn.notices
    assert notice.code == "bad_params"
    assert "number: " in notice.message
    assert turn.result("shop.double").data == {"status": "ok", "result": 6}


def test_pydantic_is_loaded_by_the_first_decorated_function_and_not_before():
    code = (
        "import sys, stepline.bundle.parts, stepline.bundle.assembly, lambdas.act, lambdas.decide, lambdas.close\n"
        "from stepline import tool\n"
        "assert 'pydantic' not in sys.modules\n"
        "tool('shop.say')(lambda: None)\n"
        "assert 'pydantic' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
