"""Reports: a page that runs nothing and escapes everything, and JUnit's XML."""

from html.parser import HTMLParser
from xml.etree import ElementTree as ET

from msgspec.structs import replace

from stepline.local.evaluation.case_judge import Finding
from stepline.local.evaluation.evaluation import CaseResult, CaseRun, EvaluationReport
from stepline.local.evaluation.evaluation_pages import render_junit, render_page

EVIL = "</pre><script>alert(1)</script><img src=//x onerror='a'>\x1b[31m\x00\u202e\ud800"
FAILED = Finding(key="checks[0]", kind="answer", why=EVIL)
CASES = (
    CaseResult(
        name=EVIL,
        about=EVIL,
        runs=(CaseRun(solved=False, failed=(FAILED,), answer=EVIL, calls=(EVIL,), left_out=("checks[1]",)),),
        against=1.0,
        ok=False,
        why=EVIL,
    ),
    CaseResult(
        name="good", about="Good.", runs=(CaseRun(solved=True),), rate=1.0, low=0.2, usd_per_solved=0.5
    ),
    CaseResult(name="broken", about="", broken="case_invalid: no", ok=False, why="case_invalid: no"),
)
REPORT = EvaluationReport(
    version=1, model=EVIL, repeats=1, threshold=1.0, cases=CASES, solved=1, runs=2, rate=0.5, low=0.1, high=0.9,
    usd=0.5, judge_usd=0.1, usd_per_solved=0.5, priced=True, gone=(EVIL,), ok=False,
)  # fmt: skip


class Tags(HTMLParser):
    """Collects the tags, and the attributes that could load or run something."""

    def __init__(self):
        super().__init__()
        self.tags, self.loads = set(), []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.loads += [
            (tag, name) for name, _ in attrs if name in ("src", "href", "style") or name.startswith("on")
        ]


def test_the_page_escapes_every_text_and_loads_nothing():
    page = render_page(REPORT)
    tags = Tags()
    tags.feed(page)
    assert tags.loads == []
    assert not {"script", "img", "link", "iframe"} & tags.tags
    assert "default-src 'none'" in page
    assert not {"\x1b", "\x00", "\u202e"} & set(page)
    page.encode()


def test_the_page_has_a_plot_of_rates_and_one_of_costs():
    page = render_page(REPORT)
    assert page.count("<svg") == 2
    assert page.count('class="tick"') == 1
    free = replace(REPORT, cases=tuple(replace(one, usd_per_solved=None) for one in CASES))
    assert render_page(free).count("<svg") == 1


def test_junit_has_a_failure_and_an_error_of_its_own_for_each_case():
    (suite,) = ET.fromstring(render_junit(REPORT).encode())
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("3", "1", "1")
    kinds = [[child.tag for child in case] for case in suite]
    assert kinds == [["failure"], [], ["error"]]
    assert "checks[0] answer" in suite[0][0].text
