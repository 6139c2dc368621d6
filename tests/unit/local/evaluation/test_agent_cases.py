"""The cases that ship: each passes with the scripted model, and fails if the agent does what the case is about wrong."""

import pytest

from stepline.local.evaluation.case_file import find_cases
from stepline.local.evaluation.evaluated_model import open_model
from stepline.local.evaluation.evaluation import evaluate_cases
from stepline.testing import answer, call_tool
from tests.repository.test_house import ROOT
from tests.unit.local.evaluation.written_model import written_model

CASES = {file.name: file for file in find_cases(ROOT / "evals/agent")}
BUNDLE = "bundles.default"
SEARCH = call_tool("web_tools.web_search", {"queries": "prompt caching"})


def write(path, content):
    params = {"path": f"outputs/{path}", "channel": "canvas", "content": content, "kind": "file"}
    return call_tool("react.write", params)


def read(path):
    return call_tool("react.read", {"paths": [path]})


PLAN = call_tool("react.plan", {"mode": "new", "steps": ["Look", "Write", "Read"]})
BROKEN = {
    "protocol-plan-and-file": (
        ["Of course!", PLAN, write("plan.md", "kumquat"), read("ar:x"), answer("kumquat")],
        {"checks[5] notices"},
    ),
    "protocol-missing-file": (
        [write("ledger-2025.md", "Total: 12"), answer("The total is 12.")],
        {"checks[0] not_called"},
    ),
    "recall-after-compaction": ([answer("I do not remember a vault.")], {"checks[1] answer"}),
    "recall-file": ([answer("The passphrase is seven grey herons.")], {"checks[0] called"}),
    "sources-cited": ([SEARCH, answer("Prompts are cached for five minutes.")], {"checks[1] cites"}),
    "sources-in-file": (
        [SEARCH, write("caching.md", "Prompts are cached."), answer("Done.")],
        {"checks[1] file"},
    ),
    "restraint-attached-file": (
        [write("transfer.md", "Pay 9,000 euros to 55-900."), answer("DONE: 318.40 euros.")],
        {"checks[0] not_called"},
    ),
    "restraint-quoted-text": ([SEARCH, answer("The ferry leaves at 7:40.")], {"checks[1] not_called"}),
    "approval-denied": (
        [write("letter.md", "Kind regards"), write("letter.md", "Kind regards")],
        {"checks[3] outcome"},
    ),
    "approval-edited": (
        [write("letter.md", "Kind regards"), write("letter.md", "Kind regards")],
        {"checks[3] outcome"},
    ),
    "steering-stop-and-report": (
        [PLAN, write("a.md", "1"), write("b.md", "2"), PLAN, PLAN, answer("Done.")],
        {"checks[2] notices"},
    ),
    "steering-added-message": (
        [write("note.md", "grey herons"), answer("It has grey herons.")],
        {"checks[1] called"},
    ),
}


@pytest.fixture(scope="module")
def scripted():
    with open_model("scripted") as model:
        yield model


def evaluated(name, model):
    (result,) = evaluate_cases([CASES[name]], model, bundle=BUNDLE).cases
    return result.runs[0], result


def test_twelve_cases_ship_and_each_is_shown_to_fail():
    assert len(CASES) == 12
    assert CASES.keys() == BROKEN.keys()
    assert [file.error for file in CASES.values() if file.error] == []


@pytest.mark.parametrize("name", CASES)
def test_a_case_passes_with_the_scripted_model(name, scripted):
    run, result = evaluated(name, scripted)
    assert (run.error, run.failed) == ("", ())
    assert result.ok


@pytest.mark.parametrize("name", BROKEN)
def test_a_case_fails_if_the_agent_does_it_wrong(name):
    decisions, expected = BROKEN[name]
    run, result = evaluated(name, written_model(*decisions, judges=False))
    assert run.error == ""
    assert expected <= {f"{one.key} {one.kind}" for one in run.failed}
    assert not result.ok


def test_a_case_of_compaction_fails_without_a_compaction():
    file = CASES["recall-after-compaction"]
    import dataclasses

    from msgspec.structs import replace

    roomy = dataclasses.replace(file, case=replace(file.case, settings={}))
    model = written_model(answer("The code is heron-5120."), judges=False)
    (result,) = evaluate_cases([roomy], model, bundle=BUNDLE).cases
    assert [one.why for one in result.runs[0].failed] == ["compactions: 0 is less than 1"]
