"""The bundle of `stepline up`: the copies for the functions, and the refusals before a deployment."""

import json
from pathlib import Path
from textwrap import dedent

import pytest

from stepline import Knowledge
from stepline.errors import InputError
from stepline.local.stage import bundle_code
from stepline.local.stage.bundle_code import BundleCode, checkout_bundles, take_bundle

GOOD = """
    from stepline.bundle.workflow import BaseWorkflow

    print("a bundle may print")


    class Shop(BaseWorkflow):
        items = ()


    WORKFLOW = Shop
"""
DOCS = "repo: ../..\ndocs_root: docs\n"
TOOLS = GOOD.replace("items = ()", 'tools_module = "shop.tools"')
METHOD = GOOD.replace("items = ()", "def knowledge_space_fn(self, query, limit):\n            return []")
PROCESS = GOOD.replace("items = ()", "async def process(self, payload):\n            return None")
LOADED = GOOD.replace("items = ()", "@staticmethod\n        def on_bundle_load(services):\n            1 / 0")


class Project:
    """A folder with files of a user, next to the home of a stage."""

    def __init__(self, folder):
        self.folder = folder / "project"
        self.home = folder / "home"
        self.home.mkdir()
        self.said = []

    def write(self, **files):
        for name, text in files.items():
            path = self.folder / f"{name.replace('.', '/')}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(dedent(text))

    def take(self, module, **further):
        return take_bundle(module, self.home, self.said.append, project=self.folder, further=further)

    def refused(self, module):
        with pytest.raises(InputError) as caught:
            self.take(module)
        return caught.value.reason, str(caught.value)


@pytest.fixture
def project(tmp_path, checks):
    return Project(tmp_path)


def test_a_package_of_the_folder_is_copied_whole_and_without_what_is_made_of_it(project):
    project.write(**{"shop.__init__": GOOD, "shop.__pycache__.old": "", "elsewhere": ""})
    (project.folder / "shop/prices.csv").write_text("lamp,12.5\n")
    copy = Path(project.take("shop").folder)
    found = {str(path.relative_to(copy)) for path in copy.rglob("*.*")}
    assert {"shop/__init__.py", "shop/prices.csv"} <= found
    assert "elsewhere.py" not in found
    assert "shop/__pycache__/old.py" not in found


KNOWING = GOOD.replace("items = ()", "knowledge = Knowledge(Path(__file__).parent)").replace(
    "from stepline.bundle",
    "from pathlib import Path\n    from stepline import Knowledge\n    from stepline.bundle",
)


def test_the_index_of_its_documents_is_built_and_copied_with_it(project):
    project.write(**{"shop.__init__": KNOWING})
    (project.folder / "shop/knowledge.yaml").write_text("docs_root: docs\n")
    (project.folder / "shop/docs").mkdir()
    (project.folder / "shop/docs/delivery.md").write_text("# Delivery\n\nIt takes three days.\n")
    copy = Path(project.take("shop").folder)
    assert Knowledge(copy / "shop").search("three days")[0]["path"] == "ks:docs/delivery.md"
    assert "building the index of shop" in project.said
    assert Path(project.take("shop").folder) == copy


def test_the_requests_that_it_answers_are_known_to_the_stage(project):
    asked = 'Knowledge(Path(__file__).parent, requests=["What is new?"])'
    project.write(**{"shop.__init__": KNOWING.replace("Knowledge(Path(__file__).parent)", asked)})
    (project.folder / "shop/docs").mkdir()
    (project.folder / "shop/docs/news.md").write_text("# News\n")
    (project.folder / "shop/knowledge.yaml").write_text("docs_root: docs\n")
    assert project.take("shop").requests == ("What is new?",)


def test_a_bundle_whose_documents_have_no_index_is_refused(project):
    project.write(**{"shop.__init__": KNOWING})
    assert project.refused("shop")[0] == "knowledge_not_built"


def test_a_module_without_a_folder_is_a_bundle_too(project):
    project.write(shop=GOOD)
    assert project.take("shop").context()["bundle"] == "shop"


def test_its_requirements_are_copied_for_the_image_of_programs(project):
    project.write(**{"shop.__init__": GOOD})
    (project.folder / "shop/requirements.txt").write_text("msgspec\n")
    taken = project.take("shop")
    assert taken.requirements == ("shop/requirements.txt",)
    assert (Path(taken.folder) / "shop/requirements.txt").exists()


