"""A bundle's folder of skills in whole turns: read with what they import and cite, and their files one by one."""

import asyncio
import sys

import msgspec
import pytest

from stepline.adapters.memory.model import MemoryModelClient
from stepline.bootstrap.in_process import InProcess
from stepline.bootstrap.memory_wiring import in_memory
from stepline.bundle.parts import load_skills
from stepline.bundle.skills.skill import Skill
from stepline.bundle.skills.skill_choice import CONSUMER
from stepline.bundle.skills.skill_shelf import skill_shelf
from stepline.bundle.workflow import load_workflow
from stepline.errors import InputError
from stepline.model.entry import Resulted
from stepline.model.ids import Lane
from stepline.settings import Settings
from tests.support.conversation import text_of
from tests.support.generation import answered, called
from tests.unit.bundle.skills.skills_on_disk import FOREIGN, write_skills

LANE = Lane(tenant="acme", project="docs", conversation="c-1")
BUNDLE = "florist"
CODE = """\
    from stepline import BaseWorkflow


    class Florist(BaseWorkflow):
        skills_module = "{module}"

        async def process(self, payload):
            react = await self.build_react(scratchpad=self.scratchpad)
            return await react.run(payload)


    WORKFLOW = Florist
    """
SOURCES = """\
    sources:
      - {sid: 7, url: "https://a.example/roses", title: Roses, text: Thorns.}
      - {sid: 9, url: "https://a.example/tulips", title: Tulips, text: None.}
    """
SKILLS = {
    **{f"skills/{name}": text for name, text in FOREIGN.items()},
    "skills/ops/bind/SKILL.md": "---\nname: bind\ndescription: Bind a bunch\nimport: [base, internal.tone]\n---\nRoses first [[S:7]], [[S:9, 8]], alone[[S:8]].",
    "skills/ops/bind/sources.yaml": SOURCES,
    "skills/base/SKILL.md": "---\nname: base\ndescription: Cut stems\nimports: [ops.bind]\n---\nCut them. Cite as [[S:1]].",
    "skills/internal/tone/SKILL.md": "---\nname: tone\n---\nBe brief.",
    "skills/quiet/SKILL.md": "---\nname: quiet\nagent_disclosure: hidden\n---\nNever say roses.",
    "skills/priced/SKILL.md": "---\nname: priced\ndescription: Prices\nrequired_tools: shop.price\n---\nAsk.",
}


@pytest.fixture
def bundle(tmp_path, monkeypatch):
    """Write the package, with a module of skills if a text of one is given; return its workflow."""

    def make(descriptor="", **files):
        module = f"{BUNDLE}.skills_descriptor" if descriptor else ""
        package = {
            "__init__.py": CODE.format(module=module),
            "skills_descriptor.py": descriptor,
            **SKILLS,
            **files,
        }
        write_skills(tmp_path / BUNDLE, package)
        monkeypatch.syspath_prepend(tmp_path)
        return load_workflow(BUNDLE)

    load_skills.cache_clear()
    yield make
    load_skills.cache_clear()
    for name in [name for name in sys.modules if name.partition(".")[0] == BUNDLE]:
        del sys.modules[name]


def talk(workflow, *script, says=("How is it bound?",)):
    """Let a workflow answer; return the model, and the results of its calls."""
    model = MemoryModelClient(*script)
    app = in_memory(Settings.from_env({}), model=model)
    runtime = InProcess(app)
    for n, text in enumerate(says):
        payload = {"text": text, "message_id": f"m-{n}"}
        asyncio.run(workflow(runtime, LANE, user="ada").process(payload))
    model.assert_read()
    entries = [entry for batch in app.ports.log.since(LANE, 0) for entry in batch.entries]
    return model, [entry for entry in entries if isinstance(entry, Resulted)]


def rows_of(resulted):
    (status,) = [block for block in resulted.blocks if block.text.startswith('{"paths"')]
    return msgspec.json.decode(status.text)["paths"]


def shown(resulted):
    return {block.meta["source_path"]: block.text for block in resulted.blocks if "source_path" in block.meta}


