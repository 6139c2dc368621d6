"""The report of proofs as a page. Pure.

The page is one file without scripts or addresses, and its policy forbids both. Texts of a stage are untrusted: each is
escaped, its invisible characters are shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from stepline.local.evaluation.report_page import begin_page, html_text
from stepline.local.proof.proof_report import ProofReport, ProofResult, summarise_proofs

_STYLE: Final = """\
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem }
td { overflow-wrap: anywhere }
.claims td:nth-child(4) { width: 38% } .claims td:nth-child(3) { width: 32% }
.held { color: var(--good) } .failed { color: var(--bad) } .open { color: var(--open) }
"""
_MARKS: Final = {"held": "held", "failed": "failed", "not run": "open"}


def render_proofs(report: ProofReport) -> str:
    """Return the report as a page of HTML."""
    return "".join(_page(report))


def _page(report: ProofReport) -> Iterator[str]:
    yield begin_page("Proof", _STYLE)
    verdict = (
        '<strong class="held">nothing failed</strong>'
        if report.ok
        else '<strong class="failed">failed</strong>'
    )
    yield f"<h1>Proof of stage {html_text(report.stage)}: {verdict}</h1>\n<p>{html_text(summarise_proofs(report))}</p>\n<table>\n"
    facts = {
        "Stepline": report.version,
        "Python": report.python,
        "region": report.region,
        "state machine": f"{report.versions.machine} {report.versions.revision}".strip()
        or report.versions.unknown,
        "functions": ", ".join(f"{name} {which}" for name, which in report.versions.functions.items()),
        "models": ", ".join(report.models) or "none answered",
        "began": report.started_at,
        "bound": f"${report.usd_bound:.2f}",
    }
    for name, value in facts.items():
        yield f"<tr><th>{html_text(name)}</th><td>{html_text(value)}</td></tr>\n"
    yield '</table>\n<h2>Claims</h2>\n<table class="claims">\n<tr><th>proof</th><th>result</th><th>claim</th><th>seen</th><th>seconds</th><th>dollars</th></tr>\n'
    for row in report.rows:
        yield from _row(row)
    yield "</table>\n"
    if report.drift:
        yield "<h2>Known drift</h2>\n<p>The emulator differs from AWS: a row that is held on it does not prove this.</p>\n<table>\n"
        for name, sentence in report.drift.items():
            yield f"<tr><th>{html_text(name)}</th><td>{html_text(sentence)}</td></tr>\n"
        yield "</table>\n"
    yield "</body>\n</html>\n"


def _row(row: ProofResult) -> Iterator[str]:
    reason = f"{row.why} ({row.code})" if row.code else row.why
    why = f'<br><span class="{_MARKS[row.verdict]}">{html_text(reason)}</span>' if reason else ""
    drift = f'<br><span class="muted">drift: {html_text(", ".join(row.drift))}</span>' if row.drift else ""
    seen = {**({"conversation": row.conversation} if row.conversation else {}), **row.evidence}
    shown = "<br>".join(
        f'<span class="muted">{html_text(name)}</span> {html_text(str(value))}'
        for name, value in seen.items()
    )
    usd = "unknown" if row.usd is None else f"{row.usd:.4f}"
    yield (
        f'<tr><td>{html_text(row.name)}</td><td class="{_MARKS[row.verdict]}">{html_text(row.verdict)}</td>'
        f"<td>{html_text(row.claim)}{why}{drift}</td><td>{shown}</td><td>{row.seconds:.1f}</td><td>{usd}</td></tr>\n"
    )
