"""Trees of hostile programs, also changed during collection."""

import contextlib
import hashlib
import os
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from stepline.adapters.sandbox.collect import Spool, TooLarge, collect
from stepline.adapters.sandbox.quota import Quota
from stepline.adapters.sandbox.restore import restore_files
from stepline.adapters.sandbox.tree import remove_tree
from stepline.errors import PathError
from stepline.model.path import from_physical, physical
from stepline.model.program.execution import RunLimits, WorkFile
from stepline.model.traversal import Names, clean_text
from stepline.programs.manifest import FileFact, Manifest, reserve_path
from tests.support.budget import budget

TURN = "turn_20261121T101500_ab12cd"
SECRET = b"the secret of the host"
LIMITS = RunLimits(max_file_bytes=64, max_delta_bytes=256)
OPEN = Path("/proc/self/fd")
WAIT_S = 60.0
ROUNDS = 150

ordinary = st.sampled_from(["a", "A", "b.txt", "ä", "tmp", "logs", "files", "__pycache__", "x.pyc", TURN])
weird = st.binary(min_size=1, max_size=12).filter(lambda name: not {0, 47} & set(name))
strange = weird.filter(lambda name: name not in (b".", b".."))
names = ordinary.map(os.fsencode) | strange
bodies = st.sampled_from([b"", b"one", b"two", b"x" * 64, b"x" * 65])
entries = st.one_of(
    st.tuples(st.just("file"), bodies),
    st.tuples(st.just("link"), st.sampled_from(["secret", "outside", "..", "/", "loop", "a"])),
    st.tuples(st.just("hard"), st.just("secret")),
    st.tuples(st.just("pipe"), st.none()),
    st.tuples(st.just("hole"), st.sampled_from([10, 1 << 30])),
)
trees = st.recursive(
    st.dictionaries(names, entries, max_size=4),
    lambda inner: st.dictionaries(names, entries | st.tuples(st.just("folder"), inner), max_size=4),
    max_leaves=12,
)


def plant(folder: Path, tree, base: Path):
    """Create the tree; existing entries stay."""
    for name, (kind, what) in tree.items():
        path = folder / os.fsdecode(name)
        with contextlib.suppress(FileExistsError):
            match kind:
                case "file":
                    path.open("xb").close()
                    path.write_bytes(what)
                case "link":
                    path.symlink_to(base / what if what in ("secret", "outside") else what)
                case "hard":
                    path.hardlink_to(base / "secret")
                case "pipe":
                    os.mkfifo(path)
                case "hole":
                    path.open("xb").close()
                    os.truncate(path, what)
                case "folder":
                    path.mkdir()
                    plant(path, what, base)


@contextlib.contextmanager
def place() -> Iterator[Path]:
    base = Path(tempfile.mkdtemp())
    try:
        for folder in ("out", "again", "spool", "outside"):
            (base / folder).mkdir()
        (base / "secret").write_bytes(SECRET)
        (base / "outside" / "secret.txt").write_bytes(SECRET)
        restore_files((), base / "out", bytes, max_bytes=0, owner=None, turn=TURN)
        yield base
        assert remove_tree(base / "out")
        assert (base / "outside" / "secret.txt").read_bytes() == SECRET
    finally:
        remove_tree(base)


def spooled(base):
    return {path.name: path.read_bytes() for path in (base / "spool").iterdir()}


@settings(max_examples=budget(30, 1500))
@given(trees, trees)
@example({}, {b"a": ("file", b""), b"A": ("file", b"one")})
def test_only_the_programs_own_plain_files_are_collected(top, inner):
    with place() as base:
        plant(base / "out", top, base)
        plant(base / "out" / TURN / "outputs", inner, base)
        found = collect(base / "out", Manifest(), base / "spool", limits=LIMITS, turn=TURN)
        bytes_of = spooled(base)
        assert SECRET not in bytes_of.values()
        assert all(hashlib.sha256(body).hexdigest() == name for name, body in bytes_of.items())
        # A name clash is detected only when all files are copied.
        assert {file.sha256 for file in found.files} <= bytes_of.keys()
        taken = Names()
        for file in found.files:
            reserve_path(taken, file.path)
            assert file.path.startswith((f"{TURN}/files/", f"{TURN}/outputs/"))
            assert file.size_bytes == len(bytes_of[file.sha256]) <= LIMITS.max_file_bytes
        assert sum(file.size_bytes for file in found.files) <= LIMITS.max_delta_bytes
        assert (found.unchanged, found.deleted) == ((), ())
        for refused in found.refused:
            assert refused.path.isprintable() or refused.path == clean_text(refused.path)
        Quota([base / "out"], LIMITS, Manifest()).check()


def canonical(name):
    with contextlib.suppress(PathError):
        return physical(from_physical(f"{TURN}/outputs/{name}"))
    return None


