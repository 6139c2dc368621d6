"""Folders become skills: those of the published convention as they are, and with the fields of our own."""

import subprocess
import sys

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from stepline.bundle.skills.skill_folder import BUILT_IN, list_skill_files, load_folder, parse_plain
from stepline.errors import InputError
from stepline.model.source import Source
from tests.unit.bundle.skills.skills_on_disk import FOREIGN, write_skills


def only(root):
    (skill,) = load_folder(root)
    return skill


def refused(root):
    with pytest.raises(InputError) as caught:
        load_folder(root)
    assert "skill" in str(caught.value)
    return caught.value.reason


def test_a_folder_of_another_product_is_accepted(tmp_path):
    skill = only(write_skills(tmp_path, FOREIGN))
    assert skill.path == "sk:public.pdf-processing"
    assert skill.description.endswith("merge documents. Use when: the user names a PDF.")
    assert skill.text.startswith("# PDF processing\n\nFor forms see")
    assert (skill.requires, skill.imports, skill.hidden) == ((), (), False)
    assert list_skill_files(skill.folder) == [
        "LICENSE.txt",
        "assets/seal.png",
        "references/FORMS.md",
        "scripts/extract.py",
    ]


def test_a_folder_of_folders_is_a_namespace(tmp_path):
    files = {
        "ops/release/SKILL.md": "---\nname: release\ndescription: d\n---\nTag it.",
        "3d/SKILL.md": "Print it.",
    }
    assert [skill.path for skill in load_folder(write_skills(tmp_path, files))] == [
        "sk:ops.release",
        "sk:public.3d",
    ]


@pytest.mark.parametrize(
    ("front", "path"),
    [
        ("name: other-name", "sk:public.other-name"),
        ("name: A Name for People", "sk:public.folder"),
        ("name: x\nid: own-id\nnamespace: ops", "sk:ops.own-id"),
        ("name: catalog", "sk:public.folder"),
        ("name: yes", "sk:public.folder"),
        ("name: 2026", "sk:public.2026"),
    ],
)
def test_the_id_is_the_first_name_that_a_path_can_have(tmp_path, front, path):
    assert only(write_skills(tmp_path, {"folder/SKILL.md": f"---\n{front}\n---\nText."})).path == path


def test_without_a_front_matter_the_first_line_is_the_description(tmp_path):
    skill = only(write_skills(tmp_path, {"greet/SKILL.md": "\ufeff# Say hello\r\n\r\nFirst.\r\n"}))
    assert (skill.description, skill.text) == ("Say hello", "# Say hello\n\nFirst.")


def test_steplines_own_fields_and_files_are_read(tmp_path):
    front = "name: s\ndescription: What.\nwhen_to_use: [Now., Then.]\nimports: [ops.base, other]\nagent_disclosure: hidden"
    sources = """\
        sources:
          - {sid: 2, url: "https://a.example/x", title: A, text: about a}
          - {sid: 3, url: "file:///etc/passwd", title: no page}
          - {url: "https://b.example"}
          - {sid: 4, title: The handbook, text: by the door}
          - {sid: 5}
        """
    tools = "tools:\n- {id: shop.price, role: looks up, why: prices, required: true}\n- {id: shop.stock}\n"
    files = {
        "s/SKILL.md": f"---\n{front}\nrequired_tools: react.read shop.price\n---\nText [[S:2]].",
        "s/tools.yaml": tools,
        "s/sources.yaml": sources,
        "s/compact.md": "Short.",
    }
    skill = only(write_skills(tmp_path, files))
    assert skill.description == "What. Now. Then."
    assert skill.imports == ("ops.base", "public.other")
    assert skill.requires == ("react.read", "shop.price")
    assert skill.sources == (
        Source(sid=2, url="https://a.example/x", title="A", text="about a"),
        Source(sid=4, title="The handbook", text="by the door", source_type="manual"),
    )
    assert skill.hidden
    assert list_skill_files(skill.folder) == ["compact.md"]


@pytest.mark.parametrize(
    "sources",
    [
        "- sid: 2\n  url: https://a.example/x\n  title: A",
        "---\n[{sid: 2, url: https://a.example/x, title: A}]",
    ],
)
def test_sources_may_be_a_bare_list(tmp_path, sources):
    files = {
        "s/SKILL.md": "Text [[S:2]].",
        "s/sources.yaml": sources,
        "s/tools.yaml": "- {id: t.x, required: true}",
    }
    skill = only(write_skills(tmp_path, files))
    assert skill.sources == (Source(sid=2, url="https://a.example/x", title="A"),)
    assert skill.requires == ("t.x",)


