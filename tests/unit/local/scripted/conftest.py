"""Bundles that the scripted model answers for: that of the documents with its own index, and a new one."""

import sys

import pytest

from bundles.docs import WORKFLOW
from stepline.bundle.parts import load_skills, load_tools
from stepline.local.command.new import write_bundle
from stepline.local.knowledge.build_index import build_index
from tests.unit.docs.source import DOCS


@pytest.fixture(scope="module")
def documents(tmp_path_factory):
    """An index outside the checkout: below `bundles` it would give the image of programs another name."""
    folder = tmp_path_factory.mktemp("docs")
    written = (WORKFLOW.knowledge.folder / "knowledge.yaml").read_text()
    (folder / "knowledge.yaml").write_text(written.replace("../..", str(DOCS.parent)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WORKFLOW.knowledge, "folder", folder)
        yield build_index(folder, lambda _: None)


@pytest.fixture(scope="module")
def new_bundle(tmp_path_factory):
    """The name of a bundle as `stepline new` writes it."""
    name, folder = "kiosk", tmp_path_factory.mktemp("project")
    write_bundle(name, folder)
    build_index(folder / name / name, lambda _: None)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder / name)
        yield name
    for module in [one for one in sys.modules if one.partition(".")[0] == name]:
        del sys.modules[module]
    load_tools.cache_clear()
    load_skills.cache_clear()
