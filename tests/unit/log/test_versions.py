"""Versions: the tree after a turn is the folded project, and every process that saves a turn makes the same commit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from stepline.adapters.memory.artifacts import MemoryArtifacts
from stepline.errors import DependencyError
from stepline.log import versions
from stepline.log.versions import (
    Commit,
    commit_key,
    read_blobs,
    read_commit,
    read_history,
    read_version,
    save_versions,
    version_key,
)
from stepline.timeline.workspace import project_files
from tests.support.log_builder import patient
from tests.support.project_log import ProjectLog


def a_log() -> ProjectLog:
    return ProjectLog(MemoryArtifacts())


def saved(log: ProjectLog, turn: str) -> Commit:
    """Save all versions; return the commit of a turn."""
    save_versions(log.artifacts, log.project())
    version = read_version(log.artifacts, log.lane, turn)
    assert version is not None
    return read_commit(log.artifacts, log.lane, version.commit)


def tree(log: ProjectLog, commit: Commit) -> dict[str, bytes]:
    """Return the files of a commit, as git's own objects hold them."""
    history = read_history(log.artifacts, log.project())
    objects = {one.id: one for one in (*history.objects, *read_blobs(log.artifacts, history))}
    found: dict[str, bytes] = {}

    def walk(tree_id: bytes, prefix: str) -> None:
        for entry in objects[tree_id].items():
            path = f"{prefix}{entry.path.decode()}"
            if entry.mode == 0o040000:
                walk(entry.sha, f"{path}/")
            else:
                found[path] = objects[entry.sha].data

    if commit.id:
        walk(objects[commit.id.encode()].tree, "")
    return found


def texts(files: Mapping[str, str | bytes]) -> dict[str, bytes]:
    return {path: body.encode() if isinstance(body, str) else body for path, body in files.items()}


def reason(log: ProjectLog, turn: str) -> str:
    saved(log, turn)
    version = read_version(log.artifacts, log.lane, turn)
    assert version is not None
    return version.skipped


def test_a_successful_turn_is_a_commit_after_the_previous_one():
    log = a_log()
    log.write({"app/a.py": "a = 1\n", "README.md": "# A\n"})
    first = log.end()
    log.write({"app/b.py": "b = 2\n"})
    second = log.end()
    one, two = saved(log, first), saved(log, second)
    assert (one.parent, two.parent) == ("", one.id)
    assert tree(log, one) == texts({"app/a.py": "a = 1\n", "README.md": "# A\n"})
    assert tree(log, two) == texts({"app/a.py": "a = 1\n", "README.md": "# A\n", "app/b.py": "b = 2\n"})


def test_a_commit_has_the_time_of_its_turns_end_and_names_the_turn():
    log = a_log()
    log.write({"a": "1"})
    turn = log.end()
    commit = saved(log, turn)
    (made,) = [
        one for one in read_history(log.artifacts, log.project()).objects if one.type_name == b"commit"
    ]
    assert made.message.decode() == f"React workspace snapshot {turn}\n"
    assert made.author == made.committer == versions.AUTHOR
    assert (made.commit_time, made.commit_timezone) == (1_795_255_204, 0)
    assert commit.at == "2026-11-21T10:00:04.000Z"


def test_files_that_a_program_deleted_are_gone_from_the_next_commit():
    log = a_log()
    log.write({"a": "1", "b": "2"})
    log.end()
    log.delete("a")
    second = log.end()
    assert tree(log, saved(log, second)) == {"b": b"2"}
    log.delete("b")
    third = log.end()
    assert tree(log, saved(log, third)) == {}
    assert saved(log, third).parent == saved(log, second).id


def test_a_checkout_restores_files_and_removes_none():
    log = a_log()
    log.write({"app/old.py": "old", "docs/a.md": "a"})
    first = log.end()
    log.check_out("replace", f"fi:{first}.files/app/")
    log.write({"app/new.py": "new"})
    log.delete("app/old.py")
    second = log.end()
    assert tree(log, saved(log, second)) == texts({"app/new.py": "new", "docs/a.md": "a"})
    log.check_out("replace", f"fi:{first}.files/")
    log.write({"only.py": "1"})
    third = log.end()
    assert tree(log, saved(log, third)) == texts(
        {"app/new.py": "new", "app/old.py": "old", "docs/a.md": "a", "only.py": "1"}
    )


