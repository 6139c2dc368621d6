"""docs/how-to/skills.md: its folder is what the page says it is, read and listed as it shows."""

import re
from types import ModuleType

import pytest

from stepline.bundle.skills.skill_catalogue import (
    CATALOGUE_MAX_CHARS,
    DESCRIPTION_CHARS,
    SHORT_CHARS,
    render_catalogue,
)
from stepline.bundle.skills.skill_choice import choose_skills, merge_skills, patterns_of
from stepline.bundle.skills.skill_folder import BUILT_IN, load_folder
from stepline.bundle.skills.skill_shelf import skill_shelf
from tests.unit.docs.source import DOCS

PAGE = (DOCS / "how-to/skills.md").read_text()
FILES = dict(re.findall(r"^`(\S+)`:\n\n```\w+\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE))


@pytest.fixture
def folder(tmp_path):
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return load_folder(tmp_path)


def test_the_folder_is_listed_as_the_page_shows(folder):
    assert "\n".join(render_catalogue(folder).splitlines()[1:]) in PAGE
    assert f"at most {CATALOGUE_MAX_CHARS:,} characters" in PAGE
    assert f"{DESCRIPTION_CHARS} characters do not fit, they have {SHORT_CHARS};" in PAGE


def test_a_skill_brings_its_import_its_source_and_its_file(folder):
    read = skill_shelf(folder)
    refund = read("sk:refund")
    assert refund.imports == ("sk:letters.apology",)
    assert [row.url for row in refund.sources] == ["https://shop.example/terms"]
    assert read("sk:public.refund/references/rules.md").text == FILES["refund/references/rules.md"]


def test_the_descriptor_leaves_out_what_it_says(folder):
    (code,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    module = ModuleType("skills_descriptor")
    exec(code, vars(module))
    merged = merge_skills(load_folder(BUILT_IN), folder, module.SKILLS)
    tools = {tool for skill in merged for tool in skill.requires}
    left = [skill.path for skill in choose_skills(merged, patterns_of(module.AGENTS_CONFIG, "m"), tools)]
    assert left == [
        "sk:public.analyse-table",
        "sk:public.refund",
        "sk:public.write-document",
        "sk:shop.greet",
    ]
    assert all(skill.path.removeprefix("sk:") in PAGE for skill in load_folder(BUILT_IN))
