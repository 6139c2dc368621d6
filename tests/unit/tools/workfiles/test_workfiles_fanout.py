"""Tools of the project beside others in a round, by the matrix of `safe_fanout`."""

from __future__ import annotations

import pytest

from stepline.errors import DecisionError
from stepline.model.decision import ToolCall
from stepline.protocol.decision.call_check import check_call
from stepline.protocol.decision.fanout import INCOMPATIBLE, FanoutRule, find_refusal, make_candidate
from stepline.tools.catalogue import default_registry

TOOLS = {spec.tool_id: spec for spec in default_registry(executes=True).specs}


@pytest.mark.parametrize(
    ("earlier", "later", "fits"),
    [
        ("react.rg", "react.read", True),
        ("react.rg", "react.pull", True),
        ("react.pull", "react.rg", True),
        ("web_tools.web_search", "react.rg", True),
        ("react.patch", "react.patch", True),
        ("react.patch", "react.write", True),
        ("react.patch", "react.rg", True),
        ("react.plan", "react.patch", True),
        ("react.rg", "react.patch", False),
        ("react.rg", "react.write", False),
        ("web_tools.web_search", "react.patch", False),
        ("react.checkout", "react.patch", False),
        ("react.checkout", "react.rg", False),
        ("react.rg", "react.checkout", False),
        ("react.plan", "react.checkout", False),
        ("react.checkout", "react.checkout", False),
    ],
)
def test_a_project_tool_shares_a_round_with_independent_actions(earlier, later, fits):
    rule = FanoutRule(mode="safe_fanout")
    first, second = (make_candidate("call_tool", tool, TOOLS) for tool in (earlier, later))
    assert find_refusal(rule, [first], second) == ("" if fits else INCOMPATIBLE)


def test_a_patch_names_its_file_so_that_no_other_action_of_the_round_writes_it():
    assert TOOLS["react.patch"].outputs({"path": "files/a.py"}) == ("files/a.py",)


@pytest.mark.parametrize(
    ("written", "code"),
    [
        (("channel", "path", "patch", "kind"), "path_not_first"),
        (("path", "patch", "channel", "kind"), "channel_not_second"),
        (("path", "channel", "kind", "patch"), "patch_not_third"),
        (("path", "kind", "patch"), "patch_not_third"),
        (("path", "channel", "patch", "format", "kind"), "kind_not_fourth"),
    ],
)
def test_a_streamed_patch_needs_its_parameters_in_order(written, code):
    values = {"path": "a.py", "channel": "canvas", "patch": "x", "kind": "file", "format": "whole"}
    call = ToolCall(tool_id="react.patch", params={name: values[name] for name in written})
    with pytest.raises(DecisionError) as refused:
        check_call(call, TOOLS, TOOLS)
    assert refused.value.reason == code


def test_a_decision_with_the_old_name_of_the_search_gets_the_new_one():
    with pytest.raises(DecisionError) as refused:
        check_call(ToolCall(tool_id="react.search_files", params={"root": ""}), TOOLS, TOOLS)
    assert refused.value.reason == "unknown_tool_id"
    assert refused.value.context["renamed_to"] == "react.rg"