def test_a_bundle_whose_packages_are_not_installed_is_refused(project):
    project.write(**{"shop.__init__": GOOD})
    (project.folder / "shop/requirements.txt").write_text("no-such-package\n")
    assert project.refused("shop")[0] == "requirement_missing"


def test_a_package_in_bundles_is_placed_next_to_the_runtimes(project):
    project.write(**{"bundles.shop.__init__": "from bundles.default import WORKFLOW\n"})
    copy = Path(project.take("bundles.shop").folder)
    assert (copy / "bundles/shop/__init__.py").exists()
    assert (copy / "bundles/default/__init__.py").exists()


def test_a_change_of_the_code_makes_another_deployment_and_none_does_not(project):
    project.write(shop=GOOD)
    first, again = project.take("shop"), project.take("shop")
    project.write(shop=f"{dedent(GOOD)}\nPRICES = ()\n")
    changed = project.take("shop")
    assert first.context() == again.context() != changed.context()
    assert not Path(first.folder).exists()


def test_the_default_bundle_needs_no_word_in_the_deployment(project):
    project.write(shop=GOOD)
    copy = Path(project.take("shop").folder)
    assert project.take("bundles.default") == BundleCode()
    assert BundleCode().context() == {}
    assert not copy.exists()


def test_several_bundles_are_copied_together_and_named_in_the_deployment(project):
    project.write(shop=GOOD, **{"guide.__init__": GOOD, "bundles.own.__init__": GOOD})
    code = project.take("shop", guide="guide", own="bundles.own", plain="bundles.default")
    copy = Path(code.folder)
    for name in ("shop.py", "guide/__init__.py", "bundles/own/__init__.py", "bundles/default/__init__.py"):
        assert (copy / name).exists()
    further = {"guide": "guide", "own": "bundles.own", "plain": "bundles.default"}
    assert code.context()["bundle"] == "shop"
    assert json.loads(code.context()["bundles"]) == further


def test_each_of_several_bundles_is_checked(project):
    project.write(shop=GOOD, guide=METHOD)
    with pytest.raises(InputError) as caught:
        project.take("shop", guide="guide")
    assert caught.value.reason == "bundle_not_deployable"
    with pytest.raises(InputError) as caught:
        project.take("bundles.default", guide="gide")
    assert caught.value.reason == "bundle_not_found"


def test_the_context_names_further_bundles_but_not_the_default(project):
    assert project.take("bundles.default", plain="bundles.default").context() == {
        "bundles": '{"plain": "bundles.default"}'
    }


@pytest.fixture
def checkout(project, monkeypatch):
    """A checkout with one page; an index of ours would change the image of programs that other tests use."""
    app = project.folder / "app"
    for name, text in {"docs/lamp.md": "# Lamp\n", "bundles/docs/knowledge.yaml": DOCS}.items():
        (app / name).parent.mkdir(parents=True)
        (app / name).write_text(text)
    monkeypatch.setattr(bundle_code, "REPOSITORY", app)
    return app


def test_a_checkout_has_the_bundle_of_its_documents_ready_unless_the_project_has_its_own(project, checkout):
    assert checkout_bundles(project.folder, project.said.append) == {"docs": "bundles.docs"}
    assert Knowledge(checkout / "bundles/docs").read("ks:docs/lamp.md")["text"] == "# Lamp\n"
    project.write(**{"bundles.docs.__init__": GOOD})
    assert checkout_bundles(project.folder, project.said.append) == {}
    assert project.said == []


def test_a_checkout_whose_documents_cannot_be_indexed_starts_without_their_bundle(project, checkout):
    (checkout / "bundles/docs/knowledge.yaml").write_text("nonsense: true\n")
    assert checkout_bundles(project.folder, project.said.append) == {}
    assert [text for text in project.said if "knowledge_config_invalid" in text]


def test_its_folder_of_skills_is_copied_and_one_that_is_no_skill_is_refused(project):
    project.write(**{"shop.__init__": GOOD})
    skill = project.folder / "shop/skills/refund/SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\nname: refund\ndescription: Refund an order\n---\nAsk for the number.")
    assert (Path(project.take("shop").folder) / "shop/skills/refund/SKILL.md").exists()
    skill.write_text("---\nname: refund")
    assert project.refused("shop") == (
        "skill_invalid",
        "the skill in skills/refund: no line --- ends its front matter",
    )


