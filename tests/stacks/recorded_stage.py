"""What stages that are deployed may have of an earlier release: the shared and unique parts of its templates, as recorded.

`python -m tests.stacks.recorded_stage 0.2.0` records those of this checkout. A line is what a template has, and in which of the
stages of `BASES`; their names are left out.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tests.stacks.deployed_stage import Document, Documents, reduced
from tests.stacks.stage_choice import BASES, templates

FOLDER: Final = Path(__file__).parents[1] / "data/stages"
RELEASES: Final = tuple(sorted(path.stem for path in FOLDER.glob("*.jsonl")))
_PLACES: Final = ("stepline-{}", "stepline/{}")


def recorded(release: str, base: str) -> Documents:
    """Return the templates of one of the stages as a release made them, reduced."""
    documents: dict[str, dict[str, Any]] = {}
    for line in (FOLDER / f"{release}.jsonl").read_text().splitlines():
        row = json.loads(_named(line, "<stage>", BASES[base]["stage"]))
        if base in row["in"]:
            document = documents.setdefault(row["stack"], {"Outputs": {}, "Resources": {}, "Metadata": {}})
            document[row["section"]][row["id"]] = row["has"]
    return documents


def record(release: str) -> None:
    """Record the templates of this checkout."""
    rows: dict[str, list[str]] = {}
    for base, context in BASES.items():
        for row in _rows(templates(context)):
            line = json.dumps(row, separators=(",", ":"))
            rows.setdefault(_named(line, context["stage"], "<stage>"), []).append(base)
    lines = (
        json.dumps({**json.loads(line), "in": found}, separators=(",", ":")) for line, found in rows.items()
    )
    (FOLDER / f"{release}.jsonl").write_text("".join(f"{line}\n" for line in lines))


def _rows(documents: Documents) -> Iterator[Document]:
    for stack, document in documents.items():
        for section, found in reduced(document).items():
            for key, has in found.items():
                yield {"stack": stack, "section": section, "id": key, "has": has}


def _named(text: str, old: str, new: str) -> str:
    for place in _PLACES:
        text = text.replace(place.format(old), place.format(new))
    return text


if __name__ == "__main__":
    record(sys.argv[1])
