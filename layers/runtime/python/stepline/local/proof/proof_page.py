"""The report of proofs as a page. Pure.

The page is one file without scripts or addresses, and its policy forbids both. Texts of a stage are untrusted: each is
escaped, its invisible characters are shown.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Final

from stepline.local.proof.proof_report import ProofReport, ProofResult, summarise_proofs
from stepline.local.safe_text import clean

_HEAD: Final = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Proof</title>
<style>
:root { color-scheme: light dark; --line: #8886; --good: #1a7f37; --bad: #cf222e; --open: #9a6700 }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; width: 100% }
td, th { border-bottom: 1px solid var(--line); padding: .3rem .5rem; text-align: left; vertical-align: top }
td { overflow-wrap: anywhere }
.claims td:nth-child(4) { width: 38% } .claims td:nth-child(3) { width: 32% }
.held { color: var(--good) } .failed { color: var(--bad) } .open { color: var(--open) } .muted { opacity: .75 }
</style>
</head>
<body>
"""
_MARKS: Final = {"held": "held", "failed": "failed", "not run": "open"}


def render_proofs(report: ProofReport) -> str:
    """Return the report as a page of HTML."""
    return "".join(_page(report))


def _page(report: ProofReport) -> Iterator[str]:
    yield _HEAD
    verdict = (
        '<strong class="held">nothing failed</strong>'
        if report.ok
        else '<strong class="failed">failed</strong>'
    )
    yield f"<h1>Proof of stage {_text(report.stage)}: {verdict}</h1>\n<p>{_text(summarise_proofs(report))}</p>\n<table>\n"
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
        yield f"<tr><th>{_text(name)}</th><td>{_text(value)}</td></tr>\n"
    yield '</table>\n<h2>Claims</h2>\n<table class="claims">\n<tr><th>proof</th><th>result</th><th>claim</th><th>seen</th><th>seconds</th><th>dollars</th></tr>\n'
    for row in report.rows:
        yield from _row(row)
    yield "</table>\n"
    if report.drift:
        yield "<h2>Known drift</h2>\n<p>The emulator differs from AWS: a row that is held on it does not prove this.</p>\n<table>\n"
        for name, sentence in report.drift.items():
            yield f"<tr><th>{_text(name)}</th><td>{_text(sentence)}</td></tr>\n"
        yield "</table>\n"
    yield "</body>\n</html>\n"


def _row(row: ProofResult) -> Iterator[str]:
    reason = f"{row.why} ({row.code})" if row.code else row.why
    why = f'<br><span class="{_MARKS[row.verdict]}">{_text(reason)}</span>' if reason else ""
    drift = f'<br><span class="muted">drift: {_text(", ".join(row.drift))}</span>' if row.drift else ""
    seen = {**({"conversation": row.conversation} if row.conversation else {}), **row.evidence}
    shown = "<br>".join(
        f'<span class="muted">{_text(name)}</span> {_text(str(value))}' for name, value in seen.items()
    )
    usd = "unknown" if row.usd is None else f"{row.usd:.4f}"
    yield (
        f'<tr><td>{_text(row.name)}</td><td class="{_MARKS[row.verdict]}">{_text(row.verdict)}</td>'
        f"<td>{_text(row.claim)}{why}{drift}</td><td>{shown}</td><td>{row.seconds:.1f}</td><td>{usd}</td></tr>\n"
    )


def _text(text: str) -> str:
    """Return foreign text for a page or an attribute."""
    return escape(clean(text).encode("utf-8", "replace").decode(), quote=True)
