"""docs/how-to/skills.md: its folder is what the page says it is, read and listed as it shows."""

import runpy

import pytest

from stepline.bundle.skills.skill_catalogue import (
    CATALOGUE_MAX_CHARS,
    DESCRIPTION_CHARS,
    SHORT_CHARS,
    render_skill_catalogue,
)
from stepline.bundle.skills.skill_choice import choose_skills, merge_skills, patterns_of
from stepline.bundle.skills.skill_folder import BUILT_IN, load_folder
from stepline.bundle.skills.skill_shelf import skill_shelf
from tests.support.guide import Guide
from tests.unit.docs.source import DOCS

PAGE = DOCS / "how-to/skills.md"
TEXT = PAGE.read_text()


@pytest.fixture
def package(tmp_path):
    """The package `shop` with the page's files."""
    Guide(PAGE, tmp_path, {}).write_files()
    return tmp_path / "shop"


@pytest.fixture
def folder(package):
    return load_folder(package / "skills")


def test_the_folder_is_listed_as_the_page_shows(folder):
    assert "\n".join(render_skill_catalogue(folder).splitlines()[1:]) in TEXT
    assert f"at most {CATALOGUE_MAX_CHARS:,} characters" in TEXT
    assert f"{DESCRIPTION_CHARS} characters do not fit, they have {SHORT_CHARS};" in TEXT


def test_a_skill_has_its_import_its_source_and_its_file(folder):
    read = skill_shelf(folder)
    refund = read("sk:refund")
    assert refund.imports == ("sk:letters.apology",)
    assert [row.url for row in refund.sources] == ["https://shop.example/terms"]
    assert read("sk:public.refund/references/rules.md").text == "# Limits\n\nThirty days in every country.\n"


def test_the_descriptor_omits_disabled_skills(package, folder):
    names = runpy.run_path(str(package / "skills_descriptor.py"))
    merged = merge_skills(load_folder(BUILT_IN), folder, names["SKILLS"])
    tools = {tool for skill in merged for tool in skill.requires}
    left = [skill.path for skill in choose_skills(merged, patterns_of(names["AGENTS_CONFIG"], "m"), tools)]
    assert left == [
        "sk:public.analyse-table",
        "sk:public.refund",
        "sk:public.write-document",
        "sk:shop.greet",
    ]
    assert all(skill.path.removeprefix("sk:") in TEXT for skill in load_folder(BUILT_IN))
