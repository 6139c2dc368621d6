"""The code of docs/how-to/write-a-bundle.md runs as the page says, one block after the other, in a package of its own."""

import ast
import asyncio
import inspect
import re
import sys
from types import ModuleType

import pytest

from stepline.adapters.memory.model import MemoryModelClient
from stepline.bundle.parts import load_skills, load_tools
from tests.unit.docs.source import DOCS
from tests.unit.loop.scene import answered, called

PAGE = DOCS / "how-to/write-a-bundle.md"
SCRIPT = (
    called("shop.price", {"name": "lamp"}),
    called("react.read", {"paths": ["sk:shop.refund", "ks:docs/delivery.md"]}),
    answered("12.50 euros.", suggested_followups=["When does it come?"]),
)
MODULES = {"bundles.shop.tools_descriptor": "TOOLS", "bundles.shop.skills_descriptor": "SKILLS"}


async def run_page(names):
    """Run the page's blocks; what the package's modules hold is put into them as soon as it is there."""
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        code = compile(block, str(PAGE), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        ran = eval(code, names)
        if inspect.isawaitable(ran):
            await ran
        for module, attribute in MODULES.items():
            vars(sys.modules[module])[attribute] = names.get(attribute)


@pytest.fixture(scope="module")
def page():
    model = MemoryModelClient(*SCRIPT)
    names = {"model": model}
    with pytest.MonkeyPatch.context() as patch:
        for module in MODULES:
            patch.setitem(sys.modules, module, ModuleType(module))
        asyncio.run(run_page(names))
    model.assert_read()
    load_tools.cache_clear()
    load_skills.cache_clear()
    return names


def test_the_turn_has_its_answer(page):
    assert page["result"].answer == "12.50 euros."
    assert page["result"].followups == ("When does it come?",)
    assert page["workflow"].scratchpad["result"] == page["result"]


def test_the_agent_has_the_tools_and_the_skills_of_the_page(page):
    system = page["model"].requests[0].system[0].text
    assert all(name in system for name in ("shop.price", "web_tools.web_search", "react.search_knowledge"))
    assert "SK1 sk:shop.refund: Refund an order" in system


def test_what_the_hook_said_is_read(page):
    request = page["model"].requests[0]
    assert "ada is a customer since 2019." in "".join(part.text for part in request.content)
    assert "Deliveries are two days late." in request.content[-1].text


def test_skills_and_documents_are_read_by_their_paths(page):
    text = "".join(part.text for part in page["model"].requests[-1].content)
    assert "Never promise a date." in text
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
