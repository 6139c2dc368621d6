"""`stepline new x && cd x && make chat`, as a new user would; the rest of the page is in tests/unit/docs/test_make_a_bundle.py."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from stepline.local.stage.deployed import install_environment
from tests.e2e.stage import TURN_TIMEOUT_S, Stage, a_word
from tests.support.generation import answered, called

pytestmark = pytest.mark.emulator


@pytest.fixture
def project(deployed, tmp_path):
    """The folder of a new bundle; the default bundle answers again behind the test."""
    stage = Stage(deployed)
    stage.command("new", "kiosk", cwd=tmp_path)
    yield tmp_path / "kiosk"
    stage.command("up", cwd=tmp_path)


def test_a_new_bundle_answers_with_its_tool_its_skill_and_its_document(project, scripted):
    word = a_word()
    for text in (
        called("kiosk.order_status", {"number": "A-17"}),
        called("react.search_knowledge", {"query": "delivery"}),
        called("react.read", {"paths": ["sk:public.refund", "ks:docs/delivery.md"]}),
        answered(f"It was sent on Monday, {word}."),
    ):
        scripted.fault(kind="fixture", match=word, text=text)
    chat = subprocess.run(
        ["make", f"PYTHON={sys.executable}", "chat"],
        cwd=project,
        input=f"Where is order A-17? {word}\n",
        env=install_environment(),
        capture_output=True,
        text=True,
        timeout=TURN_TIMEOUT_S,
        check=False,
    )
    assert chat.returncode == 0, chat.stderr
    assert "changing the bundle from bundles.default to kiosk" in chat.stderr
    assert f"It was sent on Monday, {word}." in chat.stdout
    heard = json.dumps(scripted.model_requests(word)[-1]["body"])
    assert "sent on Monday" in heard
    assert "Ask for the order's number first." in heard
    assert "A parcel takes three days." in heard
