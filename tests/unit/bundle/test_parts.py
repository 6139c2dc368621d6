"""What a bundle's agent is made of: tools and skills by their modules, knowledge by its functions."""

import asyncio
import json
import sys
from dataclasses import replace
from types import ModuleType
from typing import ClassVar

import pytest

from bundles.default import WORKFLOW
from stepline.adapters.memory.model import MemoryModelClient
from stepline.bootstrap.in_process import InProcess
from stepline.bootstrap.memory_wiring import in_memory
from stepline.bundle.parts import Parts, load_skills, load_tools
from stepline.bundle.skills.skill import Skill, check_skills
from stepline.bundle.skills.skill_catalogue import render_skill_catalogue
from stepline.bundle.skills.skill_shelf import skill_shelf
from stepline.bundle.workflow import load_workflow
from stepline.errors import InputError, ToolError
from stepline.model.entry import Closed, Resulted
from stepline.model.ids import Lane
from stepline.model.source import Citation
from stepline.settings import Settings
from stepline.tools.context import Shelved
from stepline.tools.knowledge import knowledge_shelf
from tests.support.conversation import tool
from tests.support.generation import answered, called

LANE = Lane(tenant="acme", project="docs", conversation="c-1")
RELEASE = Skill(id="ops.release", title="Cut a release", text="Tag it, then push the tag.")
GREET = Skill(id="greet", title="Say hello", text="Say hello first.")


@pytest.fixture
def module(monkeypatch):
    """Make modules that are there while the test runs."""
    load_tools.cache_clear()
    load_skills.cache_clear()

    def make(name, **content):
        made = ModuleType(name)
        vars(made).update(content)
        monkeypatch.setitem(sys.modules, name, made)
        return name

    yield make
    load_tools.cache_clear()
    load_skills.cache_clear()


def reason(run, *args):
    with pytest.raises(InputError) as caught:
        run(*args)
    return caught.value.reason


# --- modules


@pytest.mark.parametrize("name", ["no_such_bundle.tools", "bundles.default.nothing", ".tools", "a..b", "x y"])
def test_a_missing_module_is_reported_by_a_code(name):
    assert reason(load_tools, name) == "tools_module_not_found"
    assert reason(load_skills, name) == "skills_module_not_found"
    assert reason(load_workflow, name) == "bundle_not_found"


def test_an_invalid_module_is_reported_by_a_code(module):
    name = module("half_a_bundle", TOOLS=["react.read"], SKILLS="greet", WORKFLOW=Parts)
    assert reason(load_tools, name) == "tools_module_invalid"
    assert reason(load_skills, name) == "skills_module_invalid"
    assert reason(load_workflow, name) == "bundle_invalid"
    assert reason(load_tools, module("empty_bundle")) == "tools_module_invalid"


def message(run, *args):
    with pytest.raises(InputError) as caught:
        run(*args)
    return str(caught.value)


def test_a_list_of_modules_is_refused_by_its_name(module):
    specs = [{"module": "shop.tools", "alias": "shop", "use_sk": True}]
    assert message(load_tools, module("specs_bundle", TOOLS=(), TOOLS_SPECS=specs)).startswith(
        "TOOLS_SPECS of "
    )


@pytest.mark.parametrize(
    ("tool_id", "runtime"),
    [
        ("shop.find", "docker"),
        ("shop.find", "local"),
        ("shop.find", {"runtime": "none", "scope": "all"}),
        ("exec_tools.execute_code_python", "none"),
        ("shop.draw", "none"),
    ],
)
def test_a_runtime_that_would_not_be_followed_is_refused_by_the_tools_name(module, tool_id, runtime):
    find, draw = tool("shop.find", "pure", str), tool("shop.draw", "pure", str)
    tools = (find, replace(draw, spec=replace(draw.spec, isolated=True)))
    name = module("runtime_bundle", TOOLS=tools, TOOL_RUNTIME={tool_id: runtime})
    assert f": {tool_id} cannot run as " in message(load_tools, name)
    load_tools.cache_clear()
    assert load_tools(module("none_bundle", TOOLS=tools, TOOL_RUNTIME={"shop.find": "none"})) == tools


