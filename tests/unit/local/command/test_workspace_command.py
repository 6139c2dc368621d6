"""`stepline workspace clone`: a repository that git reads, in its own folder and nowhere else."""

from __future__ import annotations

import json
import os
import shutil
import subprocess

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from stepline.adapters.memory.artifacts import MemoryArtifacts
from stepline.adapters.memory.log import MemoryLog
from stepline.errors import DependencyError
from stepline.local import caller
from stepline.local.command import batches as logview
from stepline.local.command.cli import main
from stepline.local.command.content.workspace import write_repository
from stepline.log.versions import Commit, GitHistory, commit_key, git_objects, read_history
from stepline.model.ids import make_lane
from tests.support.project_log import ProjectLog

LANE = make_lane(caller.TENANT, caller.PROJECT, "c1")
NO_GIT = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


@pytest.fixture
def log() -> ProjectLog:
    return ProjectLog(MemoryArtifacts(), LANE)


@pytest.fixture
def run(log, monkeypatch):
    def invoke(*words: str):
        stored = MemoryLog()
        for batch in log.batches:
            stored.put(LANE, batch)
        monkeypatch.setattr(caller, "find_stage", lambda: None)
        monkeypatch.setattr(logview, "open_log", lambda _: (stored, log.artifacts))
        return CliRunner().invoke(main, ["workspace", "clone", *words])

    return invoke


def two_turns(log: ProjectLog) -> tuple[str, str]:
    log.write({"app/a.py": "a = 1\n", "app/b.py": "b = 1\n", "README.md": "# A\n"})
    first = log.end()
    log.write({"app/a.py": "a = 2\n"})
    log.delete("app/b.py")
    return first, log.end()


def git(folder, *words: str) -> str:
    done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, check=True)
    return done.stdout


@NO_GIT
def test_git_reads_the_commits_of_the_turns(log, run, tmp_path):
    first, second = two_turns(log)
    folder = tmp_path / "project"
    done = run("c1", str(folder))
    assert (done.exit_code, done.stderr) == (0, "")
    said = git(folder, "log", "-p", "--reverse")
    assert [line for line in said.splitlines() if line.startswith("    ")] == [
        f"    React workspace snapshot {first}",
        f"    React workspace snapshot {second}",
    ]
    assert "-a = 1\n+a = 2\n" in said
    assert "deleted file mode 100644" in said
    assert git(folder, "status", "--porcelain") == ""
    assert git(folder, "fsck", "--strict") == ""


@NO_GIT
def test_each_turn_has_a_ref_to_its_version(log, run, tmp_path):
    first, second = two_turns(log)
    talk = log.end()
    run("c1", str(tmp_path))
    refs = dict(line.split()[::-1] for line in git(tmp_path, "show-ref").splitlines())
    head = refs.pop("refs/heads/main")
    of = f"refs/stepline/{LANE.prefix()}/versions"
    assert refs.keys() == {f"{of}/{turn}" for turn in (first, second, talk)}
    assert refs[f"{of}/{second}"] == refs[f"{of}/{talk}"] == head != refs[f"{of}/{first}"]


def test_the_files_of_the_newest_version_lie_beside_it(log, run, tmp_path):
    two_turns(log)
    folder = tmp_path / "deep" / "project"
    assert run("c1", str(folder)).exit_code == 0
    found = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert {path for path in found if not path.startswith(".git/")} == {"README.md", "app/a.py"}
    assert (folder / "app/a.py").read_text() == "a = 2\n"
    assert list((folder / ".git/hooks").iterdir()) == []


PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 40
ATTRIBUTES = "*.png filter=evil\n*.txt text eol=crlf\n*.csv binary\n"


