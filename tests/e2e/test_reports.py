"""A tool that reports while it runs, on the stage: a device sees its progress before the result, and so does a late one."""

from __future__ import annotations

import pytest

from stepline.local.client.change import Reported
from tests.e2e.session_client import Device, check_devices
from tests.e2e.stage import a_word
from tests.support.generation import answered, called

pytestmark = pytest.mark.emulator

WORK = "acme.work"
BUNDLE = """
from stepline import BaseWorkflow, Tool, ToolOutput, ToolSpec

WORK = ToolSpec(
    tool_id="acme.work",
    purpose="Work for some seconds.",
    schema={"type": "object", "additionalProperties": False, "properties": {}},
    returns="that it is done",
    effect="pure",
    read_only=True,
    cancellable=True,
)


def run_work(params, context):
    for done in range(1, 4):
        context.progress(done, 3, f"part {done}")
        context.cancel.wait(4)
    return ToolOutput(blocks=(context.result(WORK.tool_id, {"status": "ok"}),))


TOOLS = (Tool(spec=WORK, run=run_work),)


class Reporter(BaseWorkflow):
    tools_module = __name__


WORKFLOW = Reporter
"""


@pytest.fixture
def reporter(scripted, tmp_path):
    """Starts the stage with a bundle whose tool reports."""
    (tmp_path / "reporter.py").write_text(BUNDLE)
    scripted.command("up", "--bundle", "reporter", cwd=tmp_path, env={"EXEC_RUNTIME_MODE": "process"})
    yield scripted
    scripted.command("up", env={"EXEC_RUNTIME_MODE": "process"})


def test_a_running_tools_reports_are_shown_also_to_a_late_device(reporter, conversation):
    word = a_word()
    reporter.fault(kind="fixture", match=word, text=called(WORK))
    with Device(reporter, conversation) as device:
        device.session.say(f"Work on {word}.")
        seen = device.until(lambda effect: isinstance(effect, Reported))
        assert device.happened("react.tool.result") == []
        reporter.fault(kind="fixture", match=word, text=answered(f"Done: {word}."))
        with Device(reporter, conversation) as late:
            late.session.listen()
            same = late.until(lambda effect: isinstance(effect, Reported))
            assert (same.claim, same.lane) == (seen.claim, seen.lane)
            late.until_idle()
            device.until_idle()
            check_devices(reporter, conversation, device, late)
    for one in (device, late):
        steps = [
            event.data["done"]
            for effect in one.effects
            if isinstance(effect, Reported)
            for event in effect.events
        ]
        assert steps == [1, 2, 3]
    (result,) = reporter.entries(conversation, "result")
    assert result["status"] == "ok"
