"""`stepline memory rebuild`: an index from the logs alone, of one user alone."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from stepline.adapters.embedded.memory_index import prefix
from stepline.adapters.memory.artifacts import MemoryArtifacts
from stepline.adapters.memory.log import MemoryLog
from stepline.local import caller
from stepline.local.command import batches as logview
from stepline.local.command.cli import main
from stepline.model.ids import make_lane
from stepline.model.memory_row import MemoryScope
from stepline.ports.log import Listing
from tests.support.log_builder import LogBuilder


@pytest.fixture
def stage(monkeypatch) -> tuple[MemoryLog, MemoryArtifacts]:
    log, artifacts = MemoryLog(), MemoryArtifacts()
    monkeypatch.setattr(caller, "find_stage", lambda: None)
    monkeypatch.setattr(logview, "open_log", lambda _: (log, artifacts))
    return log, artifacts


def converse(log: MemoryLog, conversation: str, user: str) -> None:
    lane, builder = make_lane(caller.TENANT, caller.PROJECT, conversation), LogBuilder()
    builder.message("Where do otters sleep?")
    builder.answer("On their backs.")
    builder.close()
    for batch in builder.batches:
        log.put(lane, batch)
    log.project(Listing(lane=lane, owner=user, title="", last_at=builder.at, applied_n=builder.n - 1))


def test_the_index_of_a_user_is_built_from_the_logs_and_reported(stage):
    log, artifacts = stage
    for conversation, user in (("c-1", "ada"), ("c-2", "ada"), ("c-3", "bob")):
        converse(log, conversation, user)
    done = CliRunner().invoke(main, ["memory", "rebuild", "--user", "ada", "--json"])
    assert done.exit_code == 0
    assert json.loads(done.stdout) == {"conversations": 2, "rows": 4}
    assert "2 conversations, 4 rows" in done.stderr
    scope = MemoryScope(tenant=caller.TENANT, project=caller.PROJECT, user="ada")
    assert {key.rpartition("/")[0] for key in artifacts.objects} == {prefix(scope)}


def test_a_user_without_conversations_has_an_index_without_rows(stage):
    done = CliRunner().invoke(main, ["memory", "rebuild", "--user", "ada", "--json"])
    assert done.exit_code == 0
    assert json.loads(done.stdout) == {"conversations": 0, "rows": 0}
