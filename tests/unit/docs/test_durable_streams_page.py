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
from tests.support.api_server import TOKEN, ApiServer, served
from tests.support.conversation import LANE, Conversation
from tests.support.generation import answered
from tests.unit.docs.source import DOCS

PAGE = DOCS / "how-to/durable-streams.md"
BLOCKS = re.findall(
    r"^<!-- not run: tests/unit/docs/test_durable_streams_page.py runs it -->\n```sh\n(.*?)^```",
    PAGE.read_text(),
    re.DOTALL | re.MULTILINE,
)


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl here")
def test_the_commands_of_the_page_read_everything_and_then_wait(tmp_path: Path) -> None:
    conversation = Conversation(answered("One."))
    conversation.send()
    conversation.run()
    caller = Caller(conversation.ports)
    caller.services = dataclasses.replace(caller.services, wait_s=20)  # by the clock of the conversation
    server = ApiServer(caller)
    with served(server) as url:
        given = {"STEPLINE_URL": url, "STEPLINE_TOKEN": TOKEN, "CONVERSATION": LANE.conversation}
        ran = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", "\n".join([*BLOCKS, "echo $OFFSET; cat headers.txt"])],
            cwd=tmp_path,
            env={"PATH": os.defpath, **given},
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
    assert server.failures == []
    frames = json.loads((tmp_path / "frames.json").read_text())
    assert [frame["n"] for frame in frames] == [1, 2, 3]
    head, _, rest = ran.stdout.partition("\n\n")
    assert (" 200 " in head, "Stream-Next-Offset: 000000000003" in head) == (True, True)
    assert rest.startswith("000000000003\n")
    assert " 204 " in rest
    assert len(BLOCKS) == 4
