"""Contents in the journal: rows of the pool by their numbers, and the beginning of an artifact until it is requested."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stepline.context.journal.staged_text import ARTIFACTS
from stepline.model.source import Source
from stepline.tools.context import ToolContext, ToolOutput
from stepline.tools.registry import Registry
from tests.support.conversation import tool
from tests.support.generation import called
from tests.support.journal_conversation import JournalConversation, digest_of

SEARCH, LONG = "test.search", "It rained. " * 2_000


def search(context: ToolContext) -> ToolOutput:
    """Find two pages, and return a long text."""
    pages = [
        Source(title=name, url=f"https://a.example/{name}", text=f"All about {name}.")
        for name in ("otters", "herons")
    ]
    return ToolOutput(blocks=(context.result(SEARCH, LONG),), sources=context.cite(pages))


def searched(*show: str) -> JournalConversation:
    """Return a conversation that has searched, and has requested content in the round after that."""
    conversation = JournalConversation()
    registry = conversation.agent.registry
    own = [registry.find(spec.tool_id) for spec in registry.specs]
    conversation.agent = replace(conversation.agent, registry=Registry([*own, tool(SEARCH, "pure", search)]))
    conversation.send("look")
    conversation.model.add(
        called(SEARCH), called("react.plan", {"mode": "new", "steps": ["x"]}, show_artifacts=list(show))
    )
    conversation.rounds(2)
    return conversation


@pytest.mark.parametrize("written", ["sources_pool[2]", "so:sources_pool[2]"])
def test_rows_of_the_pool_are_shown_by_their_numbers_and_as_rows(written: str) -> None:
    shown = digest_of(searched(written).asked()).partition(f"\n{ARTIFACTS}\n")[2]
    assert shown.startswith("### so:sources_pool[2] [artifact]\n")
    assert "All about herons." in shown
    assert "otters" not in shown
    assert '[{"sid":2,"title":"herons",' in shown


def test_an_artifact_is_shown_in_full_only_on_request() -> None:
    conversation = searched()
    (path,) = [piece.path for piece in conversation.timeline().pieces if piece.kind == "result"][:1]
    before = digest_of(
        conversation.asked(
            script=called("react.plan", {"mode": "new", "steps": ["y"]}, show_artifacts=[path])
        )
    )
    assert before.count("It rained. ") < 200
    assert "show_artifacts shows" in before
    after = digest_of(conversation.asked())
    assert after.partition(f"### {path} [artifact]")[2].count("It rained. ") > 900