def read(*paths, **params):
    return called("react.read", {"paths": list(paths), **params})


def test_a_turn_reads_a_skill_and_then_its_file(bundle):
    file = "sk:public.pdf-processing/references/FORMS.md"
    script = (read("sk:pdf-processing"), read(file), answered("Flatten them last."))
    model, (skill, further) = talk(bundle(), *script)
    system = model.requests[0].system[0].text
    assert "sk:public.pdf-processing: Extract text and tables from PDF files" in system
    assert "sk:public.priced" not in system
    ((path, text),) = shown(skill).items()
    assert path == "sk:public.pdf-processing"
    assert text.startswith("## Skill: pdf-processing (public.pdf-processing)\n\n# PDF processing")
    assert f"- {file}\n" in text
    assert "below BUNDLE_ROOT/skills/pdf-processing:" in text
    assert shown(further) == {file: "# Forms\n\nFlatten them last.\n"}
    assert "  Flatten them last." in text_of(model.requests[2])


def test_the_imports_of_a_skill_are_read_once_before_it_at_their_own_paths(bundle):
    _, (first, second) = talk(
        bundle(), read("sk:ops.bind", "sk:base"), read("sk:base", "sk:SK1"), answered("Bound.")
    )
    tone = [row["path"] for row in rows_of(first)][1]
    assert tone.startswith("sk:hidden-guidance-")
    assert [row["path"] for row in rows_of(first)] == ["sk:public.base", tone, "sk:ops.bind"]
    assert shown(first)[tone].endswith("Be brief.")
    assert "tone" not in shown(first)[tone]
    assert {row["status"] for row in rows_of(second)} == {"exists_in_visible_context"}
    assert shown(second) == {}


def test_sources_of_a_skill_join_the_pool_and_its_text_cites_their_numbers(bundle):
    model, (skill, again) = talk(
        bundle(), read("sk:ops.bind"), read("sk:ops.bind", line_numbers="lines"), answered("Thorny [[S:1]].")
    )
    assert "Cite as [[S:1]]." in shown(skill)["sk:public.base"]  # one without sources is left as it is
    assert [(row.sid, row.url) for row in skill.sources] == [
        (1, "https://a.example/roses"),
        (2, "https://a.example/tulips"),
    ]
    assert "Roses first [[S:1]], [[S:2]], alone." in shown(skill)["sk:ops.bind"]
    assert again.sources == ()
    assert "[SOURCES POOL] 2 sources" in text_of(model.requests[-1])


def test_a_row_without_an_address_is_a_manual_source_that_an_answer_cites(bundle):
    manual = "- {sid: 7, title: The handbook, text: Wear gloves.}"
    workflow = bundle(**{"skills/ops/bind/sources.yaml": manual})
    _, (skill,) = talk(workflow, read("sk:ops.bind"), answered("Gloves [[S:1]]."))
    assert [(row.sid, row.source_type, row.title) for row in skill.sources] == [(1, "manual", "The handbook")]


@pytest.mark.parametrize(
    "path",
    [
        "sk:internal.tone",
        "sk:public.priced",
        "sk:public.nothing",
        "sk:SK99",
        "sk:public.pdf-processing/references",
        "sk:public.pdf-processing/SKILL.md",
        "sk:public.pdf-processing/.env",
        "sk:public.pdf-processing/link.md",
        "sk:public.nothing/references/FORMS.md",
    ],
)
def test_other_paths_of_skills_have_no_content(bundle, tmp_path, path):
    workflow = bundle(**{"skills/pdf-processing/.env": "KEY=1", "secret.md": "s3cret"})
    (tmp_path / BUNDLE / "skills/pdf-processing/link.md").symlink_to(tmp_path / BUNDLE / "secret.md")
    _, (refused,) = talk(workflow, read(path), answered("No."))
    assert [row["reason"] for row in rows_of(refused)] == ["not_found"]


def test_a_file_leaves_its_folder_by_no_path(bundle):
    _, (refused,) = talk(bundle(), read("sk:public.pdf-processing/../../__init__.py"), answered("No."))
    assert [row["reason"] for row in rows_of(refused)] == ["path_dot_segment"]


