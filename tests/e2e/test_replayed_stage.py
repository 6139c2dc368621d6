"""Turns of the deployed stage, replayed: equal without a model, and different at the first round that a prompt changes."""

from __future__ import annotations

import json

import pytest

from tests.e2e.stage import a_word

pytestmark = pytest.mark.emulator

BUNDLE = """
from bundles.default.workflow import DefaultWorkflow


class Changed(DefaultWorkflow):
    result = {"type": "object", "properties": {"joke": {"type": "string"}}, "required": ["joke"]}


WORKFLOW = Changed
"""
MESSAGES = (
    "Make a plan with three steps, write it to a file with the word {word} in it and read it back.",
    "Search for prompt caching and explain {word}.",
    "Hello {word}.",
)


def replayed(stage, *words, **options):
    """Return the exit code of a replay, and a row for each turn."""
    done = stage.command("replay", *words, "--json", check=False, **options)
    assert done.stderr == ""
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]


def test_turns_replay_equal_for_nothing_and_a_changed_prompt_names_its_first_round(
    scripted, conversation, tmp_path
):
    word = a_word()
    for message in MESSAGES:
        scripted.send(message.format(word=word), conversation)
    asked = len(scripted.model_requests(word))
    code, rows = replayed(scripted, conversation)
    assert [(row["outcome"], row["where"], row["asked"]) for row in rows] == [("equal", "", 0)] * 3
    assert (code, len(scripted.model_requests(word))) == (0, asked)

    (tmp_path / "changed").mkdir()
    (tmp_path / "changed/__init__.py").write_text(BUNDLE)
    code, rows = replayed(scripted, conversation, "--bundle", "changed", cwd=tmp_path)
    for row in rows:
        assert row["outcome"] == "diverged"
        assert row["where"].startswith(
            f"{row['turn_id']}, round 0: another request, first in system at character "
        )
    assert (code, len(rows)) == (1, 3)

    path = str(tmp_path / "record.zip")
    scripted.command("export", conversation, "--record", path)
    code, rows = replayed(scripted, path)
    assert (code, [row["outcome"] for row in rows]) == (0, ["equal"] * 3)
