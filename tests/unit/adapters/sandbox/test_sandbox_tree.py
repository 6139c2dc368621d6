import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from stepline.adapters.sandbox.tree import kind_of, open_folder, remove_tree

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


def dig(path, depth):
    """Create a chain of folders that is deeper than the maximum path length."""
    path.mkdir()
    fd = os.open(path, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=fd)
        inner = os.open("d", os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = inner
    os.close(os.open("bottom", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
    os.close(fd)


def test_a_tree_deeper_than_the_stack_and_any_path_is_removed(tmp_path):
    dig(tmp_path / "tree", max(5_000, sys.getrecursionlimit() * 2))
    assert remove_tree(tmp_path / "tree")
    assert list(tmp_path.iterdir()) == []


def test_links_are_removed_and_their_targets_stay(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("precious")
    tree = tmp_path / "tree"
    (tree / "a").mkdir(parents=True)
    (tree / "a" / "folder").symlink_to(outside)
    (tree / "file").symlink_to(outside / "precious")
    (tree / "loop").symlink_to(tree)
    os.link(outside / "precious", tree / "a" / "hard")
    assert remove_tree(tree)
    assert (outside / "precious").read_text() == "precious"


def test_a_link_that_replaces_the_tree_is_not_followed(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("precious")
    (tmp_path / "tree").symlink_to(outside)
    assert not remove_tree(tmp_path / "tree")
    assert (outside / "precious").exists()


def test_pipes_sockets_and_names_that_are_not_text_are_removed(tmp_path):
    tree = tmp_path / "tree"
    tree.mkdir()
    os.mkfifo(tree / "pipe")
    os.mknod(tree / "socket", stat.S_IFSOCK | 0o600)
    (tree / os.fsdecode(b"\xff\n")).mkdir()
    (tree / "-rf *").touch()
    assert remove_tree(tree)


def test_entries_with_the_names_used_by_the_removal_are_removed(tmp_path):
    tree = tmp_path / "tree"
    for path in (".0", ".1/.0/.0/.1", "x/.2/.3", ".3/.2"):
        (tree / path).mkdir(parents=True)
    (tree / ".4").touch()
    (tree / ".5").symlink_to(tmp_path)
    assert remove_tree(tree)
    assert list(tmp_path.iterdir()) == []


def test_many_entries_are_removed_in_several_passes(tmp_path):
    tree = tmp_path / "tree"
    (tree / "inner").mkdir(parents=True)
    for i in range(3_000):
        (tree / "inner" / str(i)).touch()
    assert remove_tree(tree)


def test_removing_a_missing_tree_succeeds(tmp_path):
    assert remove_tree(tmp_path / "missing")


AS_OWNER = """
import os, sys
from pathlib import Path
from stepline.adapters.sandbox.tree import open_folder, remove_tree
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(1001); os.setuid(1001)
tree = Path(sys.argv[1])
for path in ("closed/inner/deep", "readonly/inner", "blind/inner"):
    (tree / path).mkdir(parents=True)
    (tree / path / "file").touch()
(tree / "closed/inner").chmod(0)
(tree / "closed").chmod(0)
(tree / "readonly/inner").chmod(0o555)
(tree / "readonly").chmod(0o555)
(tree / "blind").chmod(0o333)
os.close(open_folder(tree / "closed"))
tree.chmod(0)
assert remove_tree(tree) and not tree.exists()
"""


def test_an_unprivileged_owner_removes_folders_without_access_rights():
    with tempfile.TemporaryDirectory() as anybodys:
        Path(anybodys).chmod(0o777)
        done = subprocess.run(
            [sys.executable, "-c", AS_OWNER, f"{anybodys}/tree"], capture_output=True, text=True, check=False
        )
    assert (done.returncode, done.stderr) == (0, "")


@as_root
def test_root_removes_folders_that_another_user_closed(tmp_path):
    tree = tmp_path / "tree"
    (tree / "closed/inner").mkdir(parents=True)
    (tree / "closed/file").touch()
    for path in (tree / "closed/inner", tree / "closed/file", tree / "closed", tree):
        os.chown(path, 1001, 1001)
        path.chmod(0)
    assert remove_tree(tree)


@as_root
def test_entries_that_cannot_be_removed_are_reported(tmp_path, caplog):
    tree = tmp_path / "tree"
    (tree / "mounted").mkdir(parents=True)
    (tree / "other").touch()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "none", str(tree / "mounted")], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("nothing can be mounted here")
    try:
        assert not remove_tree(tree)
    finally:
        subprocess.run(["umount", str(tree / "mounted")], check=True)
    assert not (tree / "other").exists()
    assert [record.errno for record in caplog.records] == ["EBUSY"]
    assert remove_tree(tree)


def test_only_a_folder_is_opened_as_a_folder(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path)
    (tmp_path / "file").touch()
    for name in ("link", "file", "missing"):
        with pytest.raises(OSError, match=name):
            open_folder(tmp_path / name)


def test_every_kind_of_entry_has_a_name():
    kinds = [
        stat.S_IFLNK,
        stat.S_IFIFO,
        stat.S_IFSOCK,
        stat.S_IFBLK,
        stat.S_IFCHR,
        stat.S_IFDIR,
        stat.S_IFREG,
    ]
    assert [kind_of(kind | 0o644).split()[-1] for kind in kinds] == [
        "link",
        "pipe",
        "socket",
        "device",
        "device",
        "folder",
        "file",
    ]