def test_an_error_within_a_module_is_not_reported_as_a_missing_module(tmp_path, monkeypatch):
    (tmp_path / "broken_tools.py").write_text("import no_such_dependency\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError) as caught:
        load_tools("broken_tools")
    assert caught.value.name == "no_such_dependency"


def test_the_deployed_agent_is_made_of_the_bundle_that_the_settings_name(module):
    class Workflow(WORKFLOW):
        tools_module = module("shop.tools", TOOLS=[tool("shop.price", "pure", lambda _: None)])
        skills_module = module("shop.skills", SKILLS=[RELEASE])

    name = module("shop", WORKFLOW=Workflow)
    agent = in_memory(Settings.from_env({"STEPLINE_BUNDLE": name})).agent
    assert "shop.price" in agent.tools
    assert "web_tools.web_search" not in agent.tools
    assert "react.read" in agent.tools
    assert "SK1 sk:ops.release: Cut a release" in agent.system
    assert "sk:public.research" not in agent.system  # the bundle has no search
    assert set(agent.shelves) == {"sk"}


@pytest.mark.parametrize("taken", ["react.read", "shop.price"])
def test_no_two_tools_have_one_name(module, taken):
    price = tool("shop.price", "pure", lambda _: None)
    name = module("twice", TOOLS=[price, tool(taken, "pure", lambda _: None)])
    runtime = InProcess(in_memory(Settings.from_env({})))
    assert reason(runtime.build_agent, Parts(tools_module=name)) == "tool_id_taken"


# --- skills


def test_skills_are_listed_by_number_and_read_by_path():
    listed = render_skill_catalogue([GREET, RELEASE])
    assert listed.splitlines()[1:] == [
        "SK1 sk:ops.release: Cut a release (~9 tokens)",
        "SK2 sk:public.greet: Say hello (~5 tokens)",
    ]
    read = skill_shelf([GREET, RELEASE])
    text = "## Skill: Say hello (public.greet)\n\nSay hello first."
    assert read("sk:public.greet") == read("sk:SK2") == Shelved(text=text, path="sk:public.greet")
    assert read("sk:public.nothing") is None
    assert render_skill_catalogue([]) == ""


@pytest.mark.parametrize("name", ["", "a/b", "SK3", "7", "hidden-guidance-0123456789", "catalog"])
def test_a_skill_that_no_path_can_name_is_refused(name):
    assert reason(check_skills, [Skill(id=name, title="t", text="x")]) == "skill_invalid"


def test_two_skills_at_one_path_are_refused():
    assert reason(check_skills, [GREET, Skill(id="public.greet", title="t", text="x")]) == "skill_invalid"


# --- knowledge


def talk(workflow, *script):
    """Let a workflow answer one message; return the model and the results of its calls."""
    model = MemoryModelClient(*script)
    app = in_memory(Settings.from_env({}), model=model)
    asyncio.run(workflow(InProcess(app), LANE, user="ada").process({"text": "How is it rolled back?"}))
    model.assert_read()
    entries = [entry for batch in app.ports.log.since(LANE, 0) for entry in batch.entries]
    return model, [entry for entry in entries if isinstance(entry, Resulted)]


class Knowing(WORKFLOW):
    """Has documents, by methods that may wait."""

    async def process(self, payload):
        react = await self.build_react(
            scratchpad=self.scratchpad,
            knowledge_space_fn=self._search_knowledge,
            knowledge_read_fn=self._read_knowledge,
        )
        return await react.run(payload)

    async def _search_knowledge(self, query, limit):
        await asyncio.sleep(0)
        rows = [
            {"path": "ks:docs/rollback.md", "title": "Rollback", "excerpt": query * 200, "score": 0.98765}
        ]
        return rows * 9

    def _read_knowledge(self, path):
        return {"ks:docs/rollback.md": "# Rollback\n\nPush the tag before."}.get(path)


def test_the_agent_searches_and_reads_its_bundles_documents():
    search = called("react.search_knowledge", {"query": "rollback", "limit": 2})
    read = called("react.read", {"paths": ["ks:docs/rollback.md", "ks:docs/none.md"]})
    model, (found, shown) = talk(Knowing, search, read, answered("Push the tag before."))
    assert "react.search_knowledge" in model.requests[0].system[0].text
    assert found.status == shown.status == "ok"
    assert found.blocks[0].text.count('"path":"ks:docs/rollback.md"') == 2
    assert '"score":0.988' in found.blocks[0].text
    assert len(found.blocks[0].text) < 1500
    assert "Push the tag before." in shown.blocks[-1].text
    assert '"reason":"not_found"' in "".join(block.text for block in shown.blocks)


class Rooted(WORKFLOW):
    """Has a search that takes a root, and one row that is not below it."""

    asked: ClassVar[list[tuple[str, int, str]]] = []

    @staticmethod
    async def knowledge_space_fn(query, limit, root=""):
        Rooted.asked.append((query, limit, root))
        rows = [{"path": "ks:src/a.py"}, {"path": "docs/a.md", "title": "A", "line": 7, "tags": ["x", "y"]}]
        return [*rows, {"path": "ks:docs/b.md", "see_also": "no list"}]


@pytest.mark.parametrize("name", ["limit", "top_k", "max_hits"])
def test_a_search_accepts_each_name_of_its_limit_and_a_root(name):
    Rooted.asked.clear()
    params = {"query": "rollback", name: 2, "root": "ks:docs/", "keywords": ["tag", "push"]}
    _, (found,) = talk(Rooted, called("react.search_knowledge", params), answered("Found."))
    assert Rooted.asked == [("rollback tag push", 2, "ks:docs")]
    report = json.loads(found.blocks[0].text)
    assert report["results"] == [
        {"sid": 1, "path": "ks:docs/a.md", "title": "A", "tags": ["x", "y"], "line": 7},
        {"sid": 2, "path": "ks:docs/b.md"},
    ]


def test_a_search_without_a_root_parameter_is_filtered_by_the_root():
    class Plain(WORKFLOW):
        @staticmethod
        def knowledge_space_fn(query, limit):
            return [{"path": "src/a.py"}, {"path": "docs/a.md", "title": query * limit}]

    search = called("react.search_knowledge", {"query": "x", "root": "docs"})
    _, (found,) = talk(Plain, search, answered("Found."))
    assert [row["path"] for row in json.loads(found.blocks[0].text)["results"]] == ["ks:docs/a.md"]


def test_a_found_document_is_cited_by_its_number():
    search = called("react.search_knowledge", {"query": "rollback", "root": "ks:docs"})
    app = in_memory(Settings.from_env({}), model=MemoryModelClient(search, answered("Push it. [[S:1]]")))
    asyncio.run(Rooted(InProcess(app), LANE, user="ada").process({"text": "How?"}))
    entries = [entry for batch in app.ports.log.since(LANE, 0) for entry in batch.entries]
    (closed,) = [entry for entry in entries if isinstance(entry, Closed)]
    assert closed.citations == (Citation(sid=1, title="A", path="ks:docs/a.md"),)
    assert not closed.unresolved


def test_an_invalid_root_is_reported_to_the_model():
    _, (found,) = talk(
        Rooted, called("react.search_knowledge", {"query": "x", "root": "ks:../up"}), answered("It failed.")
    )
    assert found.status == "error"
    assert found.error["code"].startswith("path_")


def test_an_agent_without_knowledge_has_neither_the_tool_nor_the_paths():
    model, (shown,) = talk(
        WORKFLOW, called("react.read", {"paths": ["ks:docs/rollback.md"]}), answered("No.")
    )
    assert "react.search_knowledge" not in model.requests[0].system[0].text
    assert "family_not_available" in "".join(block.text for block in shown.blocks)


def test_functions_of_the_class_serve_deployed_functions_too():
    class Documented(WORKFLOW):
        @staticmethod
        async def knowledge_read_fn(path):
            return f"all about {path}"

    assert Documented.parts().shelves["ks"]("ks:a.md") == Shelved(text="all about ks:a.md")
    assert not [one for one in Documented.parts().tools if one.spec.tool_id == "react.search_knowledge"]


@pytest.mark.parametrize(
    ("found", "shelved"),
    [
        ("text", Shelved(text="text")),
        ({"text": "a,b", "mime": "text/csv"}, Shelved(text="a,b", mime="text/csv")),
        (b"\x00", Shelved(data=b"\x00", mime="application/octet-stream")),
        ({"base64": "AA==", "mime": "image/png"}, Shelved(data=b"\x00", mime="image/png")),
        ({"missing": True}, None),
        (None, None),
    ],
)
def test_a_document_may_have_several_forms(found, shelved):
    assert knowledge_shelf(lambda _: found)("ks:a") == shelved


def failing(*_):
    raise ZeroDivisionError


@pytest.mark.parametrize(
    "read", [failing, lambda _: 7, lambda _: {"error": "locked"}, lambda _: {"base64": "no base64"}]
)
def test_a_failed_document_is_reported_to_the_model(read):
    with pytest.raises(ToolError) as caught:
        knowledge_shelf(read)("ks:a")
    assert caught.value.reason == "knowledge_failed"


@pytest.mark.parametrize(
    "search", [failing, lambda *_: [{"title": "no path"}], lambda *_: [{"path": "ks:../x"}], lambda *_: 7]
)
def test_a_failed_search_is_reported_to_the_model(search):
    class Broken(WORKFLOW):
        knowledge_space_fn = staticmethod(search)

    _, (found,) = talk(Broken, called("react.search_knowledge", {"query": "x"}), answered("It failed."))
    assert found.error["code"] == "knowledge_failed"


def test_skills_are_read_by_the_agent(module):
    class Skilled(WORKFLOW):
        skills_module = module("skilled.skills", SKILLS=[RELEASE])

    model, (shown,) = talk(Skilled, called("react.read", {"paths": ["sk:ops.release"]}), answered("Done."))
    assert "sk:ops.release" in model.requests[0].system[0].text
    assert "Tag it, then push the tag." in shown.blocks[-1].text