def test_files_displaced_by_a_second_checkout_stay_in_the_project():
    log = a_log()
    log.write({"app/a.py": "a", "docs/a.md": "a"})
    first = log.end()
    log.check_out("replace", f"fi:{first}.files/app/")
    log.check_out("replace", f"fi:{first}.files/docs/")
    log.write({"docs/b.md": "b"})
    second = log.end()
    assert tree(log, saved(log, second)) == texts({"app/a.py": "a", "docs/a.md": "a", "docs/b.md": "b"})


def test_an_overlay_removes_no_file():
    log = a_log()
    log.write({"app/a.py": "a", "app/b.py": "b"})
    first = log.end()
    log.write({"app/a.py": "mine"})
    log.check_out("overlay", f"fi:{first}.files/app/a.py")
    assert tree(log, saved(log, log.end())) == texts({"app/a.py": "a", "app/b.py": "b"})


def test_a_path_is_a_file_or_a_folder_and_the_later_turn_wins():
    log = a_log()
    log.write({"a": "file", "b/c": "below"})
    log.end()
    log.write({"a/x": "below", "b": "file"})
    assert tree(log, saved(log, log.end())) == texts({"a/x": "below", "b": "file"})


def test_a_file_that_was_written_and_deleted_displaces_no_other():
    log = a_log()
    log.write({"c/d": "1"})
    log.end()
    log.write({"c": "2"})
    log.delete("c")
    assert tree(log, saved(log, log.end())) == {"c/d": b"1"}


def test_a_failed_turn_is_not_a_commit():
    log = a_log()
    log.write({"a": "1"})
    failed = log.end(code="step_failed")
    log.write({"b": "2"})
    turn = log.end()
    assert tree(log, saved(log, turn)) == {"b": b"2"}
    assert read_version(log.artifacts, log.lane, failed) is None


def test_a_turn_without_a_commit_says_why_and_keeps_the_one_before():
    log = a_log()
    nothing = log.end()
    log.delete("never")
    empty = log.end()
    log.write({"a": "1"})
    written = log.end()
    log.write({"a": "1"})
    same = log.end()
    talk = log.end()
    assert [reason(log, turn) for turn in (nothing, empty, written, same, talk)] == [
        "workspace_not_materialized",
        "empty_workspace",
        "",
        "workspace_unchanged",
        "workspace_not_materialized",
    ]
    assert saved(log, same) == saved(log, talk) == saved(log, written)
    assert len(read_history(log.artifacts, log.project()).versions) == 3


PICTURE = bytes(range(256)) * 8
KEPT = {
    "ok.py": b"1",
    "latin.csv": "é".encode("latin-1"),
    "lines.txt": b"a\r\nb\r\n",
    "art/picture.png": b"\x89PNG\r\n\x1a\n" + PICTURE,
    "data": b"a\0b",
    "book.xlsx": b"PK\3\4" + PICTURE,
    "empty.bin": b"",
    ".gitattributes": b"*.txt text eol=lf\n*.png filter=draw\ndata binary\n",
}


def test_a_commit_has_the_exact_bytes_of_every_file_whatever_attributes_say():
    log = a_log()
    log.write(KEPT)
    commit = saved(log, log.end())
    assert tree(log, commit) == KEPT
    assert commit.left_out == {}


def test_a_file_keeps_its_bytes_when_it_becomes_binary_or_text():
    log = a_log()
    log.write({"a.txt": "text", "b": PICTURE, "c": "text"})
    first = log.end()
    log.write({"a.txt": b"\0", "b": "text"})
    second = log.end()
    assert tree(log, saved(log, first)) == {"a.txt": b"text", "b": PICTURE, "c": b"text"}
    assert tree(log, saved(log, second)) == {"a.txt": b"\0", "b": b"text", "c": b"text"}


def test_generated_folders_names_of_git_and_files_beyond_the_limit_are_left_out_and_counted(monkeypatch):
    monkeypatch.setattr(versions, "FILE_MAX_BYTES", 10)
    log = a_log()
    log.write(
        {
            "Makefile": "all:",
            "most.bin": bytes(10),
            "node_modules/x/index.js": "1",
            "src/__pycache__/x.py": "1",
            "sub/.git": "gitdir: /etc",
            ".GIT/config": "[core]",
            "git~1/hooks/post-checkout": "#!/bin/sh",
            "large.bin": bytes(11),
        }
    )
    commit = saved(log, log.end())
    assert set(tree(log, commit)) == {"Makefile", "most.bin"}
    assert commit.left_out == {"folder": 2, "name": 3, "too_large": 1}


