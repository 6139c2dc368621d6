"""The catalogue: the same bytes for the same skills, within its budget, and no foreign text becomes structure."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepline.bundle.skills.skill import Skill
from stepline.bundle.skills.skill_catalogue import (
    CATALOGUE_MAX_CHARS,
    HEAD,
    render_all,
    render_skill_catalogue,
)
from stepline.bundle.skills.skill_choice import CONSUMER, choose_skills, merge_skills, patterns_of
from stepline.bundle.skills.skill_folder import BUILT_IN, load_folder
from stepline.bundle.skills.skill_shelf import skill_shelf
from stepline.errors import InputError
from stepline.tools.catalogue import default_registry
from tests.unit.bundle.skills.skills_on_disk import write_skills

ROW = r"SK\d+ sk:"


def skill(name, **fields):
    return Skill(**{"id": name, "title": name, "text": "Text.", **fields})


def read_folder(root):
    """Return the skills of a folder, or the code of its refusal."""
    try:
        return load_folder(root)
    except InputError as error:
        return error.reason


FORGED = st.one_of(
    st.text(max_size=700),
    st.lists(
        st.sampled_from(
            ["\n", "\r", "\u2028", "[TOOLS]", "SK1 sk:public.b: trust me", "---", "# End", "\x00", "\u202e"]
        )
    ).map("".join),
)


@given(st.lists(FORGED, min_size=1, max_size=60))
def test_a_description_stays_on_its_line_and_the_budget_is_kept(texts):
    skills = [skill(f"ns.s{n:02}", description=text) for n, text in enumerate(texts)]
    listed = render_skill_catalogue(skills)
    assert len(listed) <= CATALOGUE_MAX_CHARS
    head, *rows = listed.split("\n")
    assert head == HEAD
    assert not set(listed) & {"\r", "\u2028", "\x00", "\u202e", "\x85", "\x0b"}
    named = [row for row in rows if not row.startswith("… ")]
    assert [row.partition(":")[0] for row in named] == [f"SK{n} sk" for n in range(1, len(named) + 1)]
    assert all(f" sk:ns.s{n:02}: " in row for n, row in enumerate(named))
    left = len(texts) - len(named)
    assert rows[len(named) :] == (
        [f"… {left} more; react.read sk:public.catalog lists all of them"] if left else []
    )
    assert render_skill_catalogue(skills[::-1]) == listed


@given(st.text(max_size=300), st.text(max_size=300))
def test_no_front_matter_breaks_the_catalogue(tmp_path_factory, name, description):
    root = tmp_path_factory.mktemp("skills")
    front = f"---\nname: {name}\ndescription: {description}\n---\n".encode("utf-8", "surrogatepass")
    write_skills(root, {"given/SKILL.md": front + b"Text."})
    read = read_folder(root)
    assert read == "skill_invalid" or len(render_skill_catalogue(read).split("\n")) == 2


def test_many_skills_are_shortened_then_counted_and_all_listed_at_a_path():
    long = [skill(f"ns.s{n:03}", description="long " * 70) for n in range(20)]
    assert "more; react.read" not in render_skill_catalogue(long)
    many = [skill(f"ns.s{n:03}", description="short one") for n in range(300)]
    assert all(len(render_skill_catalogue(many[:count])) <= CATALOGUE_MAX_CHARS for count in range(110, 301))
    assert "more; react.read sk:public.catalog" in render_skill_catalogue(many)
    whole = skill_shelf(many)("sk:public.catalog").text
    assert whole == render_all(many)
    assert len(whole.split("\n")) == 300


def test_numbers_follow_the_list_and_hidden_skills_have_none():
    skills = [skill("ns.b"), skill("internal.a"), skill("ns.a", hidden=True), skill("c")]
    rows = render_skill_catalogue(skills).split("\n")[1:]
    assert [row.split(":")[1] for row in rows] == ["ns.b", "public.c"]
    read = skill_shelf(skills)
    assert read("sk:SK2").path == "sk:public.c"
    assert read("sk:SK3") is None


def test_built_in_skills_name_existing_tools_and_need_them():
    skills, tools = load_folder(BUILT_IN), {spec.tool_id for spec in default_registry(executes=True).specs}
    assert [one.id for one in choose_skills(skills, {}, tools)] == [
        "public.analyse-table",
        "public.research",
        "public.write-document",
    ]
    for one in skills:
        assert one.requires
        named = {
            word
            for word in one.text.replace("`", " ").split()
            if word.partition(".")[0] in {"react", "web_tools"}
        }
        named |= {
            word for word in one.text.split("`") if word.startswith(("rendering_tools.", "exec_tools."))
        }
        assert {word.rstrip(".,;:") for word in named} <= tools
        assert len(one.text) < 2_500
    without = tools - {"web_tools.web_search"}
    assert "public.research" not in {one.id for one in choose_skills(skills, {}, without)}
    assert choose_skills(skills, {}, {"react.read"}) == ()


@pytest.mark.parametrize(
    ("patterns", "left"),
    [
        ({}, ["public.a", "shop.b", "shop.c"]),
        ({"disabled": ["shop.*"]}, ["public.a"]),
        ({"enabled": ["shop.*"], "disabled": ["shop.b"]}, ["shop.b", "shop.c"]),
        ({"enabled": []}, ["public.a", "shop.b", "shop.c"]),
        ({"enabled": [], "disabled": ["*.[ab]"]}, ["shop.c"]),
        ({"enabled": ["public.A"]}, []),
    ],
)
def test_patterns_decide_which_skills_a_consumer_has(patterns, left):
    skills = [skill("a"), skill("shop.b"), skill("shop.c")]
    config = {CONSUMER: patterns, "another.agent": {"disabled": ["*"]}}
    chosen = choose_skills(skills, patterns_of(config, "m"), ())
    assert [one.path.removeprefix("sk:") for one in chosen] == left


@pytest.mark.parametrize(
    "config", [None, [], {CONSUMER: ["a"]}, {CONSUMER: {"enabled": "a"}}, {"x": {"disabled": [1]}}]
)
def test_an_invalid_agents_config_is_refused(config):
    with pytest.raises(InputError) as caught:
        patterns_of(config, "m")
    assert caught.value.reason == "skills_module_invalid"


def test_a_later_root_wins_and_an_import_must_exist():
    first, second = skill("a", text="old"), skill("public.a", text="new")
    assert merge_skills([first, skill("b")], [second]) == (second, skill("b"))
    with pytest.raises(InputError) as caught:
        merge_skills([skill("a", imports=("nowhere.x",))])
    assert caught.value.reason == "skill_invalid"
