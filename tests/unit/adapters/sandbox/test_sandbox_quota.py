import os
import subprocess
import threading

import pytest

from stepline.adapters.sandbox import quota as measuring
from stepline.adapters.sandbox.quota import INTERVAL_MIN_S, Quota, watch_quota
from stepline.adapters.sandbox.tree import TREE_DEPTH_MAX
from stepline.model.program.execution import RunLimits
from stepline.programs.manifest import FileFact, Manifest

WAIT_S = 60.0


def check(*roots, before=(), reserve_bytes=0, **limits):
    baseline = Manifest(files={path: FileFact(sha256="", size_bytes=size) for path, size in before})
    return Quota(roots, RunLimits(**limits), baseline, reserve_bytes=reserve_bytes).check()


def allocate_beyond_end(path, size_bytes):
    """Allocate disk blocks for a file without making it longer."""
    done = subprocess.run(
        ["fallocate", "--keep-size", "--length", str(size_bytes), path], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip(f"no file system for this: {done.stderr.decode()}")


def test_use_within_the_limits_is_not_a_violation(tmp_path):
    (tmp_path / "x").write_bytes(b"x" * 10)
    assert check(tmp_path, max_file_bytes=10, max_delta_bytes=10, max_workspace_bytes=10) is None


@pytest.mark.parametrize(
    ("limits", "code"),
    [
        ({"max_file_bytes": 9}, "file_size_limit"),
        ({"max_delta_bytes": 19}, "exec_workspace_delta_limit"),
        ({"max_workspace_bytes": 19}, "workspace_size_limit"),
    ],
)
def test_a_limit_is_exceeded_by_all_roots_together(tmp_path, limits, code):
    for name in ("work", "out"):
        (tmp_path / name / "deep").mkdir(parents=True)
        (tmp_path / name / "deep" / "x").write_bytes(b"x" * 10)
    assert check(tmp_path / "work", tmp_path / "out", **limits) == code


def test_growth_is_counted_from_the_restored_files(tmp_path):
    (tmp_path / "input").write_bytes(b"x" * 100)
    (tmp_path / "new").write_bytes(b"x" * 10)
    before = [("input", 100)]
    assert check(tmp_path, before=before, max_file_bytes=10, max_delta_bytes=10) is None
    assert check(tmp_path, before=before, max_delta_bytes=9) == "exec_workspace_delta_limit"


def test_a_hole_counts_as_if_it_were_written(tmp_path):
    (tmp_path / "hole").touch()
    os.truncate(tmp_path / "hole", 1 << 40)
    assert check(tmp_path) == "file_size_limit"


def test_blocks_beyond_the_end_of_a_file_count(tmp_path):
    (tmp_path / "short").write_bytes(b"x")
    allocate_beyond_end(tmp_path / "short", 1 << 20)
    assert check(tmp_path, max_delta_bytes=1 << 19) == "exec_workspace_delta_limit"
    assert check(tmp_path, max_workspace_bytes=1 << 19) == "workspace_size_limit"


def test_the_last_block_of_a_file_is_not_held_against_it(tmp_path):
    for i in range(10):
        (tmp_path / str(i)).write_bytes(b"x")
    assert check(tmp_path, max_delta_bytes=10) is None


def test_a_disk_with_less_room_than_the_reserve_is_a_full_workspace(tmp_path):
    assert check(tmp_path, reserve_bytes=1) is None
    assert check(tmp_path, reserve_bytes=1 << 60) == "workspace_size_limit"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount")
def test_files_without_a_name_use_up_the_reserve(tmp_path):
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(tmp_path)], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip("nothing can be mounted here")
    try:
        quota = Quota([tmp_path], RunLimits(), Manifest(), reserve_bytes=1 << 19)
        with (tmp_path / "x").open("wb") as file:
            (tmp_path / "x").unlink()
            assert quota.check() is None
            file.write(bytes(600_000))
            file.flush()
            assert quota.check() == "workspace_size_limit"
        assert quota.check() is None
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def test_a_file_counts_once_however_many_names_it_has(tmp_path):
    (tmp_path / "0").write_bytes(b"x" * 10)
    for i in range(1, 5):
        os.link(tmp_path / "0", tmp_path / str(i))
    assert check(tmp_path, max_delta_bytes=10) is None


def test_the_target_of_a_link_does_not_count(tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "large").write_bytes(b"x" * 100)
    (root / "link").symlink_to(tmp_path)
    (root / "loop").symlink_to(root)
    assert check(root, max_delta_bytes=10) is None


def test_too_many_entries_and_too_deep_folders_are_growth_too(tmp_path, monkeypatch):
    (tmp_path / "many").mkdir()
    for i in range(4):
        (tmp_path / "many" / str(i)).touch()
    (tmp_path / ("d/" * (TREE_DEPTH_MAX + 1))).mkdir(parents=True)
    assert check(tmp_path / "many") is None
    assert check(tmp_path) == "exec_workspace_delta_limit"
    monkeypatch.setattr(measuring, "ENTRIES_MAX", 3)
    assert check(tmp_path / "many") == "exec_workspace_delta_limit"
    assert check(tmp_path / "many", before=[("many/0", 0)]) is None


def test_a_missing_root_uses_no_space(tmp_path):
    assert check(tmp_path / "missing", max_delta_bytes=0) is None


def test_a_watch_reports_the_first_violation_and_ends(tmp_path):
    (tmp_path / "x").write_bytes(b"x" * 10)
    violations = []
    quota = Quota([tmp_path], RunLimits(max_delta_bytes=5), Manifest())
    thread = watch_quota(quota, INTERVAL_MIN_S, threading.Event(), violations.append)
    thread.join(WAIT_S)
    assert not thread.is_alive()
    assert violations == ["exec_workspace_delta_limit"]


def test_a_stopped_watch_reports_nothing(tmp_path):
    (tmp_path / "x").write_bytes(b"x" * 10)
    violations, stop = [], threading.Event()
    stop.set()
    quota = Quota([tmp_path], RunLimits(max_delta_bytes=5), Manifest())
    thread = watch_quota(quota, WAIT_S, stop, violations.append)
    thread.join(WAIT_S)
    assert not thread.is_alive()
    assert violations == []
