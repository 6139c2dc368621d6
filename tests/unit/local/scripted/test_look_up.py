"""The bundle of Stepline's own documents: the scripted model finds, reads and cites a page of it."""

import pytest

from bundles.docs import WORKFLOW
from stepline.model.entry import Closed, Resulted
from stepline.tools.context import Shelved
from tests.unit.docs.source import DOCS
from tests.unit.local.scripted.scripted_conversation import ScriptedConversation

ASKED = "What does the cost page say about idle cost?"


@pytest.fixture
def chat(documents):
    return ScriptedConversation(STEPLINE_BUNDLE="bundles.docs")


def test_a_question_is_answered_with_a_citation_that_resolves(chat):
    answer = chat.say(ASKED)
    assert chat.rounds() == [["search_knowledge"], ["search_knowledge"], ["read"]]
    assert set(chat.statuses()) == {"ok"}
    (cited,) = chat.entries(Closed)[-1].citations
    assert cited.path == "ks:docs/reference/cost.md"
    assert f"[[S:{cited.sid}]]" in answer
    document = chat.agent.shelves["ks"](cited.path)
    assert document == Shelved(text=(DOCS / "reference/cost.md").read_text(), mime="text/markdown")
    quoted = answer.partition("“")[2].partition("…")[0]
    assert quoted in " ".join(document.text.split()).replace("`", "'")
    assert "0.40" in quoted


@pytest.mark.parametrize(
    ("asked", "path"),
    [
        ("What does the glossary say about a batch?", "ks:docs/glossary.md"),
        ("What does the page on security say about tokens?", "ks:docs/concepts/security.md"),
        ("Look up full-width forms of a citation.", "ks:docs/concepts/sources.md"),
    ],
)
def test_another_question_is_answered_from_another_page(chat, asked, path):
    chat.say(asked)
    assert [cited.path for cited in chat.entries(Closed)[-1].citations] == [path]


def test_a_client_is_shown_the_link_and_what_the_path_leads_to(chat):
    chat.say(ASKED)
    entry = chat.entries(Closed)[-1]
    (path,) = [cited.path for cited in entry.citations]
    chat.say(f"Read {path}")
    shown = [entry.blocks for entry in chat.entries(Resulted)][-1]
    assert "".join(block.text for block in shown).count("## Idle cost") == 1


def test_a_search_without_a_match_is_reported(chat):
    assert "My documents say nothing" in chat.say("What does the moon say about xyzzyq?")


def test_the_index_has_this_repositorys_pages_and_no_code(documents):
    assert documents.documents > 40
    assert all(
        map(
            WORKFLOW.knowledge.read, ("ks:README.md", "ks:docs/README.md", "ks:docs/adr/0001-orchestrator.md")
        )
    )
    assert WORKFLOW.knowledge.read("ks:docs/build/cost.py") is None
