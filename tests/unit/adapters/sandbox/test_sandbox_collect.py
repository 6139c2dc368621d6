import hashlib
import os
import socket
import stat
import subprocess

import pytest

from stepline.adapters.sandbox import collect as collecting
from stepline.adapters.sandbox.collect import PATH_MAX_CHARS, collect, printable
from stepline.adapters.sandbox.restore import restore_files
from stepline.adapters.sandbox.tree import TREE_DEPTH_MAX
from stepline.errors import SandboxError
from stepline.model.program.execution import RunLimits, WorkFile

TURN = "turn_20261121T101500_ab12cd"
OLD = "turn_20261120T101500_ab12cd"
SECRET = b"the secret of the host"

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can do that")


class Place:
    """A root with inputs, as a program finds it, a spool, and a secret next to them."""

    def __init__(self, base):
        self.root, self.spool, self.secret = base / "out", base / "spool", base / "secret"
        self.root.mkdir()
        self.spool.mkdir(0o700)
        self.secret.write_bytes(SECRET)
        self.before = None
        self.restore()

    def restore(self, **bodies):
        files = [
            WorkFile(path=path, key=path, sha256=digest(body), size_bytes=len(body), mime="text/plain")
            for path, body in bodies.items()
        ]
        self.before = restore_files(files, self.root, bodies.get, max_bytes=10**6, owner=None, turn=TURN)

    def write(self, path, body=b"body"):
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(body)
        return target

    def collect(self, **limits):
        return collect(self.root, self.before, self.spool, limits=RunLimits(**limits), turn=TURN)

    def spooled(self):
        return {path.name: path.read_bytes() for path in self.spool.iterdir()}


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


def digest(body):
    return hashlib.sha256(body).hexdigest()


def names(files):
    return [file.path for file in files]


def codes(found):
    return {one.path: one.code for one in found.refused}


def test_a_run_without_new_files_collects_none(place):
    assert place.collect() == collecting.Collected()


def test_new_files_are_found_and_their_bytes_spooled_once(place):
    place.write(f"{TURN}/outputs/a.txt", b"same")
    place.write(f"{TURN}/files/deep/b.txt", b"same")
    place.write(f"{TURN}/outputs/c.txt", b"other").chmod(0o4711)
    found = place.collect()
    assert [(one.path, one.sha256, one.size_bytes, one.mode) for one in found.files] == [
        (f"{TURN}/files/deep/b.txt", digest(b"same"), 4, 0o644),
        (f"{TURN}/outputs/a.txt", digest(b"same"), 4, 0o644),
        (f"{TURN}/outputs/c.txt", digest(b"other"), 5, 0o755),
    ]
    assert place.spooled() == {digest(b"same"): b"same", digest(b"other"): b"other"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in place.spool.iterdir()} == {0o600}


def test_only_bytes_decide_whether_inputs_are_unchanged_changed_or_deleted(place):
    kept, touched, changed, gone = (f"{TURN}/files/{name}" for name in ("kept", "touched", "changed", "gone"))
    place.restore(**{kept: b"1", touched: b"22", changed: b"33", gone: b"4"})
    place.write(touched, b"22")
    before = (place.root / changed).stat()
    place.write(changed, b"__")
    os.utime(place.root / changed, ns=(before.st_atime_ns, before.st_mtime_ns))
    (place.root / gone).unlink()
    found = place.collect()
    assert found.unchanged == (kept, touched)
    assert names(found.files) == [changed]
    assert found.deleted == (gone,)
    assert place.spooled() == {digest(b"__"): b"__"}


