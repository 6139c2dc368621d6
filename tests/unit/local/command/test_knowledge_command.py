"""`stepline knowledge build`: its output, and its refusals."""

import json

import pytest

from stepline import Knowledge
from stepline.local.command.cli import main


@pytest.fixture
def run(capsys):
    def invoke(*words):
        with pytest.raises(SystemExit) as ended:
            main(["knowledge", "build", *map(str, words)])
        said = capsys.readouterr()
        return ended.value.code, said.out, said.err

    return invoke


def test_the_build_reports_its_counts_and_broken_references(run, tmp_path):
    (tmp_path / "a.md").write_text("# Heron\n\n`docs/a.md` and `docs/gone.md`\n")
    code, out, err = run(tmp_path)
    assert code == 0
    assert out.splitlines()[0].startswith("1 document, 1 section: ")
    assert out.splitlines()[2:] == ["2 references, 1 without a target", "  ks:docs/a.md: docs/gone.md"]
    assert err == "reading 1 file\n"
    assert Knowledge(tmp_path).search("heron")


def test_an_unchanged_build_is_reported_as_text_and_json(run, tmp_path):
    (tmp_path / "a.md").write_text("# Heron\n")
    fresh = json.loads(run(tmp_path, "--json")[1])
    _, out, err = run(tmp_path, "--json")
    assert err.endswith("nothing has changed\n")
    assert json.loads(out) == {**fresh, "fresh": False}
    assert (fresh["fresh"], fresh["documents"], fresh["missing"]) == (True, 1, [])


def test_a_refused_build_has_a_code(run, tmp_path):
    (tmp_path / "knowledge.yaml").write_text("docs_root: nowhere\n")
    code, _, err = run(tmp_path, "--json")
    assert (code, json.loads(err.splitlines()[-1])["code"]) == (1, "knowledge_root_missing")
    assert run(tmp_path / "nowhere")[0] == 2
