"""docs/how-to/send-events.md on the stage, followed to the letter."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from stepline.local.stage.deployed import install_environment
from tests.e2e.stage import TURN_TIMEOUT_S

pytestmark = pytest.mark.emulator

PAGE = (Path(__file__).parents[2] / "docs/how-to/send-events.md").read_text()
HERE = PAGE[PAGE.index("### On this machine") : PAGE.index("## What a service can do")]


def run(script, folder):
    """Run lines of the page in a shell; return what they print."""
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder,
        env=install_environment(),
        capture_output=True,
        text=True,
        timeout=2 * TURN_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


def blocks(language, text):
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


@pytest.mark.usefixtures("scripted")
def test_a_service_on_this_machine_is_answered_to_as_the_page_says(tmp_path):
    code = [*blocks("python", PAGE)[:2], *blocks("python", HERE)]
    (tmp_path / "service.py").write_text("\n\n".join(code))
    (script,) = blocks("sh", HERE)
    printed = run(script, tmp_path)
    fate, n = re.search(r"^(opened|joined|kept|dropped) (\d+)$", printed, re.MULTILINE).groups()
    assert fate == "opened"
    assert int(n) > 1
    assert "The card was declined." in printed


@pytest.mark.usefixtures("scripted")
def test_an_event_is_sent_from_a_shell_as_the_page_says(tmp_path):
    (script,) = [block for block in blocks("sh", PAGE) if block.startswith("stepline event ")]
    assert run(script, tmp_path).strip()