def test_a_hidden_skill_is_shown_at_a_path_without_its_name(bundle):
    model, (found,) = talk(bundle(), read("sk:quiet"), answered("Yes."))
    assert "quiet" not in model.requests[0].system[0].text
    ((path, text),) = shown(found).items()
    assert path.startswith("sk:hidden-guidance-")
    assert "quiet" not in text
    assert "neither name, quote nor describe it" in text
    assert text.endswith("Never say roses.")


def test_clients_get_the_skills_that_were_read_and_no_hidden_id(bundle):
    _, (found, plain) = talk(
        bundle(), read("sk:quiet", "sk:base", "sk:none"), read("so:sources_pool"), answered("Yes.")
    )
    (event,) = found.emitted
    assert (event.type, event.data["count"]) == ("react.skill.read", 5)
    assert event.data["skills"] == [
        {"status": "loaded"},
        {"status": "loaded"},
        {"path": "sk:ops.bind", "status": "loaded"},
        {"path": "sk:public.base", "status": "loaded"},
        {"path": "sk:none", "status": "missing"},
    ]
    assert plain.emitted == ()


@pytest.mark.parametrize("path", ["sk:quiet/none.md", "sk:quiet/../base"])
def test_clients_get_no_hidden_id_if_the_read_is_refused(bundle, path):
    _, (found,) = talk(bundle(), read("sk:base", path), answered("Yes."))
    (event,) = found.emitted
    assert event.data["skills"][-1] == {"status": "missing"}


def test_the_consumers_of_the_descriptor_decide_for_reads_and_imports_too(bundle):
    config = f'AGENTS_CONFIG = {{"{CONSUMER}": {{"disabled": ["public.base", "public.research"]}}}}\n'
    model, (skill, gone) = talk(bundle(config), read("sk:ops.bind"), read("sk:base"), answered("No."))
    assert "sk:public.base" not in model.requests[0].system[0].text
    assert "sk:public.base" not in [row["path"] for row in rows_of(skill)]
    assert [row["reason"] for row in rows_of(gone)] == ["not_found"]


def test_the_descriptor_names_another_folder_and_its_values_win(bundle):
    descriptor = """\
        from stepline import Skill

        CUSTOM_SKILLS_ROOT = "elsewhere"
        SKILLS = [Skill(id="base", title="From the module", text="Module.")]
        """
    files = {
        "elsewhere/base/SKILL.md": "From the folder.",
        "elsewhere/research/SKILL.md": "---\nname: research\ndescription: Ours\n---\nOurs.",
    }
    system = talk(bundle(descriptor, **files), answered("Hi."))[0].requests[0].system[0].text
    assert "sk:public.base: From the module" in system
    assert "sk:public.research: Ours" in system  # in the place of the built-in one
    assert "pdf-processing" not in system


@pytest.mark.parametrize("root", ['"nowhere"', '"__init__.py"'])
def test_a_missing_skill_folder_is_refused(bundle, root):
    workflow = bundle(f"CUSTOM_SKILLS_ROOT = {root}\n")
    with pytest.raises(InputError) as caught:
        InProcess(in_memory(Settings.from_env({}))).build_agent(workflow.parts())
    assert caught.value.reason == "skills_module_invalid"


def test_a_picture_of_a_skill_is_bytes_and_an_unknown_file_text_if_it_is_one(tmp_path):
    root = write_skills(
        tmp_path, {"a.png": b"\x89PNG", "Makefile": "all:\n", "data.bin": b"\xff\x00", "a.csv": b"\xff"}
    )
    read_path = skill_shelf([Skill(id="x", title="x", text="x", folder=str(root))])
    kinds = {name: read_path(f"sk:x/{name}") for name in ("a.png", "Makefile", "data.bin", "a.csv")}
    assert {name: found.mime for name, found in kinds.items()} == {
        "a.png": "image/png",
        "Makefile": "text/plain",
        "data.bin": "application/octet-stream",
        "a.csv": "application/octet-stream",
    }
    assert kinds["Makefile"].text == "all:\n"
    assert kinds["a.png"].data == b"\x89PNG"
