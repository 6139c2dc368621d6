"""The calls that need a person: by id, prefix, effect and source."""

from __future__ import annotations

from typing import Any

import pytest

from stepline.bootstrap.agent_choice import approvals
from stepline.errors import InputError
from stepline.loop.approvals.approval_policy import ApprovalPolicy, read_rules
from stepline.settings import Settings
from stepline.tools.spec import ToolSpec


def spec(tool_id: str, effect: Any = "once", approval: Any = None, *, claimed: bool = False) -> ToolSpec:
    return ToolSpec(
        tool_id=tool_id,
        purpose="p",
        schema={},
        returns="r",
        effect=effect,
        read_only=False,
        approval=approval,
        claimed=claimed,
    )


def test_without_a_rule_no_approval_is_needed() -> None:
    assert ApprovalPolicy().rule_of(spec("mail.send")) == "never"


@pytest.mark.parametrize(
    ("tool_id", "effect", "rule"),
    [
        ("mcp.crm.delete", "once", "always"),
        ("mcp.crm.list", "pure", "first_use"),
        ("mcp.wiki.read", "pure", "never"),
        ("mail.send", "once", "first_use"),
        ("mail.read", "pure", "always"),
    ],
)
def test_the_most_specific_key_counts(tool_id: str, effect: Any, rule: str) -> None:
    policy = ApprovalPolicy(
        places=(
            {
                "*": "always",
                "effect:once": "first_use",
                "mcp.*": "never",
                "mcp.crm.*": "first_use",
                "mcp.crm.delete": "always",
            },
        )
    )
    assert policy.rule_of(spec(tool_id, effect)) == rule


@pytest.mark.parametrize("effect", ["pure", "keyed", "once"])
@pytest.mark.parametrize("rules", [{"effect:once": "always"}, {"effect:pure": "never", "*": "always"}])
def test_an_effect_that_a_server_claims_for_its_own_tool_lowers_no_rule(effect: Any, rules: Any) -> None:
    policy = ApprovalPolicy(places=({"effect:keyed": "never", **rules},))
    assert policy.rule_of(spec("mcp.crm.find", effect, claimed=True)) == "always"


def test_a_rule_names_a_tool_with_a_slash_in_its_name() -> None:
    policy = ApprovalPolicy(places=(read_rules({"mcp.crm.notes/delete": "always"}, "place"),))
    assert policy.rule_of(spec("mcp.crm.notes/delete")) == "always"


def test_deployment_rules_precede_bundle_rules_and_those_tool_rules() -> None:
    settings = Settings.from_env(
        {
            "STEPLINE_APPROVALS": '{"a.one": "always"}',
            "STEPLINE_BUNDLE_PROPS": '{"react": {"approvals": {"a.*": "first_use"}}}',
            "STEPLINE_ASSEMBLY": '{"ai": {"react": {"approvals": {"*": "always"}}}}',
        }
    )
    policy = approvals(settings)
    found = [policy.rule_of(spec(name, approval="never")) for name in ("a.one", "a.two", "b.one")]
    assert found == ["always", "first_use", "always"]


@pytest.mark.parametrize(
    "wrong",
    [
        [],
        {"a b": "always"},
        {"a": "sometimes"},
        {"effect:all": "never"},
        {"a.*.b": "never"},
        {"a\n": "never"},
    ],
)
def test_an_invalid_rule_is_refused_with_its_source(wrong: Any) -> None:
    with pytest.raises(InputError) as refused:
        read_rules(wrong, "STEPLINE_APPROVALS")
    assert refused.value.reason == "bad_setting"
    assert "STEPLINE_APPROVALS" in str(refused.value)