def test_older_turns_and_attachments_never_change(place):
    place.restore(
        **{
            f"{OLD}/files/a": b"a",
            f"{OLD}/files/b": b"b",
            f"{OLD}/files/c": b"c",
            f"{TURN}/attachments/d": b"d",
            f"{TURN}/attachments/e": b"e",
        }
    )
    place.write(f"{OLD}/files/a", b"changed")
    (place.root / OLD / "files/b").unlink()
    place.write(f"{OLD}/outputs/new")
    place.write(f"{TURN}/attachments/d", b"changed")
    (place.root / TURN / "attachments/e").unlink()
    place.write(f"{TURN}/external/followup/attachments/m1/new")
    found = place.collect()
    assert codes(found) == {
        f"{OLD}/files/a": "artifact_not_current_turn",
        f"{OLD}/outputs/new": "artifact_not_current_turn",
        f"{TURN}/attachments/d": "path_not_writable",
        f"{TURN}/external/followup/attachments/m1/new": "path_not_writable",
    }
    assert (found.unchanged, found.files, found.deleted) == ((f"{OLD}/files/c",), (), ())
    assert place.spooled() == {}


def test_links_are_refused_at_any_location_and_never_followed(place):
    place.restore(**{f"{TURN}/files/input": b"input", f"{TURN}/outputs/folder/x": b"x"})
    (place.root / TURN / "files/input").unlink()
    (place.root / TURN / "files/input").symlink_to(place.secret)
    (place.root / "link").symlink_to(place.secret.parent)
    (place.root / TURN / "__pycache__").symlink_to("/")
    (place.root / TURN / "outputs/dangling").symlink_to("nowhere")
    (place.root / TURN / "outputs/loop").symlink_to("loop")
    (place.root / TURN / "outputs/folder/x").unlink()
    (place.root / TURN / "outputs/folder").rmdir()
    (place.root / TURN / "outputs/folder").symlink_to(place.root / TURN / "files")
    found = place.collect()
    assert codes(found) == dict.fromkeys(
        [
            "link",
            f"{TURN}/__pycache__",
            f"{TURN}/files/input",
            f"{TURN}/outputs/dangling",
            f"{TURN}/outputs/folder",
            f"{TURN}/outputs/loop",
        ],
        "artifact_symlink_blocked",
    )
    assert (found.files, found.deleted, place.spooled()) == ((), (), {})


def test_entries_that_are_not_files_are_refused_without_blocking(place, monkeypatch):
    out = place.root / TURN / "outputs"
    os.mkfifo(out / "pipe")
    os.link(place.secret, out / "hard")
    monkeypatch.chdir(out)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        found = place.collect()
    assert codes(found) == dict.fromkeys(
        [f"{TURN}/outputs/{name}" for name in ("hard", "pipe", "socket")], "artifact_not_regular_file"
    )
    assert place.spooled() == {}


@as_root
def test_a_device_is_not_even_opened(place):
    os.mknod(place.root / TURN / "outputs/zero", stat.S_IFCHR | 0o666, os.makedev(1, 5))
    assert codes(place.collect()) == {f"{TURN}/outputs/zero": "artifact_not_regular_file"}


@as_root
def test_another_file_system_is_not_entered(place):
    mounted = place.root / TURN / "outputs/mounted"
    mounted.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "none", str(mounted)], capture_output=True, check=False)
    if done.returncode:
        pytest.skip("nothing can be mounted here")
    try:
        (mounted / "x").write_text("x")
        assert codes(place.collect()) == {f"{TURN}/outputs/mounted": "artifact_path_escape_blocked"}
    finally:
        subprocess.run(["umount", str(mounted)], check=True)


@pytest.mark.parametrize(
    ("name", "code", "shown"),
    [
        (b"\xff\xfe", "path_control_character", "\\xff\\xfe"),
        (b"a\nb", "path_control_character", "a\\nb"),
        (b"a\x1b[31m", "path_control_character", "a\\x1b[31m"),
        ("\u202etxt.exe".encode(), "path_control_character", "\\u202etxt.exe"),
        ("a\u200b".encode(), "path_control_character", "a\\u200b"),
        ("a\U000e0041".encode(), "path_control_character", "a\\U000e0041"),
        (b"..\\..\\x", "path_backslash", "..\\..\\x"),
        (b"...", "path_dot_segment", "..."),
        (b" x", "path_blank_edge", " x"),
        (b"trail.", "path_dot_edge", "trail."),
        (b"NUL.txt", "path_reserved_name", "NUL.txt"),
        (b"report.md:hidden", "path_reserved_character", "report.md:hidden"),
    ],
)
def test_a_name_that_no_path_can_hold_is_refused_and_shown_harmless(place, name, code, shown):
    (place.root / TURN / "outputs" / os.fsdecode(name)).touch()
    assert codes(place.collect()) == {f"{TURN}/outputs/{shown}": code}


