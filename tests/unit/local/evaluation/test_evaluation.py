"""Evaluations: checks, rates and their intervals, costs, baselines, and the independence of cases."""

import json

import pytest
from msgspec.structs import replace

from stepline.errors import InputError
from stepline.local.evaluation.case_file import find_cases
from stepline.local.evaluation.evaluated_model import open_model
from stepline.local.evaluation.evaluation import CaseResult, evaluate_cases, is_worse, read_baseline, wilson
from stepline.testing import answer, call_tool
from tests.unit.local.evaluation.written_model import written_model

WRITE = call_tool(
    "react.write", {"path": "outputs/a.json", "channel": "canvas", "content": '{"a": 1}', "kind": "file"}
)
CASE = """\
about: A case.
steps: [{message: Hello.}]
checks:
"""


def run_checks(tmp_path, checks, *decisions, **fields):
    """Return the run of a case with these checks."""
    (tmp_path / "case.yaml").write_text(CASE + "".join(f"  - {check}\n" for check in checks))
    model = written_model(*(decisions or [answer("Hello, Ada.")]), **fields)
    (result,) = evaluate_cases(find_cases(tmp_path), model, bundle="bundles.default").cases
    assert result.broken == ""
    return result.runs[0]


def failed(run):
    return {one.key: one.why for one in run.failed}


def test_rules_of_an_answer(tmp_path):
    run = run_checks(
        tmp_path,
        ["answer: {contains: [Ada]}", "answer: {contains: [Bob]}", "answer: {excludes: [Ada]}",
         "answer: {matches: ['^Hello, \\w+\\.$']}", "answer: {matches: ['^Bye']}", "answer: {schema: {type: object}}"],
    )  # fmt: skip
    assert failed(run).keys() == {"checks[1]", "checks[2]", "checks[4]", "checks[5]"}
    assert failed(run)["checks[1]"] == "the answer lacks 'Bob'; it is 'Hello, Ada.'"


def test_a_json_value_is_checked_by_its_schema(tmp_path):
    schema = "schema: {type: object, required: [total], properties: {total: {type: number}}}"
    said = answer('```json\n{"total": "12"}\n```')
    run = run_checks(tmp_path, [f"answer: {{{schema}}}", "answer: {schema: {type: object}}"], said)
    assert failed(run) == {"checks[0]": "the answer: total must be number"}


def test_calls_are_checked_by_tool_parameters_number_and_status(tmp_path):
    run = run_checks(
        tmp_path,
        ["called: {tool: react.write, params: {path: outputs/a.json}, times: 1, status: ok}",
         "called: {tool: react.write, params: {path: outputs/b.json}}", "called: {tool: 'react.*', times: 0}",
         "not_called: react.exec*", "not_called: react.w*", "file: {name: a.json, schema: {type: object}}",
         "file: {name: b.json}", "rounds: {min: 2, max: 2}", "rounds: {max: 1}"],
        WRITE, answer("Done."),
    )  # fmt: skip
    assert failed(run).keys() == {"checks[1]", "checks[2]", "checks[4]", "checks[6]", "checks[8]"}
    assert failed(run)["checks[4]"] == "react.write was called"
    assert run.calls == ("react.write ok",)


def test_a_check_may_be_of_one_turn(tmp_path):
    (tmp_path / "case.yaml").write_text(
        CASE.replace("{message: Hello.}", "{message: Hello.}, {message: Bye.}")
        + "  - {turn: 1, answer: {contains: [one]}}\n  - answer: {contains: [two]}\n  - {turn: 2, rounds: {max: 1}}\n"
    )
    model = written_model(answer("one"), answer("two"))
    (result,) = evaluate_cases(find_cases(tmp_path), model, bundle="bundles.default").cases
    assert failed(result.runs[0]) == {}


def test_the_cost_of_a_model_without_a_price_is_not_guessed(tmp_path):
    run = run_checks(tmp_path, ["usd: {max: 1}", "tokens: {min: 100}"])
    assert failed(run) == {"checks[0]": "the price of the model is not known: set STEPLINE_PRICES"}
    assert not run.priced


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ('{"holds": true, "why": "It greets."}', None),
        ('Here: {"holds": false, "why": "It does not."}', "the judge says no: It does not."),
        ('{"holds": "true"}', "the judge says no: "),
        ("PASS", "the judge's answer cannot be read: 'PASS'"),
    ],
)
def test_a_model_judges_a_sentence(tmp_path, said, why):
    read = []

    def judge(request):
        read.append("".join(part.text for part in request.content))
        return said

    run = run_checks(
        tmp_path, ["judge: The agent greets Ada."], answer('{"holds": true}\n[STATEMENT]'), other=judge
    )
    assert failed(run) == ({"checks[0]": why} if why else {})
    assert '\n  {"holds": true}\n  [STATEMENT]\n' in read[0]


def test_the_scripted_model_judges_nothing(tmp_path):
    checks = ["judge: The agent greets.", "outcome: completed"]
    run = run_checks(tmp_path, checks, judges=False)
    assert (run.solved, run.left_out) == (True, ("checks[0]",))
    alone = run_checks(tmp_path, checks[:1], judges=False)
    assert (alone.solved, alone.error.partition(":")[0]) == (False, "nothing_judged")


