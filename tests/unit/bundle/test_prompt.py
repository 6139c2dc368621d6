"""The system prompt: complete, small, and the same bytes every time."""

from __future__ import annotations

import json
import re

import pytest

from stepline.bundle.default import build_agent
from stepline.bundle.prompt import PROMPT_MAX_CHARS, TEMPLATES, load_template, system_prompt
from stepline.model.plan import MARKS
from stepline.protocol.channel import ChannelParser
from stepline.protocol.decision import read_decision
from stepline.protocol.grammar import DECISION_CHANNELS
from stepline.tools.context import ReadCaps

TEMPLATE_MAX_CHARS = 2_500


def test_the_instructions_are_small():
    assert len(system_prompt(catalogue="", caps=ReadCaps())) < PROMPT_MAX_CHARS
    assert all(len(load_template(name)) <= TEMPLATE_MAX_CHARS for name in TEMPLATES)


def test_the_default_agent_fits_too():
    assert len(build_agent(ReadCaps()).system) < PROMPT_MAX_CHARS


def test_the_prompt_is_a_function_of_its_arguments():
    prompts = {system_prompt(catalogue="[TOOLS]", caps=ReadCaps()) for _ in range(2)}
    assert len(prompts) == 1
    (prompt,) = prompts
    assert prompt.endswith("\n[TOOLS]\n")
    assert not re.search(r"20\d\d-|\{max_", prompt)


def test_the_caps_are_told():
    caps = ReadCaps(max_chars=111, max_tokens=222, max_bytes=333)
    prompt = system_prompt(catalogue="", caps=caps)
    assert all(str(number) in prompt for number in (111, 222, 333))


def test_what_the_model_must_know_is_said():
    prompt = system_prompt(catalogue="", caps=ReadCaps())
    words = [*(f"channel:{channel.name}" for channel in DECISION_CHANNELS), *list(MARKS.values())[:3]]
    words += [
        "call_tool",
        "complete",
        "exit",
        "ws:<turn>.conv.working.summary",
        "ar:plan.latest:",
        "first column",
    ]
    assert [word for word in words if word not in prompt] == []


@pytest.mark.parametrize(("which", "action"), [(0, "call_tool"), (1, "complete")])
def test_the_worked_examples_obey_the_protocol(which: int, action: str):
    example = re.findall(r"(?ms)^<channel:thinking>.*?(?=^Example|\Z)", load_template("protocol"))[which]
    parser = ChannelParser()
    parser.feed(example)
    parser.close()
    agent = build_agent(ReadCaps())
    verdict = read_decision(
        parser.transcript(),
        tools=agent.tools,
        allowed_tools=agent.tools.keys(),
        call_id=lambda index: f"tc_{index:012x}",
        last_round=False,
        stop_reason="end_turn",
        streamed_answer="",
    )
    assert (verdict.accepted, json.dumps([n.code for n in verdict.notices])) == (True, "[]")
    assert verdict.decision.action == action
