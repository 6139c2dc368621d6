from __future__ import annotations

import pytest
from msgspec.structs import replace

from exec_task import workspace
from exec_task.workspace import Workspace
from stepline.adapters.sandbox.quota import RESERVE_BYTES, free_bytes, plan_reserve
from stepline.model.execution import Limits
from tests.unit.adapters.test_docker_plan import REQUEST


def laid_out(folder, **given):
    root, private = folder / "workspace", folder / "private"
    root.mkdir()
    private.mkdir()
    return Workspace(
        replace(REQUEST, limits=Limits()),
        "t0ken",
        root=root,
        private=private,
        owner=None,
        fetch=bytes,
        make_host=lambda: pytest.fail("nothing was called"),
        **given,
    )


def test_a_reserve_leaves_at_least_half_of_what_is_free(tmp_path):
    assert 0 < plan_reserve(tmp_path) <= min(RESERVE_BYTES, free_bytes(tmp_path))


def test_on_a_shared_disk_a_program_is_stopped_before_it_is_full(tmp_path, monkeypatch):
    monkeypatch.setattr(workspace, "plan_reserve", lambda root: free_bytes(root) * 2)
    assert laid_out(tmp_path, shared_disk=True).check() == "workspace_size_limit"


def test_a_file_system_of_its_own_may_be_filled(tmp_path, monkeypatch):
    monkeypatch.setattr(workspace, "plan_reserve", lambda root: free_bytes(root) * 2)
    assert laid_out(tmp_path).check() is None


def test_what_never_served_tools_has_a_report_all_the_same(tmp_path):
    made = laid_out(tmp_path)
    report = made.report()
    assert (report.isolation, report.error, report.files) == (None, "", ())
