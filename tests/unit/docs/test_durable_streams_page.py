"""The commands of docs/how-to/durable-streams.md read a conversation, as the page says."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.api_caller import Caller
from tests.support.api_server import TOKEN, ApiServer, CrowdedServer, served
from tests.support.conversation import LANE, Conversation
from tests.support.generation import answered
from tests.unit.docs.source import DOCS

PAGE = DOCS / "how-to/durable-streams.md"
BLOCKS = re.findall(
    r"^<!-- not run: tests/unit/docs/test_durable_streams_page.py runs it -->\n```sh\n(.*?)^```",
    PAGE.read_text(),
    re.DOTALL | re.MULTILINE,
)


pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")


def talked() -> Caller:
    """Return a user of a conversation of three frames, whose readers wait by the clock of the conversation."""
    conversation = Conversation(answered("One."))
    conversation.send()
    conversation.run()
    caller = Caller(conversation.ports)
    caller.services = dataclasses.replace(caller.services, wait_s=20)
    return caller


def run(server: ApiServer, folder: Path, *commands: str) -> str:
    """Run commands of a shell in a folder, and return their output."""
    with served(server) as url:
        given = {"STEPLINE_URL": url, "STEPLINE_TOKEN": TOKEN, "CONVERSATION": LANE.conversation}
        ran = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", "\n".join(commands)],
            cwd=folder,
            env={"PATH": os.defpath, **given},
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
    assert server.failures == []
    return ran.stdout


def test_the_commands_of_the_page_read_everything_and_then_wait(tmp_path: Path) -> None:
    shown = run(ApiServer(talked()), tmp_path, *BLOCKS, "echo $OFFSET; cat headers.txt")
    frames = json.loads((tmp_path / "frames.json").read_text())
    assert [frame["n"] for frame in frames] == [1, 2, 3]
    head, _, rest = shown.partition("\n\n")
    assert (" 200 " in head, "Stream-Next-Offset: 000000000003" in head) == (True, True)
    assert rest.startswith("000000000003\n")
    assert " 204 " in rest
    assert len(BLOCKS) == 4


def test_a_read_that_the_gateway_refuses_is_repeated_and_loses_nothing(tmp_path: Path) -> None:
    server = CrowdedServer(talked(), refusals=1)
    variables, _, wait, _ = BLOCKS
    run(server, tmp_path, variables, "OFFSET=000000000001", wait)
    assert server.refusals == 0
    assert [frame["n"] for frame in json.loads((tmp_path / "more.json").read_text())] == [2, 3]
    assert (tmp_path / "headers.txt").read_text().count("Stream-Next-Offset: 000000000003") == 1
