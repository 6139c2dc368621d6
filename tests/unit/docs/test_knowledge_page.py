"""docs/how-to/knowledge.md: its tables are those of the code."""

import re

from stepline.bundle.knowledge_index import COLUMN_WEIGHTS
from stepline.local.knowledge.knowledge_config import KnowledgeConfig
from stepline.local.knowledge.knowledge_source import FILE_MAX_BYTES, FILES_MAX
from tests.unit.docs.source import DOCS

PAGE = (DOCS / "how-to/knowledge.md").read_text()
COLUMNS = {"heading": "headings", "beginning": "excerpt", "text": "body", "see also": "see_also"}


def test_the_fields_the_weights_and_the_limits_are_those_of_the_code():
    fields = re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`.+?) \|", PAGE, re.MULTILINE)))
    assert fields == list(KnowledgeConfig.__struct_fields__)
    names, _, weights = PAGE[PAGE.index("| title |") :].splitlines()[:3]
    weighted = zip(names.strip("| ").split(" | "), weights.strip("| ").split(" | "), strict=True)
    assert {COLUMNS.get(name, name): float(weight) for name, weight in weighted} == COLUMN_WEIGHTS
    assert (f"{FILES_MAX:,} files" in PAGE, FILE_MAX_BYTES) == (True, 1 << 20)
