"""What is stored for the turns of an origin is found from its fork: system parts, the git history, and rows of memory."""

from __future__ import annotations

from copy import copy
from itertools import pairwise

import pytest
from msgspec.structs import replace

from stepline.adapters.memory.artifacts import MemoryArtifacts
from stepline.ingress.fork import ForkPoint, fork_conversation
from stepline.inspection.request_view import read_request
from stepline.log import transition
from stepline.log.journal import Journal
from stepline.log.memory_source import LogRows
from stepline.log.versions import (
    newest_version,
    read_blobs,
    read_commit,
    read_history,
    read_version,
    save_versions,
)
from stepline.model.entry import Decided, Forked
from stepline.model.memory_row import MemoryScope
from tests.support.conversation import LANE, USER, Conversation
from tests.support.generation import answered
from tests.support.project_log import ProjectLog

FORK = replace(LANE, conversation="c-2")


def forked() -> Conversation:
    """Return a conversation of two turns, forked after the first, and a turn of the fork."""
    conversation = Conversation(*(answered(text) for text in ("otter", "heron", "newt")))
    for number in (1, 2):
        conversation.send("And now?", id=f"m{number}")
        conversation.run()
    point = ForkPoint(kind="turn", at=conversation.timeline().turns[0])
    fork_conversation(conversation.ports, LANE, point, user=USER, conversation="c-2")
    conversation.send("And here?", id="m3", lane=FORK)
    conversation.run()
    return conversation


def test_every_round_of_a_fork_shows_the_request_that_was_sent() -> None:
    conversation = forked()
    journal = Journal(conversation.ports, FORK, "test")
    batches = journal.since(0)
    decided = [one.n for one in batches for entry in one.entries if isinstance(entry, Decided)]
    first = batches[-1].state.forked
    assert decided[0] < first < decided[1]
    assert all(read_request(journal, n, forked=first).equal for n in decided)


def test_memory_has_the_turns_of_an_origin_once() -> None:
    conversation = forked()
    scope = MemoryScope(tenant=LANE.tenant, project=LANE.project, user=USER)
    rows = LogRows(conversation.ports)
    found = {
        name: [row.text for row in rows.read(scope, name, after=0, most=99).rows if row.kind == "answer"]
        for name in ("c-1", "c-2")
    }
    assert found == {"c-1": ["otter", "heron"], "c-2": ["newt"]}


@pytest.mark.parametrize("is_saved", [True, False])
def test_the_git_history_of_a_fork_continues_that_of_its_origin(is_saved: bool) -> None:
    artifacts = MemoryArtifacts()
    log = ProjectLog(artifacts, LANE)
    log.write({"a.txt": "one"})
    first = log.end()
    if is_saved:
        save_versions(artifacts, log.project())
    log.lane = FORK
    begins = Forked(origin=LANE.conversation, n=log.n - 1, at=log.at)
    log.put(transition.forked(log.state, log.n, segment=0, begun_ms=1), begins)
    turns = []
    for files in ({}, {"b.txt": "two"}):
        log.message()
        log.write(files) if files else None
        turns.append(log.end())
    timeline = log.project()
    save_versions(artifacts, timeline)
    commits = read_history(artifacts, timeline).versions
    assert list(commits) == [first, *turns]
    assert commits[first] == commits[turns[0]] != commits[turns[1]]
    newest = read_commit(artifacts, FORK, commits[turns[1]])
    assert newest.parent == commits[first]
    assert {file.path for file in newest.files} == {"a.txt", "b.txt"}
    assert newest_version(artifacts, timeline).commit == newest
    assert read_version(artifacts, FORK, first) is None


def test_the_git_histories_of_a_fork_and_its_origin_part_at_the_point() -> None:
    artifacts = MemoryArtifacts()
    origin = ProjectLog(artifacts, LANE)
    origin.write({"a.txt": "one"})
    shared = origin.end()
    fork = copy(origin)
    fork.batches = list(origin.batches)
    fork.lane = FORK
    begins = Forked(origin=LANE.conversation, n=fork.n - 1, at=fork.at)
    fork.put(transition.forked(fork.state, fork.n, segment=0, begun_ms=1), begins)
    fork.message()
    for log, name in ((origin, "there.txt"), (fork, "here.txt"), (origin, "later.txt")):
        log.write({name: name})
        log.end()
        save_versions(artifacts, log.project())
    first = read_version(artifacts, LANE, shared)
    assert first is not None
    for log, files in ((origin, {"a.txt", "there.txt", "later.txt"}), (fork, {"a.txt", "here.txt"})):
        history = read_history(artifacts, log.project())
        commits = list(history.versions.values())
        assert commits[0] == first.commit
        newest = newest_version(artifacts, log.project()).commit
        assert {file.path for file in newest.files} == files
        for parent, commit in pairwise(commits):
            assert read_commit(artifacts, log.lane, commit).parent == parent
        assert len(list(read_blobs(artifacts, history))) == len(files)
