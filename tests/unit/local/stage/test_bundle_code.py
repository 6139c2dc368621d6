"""The bundle of `stepline up`: what is copied for the functions, and what is refused before anything is deployed."""

from pathlib import Path
from textwrap import dedent

import pytest

from stepline.errors import InputError
from stepline.local.stage.bundle_code import BundleCode, take_bundle

GOOD = """
    from stepline.bundle.workflow import BaseWorkflow

    print("a bundle may print")


    class Shop(BaseWorkflow):
        async def process(self, payload):
            return None


    WORKFLOW = Shop
"""
TOOLS = GOOD.replace("async def process", 'tools_module = "shop.tools"\n\n        async def process')
METHOD = GOOD.replace(
    "async def process",
    "def knowledge_space_fn(self, query, limit):\n            return []\n\n        async def process",
)


class Project:
    """A folder with files of a user, beside the home of a stage."""

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

    def take(self, module):
        return take_bundle(module, self.home, self.said.append, project=self.folder)

    def refused(self, module):
        with pytest.raises(InputError) as caught:
            self.take(module)
        return caught.value.reason, str(caught.value)


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path)


def test_a_package_of_the_folder_is_copied_whole_and_without_what_is_made_of_it(project):
    project.write(**{"shop.__init__": GOOD, "shop.__pycache__.old": "", "elsewhere": ""})
    (project.folder / "shop/prices.csv").write_text("lamp,12.5\n")
    copy = Path(project.take("shop").folder)
    found = {str(path.relative_to(copy)) for path in copy.rglob("*.*")}
    assert {"shop/__init__.py", "shop/prices.csv"} <= found
    assert "elsewhere.py" not in found
    assert "shop/__pycache__/old.py" not in found


def test_a_module_without_a_folder_is_a_bundle_too(project):
    project.write(shop=GOOD)
    assert project.take("shop").context()["bundle"] == "shop"


def test_a_package_in_bundles_stands_beside_the_runtimes_own(project):
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


def test_a_hook_that_functions_leave_out_is_told(project):
    hook = "async def pre_run_hook(self, payload):\n            pass\n\n        async def process"
    project.write(shop=GOOD.replace("async def process", hook))
    project.take("shop")
    assert project.said == [
        "note: Shop.pre_run_hook runs in turns of a process; functions do not call it yet"
    ]


@pytest.mark.parametrize(
    ("module", "files", "code", "said"),
    [
        ("shpo", {"shop": GOOD}, "bundle_not_found", "there is no module shpo; looked in {folder}, and among"),
        ("bundles.shpo", {"bundles.shop": GOOD}, "bundle_not_found", "there is no module bundles.shpo; looked"),
        ("./shop", {"shop": GOOD}, "bundle_not_found", "'./shop' is no module's name"),
        ("stepline.shop", {}, "bundle_invalid", "stepline is a package of the runtime's own"),
        ("shop", {"shop": "WORKFLOW = 1\n"}, "bundle_invalid", "shop has no WORKFLOW"),
        ("shop", {"shop": METHOD}, "bundle_invalid", "Shop.knowledge_space_fn of shop cannot be called with 2"),
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
def test_what_is_wrong_with_a_bundle_is_said_with_its_place(project, module, files, code, said):
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
