"""The page of a proof: it runs nothing, escapes everything, and names each row with its verdict."""

from msgspec.structs import replace

from stepline.local.proof.proof_page import render_proofs
from stepline.local.proof.proof_report import ProofReport, ProofResult, StageVersions, summarise_proofs
from tests.unit.local.evaluation.test_evaluation_pages import EVIL, Tags

ROWS = (
    ProofResult(
        name="first", claim="It holds.", verdict="held", evidence={"turn": "turn_1", "n": 4}, drift=("sizes",)
    ),
    ProofResult(
        name=EVIL, claim=EVIL, verdict="failed", why=EVIL, code=EVIL, evidence={EVIL: EVIL}, usd=None
    ),
    ProofResult(name="third", claim="It runs.", verdict="not run", why="no right"),
)
REPORT = ProofReport(
    version="1.0", python="3.13.1", stage=EVIL, versions=StageVersions(machine=EVIL, functions={EVIL: EVIL}),
    drift={"sizes": EVIL},  region=EVIL, started_at=EVIL, seconds=3.0, models=(EVIL,), usd=0.25, priced=False,
    usd_bound=2.0, rows=ROWS,
)  # fmt: skip


def test_texts_of_a_stage_are_never_markup():
    page = render_proofs(REPORT)
    tags = Tags()
    tags.feed(page)
    assert tags.tags.isdisjoint({"script", "img", "a", "link", "iframe"})
    assert tags.loads == []
    assert not {"\x1b", "\x00", "\u202e", "\ud800"} & set(page)


def test_the_page_has_every_row_with_its_verdict_and_evidence():
    page = render_proofs(REPORT)
    for word in ("It holds.", "turn_1", ">held<", ">failed<", ">not run<", "no right", "unknown"):
        assert word in page
    assert "1 held, 1 failed, 1 not run; 3 s" in page


def test_the_page_has_the_versions_and_the_known_drift():
    page = render_proofs(
        replace(REPORT, versions=StageVersions(machine="loop", revision="r1", functions={"act": "3"}))
    )
    for word in ("3.13.1", "loop r1", "act 3", "drift: sizes", "Known drift"):
        assert word in page
    assert "Known drift" not in render_proofs(replace(REPORT, drift={}))
    assert "no right" in render_proofs(replace(REPORT, rows=(), versions=StageVersions(unknown="no right")))


def test_an_unknown_price_is_named():
    assert "without a known price" in summarise_proofs(REPORT)