SERVED = """
    TOOLS = ()
    MCP_TOOL_SPECS = [{"alias": "crm", "server_id": "main"}]
"""
SERVERS = {"mcp": {"services": {"mcpServers": {"main": {"url": "https://crm.example/mcp"}}}}}


def test_a_bundle_is_checked_with_the_settings_that_its_functions_get(project, monkeypatch):
    project.write(**{"shop.__init__": TOOLS, "shop.tools": SERVED})
    assert project.refused("shop")[0] == "mcp_server_invalid"
    monkeypatch.setenv("STEPLINE_BUNDLE_PROPS", json.dumps(SERVERS))
    assert project.take("shop").module == "shop"


def test_a_further_bundle_is_checked_with_its_own_descriptor(project, monkeypatch):
    project.write(**{"shop.__init__": TOOLS, "shop.tools": SERVED, "desk.__init__": GOOD})
    monkeypatch.setenv("STEPLINE_BUNDLE_PROPS", json.dumps(SERVERS))
    with pytest.raises(InputError) as refused:
        project.take("desk", store="shop")
    assert refused.value.reason == "mcp_server_invalid"
    items = [{"id": "store", "config": SERVERS}]
    (project.folder / "bundles.yaml").write_text(json.dumps({"bundles": {"items": items}}))
    monkeypatch.setenv("PLATFORM_DESCRIPTORS_DIR", str(project.folder))
    assert project.take("desk", store="shop").further == {"store": "shop"}


def test_preparation_that_needs_deployment_secrets_is_not_run_in_the_check(project):
    project.write(shop=LOADED)
    assert project.take("shop").context()["bundle"] == "shop"


@pytest.mark.parametrize(
    ("module", "files", "code", "said"),
    [
        ("shpo", {"shop": GOOD}, "bundle_not_found", "there is no module shpo; looked in {folder}, and among"),
        ("bundles.shpo", {"bundles.shop": GOOD}, "bundle_not_found", "there is no module bundles.shpo; looked"),
        ("./shop", {"shop": GOOD}, "bundle_not_found", "'./shop' is not the name of a module"),
        ("stepline.shop", {}, "bundle_invalid", "stepline is a package of the runtime"),
        ("shop", {"shop": "WORKFLOW = 1\n"}, "bundle_invalid", "shop has no WORKFLOW"),
        ("shop", {"shop": METHOD}, "bundle_not_deployable", "write it as a @staticmethod def knowledge_space_fn(query, limit)"),
        ("shop", {"shop": PROCESS}, "bundle_not_deployable", "shop cannot be deployed: Shop.process is overridden"),
        ("shop", {"shop.__init__": TOOLS}, "tools_module_not_found", "there is no module shop.tools; looked in"),
        ("shop", {"shop.__init__": TOOLS, "shop.tools": ""}, "tools_module_invalid", "shop.tools has no list TOOLS"),
        (
            "shop",
            {"shop.__init__": TOOLS, "shop.tools": "import json\n\nTOOLS = (json.loads('no'),)\n"},
            "bundle_failed",
            "JSONDecodeError: Expecting value: line 1 column 1 (char 0) (shop/tools.py, line 3)",
        ),
        ("shop", {"shop": "import pricing\n", "pricing": ""}, "bundle_failed", "No module named 'pricing' (shop.py, line 1)"),
        ("shop", {"shop": "x = (\n"}, "bundle_failed", "SyntaxError: '(' was never closed (shop.py, line 1)"),
        ("shop", {"shop": "raise SystemExit(0)\n"}, "bundle_failed", "SystemExit: 0 (shop.py, line 1)"),
        ("shop", {"shop": "import os\n\nos._exit(0)\n"}, "bundle_failed", "shop ends the process that loads it"),
    ],
)  # fmt: skip
def test_a_bundle_problem_is_reported_with_its_location(project, module, files, code, said):
    project.write(**files)
    found, message = project.refused(module)
    assert found == code
    assert said.format(folder=project.folder) in message


def test_a_bundle_sees_nothing_of_the_shell_that_starts_the_stage(project, monkeypatch):
    monkeypatch.setenv("SHOP_KEY", "secret")
    project.write(shop="import os\n\nos.environ['SHOP_KEY']\n")
    assert project.refused("shop") == (
        "bundle_failed",
        "the bundle fails while it is loaded: KeyError: 'SHOP_KEY' (shop.py, line 3)",
    )