rel_paths = st.lists(st.text(max_size=8) | ordinary, min_size=1, max_size=3).map("/".join)
workspaces = st.dictionaries(rel_paths.map(canonical).filter(bool), st.binary(max_size=20), max_size=6)


def fitting(workspace):
    """Return the files of a workspace whose names do not clash."""
    taken = Names()
    return {path: body for path, body in workspace.items() if taken.take(path) is None}


def work(path, body):
    sha256 = hashlib.sha256(body).hexdigest()
    return WorkFile(path=path, key=sha256, sha256=sha256, size_bytes=len(body), mime="text/plain")


@given(workspaces.map(fitting))
def test_restored_files_are_unchanged_and_collected_files_can_be_restored(workspace):
    with place() as base:
        files = [work(path, body) for path, body in workspace.items()]
        stored = {file.key: body for file, body in zip(files, workspace.values(), strict=True)}
        before = restore_files(
            files, base / "again", stored.__getitem__, max_bytes=1000, owner=None, turn=TURN
        )
        assert before.files == {
            file.path: FileFact(sha256=file.sha256, size_bytes=file.size_bytes) for file in files
        }
        found = collect(base / "again", before, base / "spool", limits=LIMITS, turn=TURN)
        assert (set(found.unchanged), found.files, found.refused, found.deleted) == (
            set(workspace),
            (),
            (),
            (),
        )
        fresh = collect(base / "again", Manifest(), base / "spool", limits=LIMITS, turn=TURN)
        assert {file.path: spooled(base)[file.sha256] for file in fresh.files} == {
            path: body for path, body in workspace.items() if not is_scratch(path)
        }


def is_scratch(path):
    return path.endswith(".pyc") or "__pycache__" in path.split("/")[:-1]


def swap(path, link_to, stop):
    """Replace `path` with a file and a link alternately, as fast as possible."""
    spare = path.with_name("spare")
    while not stop.is_set():
        spare.write_bytes(b"own")
        spare.replace(path)
        spare.symlink_to(link_to)
        spare.replace(path)


def swap_folder(path, link_to, stop):
    """Replace `path` with a folder and a link alternately."""
    aside, link = path.with_name("aside"), path.with_name("link")
    link.symlink_to(link_to)
    path.mkdir()
    (path / "secret.txt").write_bytes(b"own")
    while not stop.is_set():
        path.rename(aside)
        link.rename(path)
        path.rename(link)
        aside.rename(path)


def come_and_go(path, link_to, stop):
    while not stop.is_set():
        path.write_bytes(b"own")
        path.unlink()


def grow(path, link_to, stop):
    while not stop.is_set():
        with path.open("ab") as file:
            file.write(b"x" * 30)
        if path.stat().st_size > 2 * LIMITS.max_file_bytes:
            os.truncate(path, 0)


@pytest.mark.parametrize("change", [swap, swap_folder, come_and_go, grow])
def test_a_file_that_changes_during_collection_is_refused_or_collected_whole(change):
    with place() as base:
        target = base / "outside" if change is swap_folder else base / "secret"
        stop = threading.Event()
        thread = threading.Thread(target=change, args=(base / "out" / TURN / "outputs/x", target, stop))
        thread.start()
        try:
            for _ in range(ROUNDS):
                found = collect(base / "out", Manifest(), base / "spool", limits=LIMITS, turn=TURN)
                bytes_of = spooled(base)
                assert SECRET not in bytes_of.values()
                assert "partial" not in bytes_of
                for file in found.files:
                    assert file.size_bytes == len(bytes_of[file.sha256]) <= LIMITS.max_file_bytes
                Quota([base / "out"], LIMITS, Manifest()).check()
        finally:
            stop.set()
            thread.join(WAIT_S)
        assert not thread.is_alive()


@pytest.mark.parametrize("source", ["/dev/zero", "/proc/self/maps"])
def test_bytes_are_counted_as_they_come_and_not_as_the_file_states(tmp_path, source):
    fd = os.open(source, os.O_RDONLY)
    try:
        with Spool(tmp_path) as spool, pytest.raises(TooLarge):
            spool.take(fd, 10)
    finally:
        os.close(fd)
    assert list(tmp_path.iterdir()) == []


def test_no_descriptor_stays_open(tmp_path):
    with place() as base:
        (base / "out" / TURN / "outputs/link").symlink_to("x")
        (base / "out" / TURN / "outputs/file").write_bytes(b"x" * 100)
        held = len(list(OPEN.iterdir()))
        collect(base / "out", Manifest(), base / "spool", limits=LIMITS, turn=TURN)
        Quota([base / "out"], LIMITS, Manifest()).check()
        assert len(list(OPEN.iterdir())) == held