def test_files_outside_the_folders_of_a_turn_are_refused(place):
    for path in ("x", f"{TURN}/plot.png", "elsewhere/files/x", f"{TURN}/external/x"):
        place.write(path)
    assert set(codes(place.collect()).values()) == {"path_not_physical"}


def test_names_are_collected_in_nfc_and_only_once(place):
    decomposed, composed = f"{TURN}/outputs/e\u0301", f"{TURN}/outputs/\u00e9"
    place.write(decomposed, b"1")
    assert names(place.collect().files) == [composed]
    place.write(composed, b"2")
    found = place.collect()
    assert (names(found.files), list(codes(found).values())) == ([composed], ["path_clash"])


def test_of_names_that_clash_the_input_stays(place):
    place.restore(**{f"{TURN}/files/report.csv": b"input"})
    place.write(f"{TURN}/files/Report.csv", b"new")
    found = place.collect()
    assert found.unchanged == (f"{TURN}/files/report.csv",)
    assert codes(found) == {f"{TURN}/files/Report.csv": "path_clash"}
    (place.root / f"{TURN}/files/report.csv").unlink()
    found = place.collect()
    assert (names(found.files), found.deleted) == (
        [f"{TURN}/files/Report.csv"],
        (f"{TURN}/files/report.csv",),
    )


def test_scratch_is_passed_over_unless_it_was_given(place):
    given = (f"{TURN}/files/__pycache__/given.txt", f"{TURN}/files/given.pyc")
    place.restore(**dict.fromkeys(given, b"input"))
    for path in ("tmp/x", "files/__pycache__/x.pyc", "outputs/a/__pycache__/y", "files/z.pyc"):
        place.write(f"{TURN}/{path}")
    place.write(f"{TURN}/outputs/tmp/kept")
    found = place.collect()
    assert (names(found.files), found.unchanged, found.refused, found.deleted) == (
        [f"{TURN}/outputs/tmp/kept"],
        given,
        (),
        (),
    )


@pytest.mark.parametrize("above", ["logs", "__pycache__", "tmp"])
def test_names_of_folders_above_the_root_do_not_matter(tmp_path, above):
    (tmp_path / above).mkdir()
    place = Place(tmp_path / above)
    place.write(f"{TURN}/outputs/logs/x")
    assert names(place.collect().files) == [f"{TURN}/outputs/logs/x"]


def test_a_file_may_be_as_large_as_the_limit(place):
    place.write(f"{TURN}/outputs/fits", b"x" * 10)
    place.write(f"{TURN}/outputs/more", b"x" * 11)
    found = place.collect(max_file_bytes=10)
    assert names(found.files) == [f"{TURN}/outputs/fits"]
    assert codes(found) == {f"{TURN}/outputs/more": "file_size_limit"}


def test_all_files_together_may_grow_by_the_limit(place):
    place.restore(**{f"{TURN}/files/input": b"x" * 10})
    for name in "abc":
        place.write(f"{TURN}/outputs/{name}", name.encode() * 10)
    found = place.collect(max_delta_bytes=10)
    assert names(found.files) == [f"{TURN}/outputs/a", f"{TURN}/outputs/b"]
    assert codes(found) == {f"{TURN}/outputs/c": "exec_workspace_delta_limit"}


def test_a_hole_counts_as_its_zeros(place):
    with (place.root / TURN / "outputs/huge").open("wb") as file:
        file.truncate(1 << 40)
    os.truncate(place.write(f"{TURN}/outputs/small", b"xx"), 0)
    os.truncate(place.root / TURN / "outputs/small", 5)
    found = place.collect()
    assert codes(found) == {f"{TURN}/outputs/huge": "file_size_limit"}
    assert place.spooled() == {digest(bytes(5)): bytes(5)}


def test_an_input_larger_than_a_new_file_may_be_is_still_an_input(place):
    place.restore(**{f"{TURN}/attachments/big": b"x" * 100})
    assert place.collect(max_file_bytes=10).unchanged == (f"{TURN}/attachments/big",)


