"""A call that waits for a person on the deployed stage: over a stop of the whole stage, edited, denied, at no cost."""

from __future__ import annotations

import json
import sys

import pytest

from stepline.local.stage.deployed import client
from tests.e2e.mode import approvals
from tests.e2e.order import events, terminals
from tests.e2e.stage import a_word, answer_of, read_lines
from tests.support.generation import answered, called

pytestmark = pytest.mark.emulator

WRITE = "react.write"
CONVERT = "mcp.clock.convert_time"
CLOCK = f"""
from stepline import BaseWorkflow

TOOLS = ()
MCP_TOOL_SPECS = [
    {{
        "alias": "clock",
        "command": {sys.executable!r},
        "args": ["-m", "mcp_server_time", "--local-timezone", "UTC"],
        "approval": "always",
    }}
]


class Clock(BaseWorkflow):
    tools_module = __name__


WORKFLOW = Clock
"""
NOON = {"source_timezone": "Europe/Vienna", "time": "12:00", "target_timezone": "Asia/Tokyo"}


@pytest.fixture
def asking(scripted):
    """The stage, where each write needs a person."""
    with approvals(scripted, {WRITE: "always"}):
        yield scripted


@pytest.fixture
def clock(scripted, tmp_path):
    """Starts the stage with a bundle whose tools are those of a published MCP server; each call needs a person."""
    (tmp_path / "clockwork.py").write_text(CLOCK)

    def start():
        scripted.command("up", "--bundle", "clockwork", cwd=tmp_path, env={"EXEC_RUNTIME_MODE": "process"})

    start()
    yield start
    scripted.command("up", env={"EXEC_RUNTIME_MODE": "process"})


def ask(stage, conversation, word):
    """Let the model want to write a file; return the call about which the turn then asks."""
    wanted = {"path": "outputs/note.md", "channel": "canvas", "content": f"# {word}", "kind": "file"}
    return ask_about(stage, conversation, word, WRITE, wanted)


def ask_about(stage, conversation, word, tool_id, wanted):
    """Let the model want a call; return the id of the call about which the turn then asks."""
    stage.fault(kind="fixture", match=word, text=called(tool_id, wanted))
    lines = stage.send(f"Do it: {word}", conversation, check=False)
    assert terminals(lines) == []
    (asked,) = events(lines, "approval.requested")
    assert asked["data"]["params"] == wanted
    return asked["data"]["call_id"]


def answer(stage, verdict, conversation, *options, word=""):
    """Answer for the person; the model then says that it is done."""
    if word:
        stage.fault(kind="fixture", match=word, text=answered(f"Done: {word}."))
    done = stage.command(verdict, conversation, "--user", stage.user, "--json", *options, check=False)
    return read_lines(done.stdout)


def running_executions(stage):
    machine = client("stepfunctions", stage.deployed)
    (arn,) = [one["stateMachineArn"] for one in machine.list_state_machines()["stateMachines"]]
    return machine.list_executions(stateMachineArn=arn, statusFilter="RUNNING")["executions"]


def test_a_call_waits_over_down_and_up_is_edited_and_then_runs_once(asking, conversation):
    word = a_word()
    call = ask(asking, conversation, word)
    assert f"CONV#local#default#{conversation}" not in asking.open_lanes()
    assert running_executions(asking) == []
    before = asking.log(conversation)
    asking.command("down")
    asking.command("up", env={"EXEC_RUNTIME_MODE": "process"})
    assert asking.log(conversation) == before
    params = '{"path": "outputs/note.md", "channel": "canvas", "content": "# mine", "kind": "file"}'
    lines = answer(asking, "edit", conversation, "--params", params, word=word)
    assert answer_of(lines) == f"Done: {word}."
    (settled,) = events(lines, "approval.answered")
    (result,) = asking.entries(conversation, "result")
    assert (result["status"], result["call_id"]) == ("ok", settled["data"]["edited_call_id"])
    assert result["call_id"] != call
    assert asking.entries(conversation, "takeover") == []


def test_a_denied_call_never_runs(asking, conversation):
    word = a_word()
    call = ask(asking, conversation, word)
    lines = answer(asking, "deny", conversation, "--call", call, "--text", "Not on paper.", word=word)
    assert answer_of(lines) == f"Done: {word}."
    (result,) = asking.entries(conversation, "result")
    assert (result["status"], result["error"]["code"]) == ("error", "denied")
    assert "Not on paper." in result["error"]["message"]
    late = answer(asking, "approve", conversation)
    assert late == []


def test_a_stop_answers_for_the_person(asking, conversation):
    ask(asking, conversation, a_word())
    done = asking.command("event", "stop", "--conversation", conversation, "--user", asking.user, "--json")
    (end,) = terminals(read_lines(done.stdout))
    assert end["data"]["reason"] == "stop"
    (result,) = asking.entries(conversation, "result")
    assert result["error"]["code"] == "steered"


def test_a_call_of_a_published_server_waits_over_down_and_up_is_edited_and_then_runs_once(
    clock, scripted, conversation
):
    word = a_word()
    ask_about(scripted, conversation, word, CONVERT, NOON)
    assert scripted.entries(conversation, "result") == []
    scripted.command("down")
    clock()
    params = json.dumps({**NOON, "target_timezone": "America/New_York"})
    assert (
        answer_of(answer(scripted, "edit", conversation, "--params", params, word=word)) == f"Done: {word}."
    )
    (result,) = scripted.entries(conversation, "result")
    assert (result["tool_id"], result["status"]) == (CONVERT, "ok")
    assert "America/New_York" in json.dumps(result)
    denied = f"{conversation}-denied"
    ask_about(scripted, denied, word, CONVERT, NOON)
    answer(scripted, "deny", denied, word=word)
    (result,) = scripted.entries(denied, "result")
    assert result["error"]["code"] == "denied"
