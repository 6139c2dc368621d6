import hashlib
import os
import stat
from pathlib import Path

import pytest

from stepline.adapters.sandbox.restore import restore_files
from stepline.errors import DependencyError, NotFoundError, SandboxError
from stepline.model.program.execution import WorkFile

TURN = "turn_20261121T101500_ab12cd"
OLD = "turn_20261120T101500_ab12cd"
OPEN = Path("/proc/self/fd")

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")


def work(path, body=b"body"):
    return WorkFile(
        path=path,
        key=path,
        sha256=hashlib.sha256(body).hexdigest(),
        size_bytes=len(body),
        mime="text/plain",
    )


def put(root, *files, bodies=None, max_bytes=1000, owner=None):
    bodies = bodies or {}
    return restore_files(
        files,
        root,
        lambda key: bodies.get(key, b"body"),
        max_bytes=max_bytes,
        owner=owner,
        turn=TURN,
    )


def everything(root):
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))


def refused(root, *files, **how):
    """Return the message of a refused restore, which leaves no file."""
    with pytest.raises(SandboxError) as failure:
        put(root, *files, **how)
    assert failure.value.reason == "restore_failed"
    return str(failure.value)


def test_files_are_restored_to_their_paths_and_listed_in_the_manifest(tmp_path):
    manifest = put(
        tmp_path,
        work(f"{TURN}/files/a/b.txt"),
        work(f"{OLD}/attachments/c.pdf", b"other!"),
        bodies={f"{OLD}/attachments/c.pdf": b"other!"},
    )
    assert (tmp_path / TURN / "files/a/b.txt").read_bytes() == b"body"
    assert (tmp_path / OLD / "attachments/c.pdf").read_bytes() == b"other!"
    assert {path: fact.size_bytes for path, fact in manifest.files.items()} == {
        f"{TURN}/files/a/b.txt": 4,
        f"{OLD}/attachments/c.pdf": 6,
    }


def test_the_current_turn_has_its_folders_even_without_files(tmp_path):
    assert put(tmp_path).files == {}
    assert everything(tmp_path) == [TURN, f"{TURN}/attachments", f"{TURN}/files", f"{TURN}/outputs"]


def test_modes_do_not_depend_on_the_umask(tmp_path):
    before = os.umask(0o077)
    try:
        put(tmp_path, work(f"{TURN}/files/a/b.txt"))
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*")}
    assert (modes["b.txt"], modes["a"], modes["outputs"]) == (0o644, 0o755, 0o755)


@as_root
def test_files_and_folders_are_given_to_the_owner_but_the_root_is_not(tmp_path):
    put(tmp_path, work(f"{TURN}/files/a/b.txt"), owner=(1001, 1002))
    owners = {(path.stat().st_uid, path.stat().st_gid) for path in tmp_path.rglob("*")}
    assert owners == {(1001, 1002)}
    assert tmp_path.stat().st_uid == os.geteuid()


@pytest.mark.parametrize(
    "path",
    [
        "../secret",
        f"{TURN}/files/../../../secret",
        "/etc/passwd",
        f"{TURN}/files/a\0b",
        f"{TURN}/files/..\\..\\secret",
        f"{TURN}/files/e\u0301",
        f"{TURN}/elsewhere/x",
        "",
    ],
)
def test_a_path_outside_the_folders_of_a_turn_is_refused_before_any_write(tmp_path, path):
    root = tmp_path / "root"
    root.mkdir()
    message = refused(root, work(f"{TURN}/files/fine"), work(path))
    assert everything(tmp_path) == ["root"]
    assert not path or repr(path)[1:-1] in message


@pytest.mark.parametrize(("one", "other"), [("x", "x"), ("X", "x"), ("a", "a/b"), ("a/b", "a")], ids=str)
def test_names_that_clash_are_refused_before_anything_is_written(tmp_path, one, other):
    message = refused(tmp_path, work(f"{TURN}/files/{one}"), work(f"{TURN}/files/{other}"))
    assert f"{TURN}/files/{other}" in message
    assert everything(tmp_path) == []


@pytest.mark.parametrize("body", [b"BODY", b"bod", b"body!"], ids=["other", "shorter", "longer"])
def test_bytes_that_are_not_those_of_the_hash_are_never_written(tmp_path, body):
    path = f"{TURN}/files/x"
    assert path in refused(tmp_path, work(path), bodies={path: body})
    assert not (tmp_path / path).exists()


def test_more_bytes_than_allowed_are_not_even_fetched(tmp_path):
    def fetch(key):
        raise AssertionError(key)

    files = [work(f"{TURN}/files/a"), work(f"{TURN}/files/b")]
    with pytest.raises(SandboxError) as failure:
        restore_files(files, tmp_path, fetch, max_bytes=7, owner=None, turn=TURN)
    assert failure.value.reason == "restore_failed"


@pytest.mark.parametrize("error", [NotFoundError("gone"), DependencyError("down")], ids=["gone", "down"])
def test_bytes_that_cannot_be_fetched_name_their_file(tmp_path, error):
    def fetch(key):
        raise error

    with pytest.raises(SandboxError) as failure:
        restore_files([work(f"{TURN}/files/a")], tmp_path, fetch, max_bytes=7, owner=None, turn=TURN)
    assert (failure.value.reason, failure.value.context["path"]) == ("restore_failed", f"{TURN}/files/a")


@pytest.mark.parametrize("planted", [TURN, f"{TURN}/files", f"{TURN}/files/a"])
def test_a_link_in_the_path_is_not_followed(tmp_path, planted):
    root, outside = tmp_path / "root", tmp_path / "outside"
    outside.mkdir()
    (root / planted).parent.mkdir(parents=True)
    (root / planted).symlink_to(outside)
    refused(root, work(f"{TURN}/files/a/b.txt"))
    assert list(outside.iterdir()) == []


def test_an_existing_file_is_not_overwritten(tmp_path):
    (tmp_path / TURN / "files").mkdir(parents=True)
    (tmp_path / TURN / "files/a").write_text("first")
    assert f"{TURN}/files/a" in refused(tmp_path, work(f"{TURN}/files/a"))
    assert (tmp_path / TURN / "files/a").read_text() == "first"


def test_a_missing_root_is_refused(tmp_path):
    refused(tmp_path / "missing", work(f"{TURN}/files/a"))


def test_no_descriptor_stays_open(tmp_path):
    held = len(list(OPEN.iterdir()))
    put(tmp_path, work(f"{TURN}/files/a/b"))
    refused(tmp_path, work(f"{TURN}/files/a/b"))
    assert len(list(OPEN.iterdir())) == held
