"""The families of models that chat completions reach: which choices for a role each refuses."""

from __future__ import annotations

import pytest

from stepline.adapters.chat.family import find_chat_refusals
from stepline.ports.model import RoleChoice


@pytest.mark.parametrize("model", ["gpt-5.1", "gpt-5.5-2026-04-23", "openai/gpt-5.4-mini", "gpt-6-sol"])
def test_a_model_after_gpt_5_thinks_not_at_all_if_its_role_says_so(model: str) -> None:
    assert find_chat_refusals(RoleChoice(model=model, thinking="disabled")) == []
    assert find_chat_refusals(RoleChoice(model=model, thinking="disabled", effort="low")) == [
        f"{model} takes no effort low while its thinking is disabled"
    ]


@pytest.mark.parametrize("model", ["gpt-5", "gpt-5-mini", "o3", "gpt-6-astra", "gpt-6.1-sol", "qwen3:8b"])
def test_a_model_whose_thinking_no_effort_switches_off_refuses_that(model: str) -> None:
    assert find_chat_refusals(RoleChoice(model=model, thinking="disabled")) == [
        f"{model} takes no thinking disabled, only an effort or a number of tokens"
    ]
