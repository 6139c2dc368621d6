from __future__ import annotations

import stat

import pytest
from msgspec.structs import replace

from exec_task import workspace
from exec_task.workspace import LazyHost, Workspace
from stepline.adapters.corpus import CorpusSearch
from stepline.adapters.docker.executor import judge_run
from stepline.adapters.docker.supervisor_protocol import Ended, Report, decode, encode
from stepline.adapters.sandbox.quota import RESERVE_BYTES, free_bytes, plan_reserve
from stepline.model.program.execution import Isolation, RunLimits
from stepline.programs.frame import HEADER_BYTES
from stepline.tools.sources import SourcePool
from tests.unit.adapters.docker.test_docker_command_line import REQUEST
from tests.unit.programs.tool_host import make_host


def laid_out(folder, **given):
    root, private = folder / "workspace", folder / "private"
    root.mkdir()
    private.mkdir()
    return Workspace(
        replace(REQUEST, limits=RunLimits()),
        "t0ken",
        root=root,
        private=private,
        owner=None,
        fetch=bytes,
        make_host=lambda _: pytest.fail("nothing was called"),
        bundle={"guide/roses.md": b"Thorns"},
        **given,
    )


def test_a_reserve_leaves_at_least_half_of_what_is_free(tmp_path):
    assert 0 < plan_reserve(tmp_path) <= min(RESERVE_BYTES, free_bytes(tmp_path))


def test_on_a_shared_disk_a_program_is_stopped_before_it_is_full(tmp_path, monkeypatch):
    monkeypatch.setattr(workspace, "plan_reserve", lambda root: free_bytes(root) * 2)
    assert laid_out(tmp_path, shared_disk=True).check() == "workspace_size_limit"


def test_a_separate_file_system_may_be_filled(tmp_path, monkeypatch):
    monkeypatch.setattr(workspace, "plan_reserve", lambda root: free_bytes(root) * 2)
    assert laid_out(tmp_path).check() is None


def test_the_bundles_files_are_for_reading(tmp_path):
    laid_out(tmp_path)
    bundle = tmp_path / "workspace/bundle"
    assert (bundle / "guide/roses.md").read_bytes() == b"Thorns"
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (bundle, *sorted(bundle.rglob("*")))]
    assert modes == [0o755, 0o755, 0o644]


def test_a_workspace_that_never_served_tools_still_has_a_report(tmp_path):
    made = laid_out(tmp_path)
    report = made.report()
    assert (report.isolation, report.error, report.files) == (None, "", ())


def test_the_report_contains_the_sources_of_its_tools(tmp_path):
    host = LazyHost(lambda: make_host(search=CorpusSearch(), sources=SourcePool()))
    assert host.sources == []
    host.call("web_tools.web_search", {"queries": "prompt caching", "n": 1})
    report = replace(laid_out(tmp_path).report(), sources=tuple(host.sources), isolation=Isolation())
    sent = decode(encode(report)[HEADER_BYTES:])
    assert isinstance(sent, Report)
    run = judge_run(Ended(error="", returncode=0, seconds=1.0), sent, RunLimits(), runtime="")
    assert [(row.sid, row.title) for row in run.sources] == [(1, "Prompt caching of language models")]