def test_a_file_that_grew_beyond_the_limit_is_gone(monkeypatch):
    monkeypatch.setattr(versions, "FILE_MAX_BYTES", 10)
    log = a_log()
    log.write({"a": "small", "b": "small"})
    log.end()
    log.write({"a": "no longer small"})
    assert set(tree(log, saved(log, log.end()))) == {"b"}


def test_the_new_bytes_of_a_turn_are_bounded_and_those_of_the_parent_are_not(monkeypatch):
    monkeypatch.setattr(versions, "READ_MAX_BYTES", 10)
    log = a_log()
    log.write({"a": bytes(6), "b": bytes(6), "c": bytes(4)})
    first = saved(log, log.end())
    assert (set(tree(log, first)), first.left_out) == ({"a", "c"}, {"too_many": 1})
    log.write({"a": bytes(6), "b": bytes(6), "c": bytes(4)})
    second = saved(log, log.end())
    assert (set(tree(log, second)), second.left_out) == ({"a", "b", "c"}, {})


def test_a_project_of_release_0_1_0_is_read_and_continued():
    log = a_log()
    log.write({"a.txt": "text", "picture.png": PICTURE, "untouched.png": PICTURE})
    turn = log.end()
    made = saved(log, turn)
    texts_only = versions.Commit(turn=made.turn, at=made.at, files=made.files[:1], left_out={"not_text": 2})
    _, commit = versions.git_objects(texts_only)
    former = replace(texts_only, id=commit.id.decode(), tree=commit.tree.decode())
    for key in [key for key in log.artifacts.objects if key.startswith("git/")]:
        del log.artifacts.objects[key]
    stored = {
        commit_key(log.lane, former.id): former,
        version_key(log.lane, turn): versions.Version(turn=turn, commit=former.id),
    }
    for key, value in stored.items():
        log.artifacts.put(key, msgspec.json.encode(value), mime=versions.MIME)
    assert tree(log, saved(log, turn)) == {"a.txt": b"text"}
    log.write({"picture.png": PICTURE})
    after = saved(log, log.end())
    assert (after.parent, tree(log, after)) == (former.id, {"a.txt": b"text", "picture.png": PICTURE})


def test_a_path_may_be_as_deep_as_a_path_can_be():
    log = a_log()
    deep = "a/" * 440 + "f"
    log.write({deep: "1"})
    assert set(tree(log, saved(log, log.end()))) == {deep}


def test_the_first_of_too_many_new_files_are_kept(monkeypatch):
    monkeypatch.setattr(versions, "READS_MAX", 2)
    log = a_log()
    log.write({name: name for name in "cab"})
    commit = saved(log, log.end())
    assert set(tree(log, commit)) == {"a", "b"}
    assert commit.left_out == {"too_many": 1}


def test_bytes_that_the_parent_has_are_not_read_again():
    log = a_log()
    log.write({"a": "1"})
    first = log.end()
    key = saved(log, first).files[0].key
    log.write({"a": "1", "b": "2"})
    del log.artifacts.objects[key]
    second = log.end()
    assert {file.path: file.turn for file in saved(log, second).files} == {"a": second, "b": second}


def test_a_turn_gets_the_same_commit_in_every_process_at_any_time():
    log = a_log()
    seen = {}
    for name in "abc":
        log.write({name: name})
        turn = log.end()
        seen[turn] = saved(log, turn).id
    stored = dict(log.artifacts.objects)
    for key in [key for key in stored if key.startswith("git/")]:
        del log.artifacts.objects[key]
    save_versions(log.artifacts, log.project())
    assert log.artifacts.objects == stored
    assert read_history(log.artifacts, log.project()).versions == seen


def test_an_existing_version_is_not_overwritten():
    log = a_log()
    log.write({"a": "1"})
    turn = log.end()
    saved(log, turn)
    before = dict(log.artifacts.objects)
    save_versions(log.artifacts, log.project())
    assert log.artifacts.objects == before


def test_the_keys_begin_with_their_class_and_name_the_conversation():
    log = a_log()
    assert version_key(log.lane, "turn_1") == "git/acme/support/c-1/versions/turn_1"
    assert commit_key(log.lane, "ab" * 20) == f"git/acme/support/c-1/commits/{'ab' * 20}"


