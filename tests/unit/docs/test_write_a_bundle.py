"""docs/how-to/write-a-bundle.md: the turn that the page runs in a process reads and answers what it says."""

import pytest

from stepline.local.scripted.server import ScriptedServer
from tests.support.generation import answered, called
from tests.support.guide import Guide
from tests.unit.docs.source import DOCS

SCRIPT = (
    called("shop.price", {"name": "lamp"}),
    called("react.read", {"paths": ["sk:shop.refund", "ks:docs/delivery.md", "orders:7"]}),
    answered("12.50 euros.", suggested_followups=["When does it come?"]),
)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The page's names after its last block, and the requests of its model as text."""
    project = tmp_path_factory.mktemp("project")
    with ScriptedServer(token_delay_ms=0) as server:
        for text in SCRIPT:
            server.faults.add({"kind": "fixture", "match": "What does the lamp cost?", "text": text})
        guide = Guide(project=project, page=DOCS / "how-to/write-a-bundle.md", environment=server_of(server))
        guide.follow()
        return guide.names, [str(request["body"]) for request in server.requests]


def server_of(server):
    return {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "any"}


def test_the_turn_has_its_answer(page):
    names, _ = page
    assert names["result"].answer == "12.50 euros."
    assert names["result"].followups == ("When does it come?",)
    assert names["workflow"].scratchpad["result"] == names["result"]


def test_the_model_reads_the_tools_the_skills_and_contributions_of_hooks(page):
    _, (first, *_) = page
    assert all(name in first for name in ("shop.price", "web_tools.web_search", "react.search_knowledge"))
    assert "SK2 sk:shop.refund: Refund an order" in first
    assert "ada is a customer since 2019." in first
    assert "This turn is round 1." in first
    assert "Deliveries are two days late." in first


def test_skills_documents_and_orders_are_read_by_their_paths(page):
    _, requests = page
    last = requests[len(SCRIPT) - 1]
    assert "Never promise a date." in last
    assert "one lamp, 12.50 euros" in last
    assert "It takes three days." in last


def test_the_bundle_of_the_page_has_the_context(page):
    names, _ = page
    prompt, nowhere = names["fetched"]
    assert prompt["ret"]["text"] == "What does the lamp cost?"
    assert nowhere["err"]["code"] == "not_found"
    assert "12.50 euros." in "".join(part.text for part in names["parts"])
    assert names["timeline"].turns == (names["result"].turn_id,)
    assert "artifact:conv.timeline.v1" in names["documents"]


def test_the_store_has_the_turn_and_the_value_of_the_hook(page):
    names, requests = page
    assert names["record"].result == names["result"]
    assert [event.text for event in names["record"].messages] == ["What does the lamp cost?"]
    assert names["asked"] == "Is this price right?"  # of the user's newest turn, in another conversation
    (request,) = [body for body in requests if "[USER ATTACHMENT]" in body]
    assert "Asked before: What does the lamp cost?" in request


def test_the_files_of_a_payload_are_in_its_turn(page):
    names, requests = page
    assert names["checked"].outcome == "completed"
    (request,) = [body for body in requests if "Is this price right?" in body and "[USER ATTACHMENT]" in body]
    assert all(f"[USER ATTACHMENT] {name}" in request for name in ("prices.csv", "note.txt"))


def test_without_a_running_turn_a_steer_is_dropped_and_a_quiet_event_is_kept(page):
    names, _ = page
    assert (names["steered"].fate, names["quiet"].fate) == ("dropped", "kept")
