"""Changes that outlive the emulator: written whole or not at all, and applied again to the previously saved state."""

from __future__ import annotations

from copy import deepcopy

import pytest

from stepline.local.stage.durable import ChangeFile, merge_executions, merge_items

ARN = "arn:aws:states:us-east-1:000000000000:execution:machine:first"


class Scoped:
    """The emulator's dictionary by account and region, reduced to its used part."""

    def __init__(self, **values):
        self.values = values

    def all_values(self):
        return list(self.values.values())

    def get_scoped(self, account, region, key, default=None):
        assert (account, region) == ("000000000000", "us-east-1")
        return self.values.get(key, default)

    def set_scoped(self, account, region, key, value):
        self.values[key] = value


@pytest.fixture
def file(tmp_path):
    return ChangeFile(tmp_path / "changes/table.jsonl")


def table(items=None):
    return {"tables": Scoped(t={"TableId": "id", "items": items or {}, "ItemCount": 0})}


def items(state):
    return state["tables"].values["t"]["items"]


def test_changes_come_back_in_order_and_after_another_opening_of_the_file(file, tmp_path):
    file.append([1, 2])
    file.append([3])
    assert list(ChangeFile(tmp_path / "changes/table.jsonl").read()) == [1, 2, 3]
    file.clear()
    file.append([4])
    assert list(file.read()) == [4]


@pytest.mark.parametrize("left", range(1, 9))
def test_a_write_cut_short_by_a_kill_leaves_no_trace(file, tmp_path, left):
    file.append(["whole"])
    file.append([1, 2, 3, 4])
    path = tmp_path / "changes/table.jsonl"
    path.write_bytes(path.read_bytes()[: len('["whole"]\n') + left])
    after = ChangeFile(path)
    after.append(["next"])
    assert list(after.read()) == ["whole", "next"]


def test_changes_that_are_forgotten_are_in_no_file_and_later_ones_stay(file, tmp_path):
    file.append(["deleted words"])
    place = file.size()
    file.append(["later"])
    file.forget(place)
    file.append(["last"])
    assert list(file.read()) == ["later", "last"]
    assert list(ChangeFile(tmp_path / "changes/table.jsonl").read()) == ["later", "last"]
    kept = [path.read_bytes() for path in (tmp_path / "changes").iterdir()]
    assert not any(b"deleted" in data for data in kept)


def test_the_last_change_of_an_item_wins():
    state = table({"p": {"kept": {"v": "old"}, "gone": {"v": "old"}}, "q": {"gone": {"v": "old"}}})
    changes = [
        ["id", "p", "new", {"v": "1"}],
        ["id", "p", "new", {"v": "2"}],
        ["id", "p", "gone", None],
        ["id", "q", "gone", None],
        ["id", "r", "passing", {"v": "1"}],
        ["id", "r", "passing", None],
    ]
    assert merge_items(state, changes)
    assert items(state) == {"p": {"kept": {"v": "old"}, "new": {"v": "2"}}}
    assert state["tables"].values["t"]["ItemCount"] == 2


def test_changes_that_the_saved_state_holds_already_change_nothing():
    state = table()
    changes = [["id", "p", "s", {"v": "1"}], ["id", "p", "t", {"v": "1"}], ["id", "p", "t", None]]
    assert merge_items(state, changes)
    before = deepcopy(items(state))
    assert not merge_items(state, changes)
    assert items(state) == before


def test_changes_of_a_table_that_was_deleted_are_not_made_in_one_of_the_same_name():
    state = table()
    assert not merge_items(state, [["another id", "p", "s", {"v": "1"}]])
    assert items(state) == {}


def test_an_execution_that_began_and_ended_since_is_known_with_how_it_ended():
    state = {"executions": Scoped()}
    began = {"executionArn": ARN, "status": "RUNNING", "input": "{}", "events": ["started"]}
    ended = {"executionArn": ARN, "status": "SUCCEEDED", "output": "{}"}
    assert merge_executions(state, [began, ended])
    assert state["executions"].values == {ARN: {**began, **ended}}
    assert not merge_executions(state, [began, ended])


def test_an_execution_that_was_saved_keeps_its_longer_history():
    saved = {"executionArn": ARN, "status": "RUNNING", "input": "{}", "events": ["started", "entered"]}
    state = {"executions": Scoped(**{ARN: saved})}
    assert not merge_executions(state, [{**saved, "events": ["started"]}])
    assert merge_executions(state, [{"executionArn": ARN, "status": "ABORTED"}])
    assert state["executions"].values[ARN] == {**saved, "status": "ABORTED"}
