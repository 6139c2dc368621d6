"""Small files by programs that are not ours, each accepted or refused by name as the table beside them says."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from stepline.model.file.file_verdict import FileLimits
from stepline.preflight.judge_file import agreed_mime, judge_file

FOLDER = Path(__file__).parents[2] / "data" / "foreign"
TABLE = tomllib.loads((FOLDER / "table.toml").read_text())
FILES: list[dict[str, str]] = TABLE["file"]


@pytest.mark.parametrize("made", FILES, ids=[made["name"] for made in FILES])
def test_a_file_of_another_program_is_accepted_or_refused_by_name(made: dict[str, str]) -> None:
    name = made["name"]
    verdict = judge_file(FOLDER / name, filename=name, mime=agreed_mime(name, ""), limits=FileLimits())
    assert "".join(verdict.reasons[:1]) == made["reason"]
    assert verdict.accepted == (not made["reason"])
    assert verdict.charset == made.get("charset", "")


def test_the_table_names_each_file_and_the_program_that_made_it() -> None:
    there = {path.name for path in FOLDER.iterdir()} - {"table.toml"}
    assert there == {*TABLE["sources"], *(made["name"] for made in FILES)}
    assert len({made["by"].split()[0] for made in FILES}) >= 6
    assert all(made["command"] for made in FILES)
