"""A turn on the chat page, as a person sees it."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.e2e.stage import a_word

pytestmark = pytest.mark.emulator


def test_a_plan_a_file_and_an_answer_are_seen(chat):
    word = a_word()
    turn = chat.take_turn(
        f"Make a plan with three steps, write it to a file with the word {word} in it and read it back."
    )
    assert word in chat.answer_of(turn)
    expect(turn.locator("li.round")).to_have_count(4)
