"""The system prompt: complete, small, and the same bytes every time."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from bundles.default import WORKFLOW, tools_descriptor
from bundles.default.tools_descriptor import TOOLS
from stepline.bundle.assembly import build_agent
from stepline.bundle.parts import load_tools
from stepline.bundle.system_prompt import TEMPLATES, PromptFacts, load_template, system_prompt
from stepline.loop.title import CHANNELS
from stepline.model.plan_steps import STEP_MARKS
from stepline.model.program.execution import RunLimits, RuntimeProfile
from stepline.protocol.decision.fanout import FanoutRule
from stepline.protocol.decision.read import RoundVerdict, read_decision
from stepline.protocol.decision.round_rules import RoundRules
from stepline.protocol.parser.channel_parser import read_channels
from stepline.protocol.parser.grammar import DECISION_CHANNELS
from stepline.rendering.render_entry import RESULT_PREVIEW_CHARS
from stepline.timeline.working_summary import parse_title
from stepline.tools.context import ReadCaps
from stepline.tools.spec import render_tool_card, render_tool_catalogue
from stepline.tools.write import WRITE_TOOL
from tests.unit.rendering.golden import GOLDEN

TEMPLATE_MAX_CHARS = 2_500
CARD_MAX_CHARS = 1_800
"""Bound of one tool's card."""
ORDINARY_CARD_CHARS = 1_000
"""Bound of the cards' mean: a tool no longer than this never makes an agent exceed its limit."""
NAMES_MAX_CHARS = 60
"""How much longer the instructions may be for each tool, which they name by its kind."""
SKILLS_MAX_CHARS = 700
"""Bound of the catalogue of the built-in skills, after everything else."""

CAPS = ReadCaps()
RUNTIME = (RuntimeProfile(backend="process"), RunLimits(timeout_s=60))
ONE, SEVERAL, BY_NAME = (
    FanoutRule(),
    FanoutRule(mode="safe_fanout", max_actions=5),
    FanoutRule(mode="read_write_search"),
)
AGENTS = [
    build_agent(CAPS, parts=WORKFLOW.parts(), runtime=runtime, fanout=rule)
    for runtime in (None, RUNTIME)
    for rule in (ONE, SEVERAL, BY_NAME)
]
AGENTS += [build_agent(CAPS, parts=WORKFLOW.parts(), runtime=RUNTIME, fanout=SEVERAL, version="v2")]


def name_of(agent):
    return f"{agent.fanout.mode} {bool(agent.execution)}{' gated' if agent.gate else ''}"


def instructions_max_chars(agent):
    """The limit of an agent's instructions without its catalogues: every turn pays for them."""
    return 11_500 + NAMES_MAX_CHARS * len(agent.registry.specs)


def system_max_chars(agent):
    """The limit of an agent's instructions and its tools' catalogue, which has each tool's name and card."""
    per_tool = ORDINARY_CARD_CHARS + NAMES_MAX_CHARS
    return instructions_max_chars(agent) + 500 + per_tool * len(agent.registry.specs)


def overlong(agent):
    """The parts of an agent's system prompt that are beyond their limits."""
    prompt, _, skills = agent.system.partition("\n[SKILL CATALOG]")
    specs = agent.registry.specs
    found = [spec.tool_id for spec in specs if len(render_tool_card(spec)) > CARD_MAX_CHARS]
    if len(prompt) - len(render_tool_catalogue(specs)) > instructions_max_chars(agent):
        found.append("instructions")
    if len(prompt) > system_max_chars(agent):
        found.append("tools")
    if not 0 < len(skills) < SKILLS_MAX_CHARS:
        found.append("skills")
    return found


@pytest.fixture
def agent_with(monkeypatch):
    """Make the agent with the longest instructions, and one more tool for each card."""
    load_tools.cache_clear()

    def make(cards):
        specs = [
            replace(WRITE_TOOL.spec, tool_id=f"further_{n}.run", card=card) for n, card in enumerate(cards)
        ]
        tools = [*TOOLS, *(replace(WRITE_TOOL, spec=spec) for spec in specs)]
        monkeypatch.setattr(tools_descriptor, "TOOLS", tools)
        return build_agent(CAPS, parts=WORKFLOW.parts(), runtime=RUNTIME, fanout=SEVERAL)

    yield make
    load_tools.cache_clear()


@pytest.mark.parametrize("agent", AGENTS, ids=name_of)
def test_the_system_prompt_is_small(agent):
    assert overlong(agent) == []


@pytest.mark.parametrize("count", [1, 8, 40])
def test_further_tools_of_ordinary_length_are_within_the_limit(agent_with, count):
    assert overlong(agent_with(["x" * ORDINARY_CARD_CHARS] * count)) == []


def test_a_tool_with_an_overlong_card_is_named(agent_with):
    assert overlong(agent_with(["x" * ORDINARY_CARD_CHARS, "x" * (CARD_MAX_CHARS + 1)])) == ["further_1.run"]


def test_many_tools_longer_than_ordinary_exceed_the_limit(agent_with):
    assert overlong(agent_with(["x" * CARD_MAX_CHARS] * 8)) == ["tools"]


def test_a_template_is_small():
    assert all(len(load_template(name)) <= TEMPLATE_MAX_CHARS for name in TEMPLATES)