@pytest.mark.parametrize(
    ("prefix", "code"), [("out/", "body_missing"), ("git/acme/support/c-1/commits", "commit_missing")]
)
def test_a_missing_stored_object_is_an_error_with_a_code(prefix, code):
    log = a_log()
    log.write({"a": "1"})
    saved(log, log.end())
    for key in [key for key in log.artifacts.objects if key.startswith(prefix)]:
        del log.artifacts.objects[key]
    with pytest.raises(DependencyError) as caught:
        [*read_blobs(log.artifacts, read_history(log.artifacts, log.project()))]
    assert caught.value.reason == code


def test_a_body_that_is_lost_or_changed_makes_no_commit():
    log = a_log()
    log.write({"a": PICTURE})
    turn = log.end()
    (key,) = [key for key in log.artifacts.objects if key.startswith("out/")]
    for body, code in ((PICTURE[1:], "body_mismatch"), (None, "body_missing")):
        log.artifacts.objects.pop(key)
        if body is not None:
            log.artifacts.objects[key] = body
        with pytest.raises(DependencyError) as caught:
            save_versions(log.artifacts, log.project())
        assert caught.value.reason == code
    assert read_version(log.artifacts, log.lane, turn) is None


def test_a_commit_that_differs_from_its_id_is_refused():
    log = a_log()
    log.write({"a": "1"})
    commit = saved(log, log.end())
    key = commit_key(log.lane, commit.id)
    log.artifacts.objects[key] = log.artifacts.objects[key].replace(b'"path":"a"', b'"path":"b"')
    with pytest.raises(DependencyError) as caught:
        read_history(log.artifacts, log.project())
    assert caught.value.reason == "commit_mismatch"


FILES = ("a", "b", "c/d", "c/e", "f/g/h")


def moves_with(*names: str) -> st.SearchStrategy[tuple[str, Any]]:
    some, bodies = st.sampled_from(names), st.sampled_from(["1", "2", "3"])
    return st.one_of(
        st.tuples(st.just("write"), st.dictionaries(some, bodies, min_size=1, max_size=3)),
        st.tuples(st.just("delete"), st.sets(some, min_size=1, max_size=2)),
        st.tuples(st.just("end"), st.sampled_from(["", "", "", "step_failed"])),
        st.tuples(st.just("save"), st.none()),
    )


checkout = st.tuples(
    st.just("check_out"),
    st.tuples(st.sampled_from(["replace", "overlay"]), st.sampled_from(["", "c/", "f/"])),
)


@patient
@given(st.lists(moves_with(*FILES), max_size=16))
def test_the_trees_of_the_history_equal_a_simulated_disk(done):
    log = a_log()
    disk: dict[str, bytes] = {}
    open_disk, expected = disk, {}
    for move, about in done:
        match move:
            case "write":
                log.write(about)
                open_disk = open_disk | texts(about)
            case "delete":
                log.delete(*sorted(about))
                open_disk = {path: body for path, body in open_disk.items() if path not in about}
            case "end":
                turn = log.end(code=about)
                disk = open_disk = disk if about else open_disk
                if not about:
                    expected[turn] = disk
            case _:
                save_versions(log.artifacts, log.project())
    save_versions(log.artifacts, log.project())
    assert {turn: tree(log, saved(log, turn)) for turn in expected} == expected


@patient
@given(st.lists(st.one_of(moves_with(*FILES, "c"), checkout), max_size=16))
def test_a_tree_is_the_parent_without_deleted_files_plus_the_files_of_the_turn(done):
    log = a_log()
    before: dict[str, str] = {}
    deleted: set[str] = set()
    for move, about in done:
        match move:
            case "check_out":
                mode, below = about
                ended = [turn.id for turn in log.project().history if turn.closed]
                if ended:
                    log.check_out(mode, f"fi:{ended[-1]}.files/{below}")
            case "write":
                log.write(about)
            case "delete":
                log.delete(*sorted(about))
                deleted |= about
            case "end":
                turn = log.end(code=about)
                if not about:
                    found = project_files(log.project().turn_blocks(turn), turn)
                    own = {path: file.sha256 for path, file in found.items()}
                    before = {path: sha for path, sha in before.items() if path not in deleted}
                    before = clear_of(before, own) | own
                    assert {file.path: file.sha256 for file in saved(log, turn).files} == before
                deleted = set()


def clear_of(files: dict[str, str], others: Mapping[str, object]) -> dict[str, str]:
    """Return the files whose paths do not collide with those of other files."""
    return {
        path: sha
        for path, sha in files.items()
        if not any(path.startswith(f"{other}/") or other.startswith(f"{path}/") for other in others)
    }
