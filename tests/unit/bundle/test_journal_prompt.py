"""The system part of the layout `journal`: in three texts, complete, small, and the same bytes every time."""

from __future__ import annotations

import re

import pytest

from bundles.default import WORKFLOW
from stepline.bootstrap.memory_wiring import in_memory
from stepline.bundle.assembly import build_agent
from stepline.bundle.system_prompt import COMMON, IN_JOURNAL, INFRASTRUCTURE, TEMPLATES, WRAPUP, load_template
from stepline.context.journal.staged import JournalText
from stepline.context.journal.turn_course import DETAILS
from stepline.loop.agent import Agent
from stepline.model.program.execution import RunLimits, RuntimeProfile
from stepline.protocol.decision.fanout import FanoutRule
from stepline.settings import Settings
from stepline.tools.context import ReadCaps
from tests.unit.bundle.test_system_prompt import (
    SKILLS_MAX_CHARS,
    TEMPLATE_MAX_CHARS,
    instructions_max_chars,
    system_max_chars,
)

WRAPUP_MAX_CHARS = 500
CAPS = ReadCaps()
RUNTIME = (RuntimeProfile(backend="process"), RunLimits(timeout_s=60))
AGENTS = [
    build_agent(CAPS, parts=WORKFLOW.parts(), runtime=runtime, fanout=rule, layout="journal")
    for runtime in (None, RUNTIME)
    for rule in (FanoutRule(), FanoutRule(mode="safe_fanout"), FanoutRule(mode="read_write_search"))
]


def name_of(agent: Agent) -> str:
    return f"{agent.fanout.mode} {bool(agent.execution)}"


def text_of(agent: Agent) -> JournalText:
    return JournalText.unpack(agent.system)


@pytest.mark.parametrize("agent", AGENTS, ids=name_of)
def test_the_blocks_are_small(agent: Agent):
    text = text_of(agent)
    _, _, skills = text.catalogue.partition("\n[SKILL CATALOG]")
    assert len(text.instructions) < instructions_max_chars(agent)
    whole = text.instructions + text.tools + text.catalogue
    assert len(whole) < system_max_chars(agent) + SKILLS_MAX_CHARS
    assert len(text.wrapup) < WRAPUP_MAX_CHARS
    assert 0 < len(skills) < SKILLS_MAX_CHARS


def test_its_templates_are_small():
    names = {IN_JOURNAL.get(name, name) for name in TEMPLATES} | {WRAPUP}
    assert {name for name in names if name.startswith("journal_")} == {*IN_JOURNAL.values(), WRAPUP}
    assert all(len(load_template(name)) <= TEMPLATE_MAX_CHARS for name in names)


@pytest.mark.parametrize("agent", AGENTS, ids=name_of)
def test_the_journal_prompt_has_no_placeholder_and_no_word_of_the_timeline(agent: Agent):
    text = text_of(agent)
    whole = text.instructions + text.wrapup
    assert not re.search(r"20\d\d-|\{[a-z_]+\}", whole)
    assert "ANNOUNCE" not in whole
    assert "timeline" not in whole


@pytest.mark.parametrize("agent", AGENTS, ids=name_of)
def test_every_tool_has_its_card_in_one_of_two_lists(agent: Agent):
    text = text_of(agent)
    assert text.tools.startswith(f"{COMMON}\n[TOOLS] {len(agent.callable_ids)} available: ")
    assert text.catalogue.startswith(f"{INFRASTRUCTURE}\n")
    for spec in agent.registry.specs:
        card = f"## {spec.tool_id}\n"
        own = spec.tool_id.startswith("react.") or not spec.in_react
        assert (card in text.tools, card in text.catalogue) == (not own, own)


def test_programs_tools_are_listed_where_the_agent_runs_programs():
    without, with_programs = text_of(AGENTS[0]), text_of(AGENTS[3])
    assert "[TOOLS OF PROGRAMS]" not in without.catalogue
    assert "[TOOLS OF PROGRAMS]" in with_programs.catalogue
    assert "exec_tools.execute_code_python" in with_programs.tools


def test_the_journal_prompt_states_the_current_limits():
    instructions = text_of(AGENTS[0]).instructions
    assert f"{CAPS.max_chars} characters" in instructions
    assert f"{DETAILS[0].preview_chars}" in instructions
    assert f"{DETAILS[0].read_chars} characters" in instructions


def test_the_catalogue_of_skills_says_how_they_are_shown():
    assert "show_skills" in text_of(AGENTS[0]).catalogue.partition("[SKILL CATALOG]")[2]


def test_a_packed_text_is_unpacked_and_any_other_text_is_unchanged():
    (agent, *_) = AGENTS
    assert text_of(agent).pack() == agent.system
    assert JournalText.unpack("be brief") == JournalText(instructions="be brief", tools="", catalogue="")


@pytest.mark.parametrize("layout", ["timeline", "journal"])
def test_the_layout_of_a_deployment_reaches_the_agent(layout: str):
    assert in_memory(Settings.from_env({"AI_REACT_CONTEXT_LAYOUT": layout})).agent.layout.name == layout


def test_a_bundles_layout_counts_before_the_deployments():
    props = '{"react": {"context": {"layout": "journal"}}}'
    assert in_memory(Settings.from_env({"STEPLINE_BUNDLE_PROPS": props})).agent.layout.name == "journal"
