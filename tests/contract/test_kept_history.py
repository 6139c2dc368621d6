"""The git history of a project over every artifact store: the same commits from any process and after any lost response."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from stepline.adapters.memory.artifacts import MemoryArtifacts
from stepline.errors import DependencyError
from stepline.log.versions import read_blobs, read_history, save_versions
from tests.support.project_log import ProjectLog

PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4096
"""Larger than one piece of a stored object."""


def a_project(artifacts, lane) -> ProjectLog:
    log = ProjectLog(artifacts, lane)
    log.write({"app/a.py": "a = 1\n", "app/b.py": "b = 1\n", "picture.png": PICTURE})
    log.end()
    log.write({"app/a.py": "a = 2\n"})
    log.delete("app/b.py")
    log.end()
    log.end()
    return log


def expected(lane) -> dict[str, str]:
    log = a_project(MemoryArtifacts(), lane)
    save_versions(log.artifacts, log.project())
    return read_history(log.artifacts, log.project()).versions


def test_a_saved_history_reads_back_unchanged(backend, lane):
    log = a_project(backend.artifacts, lane)
    save_versions(log.artifacts, log.project())
    history = read_history(log.artifacts, log.project())
    assert history.versions == expected(lane)
    blobs = list(read_blobs(log.artifacts, history))
    assert sorted(blob.data for blob in blobs) == [b"a = 1\n", b"a = 2\n", b"b = 1\n", PICTURE]
    kinds = [one.type_name for one in history.objects]
    assert {kind: kinds.count(kind) for kind in kinds} == {b"tree": 4, b"commit": 2}


def test_of_many_that_save_at_once_each_finds_the_same(backend, lane):
    log = a_project(backend.artifacts, lane)
    timeline = log.project()
    with ThreadPoolExecutor(max_workers=6) as pool:
        found = list(pool.map(lambda _: save_versions(log.artifacts, timeline), range(6)))
    assert found == [found[0]] * 6
    assert read_history(log.artifacts, timeline).versions == expected(lane)


def test_a_save_with_lost_responses_resumes(aws, lane, faults):
    log = a_project(aws.artifacts, lane)
    faults.lose_answers(aws.artifacts.client, "PutObject", times=3)
    with pytest.raises(DependencyError):
        save_versions(log.artifacts, log.project())
    save_versions(log.artifacts, log.project())
    assert read_history(log.artifacts, log.project()).versions == expected(lane)


def test_two_conversations_have_nothing_in_common(backend, lane):
    from msgspec.structs import replace

    other = replace(lane, conversation=f"{lane.conversation}-2")
    log = a_project(backend.artifacts, lane)
    save_versions(log.artifacts, log.project())
    foreign = ProjectLog(backend.artifacts, other)
    assert read_history(foreign.artifacts, foreign.project()).versions == {}
