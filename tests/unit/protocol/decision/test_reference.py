"""References in a decision's parameters: which tools take them, what refuses them, and how they are written down."""

from typing import Any

import pytest

from stepline.errors import PathError, ToolError
from stepline.protocol.decision.call_check import Referred
from stepline.tools.spec import ToolSpec
from tests.unit.protocol.decision.read_generation import call, codes, generation, judge

FILE = "fi:turn_1.outputs/a.md"
POOL = "so:sources_pool[1,3]"
NOT_VISIBLE = "protocol_violation.param_ref_not_visible"
NORMALIZED = "protocol_warning.ref_path_normalized"


def tool(tool_id: str, **facts: Any) -> ToolSpec:
    properties = {
        "content": {"type": "string", "minLength": 1, "maxLength": 8, "description": "d"},
        "sources_list": {"type": "array", "items": {"type": "object"}, "description": "d"},
        "of": {"type": "object", "description": "d"},
    }
    schema = {
        "type": "object",
        "additionalProperties": False,
        "required": ["content"],
        "properties": properties,
    }
    return ToolSpec(
        tool_id=tool_id, purpose="p", returns="r", schema=schema, effect="pure", read_only=True, **facts
    )


TOOLS = {
    spec.tool_id: spec
    for spec in (
        tool("react.write"),
        tool("react.other"),
        tool("mail.send"),
        tool("rendering_tools.write_pdf"),
    )
}


def refer(written: str) -> Referred:
    match written:
        case "nowhere":
            raise PathError("no path", code="path_unknown_family")
        case "fi:turn_1.outputs/gone.md":
            raise ToolError("it is not in view", code="ref_not_visible")
        case "fi:turn_1.outputs/own.md":
            return Referred(path=written, internal=True)
        case "outputs/a.md" | "turn_1/outputs/a.md":
            return Referred(path=FILE)
        case _:
            return Referred(path=written)


def verdict(tool_id: str, **params: Any) -> Any:
    text = generation(call({"tool_id": tool_id, "params": params}))
    return judge(text, tools=TOOLS, allowed=set(TOOLS), refer=refer)


@pytest.mark.parametrize("tool_id", ["react.write", "mail.send", "rendering_tools.write_pdf"])
def test_a_reference_is_not_checked_against_the_schema_before_it_is_bound(tool_id: str) -> None:
    found = verdict(tool_id, content=f"ref:{FILE}", sources_list=f"ref:{POOL}", of={"in": [f"ref:{FILE}"]})
    assert (found.accepted, codes(found)) == (True, [])


def test_parameters_next_to_a_reference_are_checked() -> None:
    assert codes(verdict("mail.send", content="far too long")) == ["bad_params"]
    assert codes(verdict("mail.send", content=f"ref:{FILE}", of="no object")) == ["bad_params"]
    assert codes(verdict("mail.send", sources_list=f"ref:{POOL}")) == ["bad_params"]
    assert codes(verdict("mail.send", content=f"ref:{FILE}", other=f"ref:{FILE}")) == ["bad_params"]


def test_the_agents_own_tools_but_for_write_take_paths_and_no_references() -> None:
    assert verdict("react.other", content="ref:nowhere").accepted is False
    assert verdict("react.other", content="ref:x").actions[0].params == {"content": "ref:x"}


@pytest.mark.parametrize(
    ("tool_id", "params", "code"),
    [
        ("react.write", {"content": "ref:nowhere"}, "ref_not_visible"),
        ("react.write", {"content": "ref:fi:turn_1.outputs/gone.md"}, "ref_not_visible"),
        (
            "mail.send",
            {"content": "x", "of": {"a": [{"b": "ref:fi:turn_1.outputs/gone.md"}]}},
            "ref_not_visible",
        ),
        (
            "rendering_tools.write_pdf",
            {"content": "ref:fi:turn_1.outputs/own.md"},
            "ref_internal_not_visible",
        ),
        ("mail.send", {"content": "x", "sources_list": f"ref:{FILE}"}, "sources_list_requires_sources_pool"),
    ],
)
def test_a_reference_that_cannot_be_bound_refuses_the_decision(
    tool_id: str, params: dict[str, Any], code: str
) -> None:
    found = verdict(tool_id, **params)
    assert (found.accepted, found.actions, codes(found)) == (False, (), [NOT_VISIBLE])
    (violation,) = found.notices[0].extra["violations"]
    assert violation.startswith(f"{code}: ")


def test_a_tool_that_renders_nothing_may_use_an_internal_file() -> None:
    assert verdict("mail.send", content="ref:fi:turn_1.outputs/own.md").accepted


@pytest.mark.parametrize("written", ["outputs/a.md", "turn_1/outputs/a.md"])
def test_a_reference_in_another_form_is_corrected_and_reported(written: str) -> None:
    found = verdict("mail.send", content=f"ref:{written}", of={"x": [f"ref:{FILE}"]})
    assert found.actions[0].params == {"content": f"ref:{FILE}", "of": {"x": [f"ref:{FILE}"]}}
    (notice,) = found.notices
    assert (notice.code, notice.extra["refs"]) == (NORMALIZED, {written: FILE})
