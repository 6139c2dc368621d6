"""A bundle that is no package of the checkout: its files and its requirements, as this environment finds them."""

import pytest

from stepline_cdk.function_code import find_bundle_requirements, read_bundles
from stepline_cdk.stage import Stage
from tests.stacks.conftest import ROOT

FILES = {
    "__init__.py": "",
    "orders.py": "TOTAL = 1",
    "agent/__init__.py": "",
    "agent/workflow.py": "",
    "agent/requirements.txt": "pandas==3.1.1",
    "agent/.knowledge/current": "one",
}
LEFT_OUT = (".env", ".git/config", "agent/.secret", "__pycache__/orders.pyc")


@pytest.fixture
def stage(tmp_path, monkeypatch):
    """A stage whose bundle is a package of another project."""
    for name in (*FILES, *LEFT_OUT):
        path = tmp_path / "orchard" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(FILES.get(name, "hunter2"))
    monkeypatch.syspath_prepend(tmp_path)
    return Stage(bundle="orchard.agent", bundles={"docs": "bundles.docs"})


def test_the_whole_package_of_a_bundle_is_read_without_hidden_files(stage):
    found = read_bundles(stage)
    assert {name: body.decode() for name, body in found.items()} == {
        f"orchard/{name}": text for name, text in FILES.items()
    }


def test_requirements_are_those_beside_the_bundle_wherever_it_is(stage, tmp_path):
    assert find_bundle_requirements(ROOT, stage.modules) == (tmp_path / "orchard/agent/requirements.txt",)
    own = tmp_path / "bundles/shop/requirements.lock"
    own.parent.mkdir(parents=True)
    own.write_text("")
    assert find_bundle_requirements(tmp_path, ["bundles.shop"]) == (own,)


def test_a_bundle_of_one_module_is_one_file(tmp_path, monkeypatch):
    (tmp_path / "pear.py").write_text("SWEET = True")
    monkeypatch.syspath_prepend(tmp_path)
    assert read_bundles(Stage(bundle="pear")) == {"pear.py": b"SWEET = True"}
    assert find_bundle_requirements(ROOT, ["pear"]) == ()
