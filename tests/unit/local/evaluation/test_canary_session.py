"""Sessions of compaction-conformance-kit: played in a conversation, and judged by what its summary keeps."""

import re
import sys

from stepline.local.evaluation.case_file import find_cases
from stepline.local.evaluation.evaluation import evaluate_cases
from tests.repository.test_house import ROOT
from tests.unit.local.evaluation.written_model import written_model

(FILE,) = find_cases(ROOT / "evals/compaction")
CANARY = re.compile(r"(SAFETY RULE|HARD CONSTRAINT|FACT|GOAL STATE|USER PREFERENCE): [^\n]*")


def summary_of(*dropped):
    """Return a summariser that keeps each canary it reads, but for those of these types."""

    def summarise(request):
        text = "".join(part.text for part in request.content)
        kept = dict.fromkeys(found[0] for found in CANARY.finditer(text) if found[1] not in dropped)
        return "\n".join(["## Goals", *kept])

    return summarise


def run(summarise):
    (result,) = evaluate_cases([FILE], written_model(other=summarise), bundle="bundles.default").cases
    assert result.runs[0].error == ""
    return [one.key for one in result.runs[0].failed]


def test_a_summary_that_keeps_everything_passes():
    assert run(summary_of()) == []


def test_a_summary_that_drops_a_type_fails_for_this_type():
    assert run(summary_of("SAFETY RULE")) == ["canaries.survive.safety_rule"]


def test_without_the_kit_the_case_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "compaction_kit", None)
    for name in [name for name in sys.modules if name.startswith("compaction_kit.")]:
        monkeypatch.delitem(sys.modules, name)
    (result,) = evaluate_cases([FILE], written_model(), bundle="bundles.default").cases
    assert result.runs[0].error == (
        "needs_extra: compaction-conformance-kit is not installed: pip install 'stepline[eval]'"
    )
