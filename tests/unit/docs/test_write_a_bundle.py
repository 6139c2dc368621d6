"""The code of docs/how-to/write-a-bundle.md runs as the page says: its files as a package, then one block after the other."""

import ast
import asyncio
import inspect
import sys

import pytest

import bundles
from stepline.adapters.memory.model import MemoryModelClient
from stepline.bundle.parts import load_skills, load_tools
from stepline.local.stage.bundle_code import take_bundle
from tests.support.conversation import text_of
from tests.support.generation import answered, called
from tests.unit.docs import bundle_guide

SCRIPT = (
    called("shop.price", {"name": "lamp"}),
    called("react.read", {"paths": ["sk:shop.refund", "ks:docs/delivery.md", "orders:7"]}),
    answered("12.50 euros.", suggested_followups=["When does it come?"]),
)


async def run_page(names):
    for block in bundle_guide.steps():
        code = compile(block, str(bundle_guide.PAGE), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        ran = eval(code, names)
        if inspect.isawaitable(ran):
            await ran


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    project = tmp_path_factory.mktemp("project")
    bundle_guide.write_files(project)
    model = MemoryModelClient(*SCRIPT)
    names = {"model": model}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bundles, "__path__", [*bundles.__path__, str(project / "bundles")])
        asyncio.run(run_page(names))
    for module in [name for name in sys.modules if name.startswith("bundles.shop")]:
        del sys.modules[module]
    model.assert_read()
    load_tools.cache_clear()
    load_skills.cache_clear()
    return names


def test_its_package_passes_the_trial_of_up(tmp_path):
    bundle_guide.write_files(tmp_path)
    home = tmp_path / "home"
    home.mkdir()
    assert take_bundle("bundles.shop", home, [].append, project=tmp_path).module == "bundles.shop"


def test_the_turn_has_its_answer(page):
    assert page["result"].answer == "12.50 euros."
    assert page["result"].followups == ("When does it come?",)
    assert page["workflow"].scratchpad["result"] == page["result"]


def test_the_agent_has_the_tools_and_the_skills_of_the_page(page):
    system = page["model"].requests[0].system[0].text
    assert all(name in system for name in ("shop.price", "web_tools.web_search", "react.search_knowledge"))
    assert "SK2 sk:shop.refund: Refund an order" in system


def test_what_the_hook_said_is_read(page):
    request = page["model"].requests[0]
    assert "ada is a customer since 2019." in text_of(request)
    assert "This turn is round 1." in text_of(request)
    assert "Deliveries are two days late." in request.content[-1].text


def test_skills_documents_and_orders_are_read_by_their_paths(page):
    text = "".join(part.text for part in page["model"].requests[-1].content)
    assert "Never promise a date." in text
    assert "one lamp, 12.50 euros" in text
    assert "It takes three days." in text


def test_the_context_is_there_for_the_bundle(page):
    prompt, nowhere = page["fetched"]
    assert prompt["ret"]["text"] == "What does the lamp cost?"
    assert nowhere["err"]["code"] == "not_found"
    assert "12.50 euros." in "".join(part.text for part in page["parts"])
    assert page["rows"] == {}
    assert page["timeline"].turns == (page["result"].turn_id,)
    assert "artifact:conv.timeline.v1" in page["documents"]


def test_where_no_turn_runs_a_steer_comes_to_nothing_and_a_quiet_event_waits(page):
    assert (page["standing"].fate, page["quiet"].fate) == ("dropped", "kept")