def test_entries_that_were_not_visited_are_not_deleted(place, monkeypatch):
    place.restore(**{f"{TURN}/files/deep{'/d' * TREE_DEPTH_MAX}/x": b"x", f"{TURN}/files/gone": b"x"})
    (place.root / TURN / "files/gone").unlink()
    found = place.collect()
    assert [one.code for one in found.refused] == ["path_too_deep"]
    assert (found.unchanged, found.deleted) == ((), (f"{TURN}/files/gone",))
    monkeypatch.setattr(collecting, "ENTRIES_MAX", 1)
    found = place.collect()
    assert (codes(found), found.deleted) == ({TURN: "artifact_too_many_entries"}, ())


def test_refusals_above_the_limit_are_only_counted(place, monkeypatch):
    monkeypatch.setattr(collecting, "REFUSED_MAX", 3)
    for i in range(5):
        (place.root / TURN / "outputs" / str(i)).symlink_to("x")
    *shown, rest = place.collect().refused
    assert (len(shown), rest.path, rest.message) == (3, "", "2 more entries are refused")


def test_a_folder_that_no_path_can_name_is_not_entered(place):
    place.restore(**{f"{TURN}/files/kept": b"x"})
    folder = place.root / TURN / "outputs" / os.fsdecode(b"\xff" * 200)
    deepest = folder / "inner"
    deepest.mkdir(parents=True)
    for i in range(20):
        (deepest / str(i)).symlink_to("x")
    found = place.collect()
    assert codes(found) == {f"{TURN}/outputs/" + "\\xff" * 200: "path_control_character"}
    assert (found.unchanged, found.deleted) == ((f"{TURN}/files/kept",), ())


def test_a_folder_whose_paths_would_all_be_too_long_is_not_entered(place):
    folder = place.root / TURN / "outputs"
    for _ in range(6):
        folder = folder / ("x" * 250)
        folder.mkdir()
        (folder / "y").touch()
    found = place.collect()
    assert [path.count("/") - 1 for path in names(found.files)] == [4, 3, 2]
    assert [(one.path.count("/") - 1, one.code) for one in found.refused] == [(4, "path_too_long")]


def test_a_path_counts_in_nfc_before_it_is_too_long(place):
    syllable = "\u1112\u1161\u11ab"  # nine bytes, which NFC reduces to three
    folder = place.root / TURN / "outputs" / "/".join([syllable * 20] * 7)
    folder.mkdir(parents=True)
    (folder / "y").touch()
    assert names(place.collect().files) == [f"{TURN}/outputs/" + ("\ud55c" * 20 + "/") * 7 + "y"]


def test_a_path_is_cut_before_it_is_made_harmless():
    assert printable("\udcff" * 1_000_000) == ("\\xff" * PATH_MAX_CHARS)[:PATH_MAX_CHARS]


def test_a_slow_walk_fails_the_collection(place, monkeypatch):
    monkeypatch.setattr(collecting, "WALK_S", 0.0)
    with pytest.raises(SandboxError) as failure:
        place.collect()
    assert failure.value.reason == "collect_failed"


def test_a_root_or_spool_that_cannot_be_opened_fails_the_collection(place):
    for root, spool in ((place.root / "missing", place.spool), (place.root, place.spool / "missing")):
        with pytest.raises(SandboxError) as failure:
            collect(root, place.before, spool, limits=RunLimits(), turn=TURN)
        assert failure.value.reason == "collect_failed"
    place.root.rename(place.root.with_name("moved"))
    place.root.symlink_to("/etc")
    with pytest.raises(SandboxError):
        place.collect()


@as_root
def test_a_full_spool_fails_the_collection_and_is_left_clean(place):
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(place.spool)], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip("nothing can be mounted here")
    place.write(f"{TURN}/outputs/x", b"x" * 1_000_000)
    try:
        with pytest.raises(SandboxError) as failure:
            place.collect()
        assert failure.value.reason == "collect_failed"
        assert place.spooled() == {}
    finally:
        subprocess.run(["umount", str(place.spool)], check=True)
