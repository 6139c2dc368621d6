"""docs/how-to/knowledge.md, followed to the letter in a folder of a user's own."""

import re

from stepline.bundle.deployable import load_deployable
from stepline.bundle.knowledge_index import WEIGHTS
from stepline.local.knowledge.build_index import build_bundle
from stepline.local.knowledge.knowledge_config import KnowledgeConfig
from stepline.local.knowledge.knowledge_source import FILE_MAX_BYTES, FILES_MAX
from tests.unit.docs.source import DOCS

PAGE = (DOCS / "how-to/knowledge.md").read_text()
FILES = re.findall(r"^```(?:python|yaml)\n# (\S+)\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
COLUMNS = {"heading": "headings", "beginning": "excerpt", "text": "body", "see also": "see_also"}


def test_the_bundle_of_the_page_searches_and_reads_its_documents(tmp_path, monkeypatch):
    documents = {"README.md": "# Lamps\n", "docs/oil.md": "# Oil\n", "app/src/price.py": "LAMP = 12.5\n"}
    for name, text in {**dict(FILES), **documents}.items():
        path = tmp_path / name.replace("bundles/", "shelf/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    build_bundle("shelf.guide", tmp_path, lambda _: None)
    monkeypatch.syspath_prepend(tmp_path)
    parts = load_deployable("shelf.guide").parts()
    assert [row["path"] for row in parts.search("lamp", 5)] == ["ks:README.md", "ks:src/price.py"]
    assert parts.shelves["ks"]("ks:docs/oil.md").text == "# Oil\n"
    assert [tool.spec.tool_id for tool in parts.tools] == ["react.search_knowledge"]


def test_the_fields_the_weights_and_the_limits_are_those_of_the_code():
    fields = re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`.+?) \|", PAGE, re.MULTILINE)))
    assert fields == list(KnowledgeConfig.__struct_fields__)
    names, _, weights = PAGE[PAGE.index("| title |") :].splitlines()[:3]
    told = zip(names.strip("| ").split(" | "), weights.strip("| ").split(" | "), strict=True)
    assert {COLUMNS.get(name, name): float(weight) for name, weight in told} == WEIGHTS
    assert (f"{FILES_MAX:,} files" in PAGE, FILE_MAX_BYTES) == (True, 1 << 20)
