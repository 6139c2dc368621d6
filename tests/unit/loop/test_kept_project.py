"""A deployment with `AI_REACT_WORKSPACE=git`: the end of a turn saves its project, and the next round shows it."""

from __future__ import annotations

import json
import sys
from dataclasses import replace

import pytest

from stepline.errors import DependencyError
from stepline.log.timeline_cache import History
from stepline.log.versions import read_history, version_key
from stepline.loop.close import follow_closing
from stepline.loop.sweep import sweep_lane
from stepline.metrics import WORKSPACES_UNSAVED
from stepline.model.entry import Closed, Decided, Resulted
from tests.support.conversation import LANE, Conversation, event_types, text_of
from tests.support.generation import answered, called


def writes(path: str, text: str) -> str:
    return called("react.write", {"path": path, "content": text})


def a_conversation(*script: str, **policy: object) -> Conversation:
    return Conversation(*script, **{"workspace": "git", **policy})


def announced(conversation: Conversation) -> str:
    """Return the section of the newest request."""
    text = conversation.model.requests[-1].content[-1].text
    return text.partition("[WORKSPACE]\n")[2]


def objects(conversation: Conversation) -> list[str]:
    return sorted(key for key in conversation.ports.artifacts.objects if key.startswith("git/"))


def two_turns(**policy: object) -> Conversation:
    conversation = a_conversation(
        writes("files/app/a.md", "# A"),
        answered("Written."),
        writes("files/app/a.md", "# A, again"),
        answered("Changed."),
        **policy,
    )
    conversation.send()
    conversation.run()
    conversation.send("again", id="m2")
    conversation.run()
    return conversation


def test_each_turn_is_a_commit_that_the_next_turn_sees():
    conversation = two_turns()
    history = read_history(conversation.ports.artifacts, conversation.timeline())
    first, second = conversation.timeline().turns
    assert list(history.versions) == [first, second]
    assert history.head == history.versions[second] != history.versions[first]
    said = announced(conversation)
    assert f"last_published_turn: {first}\n" in said
    assert "repo_status: dirty\n" in said
    assert f"  app/ (1): fi:{first}.files/app/\n" in said


@pytest.mark.parametrize(("tool", "rows"), [("react.pull", "pulled"), ("react.checkout", "checked_out")])
@pytest.mark.parametrize("mode", ["git", "custom"])
def test_a_folder_of_the_project_comes_with_the_ref_of_its_version(mode, tool, rows):
    conversation = two_turns(workspace=mode)
    first = conversation.timeline().turns[0]
    conversation.model.add(called(tool, {"paths": [f"fi:{first}.files/app/"]}), answered("There."))
    conversation.send("take it", id="m3")
    conversation.run()
    (row,) = json.loads(conversation.entries(Resulted)[-1].blocks[0].text)[rows]
    ref = f"refs/stepline/{LANE.prefix()}/versions/{first}"
    assert row.get("version_ref") == (ref if mode == "git" else None)


def test_without_the_setting_nothing_is_saved_and_git_is_not_loaded(monkeypatch):
    monkeypatch.setitem(sys.modules, "dulwich", None)
    monkeypatch.setitem(sys.modules, "dulwich.index", None)
    conversation = two_turns(workspace="custom")
    assert objects(conversation) == []
    assert "implementation: custom\n" in announced(conversation)


def test_an_effect_that_is_done_again_saves_nothing_again():
    conversation = two_turns()
    before = dict(conversation.ports.artifacts.objects)
    closing = [batch for batch in conversation.batches() if any(isinstance(e, Closed) for e in batch.entries)]
    for batch in closing:
        follow_closing(conversation.ports, LANE, batch)
    assert conversation.ports.artifacts.objects == before


def test_the_sweeper_saves_the_project_of_a_dead_process():
    conversation = two_turns()
    expected = dict(conversation.ports.artifacts.objects)
    for key in objects(conversation):
        del conversation.ports.artifacts.objects[key]
    assert sweep_lane(conversation.ports, LANE) == "idle"
    assert conversation.ports.artifacts.objects == expected


def test_an_unsaved_turn_is_reported_and_saved_with_the_next_one():
    conversation = two_turns()
    first, second = conversation.timeline().turns
    expected = dict(conversation.ports.artifacts.objects)
    del conversation.ports.artifacts.objects[version_key(LANE, second)]
    conversation.model.add(answered("Fine."))
    conversation.send("and now?", id="m3")
    conversation.run()
    said = announced(conversation)
    assert f"last_published_turn: {first}\n" in said
    assert f"publish_error: {second} is not saved yet; the end of this turn tries again\n" in said
    assert expected.items() <= conversation.ports.artifacts.objects.items()


def test_an_unsaved_turn_is_a_notice_of_the_next_turns_first_round():
    conversation = two_turns()
    _, second = conversation.timeline().turns
    del conversation.ports.artifacts.objects[version_key(LANE, second)]
    conversation.model.add(writes("files/app/b.md", "# B"), answered("Fine."))
    conversation.send("and now?", id="m3")
    inbox = conversation.listen()
    conversation.run()
    first, last = [decided.notices for decided in conversation.entries(Decided)[-2:]]
    assert [(one.code, one.extra) for one in first] == [("workspace_publish_failed", {"turn_id": second})]
    assert last == ()
    assert "workspace_publish_failed" in text_of(conversation.model.requests[-1])
    assert event_types(inbox).count("react.notice") == 1


class Broken:
    """A store whose reads of a class of objects fail."""

    def __init__(self, artifacts, code: str) -> None:
        self._artifacts, self._code = artifacts, code

    def __getattr__(self, name: str):
        return getattr(self._artifacts, name)

    def get(self, key: str) -> bytes:
        if key.startswith("git/"):
            raise DependencyError("no", code=self._code)
        return self._artifacts.get(key)


def test_a_store_that_does_not_answer_fails_the_step_which_is_tried_again():
    conversation = two_turns()
    ports = replace(conversation.ports, artifacts=Broken(conversation.ports.artifacts, "dependency"))
    with pytest.raises(DependencyError):
        follow_closing(ports, LANE, conversation.tail)


def test_a_lost_project_is_counted_and_fails_no_step():
    conversation = two_turns()
    ports = replace(conversation.ports, artifacts=Broken(conversation.ports.artifacts, "body_missing"))
    follow_closing(ports, LANE, conversation.tail)
    assert conversation.ports.meter.counts[WORKSPACES_UNSAVED] == 1


def test_a_store_that_does_not_answer_costs_a_round_its_history_and_nothing_else():
    conversation = two_turns()
    ports = replace(conversation.ports, artifacts=Broken(conversation.ports.artifacts, "dependency"))
    conversation.ports, conversation.history = ports, History()
    conversation.model.add(answered("Fine."))
    conversation.send("and now?", id="m3")
    conversation.decide()
    assert "repo_status: unavailable\n" in announced(conversation)
