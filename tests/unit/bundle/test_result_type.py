"""A result type: `complete` carries a value that is checked, corrected after a notice, recorded, and returned typed."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest
from pydantic import BaseModel

from stepline import InputError
from stepline.bundle.assembly import build_agent
from stepline.bundle.parts import Parts
from stepline.protocol.decision.result_value import VALUE_BYTES, VALUE_DEPTH
from stepline.testing import Conversation, answer
from stepline.tools.context import ReadCaps
from stepline.tools.typed.result_type import read_result_type

TRIES = 3
"""A broken decision is corrected twice."""
SCHEMA = {
    "type": "object",
    "required": ["eur"],
    "additionalProperties": False,
    "properties": {"eur": {"type": "number", "description": "what it costs"}},
}


class Price(BaseModel):
    """What an article costs."""

    eur: float
    rows: list[Price] = []


SHOP = """
from dataclasses import dataclass
from pydantic import BaseModel
from stepline import BaseWorkflow

class Price(BaseModel):
    eur: float
    note: str = ""

class Shop(BaseWorkflow):
    result = {result}

WORKFLOW = Shop
"""


@pytest.fixture
def shop(tmp_path, monkeypatch, request):
    def written(result, **settings):
        name = f"shop_{abs(hash((result, request.node.name)))}"
        (tmp_path / f"{name}.py").write_text(SHOP.replace("{result}", result))
        monkeypatch.syspath_prepend(str(tmp_path))
        return Conversation(name, settings=settings)

    return written


def test_a_value_is_in_the_result_the_event_the_receipt_and_the_next_request(shop):
    with shop("Price") as conversation:
        first = conversation.run("What is it?", decisions=[answer("It costs 12.50.", value={"eur": 12.5})])
        second = conversation.run("Thanks.", decisions=[answer("Welcome.", value={"eur": 1})])
    assert type(first.ended.value).__name__ == "Price"
    assert (first.ended.value.eur, first.ended.value.note) == (12.5, "")
    (event,) = [event for event in first.events if event.type == "chat.complete"]
    assert event.data["value"] == {"eur": 12.5, "note": ""}
    assert event.data["answer"] == "It costs 12.50."
    assert '{"eur":12.5,"note":""}' in second.requests[0]
    assert first.notices == ()


def test_a_json_schema_returns_the_value_as_json(shop):
    with shop(repr(SCHEMA)) as conversation:
        turn = conversation.run("What is it?", decisions=[answer("12.50.", value={"eur": 12.5})])
    assert turn.ended.value == {"eur": 12.5}


@pytest.mark.parametrize(
    ("value", "named"),
    [
        ({}, "eur"),
        ({"eur": "much"}, "eur"),
        ([], "value"),
        ({"eur": 1, "note": 3}, "note"),
        ({"eur": 1, "note": "x" * VALUE_BYTES}, "bytes"),
    ],
    ids=["missing field", "wrong type", "no object", "nested", "too large"],
)
def test_a_value_that_does_not_fit_is_a_notice_that_the_model_corrects(shop, value, named):
    with shop("Price") as conversation:
        decisions = [answer("Wrong.", value=value), answer("Right.", value={"eur": 1})]
        turn = conversation.run("What is it?", decisions=decisions)
    assert [notice.code for notice in turn.notices] == ["value_invalid"]
    assert named in turn.notices[0].message
    assert (turn.answer, turn.ended.value.eur) == ("Right.", 1)
    shown = [event for event in turn.events if "Wrong." in str(event.data)]
    assert shown == []


def test_an_answer_without_its_value_is_refused_and_an_exit_needs_none(shop):
    exit_ = answer("Which article?", value={"eur": 1})
    exit_ = replace(exit_, bodies=({**exit_.bodies[0], "action": "exit"},))
    with shop("Price") as conversation:
        first = conversation.run("What is it?", decisions=[answer("12."), answer("12.", value={"eur": 12})])
        second = conversation.run("And?", decisions=[exit_])
    assert first.notices[0].code == "value_invalid"
    assert (second.answer, second.ended.reason, second.ended.value) == ("Which article?", "exit", None)


def test_values_that_never_fit_end_the_turn_like_other_broken_decisions(shop):
    with shop("Price") as conversation:
        turn = conversation.run("What is it?", decisions=[answer("Wrong.", value={})] * TRIES)
        broken = conversation.run("What is it?", decisions=["{not json"] * TRIES)
    assert turn.ended.code == broken.ended.code == "model_protocol"
    assert turn.ended.value is None


def test_the_last_round_keeps_the_answer_without_a_value_that_does_not_fit(shop):
    with shop("Price", AI_REACT_MAX_ITERATIONS="1") as conversation:
        turn = conversation.run("What is it?", decisions=[answer("About 12.", value={"eur": "12ish"})])
    assert (turn.answer, turn.ended.reason, turn.ended.value) == ("About 12.", "exit", None)
    assert turn.notices[0].code == "value_dropped"


def test_values_nested_too_deep_are_refused(shop):
    deep: object = 1
    for _ in range(VALUE_DEPTH + 1):
        deep = [deep]
    with shop("{'type': 'array'}") as conversation:
        turn = conversation.run("Go.", decisions=[answer("No.", value=deep), answer("Yes.", value=[1])])
    assert "levels" in turn.notices[0].message
    assert turn.answer == "Yes."


@pytest.mark.parametrize("layout", ["timeline", "journal"])
def test_the_instructions_name_the_type_and_are_the_same_bytes_without_one(layout):
    plain = build_agent(ReadCaps(), parts=Parts(), layout=layout).system
    typed = build_agent(ReadCaps(), parts=Parts(result=Price), layout=layout).system
    assert build_agent(ReadCaps(), parts=Parts(result=Price), layout=layout).system == typed
    before, head, rest = typed.partition("# The value")
    section, next_head, after = rest.partition("\n# ")
    assert head
    assert "  value (Price, required): What an article costs." in section
    assert "    eur (number, required)" in section
    if layout == "timeline":  # the other one has the lengths of its blocks in front
        assert before + next_head.removeprefix("\n") + after == plain
    assert "# The value" not in plain


@pytest.mark.parametrize(
    "declared", [{"type": "money"}, {"$ref": "https://example.com/a"}, object(), {"properties": 3}], ids=repr
)
def test_a_type_without_a_schema_is_refused_by_name(declared):
    with pytest.raises(InputError) as refused:
        read_result_type(declared)
    assert refused.value.reason == "result_type_invalid"


def test_an_agent_without_a_result_type_loads_nothing_for_it():
    code = (
        "import sys\n"
        "from stepline.bundle.assembly import build_agent\n"
        "from stepline.bundle.parts import Parts\n"
        "from stepline.tools.context import ReadCaps\n"
        "assert build_agent(ReadCaps(), parts=Parts()).result is None\n"
        "names = ('pydantic', 'stepline.tools.typed', 'stepline.protocol.decision.result_value')\n"
        "assert not [name for name in names if name in sys.modules]\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