def test_a_broken_case_costs_its_neighbours_nothing(tmp_path):
    (tmp_path / "a.yaml").write_text("about: x\nstepz: []\n")
    (tmp_path / "b.yaml").write_text(
        CASE.replace("Hello.}", "Hello., files: [b.yaml, b.exe]}") + "  - outcome: completed\n"
    )
    (tmp_path / "b.exe").write_bytes(b"MZ\x90\x00")
    (tmp_path / "c.yaml").write_text(
        CASE.replace("{message: Hello.}", "{approve: shop.pay}") + "  - outcome: completed\n"
    )
    (tmp_path / "d.yaml").write_text(f"bundle: bundles.gone\n{CASE}  - outcome: completed\n")
    (tmp_path / "e.yaml").write_text(f"history: a.yaml\n{CASE}  - outcome: completed\n")
    (tmp_path / "f.yaml").write_text(f"{CASE}  - outcome: completed\n")
    report = evaluate_cases(
        find_cases(tmp_path), written_model(answer("Hello.")), bundle="bundles.default", repeats=2
    )
    errors = {one.name: one.broken or one.runs[0].error for one in report.cases}
    codes = {name: error.partition(":")[0] for name, error in errors.items()}
    assert codes == {
        "a": "case_invalid", "b": "type_not_allowed", "c": "approval_not_pending", "d": "bundle_not_found",
        "e": "import_nothing", "f": "",
    }  # fmt: skip
    assert [one.ok for one in report.cases] == [False] * 5 + [True]
    assert (report.solved, report.runs, report.ok) == (2, 10, False)


def test_an_earlier_turn_whose_call_fails_is_an_error(tmp_path):
    (tmp_path / "case.yaml").write_text(
        f"so_far: [{{message: Look., answer: I did., calls: [{{tool: react.gone}}]}}]\n{CASE}  - outcome: completed\n"
    )
    (result,) = evaluate_cases(find_cases(tmp_path), written_model(), bundle="bundles.default").cases
    assert result.runs[0].error.startswith("case_history: the earlier turn 'Look.'")


@pytest.mark.parametrize(
    ("solved", "runs", "low", "high"),
    [(0, 1, 0.0, 0.7935), (1, 1, 0.2065, 1.0), (8, 10, 0.4902, 0.9433), (95, 100, 0.8882, 0.9785)],
)
def test_the_interval_is_wilsons(solved, runs, low, high):
    assert wilson(solved, runs) == (pytest.approx(low, abs=1e-4), pytest.approx(high, abs=1e-4))


def rated(solved, runs):
    low, high = wilson(solved, runs)
    return CaseResult(name="a", about="", rate=solved / runs, low=low, high=high)


@pytest.mark.parametrize(
    ("now", "before", "worse"),
    [((0, 1), (1, 1), True), ((4, 5), (5, 5), False), ((2, 10), (9, 10), True), ((10, 10), (9, 10), False),
     ((0, 3), (1, 3), False), ((60, 100), (80, 100), True)],
)  # fmt: skip
def test_a_rate_is_worse_if_chance_does_not_explain_it(now, before, worse):
    assert is_worse(rated(*now), rated(*before)) is worse


def test_a_case_is_compared_with_the_baseline(tmp_path):
    (tmp_path / "case.yaml").write_text(f"{CASE}  - answer: {{contains: [Ada]}}\n")
    cases = find_cases(tmp_path)
    good = evaluate_cases(cases, written_model(answer("Ada")), bundle="bundles.default")
    bad = evaluate_cases(
        cases, written_model(answer("Bob")), bundle="bundles.default", threshold=0, baseline=good
    )
    assert (bad.cases[0].why, bad.ok) == ("worse than the baseline: 0% of the runs, 100% before", False)
    renamed = [replace(good.cases[0], name="old")]
    other = evaluate_cases(
        cases,
        written_model(answer("Ada")),
        bundle="bundles.default",
        baseline=replace(good, cases=tuple(renamed)),
    )
    assert (other.gone, other.ok) == (("old",), True)


@pytest.mark.parametrize("text", ["", "{}", "[]", json.dumps({"version": 9})])
def test_a_file_that_is_no_report_is_no_baseline(tmp_path, text):
    (tmp_path / "old.json").write_text(text)
    for name in ("old.json", "gone.json"):
        with pytest.raises(InputError) as caught:
            read_baseline(tmp_path / name)
        assert caught.value.reason == "baseline_invalid"


def test_the_environment_chooses_the_model_as_for_the_stage(monkeypatch):
    for name in (
        "ANTHROPIC_API_KEY",
        "ANTHROPIC_BASE_URL",
        "STEPLINE_MODEL_PROVIDER",
        "STEPLINE_MODEL_ROLES",
    ):
        monkeypatch.delenv(name, raising=False)
    with open_model("") as chosen:
        assert (chosen.name, chosen.judges) == ("scripted", False)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "key")
    monkeypatch.setenv("STEPLINE_MODEL_ROLES", '{"*": "claude-a", "evaluation.judge": "claude-b"}')
    with open_model("") as chosen:
        assert (chosen.name, chosen.judges) == ("claude-a", True)
    with open_model("claude-c") as chosen:
        roles = json.loads(chosen.variables["STEPLINE_MODEL_ROLES"])
    assert (chosen.name, roles) == ("claude-c", {"*": "claude-c", "evaluation.judge": "claude-b"})
