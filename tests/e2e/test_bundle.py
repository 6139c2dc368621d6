"""The bundle of docs/how-to/write-a-bundle.md on the stage, in a folder of a user's own; then without it."""

from __future__ import annotations

import json
import re
import subprocess

import pytest

from tests.e2e.stage import STEPLINE, Stage, a_word, answer_of, read_until
from tests.support.generation import answered, called
from tests.support.guide import Guide
from tests.unit.docs.source import DOCS

pytestmark = pytest.mark.emulator

SCRIPT = (
    called("shop.price", {"name": "lamp"}),
    called("react.search_knowledge", {"query": "delivery"}),
    called("react.read", {"paths": ["sk:shop.refund", "ks:docs/delivery.md"]}),
    answered("12.50 euros."),
)


@pytest.fixture(scope="module")
def project(deployed, tmp_path_factory):
    """A folder with the page's package, which the stage has; the default bundle answers again after the tests."""
    folder = tmp_path_factory.mktemp("project")
    Guide(DOCS / "how-to/write-a-bundle.md", folder, {}).write_files()
    stage = Stage(deployed)
    said = stage.command("up", "--bundle", "bundles.shop", cwd=folder).stderr
    assert "changing the bundle from bundles.default to bundles.shop" in said
    yield folder
    said = stage.command("up", cwd=folder).stderr
    assert "changing the bundle from bundles.shop to bundles.default" in said
    assert re.search(r"deploying .*: bundle, bundle_code.* changed", said)


def test_its_hooks_its_tool_its_skill_and_its_document_answer(project, scripted, conversation):
    word = a_word()
    for text in SCRIPT:
        scripted.fault(kind="fixture", match=word, text=text)
    lines = scripted.send(f"What does the lamp cost? {word}", conversation)
    assert answer_of(lines) == "12.50 euros."
    system, *_, heard = [json.dumps(request["body"]) for request in scripted.model_requests(word)]
    assert "sk:shop.refund: Refund an order" in system
    assert "12.5" in heard
    assert "Ask for the order's number first." in heard
    assert "It takes three days." in heard
    assert "is a customer since 2019." in system
    assert "This turn is round 4." in heard


def test_a_hook_reads_the_value_that_the_hook_of_an_earlier_turn_stored(project, scripted, conversation):
    first, second = a_word(), a_word()
    for word in (first, second):
        scripted.fault(kind="fixture", match=word, text=answered("It does."))
    scripted.send(f"Does the lamp shine? {first}", conversation)
    scripted.send(f"And in the rain? {second}", f"{conversation}-2")
    request = json.dumps(scripted.model_requests(second)[-1]["body"])
    assert f"Asked before: Does the lamp shine? {first}" in request


def test_another_bundle_answers_in_the_same_functions_with_its_own_files(project, scripted, conversation):
    asked = "What does the cost page say about idle cost?"
    assert "ks:docs/reference/cost.md" in answer_of(scripted.send(asked, conversation, "--bundle", "docs"))
    assert scripted.entries(conversation, "owner")[0]["bundle"] == "docs"
    assert not [entry for entry in scripted.entries(conversation, "contributed") if entry.get("hook")]


def test_a_misspelt_one_is_refused_before_anything_is_deployed(project, scripted):
    before = scripted.command("status", "--json").stdout
    done = scripted.command("up", "--bundle", "bundles.shpo", cwd=project, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(
        f"error: bundle_not_found: there is no module bundles.shpo; looked in {project}"
    )
    assert len(done.stderr.splitlines()) == 1
    assert scripted.command("status", "--json").stdout == before


def test_the_environment_names_it_too_and_a_stage_that_has_it_stays_as_it_is(project, scripted):
    said = scripted.command("up", env={"STEPLINE_BUNDLE": "bundles.shop"}, cwd=project).stderr
    assert "deploying" not in said


def test_the_logs_are_followed_while_a_turn_runs(scripted, conversation):
    command = [STEPLINE, "logs", "decide", "--follow", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as follower:
        try:
            scripted.send("Hello.", conversation)
            read_until(follower, lambda line: line.get("conversation") == conversation)
        finally:
            follower.kill()


def test_the_logs_have_the_cause_of_a_bundles_failure_in_a_function(project, scripted, conversation):
    (project / "closed.py").write_text(
        "import os\n\nfrom bundles.default import WORKFLOW\n\n"
        "if 'AWS_LAMBDA_FUNCTION_NAME' in os.environ:\n    raise RuntimeError('the shop is closed')\n"
    )
    scripted.command("up", "--bundle", "closed", cwd=project)
    done = scripted.command(
        "send", "Hello.", "--conversation", conversation, "--new", "--user", scripted.user, check=False
    )
    scripted.command("up", "--bundle", "bundles.shop", cwd=project)
    assert done.returncode == 1
    assert "error: step_failed: " in done.stderr
    assert "`stepline logs` has the cause" in done.stderr
    found = [json.loads(line) for line in scripted.command("logs", "decide", "--json").stdout.splitlines()]
    (failure,) = [line for line in found if line.get("conversation") == conversation and "exception" in line]
    assert failure["exception"].endswith("RuntimeError: the shop is closed")
    assert "RuntimeError: the shop is closed" in scripted.command("logs").stdout
    refused = scripted.command("logs", "decid", "--json", check=False)
    assert json.loads(refused.stderr)["code"] == "function_not_found"