@NO_GIT
def test_binary_files_are_in_the_clone_and_their_attributes_are_those_of_git(log, run, tmp_path, monkeypatch):
    files = {"art/a.png": PICTURE, "b.csv": "a,b\n", "c.txt": "x\n", ".gitattributes": ATTRIBUTES}
    log.write(files)
    log.end()
    log.write({"b.csv": "a,b,c\n", "art/a.png": PICTURE[::-1]})
    log.end()
    mark, folder = tmp_path / "run", tmp_path / "project"
    (tmp_path / ".gitconfig").write_text(
        f'[filter "evil"]\n clean = touch {mark}\n smudge = touch {mark}\n required = true\n'
    )
    monkeypatch.setenv("HOME", str(tmp_path))
    done = run("c1", str(folder))
    assert (done.exit_code, done.stderr) == (0, "")
    assert not mark.exists()
    found = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    now = files | {"b.csv": "a,b,c\n", "art/a.png": PICTURE[::-1]}
    assert {path: body for path, body in found.items() if not path.startswith(".git/")} == {
        path: body if isinstance(body, bytes) else body.encode() for path, body in now.items()
    }
    assert git(folder, "fsck", "--strict") == ""
    assert git(folder, "log", "--format=", "--numstat", "-1").split("\n")[:2] == [
        "-\t-\tart/a.png",
        "-\t-\tb.csv",
    ]


@NO_GIT
def test_git_finds_a_clone_unchanged_when_it_looks_at_its_files_again(log, run, tmp_path):
    log.write({"a.png": PICTURE, "b.txt": "x\r\ny\r\n", "c.sh": "x\n", ".gitattributes": "* text=auto\n"})
    log.end()
    run("c1", str(tmp_path))
    for path in tmp_path.iterdir():
        os.utime(path, (1, 1))
    assert git(tmp_path, "status", "--porcelain") == ""
    assert git(tmp_path, "check-attr", "text", "a.png") == "a.png: text: auto\n"


def test_with_json_the_result_is_one_object(log, run, tmp_path):
    two_turns(log)
    said = json.loads(run("c1", str(tmp_path), "--json").stdout)
    head = read_history(log.artifacts, log.project()).head
    assert said == {"path": str(tmp_path), "head": head, "commits": 2}


def test_a_folder_with_anything_in_it_is_refused_and_left_alone(log, run, tmp_path):
    two_turns(log)
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for place in (tmp_path, tmp_path / "mine", tmp_path / "link"):
        done = run("c1", str(place))
        assert (done.exit_code, done.stdout) == (1, "")
        assert done.stderr.startswith("error: folder_not_empty: ")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "mine"]


@pytest.mark.parametrize(("name", "code"), [("c2", "not_found"), ("c1", "workspace_empty")])
def test_a_missing_project_is_reported_on_one_line_and_nothing_is_written(run, tmp_path, name, code):
    done = run(name, str(tmp_path / "new"))
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith(f"error: {code}: ")
    assert not (tmp_path / "new").exists()


def test_an_unwritable_folder_is_reported_on_one_line(log, run):
    two_turns(log)
    done = run("c1", "/proc/nowhere")
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith("error: not_writable: ")


EVIL = [
    "../out",
    "a/../../out",
    "/out",
    ".git/hooks/post-checkout",
    ".GIT/config",
    "git~1/config",
    "a//b",
    ".g\u200cit/config",
]


@pytest.mark.parametrize("path", EVIL)
def test_a_stored_commit_cannot_name_a_file_outside_or_one_of_gits_own(log, run, tmp_path, path):
    first, _ = two_turns(log)
    run("c1", str(tmp_path / "good"))
    history = read_history(log.artifacts, log.project())
    key = commit_key(LANE, history.versions[first])
    log.artifacts.objects[key] = log.artifacts.objects[key].replace(b'"README.md"', json.dumps(path).encode())
    done = run("c1", str(tmp_path / "new"))
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith("error: commit_mismatch: ")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("path", ["../out", ".git/hooks/post-checkout", ".GIT/config", "git~1/config"])
def test_a_tree_cannot_write_a_file_outside_or_one_of_gits_own(log, run, tmp_path, path):
    two_turns(log)
    run("c1", str(tmp_path / "good"))
    history = read_history(log.artifacts, log.project())
    file = replace(history.files[0], path=path)
    trees, made = git_objects(Commit(turn="t", at="2026-11-21T10:00:00.000Z", files=(file,)))
    forged = GitHistory((*trees, made), (file,), made.id.decode(), made.tree.decode(), {})
    with pytest.raises(DependencyError) as caught:
        write_repository(forged, log.artifacts, LANE, tmp_path / "new")
    assert caught.value.reason == "commit_mismatch"
    assert not (tmp_path / "out").exists()
    assert list((tmp_path / "new/.git/hooks").iterdir()) == []
