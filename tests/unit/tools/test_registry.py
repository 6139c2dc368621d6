from __future__ import annotations

import ast
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import stepline.tools
from stepline.errors import DependencyError
from stepline.tools.catalogue import default_registry
from stepline.tools.registry import Registry, Tool
from stepline.tools.spec import ToolSpec, render_tool_card, render_tool_catalogue

from .conftest import ToolConversation

ECHO = ToolSpec(
    tool_id="test.echo",
    purpose="Say it again.",
    schema={
        "type": "object",
        "additionalProperties": False,
        "required": ["text"],
        "properties": {"text": {"type": "string", "description": "what to say"}},
    },
    returns="the text",
    effect="pure",
    read_only=True,
)


def test_an_unknown_tool_is_refused_with_the_tools_there_are(conversation):
    output = conversation.call("react.fly", {})
    assert output.error is not None
    assert output.error["code"] == "unknown_tool_id"
    assert "react.read, react.write, react.patch, react.rg, react.pull" in output.error["message"]


def test_a_program_that_uses_an_old_name_gets_the_new_one(conversation):
    output = conversation.call("react.file", {})
    assert output.error["code"] == "unknown_tool_id"
    assert output.error["message"].startswith("react.file is now react.write")


def test_a_refused_call_is_a_notice_and_a_result_that_the_model_reads(conversation):
    notice, status = conversation.call("react.write", {"path": "a.md", "kontent": 1}).blocks
    assert (notice.type, notice.meta["rel"]) == ("react.notice", "result")
    message = json.loads(notice.text)["message"]
    assert "content" in message
    assert "kontent" in message
    assert json.loads(status.text) == {"status": "error", "error": {"code": "bad_params"}}


def test_a_service_that_fails_is_not_the_models_mistake():
    def fail(_params, _context):
        raise DependencyError("the store is away")

    conversation = ToolConversation(registry=Registry((Tool(spec=ECHO, run=fail),)))
    with pytest.raises(DependencyError):
        conversation.call("test.echo", {"text": "x"})


def test_two_tools_of_one_name_are_a_mistake():
    tool = Tool(spec=ECHO, run=lambda _params, _context: pytest.fail("never run"))
    with pytest.raises(ValueError, match=r"test\.echo"):
        Registry((tool, tool))


def test_an_unknown_tool_has_no_effect():
    assert default_registry().effect("react.fly") == "pure"
    assert default_registry().effect("react.write") == "keyed"


@pytest.mark.parametrize(
    ("old", "new"), [("react.search_files", "react.rg"), ("react.memory_read", "react.memsearch")]
)
def test_a_call_of_the_renamed_search_gets_the_new_name(conversation, old, new):
    output = conversation.call(old, {"query": "x"})
    assert output.error["code"] == "unknown_tool_id"
    assert output.error["message"].startswith(f"{old} is now {new}")


def test_the_catalogue_begins_with_the_roster_and_shows_every_parameter():
    specs = default_registry().specs
    catalogue = render_tool_catalogue(specs)
    ids = [spec.tool_id for spec in specs]
    first = "read write patch rg pull checkout plan hide memsearch"
    assert ids[:9] == [f"react.{name}" for name in first.split()]  # a further tool is after these
    assert catalogue.startswith(f"[TOOLS] {len(ids)} available: {', '.join(ids)}\n")
    for spec in specs:
        for name in spec.documented:
            assert f"  {name} (" in catalogue
    assert catalogue == render_tool_catalogue(default_registry().specs)


@pytest.mark.parametrize("spec", default_registry().specs, ids=lambda spec: spec.tool_id)
def test_every_schema_is_closed_and_described_and_its_examples_are_valid(spec):
    assert spec.schema["additionalProperties"] is False
    assert all(rule["description"] for rule in spec.schema["properties"].values())
    assert spec.examples
    for example in spec.examples:
        assert spec.validate(example) == []
        assert spec.misplaced(example) == []


def test_all_errors_of_a_call_are_reported_at_once():
    (write,) = [spec for spec in default_registry().specs if spec.tool_id == "react.write"]
    assert write.validate({"path": 1, "content": 3, "kind": "q"}) == [
        "path must be string",
        "content must be string or object or array",
        "kind must be one of ['display', 'file']",
    ]


def test_only_existing_parameters_are_checked_for_order():
    (write,) = [spec for spec in default_registry().specs if spec.tool_id == "react.write"]
    assert write.misplaced({"path": 1, "content": 2, "scratchpad": 3}) == []
    assert write.misplaced({"scratchpad": 3, "path": 1, "content": 2}) == [
        "path_not_first",
        "content_not_third",
    ]


# Spec: parameters are supplied in the documented order; only those that stream must be.
@pytest.mark.parametrize("spec", default_registry().specs, ids=lambda spec: spec.tool_id)
def test_every_tool_documents_the_order_of_its_parameters(spec):
    other_names = {name for name, rule in spec.schema["properties"].items() if "alias_of" in rule}
    assert set(spec.documented) == set(spec.schema["properties"]) - other_names
    assert spec.documented[: len(spec.key_order)] == spec.key_order
    card = render_tool_card(spec)
    places = [card.index(f"\n  {name} (") for name in spec.documented]
    assert places == sorted(places)
    for example in spec.examples:
        assert list(example) == [name for name in spec.documented if name in example]


def test_a_card_has_each_request_of_a_user_before_the_example_that_answers_it():
    card = render_tool_card(replace(ECHO, requests=("Say A.",), examples=({"text": "A"}, {"text": "B"})))
    said = [line for line in card.split("\n") if line.startswith(("request: ", "example: "))]
    assert [line.partition(": ")[0] for line in said] == ["request", "example", "example"]
    assert said[0] == "request: Say A."


def test_every_position_of_a_parameter_has_an_ordinal():
    names = tuple("abcdefghijk")
    spec = replace(ECHO, key_order=names)
    assert spec.misplaced(dict.fromkeys(reversed(names), 1))[-1] == "k_not_11th"


def test_the_validator_is_not_imported_before_a_call_needs_it():
    code = "import sys, stepline.tools.catalogue; sys.exit('fastjsonschema' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_no_tool_reaches_around_its_ports():
    folder = Path(stepline.tools.__file__).parent
    for module in folder.glob("*.py"):
        calls = [node for node in ast.walk(ast.parse(module.read_text())) if isinstance(node, ast.Call)]
        assert not [call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "open"]
