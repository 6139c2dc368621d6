"""The bundle `examples/shop`: whole turns of it, the checks before a deployment, and what ships without it."""

from __future__ import annotations

import re
import runpy
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from examples.shop import WORKFLOW
from examples.shop.tools_descriptor import TOOLS
from stepline.local.knowledge.build_index import build_index
from stepline.local.stage.bundle_code import take_bundle
from stepline.testing import Conversation, PlayedTurn, answer, call_tool, run_turn

ROOT = Path(__file__).parents[3]
SHOP = ROOT / "examples/shop"
BUNDLE = "examples.shop"
REFUND = "shop.refund"
BROKEN = {"number": "A-17", "reason": "It arrived broken."}


@pytest.fixture
def catalogue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Build the index of the catalogue outside the checkout."""
    written = (SHOP / "knowledge.yaml").read_text()
    (tmp_path / "knowledge.yaml").write_text(f"repo: {SHOP}\n{written}")
    build_index(tmp_path, lambda _: None)
    monkeypatch.setattr(WORKFLOW.knowledge, "folder", tmp_path)


@pytest.fixture
def conversation() -> Iterator[Conversation]:
    with Conversation(BUNDLE, user="ada") as opened:
        yield opened


def asked_for_a_refund(conversation: Conversation) -> PlayedTurn:
    return conversation.run("A-17 arrived broken.", decisions=[call_tool(REFUND, BROKEN)])


@pytest.mark.usefixtures("catalogue")
def test_a_question_is_answered_from_the_catalogue_and_cites_it() -> None:
    search = call_tool("react.search_knowledge", {"query": "desk lamp"})
    turn = run_turn(BUNDLE, "What does the desk lamp cost?", decisions=[search, answer("49 euros [[S:1]].")])
    found = turn.result("react.search_knowledge").data["results"]
    assert found[0]["path"] == "ks:docs/lamps.md"
    assert [cited.path for cited in turn.ended.sources] == ["ks:docs/lamps.md"]


def test_an_order_and_the_skill_are_read_at_their_paths() -> None:
    paths = ["order:A-17", "order:B-1", "sk:public.returns", "sk:public.returns/references/limits.md"]
    turn = run_turn(
        BUNDLE, "Take A-17 back.", decisions=[call_tool("react.read", {"paths": paths}), answer("Yes.")]
    )
    rows = {row["path"]: row.get("reason", "") for row in turn.result("react.read").data["paths"]}
    assert rows == dict.fromkeys(paths, "") | {"order:B-1": "not_found"}
    assert "  Desk lamp, 49.00 euros, ordered on 2026-11-02: delivered.\n" in turn.requests[1]
    assert "Thirty days after the order" in turn.requests[1]


def test_a_refund_waits_for_the_customer_and_is_paid_once(conversation: Conversation) -> None:
    asked = asked_for_a_refund(conversation)
    assert (asked.ended.outcome, asked.results) == ("parked", ())
    paid = conversation.answer_call("approved", decisions=[answer("You get 49 euros back.")])
    assert (paid.answer, paid.result(REFUND).data["result"]["eur"]) == ("You get 49 euros back.", 49.0)
    sent = [event.data for event in paid.events if event.type == "react.tool.event"]
    assert [(one["type"], one["data"]) for one in sent] == [("shop.refunded", {**BROKEN, "eur": 49.0})]
    asked_for_a_refund(conversation)
    again = conversation.answer_call("approved", decisions=[answer("You have it already.")])
    assert again.result(REFUND).error["code"] == "refunded_already"


def test_a_denied_refund_is_not_paid(conversation: Conversation) -> None:
    asked_for_a_refund(conversation)
    denied = conversation.answer_call("denied", text="I keep it.", decisions=[answer("Good.")])
    assert denied.result(REFUND).error["code"] == "denied"
    listed = conversation.run("And now?", decisions=[call_tool("shop.list_orders"), answer("Two orders.")])
    assert listed.result("shop.list_orders").data["result"]["refunds"] == {}


def test_an_edited_refund_is_of_another_order(conversation: Conversation) -> None:
    asked_for_a_refund(conversation)
    edited = conversation.answer_call(
        "edited", params={**BROKEN, "number": "A-99"}, decisions=[answer("No such order.")]
    )
    assert edited.result(REFUND).error["code"] == "order_not_found"


def test_the_hooks_say_what_earlier_turns_left(conversation: Conversation) -> None:
    first = conversation.run("Hello.", decisions=[answer("Hello.")])
    asked_for_a_refund(conversation)
    conversation.answer_call("approved", decisions=[answer("Paid.")])
    third = conversation.run("Thanks.", decisions=[answer("Gladly.")])
    assert "The customer has 2 orders, 0 refunded, 0 earlier questions." in first.requests[0]
    assert "The customer has 2 orders, 1 refunded, 2 earlier questions." in third.requests[0]


def test_a_stage_gets_the_example_as_a_bundle_with_its_index_and_its_dashboard(tmp_path: Path) -> None:
    project = tmp_path / "project"
    shutil.copytree(SHOP, project / "examples/shop", ignore=shutil.ignore_patterns(".knowledge"))
    taken = take_bundle(BUNDLE, tmp_path / "home", lambda _: None, project=project)
    package = Path(taken.folder) / "examples/shop"
    assert (package / "ui/index.html").is_file()
    assert list((package / ".knowledge").glob("*.sqlite"))
    assert "What does the desk lamp cost?" in taken.requests


def test_the_dashboard_shows_the_event_of_the_tool_and_loads_only_its_own_files() -> None:
    script, page = ((SHOP / "ui" / name).read_text() for name in ("dashboard.js", "index.html"))
    assert 'event.type === "shop.refunded"' in script
    assert {*re.findall(r"refund\.(\w+)", script)} == {"eur", "number", "reason"}
    loaded = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert all((SHOP / "ui" / name).is_file() for name in loaded)


def test_the_wheel_does_not_contain_the_example() -> None:
    hook = runpy.run_path(str(ROOT / "hatch_build.py"))
    assert not any(path.startswith("examples") for path in hook["APP"])


def test_every_tool_of_the_example_is_named_by_its_skill_or_reads_only() -> None:
    skill = (SHOP / "skills/returns/SKILL.md").read_text()
    assert [tool.spec.tool_id for tool in TOOLS if tool.spec.tool_id not in skill] == []