def test_a_skill_may_be_a_yaml_file_that_names_its_instruction(tmp_path):
    files = {
        "a/skill.yaml": "name: a\ndescription: d\ninstruction: {full: full.md}\ntools: [{id: t.x, required: true}]\n",
        "a/full.md": "All of it.",
        "b/skill.yml": "name: b\ninstruction_text: In place.\n",
    }
    first, second = load_folder(write_skills(tmp_path, files))
    assert (first.text, first.requires) == ("All of it.", ("t.x",))
    assert second.text == second.description == "In place."


@pytest.mark.parametrize(
    "files",
    [
        {"a/SKILL.md": "---\nname: a\nno end"},
        {"a/SKILL.md": "---\n- a list\n---\nText."},
        {"a/SKILL.md": "---\nname: {\n---\nText."},
        {"a/SKILL.md": "---\nname: a\nname: b\n---\nText."},
        {"a/SKILL.md": "---\nname: a\ndescription: nothing follows\n---\n \n"},
        {"a/SKILL.md": b"\xff\xfe"},
        {"a/SKILL.md": "x" * 300_000},
        {"a/SKILL.md": "---\nname: a\nimports: {b: c}\n---\nText."},
        {"a/SKILL.md": "Text.", "a/tools.yaml": "tools: react.read"},
        {"a/SKILL.md": "Text.", "a/sources.yaml": "sources: [1]"},
        {"a/SKILL.md": "Text.", "public/a/SKILL.md": "Text."},
        {"ä/SKILL.md": "Text."},
        {"a/skill.yaml": "instruction: ../b.md", "b.md": "Text."},
    ],
)
def test_a_folder_that_is_no_skill_is_refused_by_a_code(tmp_path, files):
    assert refused(write_skills(tmp_path, files)) == "skill_invalid"


def test_links_and_hidden_names_are_neither_skills_nor_files_of_one(tmp_path):
    outside = write_skills(tmp_path / "outside", {"x/SKILL.md": "Text.", "secret.txt": "s3cret"})
    root = write_skills(
        tmp_path / "root",
        {
            "a/SKILL.md": "Text.",
            "a/.env": "KEY=1",
            "a/.git/config": "x",
            "a/__pycache__/x.pyc": "",
            ".b/SKILL.md": "T.",
        },
    )
    (root / "linked").symlink_to(outside / "x")
    (root / "a/secret.txt").symlink_to(outside / "secret.txt")
    (root / "a/folder").symlink_to(outside)
    (root / "c").mkdir()
    (root / "c/SKILL.md").symlink_to(outside / "x/SKILL.md")
    assert list_skill_files(only(root).folder) == []


# --- YAML without its parser

LINES = st.lists(
    st.one_of(
        st.text("abcxyz-_ :,.;()/'\"#&*!|>%@`[]{}?0123456789\tNoNullfyestrue~ä", max_size=24),
        st.builds(
            "{}: {}".format, st.sampled_from(["name", "on", "a-b", "description"]), st.text(max_size=12)
        ),
        st.builds(
            "{}: {}".format,
            st.sampled_from(["name", "no", "tags", "description"]),
            st.sampled_from(
                ["No", "null", "a", "x - y", "a, b (c)", "yes", "e3", "word  ", " two words", "A.", "a-"]
            ),
        ),
    ),
    max_size=4,
)


@given(LINES)
@example(["name: word", "", "description: A (b), c; d/e"])
@example(["name: a", "  b"])
@example(["name: a", "name: b"])
def test_the_fast_reader_returns_the_same_as_the_yaml_parser(lines):
    text = "\n".join(lines)
    plain = parse_plain(text)
    if plain is not None:
        assert plain == (yaml.safe_load(text) or {})


def test_the_fast_reader_reads_the_front_matter_of_most_skills():
    assert parse_plain("name: research\ndescription: Find it, read it; cite it (twice).\n") is not None


def test_built_in_skills_load_no_parser_of_yaml():
    program = (
        "import sys\n"
        "from stepline.bundle.skills.skill_folder import BUILT_IN, load_folder\n"
        "print(len(load_folder(BUILT_IN)), 'yaml' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(len(load_folder(BUILT_IN))), "False"]