@pytest.mark.parametrize("agent", AGENTS, ids=name_of)
def test_the_prompt_depends_only_on_its_arguments_and_has_no_placeholder(agent):
    again = build_agent(
        CAPS,
        parts=WORKFLOW.parts(),
        runtime=RUNTIME if agent.execution else None,
        fanout=agent.fanout,
        version="v2" if agent.gate else "v3",
    )
    assert again.system == agent.system
    assert f"\n{render_tool_catalogue(agent.registry.specs)}\n\n[SKILL CATALOG]" in agent.system
    instructions = agent.system[: agent.system.index("[TOOLS]")]
    assert not re.search(r"20\d\d-|\{[a-z_]+\}", instructions)


def test_an_agent_with_one_action_a_round_reads_nothing_of_several():
    (one, several, by_name) = (agent.system for agent in AGENTS[:3])
    assert "# One action a round" in one
    assert "# Several actions" not in one
    for prompt in (several, by_name):
        assert "# One action a round" not in prompt
        assert "# Several actions in one round" in prompt
    assert "up to 5 decisions" in several
    assert (
        "what looks about (react.read, react.rg, react.pull, react.memsearch, web_tools.*), "
        "what makes (react.write, react.patch), what is neutral" in several
    )
    assert "; behind web_tools.* also react.write on another matter" in several
    assert (
        "react.read, react.write, react.rg, react.memsearch, web_tools.*. Every other tool stands alone"
        in by_name
    )
    assert (
        "what makes (react.write, react.patch, exec_tools.execute_code_python, rendering_tools.*)"
        in AGENTS[4].system
    )
    assert "exec_tools.execute_code_python, rendering_tools.*. Every other tool" in AGENTS[5].system


def test_an_agent_with_a_gate_reads_its_stages_and_writes_no_title():
    staged, plain = AGENTS[-1].system, AGENTS[0].system
    assert "# One action a round, in stages" in staged
    assert "# Several actions" not in staged
    assert "Title:" not in staged
    assert "first a line `Title: …`" in plain
    assert parse_title(read_channels(plain).bodies("summary")[0]) == "Packing list for a weekend"


def test_the_gates_instructions_show_the_shape_of_its_answer():
    gate = AGENTS[-1].gate
    assert gate.splitlines()[0] == "You name a new conversation."
    assert [one.channel for one in read_channels(gate, CHANNELS).instances] == ["thinking", "output"]


def test_citations_are_explained_to_an_agent_that_can_search():
    specs = build_agent(CAPS, parts=WORKFLOW.parts()).registry.specs
    assert "[[S:3]]" in system_prompt(PromptFacts(tools=specs, caps=CAPS))
    without = [spec for spec in specs if not spec.tool_id.startswith("web_tools.")]
    assert "[[S:" not in system_prompt(PromptFacts(tools=without, caps=CAPS))


def test_the_prompt_states_the_caps():
    caps = ReadCaps(max_chars=111, max_tokens=222, max_bytes=333)
    prompt = system_prompt(PromptFacts(tools=(), caps=caps))
    assert all(str(number) in prompt for number in (111, 222, 333))


# What a request no longer says in every round: caps, and how to follow what was shortened.
def test_the_prompt_explains_everything_that_a_layout_shortens():
    prompt = system_prompt(PromptFacts(tools=(), caps=CAPS))
    heads = [
        "[WORKING SUMMARY]",
        "[PRUNED TURN DATA]",
        "].pruned",
        "[TRUNCATED FILE]",
        " PREVIEW TRUNCATED]",
        "[HIDDEN]",
        "[COMPACTED PRIOR CONVERSATION MEMORY]",
        "[MID-TURN COMPACTION",
        "...[truncated]",
    ]
    golden = "".join(path.read_text(encoding="utf-8") for path in GOLDEN.glob("*.txt"))
    assert [head for head in heads if head not in prompt or head not in golden] == []
    assert f"{RESULT_PREVIEW_CHARS} characters" in prompt


def test_the_prompt_states_every_required_rule():
    prompt = system_prompt(PromptFacts(tools=(), caps=CAPS))
    words = [*(f"channel:{channel.name}" for channel in DECISION_CHANNELS), *list(STEP_MARKS.values())[:3]]
    words += [
        "call_tool",
        "complete",
        "exit",
        "ws:<turn>.conv.working.summary",
        "ar:plan.latest:",
        "ar:<turn>.react.turn.index",
        "react.memsearch",
        "first column",
    ]
    assert [word for word in words if word not in prompt] == []


def judged(text: str, rule: FanoutRule = ONE) -> RoundVerdict:
    agent = build_agent(CAPS, parts=WORKFLOW.parts())
    rules = RoundRules(
        tools=agent.tools, allowed=agent.callable_ids, call_id="tc_{}".format, turn="turn_1", fanout=rule
    )
    return read_decision(read_channels(text), rules)


@pytest.mark.parametrize(("which", "action"), [(0, "call_tool"), (1, "complete")])
def test_the_worked_examples_obey_the_protocol(which: int, action: str):
    example = re.findall(r"(?ms)^<channel:thinking>.*?(?=^Example|\Z)", load_template("protocol"))[which]
    verdict = judged(example)
    assert (verdict.accepted, json.dumps([n.code for n in verdict.notices])) == (True, "[]")
    assert verdict.decision.action == action


def test_the_worked_example_of_several_actions_obeys_the_protocol():
    example = load_template("several")
    example = "<channel:thinking>x</channel:thinking>" + example[example.index("<channel:") :]
    verdict = judged(example, SEVERAL)
    assert ([action.tool_id for action in verdict.actions], verdict.notices) == (["react.write"] * 2, ())
