"""Reports of an evaluation: a page with plots, and JUnit's XML. Pure.

The page is one file without scripts or addresses, and its policy forbids both. Texts of cases and models are untrusted:
each is escaped, its invisible characters are shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from stepline.local.evaluation.evaluation import CaseResult, CaseRun, EvaluationReport
from stepline.local.evaluation.report_page import begin_page, html_text

ROW_PX, LABEL_PX, PLOT_PX, VALUE_PX = 22, 260, 360, 150
_STYLE: Final = """\
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
pre { white-space: pre-wrap; overflow-wrap: anywhere; border-left: 3px solid var(--line); padding-left: .6rem }
svg { max-width: 100%; height: auto } svg text { font: 12px system-ui, sans-serif; fill: currentColor }
.good { color: var(--good) } .bad { color: var(--bad) }
rect.good { fill: var(--good) } rect.bad { fill: var(--bad) } .tick { stroke: var(--open); stroke-width: 2 }
.span { stroke: currentColor; stroke-width: 1.5 } .rail { fill: var(--line) }
"""


def render_page(report: EvaluationReport) -> str:
    """Return the report as a page of HTML."""
    return "".join(_page(report))


def _page(report: EvaluationReport) -> Iterator[str]:
    yield begin_page("Evaluation", _STYLE)
    verdict = '<strong class="good">passed</strong>' if report.ok else '<strong class="bad">failed</strong>'
    yield f"<h1>Evaluation of {html_text(report.model)}: {verdict}</h1>\n<p>{html_text(summarise_report(report))}</p>\n"
    if report.gone:
        yield f"<p>In the baseline and not in this set: {html_text(', '.join(report.gone))}</p>\n"
    yield "<h2>Solved runs</h2>\n"
    yield _plot_rates(report.cases)
    yield (
        '<p class="muted">The bar is the share of solved runs, the line its 95 % interval (Wilson)'
        ", the tick the rate in the baseline.</p>\n"
    )
    if any(result.usd_per_solved for result in report.cases):
        yield "<h2>Dollars for a solved run</h2>\n"
        yield _plot_costs(report.cases)
    yield "<h2>Cases</h2>\n"
    for result in report.cases:
        yield from _case(result)
    yield "</body>\n</html>\n"


def summarise_report(report: EvaluationReport) -> str:
    """Return the totals in a sentence."""
    cost = "unknown price" if not report.priced else f"${report.usd:.4f}"
    each = f", ${report.usd_per_solved:.4f} for each solved run" if report.usd_per_solved is not None else ""
    judged = f", judging ${report.judge_usd:.4f}" if report.judge_usd else ""
    return (
        f"{sum(one.ok for one in report.cases)} of {len(report.cases)} cases passed; {report.solved} of {report.runs}"
        f" runs solved ({report.rate:.0%}, 95 % interval {report.low:.0%} to {report.high:.0%}); {cost}{each}{judged}"
    )


def _plot_rates(results: Sequence[CaseResult]) -> str:
    rows = []
    for at, result in enumerate(results):
        y, middle = at * ROW_PX + 4, at * ROW_PX + ROW_PX / 2
        mark = _mark(result)
        rows.append(
            f'<rect class="rail" x="{LABEL_PX}" y="{y}" width="{PLOT_PX}" height="{ROW_PX - 8}"/>'
            f'<rect class="{mark}" x="{LABEL_PX}" y="{y}" width="{PLOT_PX * result.rate:.1f}" height="{ROW_PX - 8}"/>'
            f'<line class="span" x1="{_x(result.low)}" x2="{_x(result.high)}" y1="{middle}" y2="{middle}"/>'
        )
        if result.against is not None:
            x = _x(result.against)
            rows.append(f'<line class="tick" x1="{x}" x2="{x}" y1="{y - 2}" y2="{y + ROW_PX - 6}"/>')
        shown = "broken" if result.broken else f"{result.solved} of {len(result.runs)}"
        rows.append(_labels(result.name, shown, middle))
    return _svg("Share of solved runs of each case", rows, len(results))


def _plot_costs(results: Sequence[CaseResult]) -> str:
    most = max(result.usd_per_solved or 0.0 for result in results)
    rows = []
    for at, result in enumerate(results):
        usd = result.usd_per_solved
        width = PLOT_PX * (usd or 0.0) / most
        y, middle = at * ROW_PX + 4, at * ROW_PX + ROW_PX / 2
        rows.append(
            f'<rect class="{_mark(result)}" x="{LABEL_PX}" y="{y}" width="{width:.1f}" height="{ROW_PX - 8}"/>'
        )
        rows.append(_labels(result.name, "none" if usd is None else f"${usd:.4f}", middle))
    return _svg("Dollars for a solved run of each case", rows, len(results))


def _svg(title: str, rows: Sequence[str], count: int) -> str:
    width, height = LABEL_PX + PLOT_PX + VALUE_PX, count * ROW_PX
    return (
        f'<svg role="img" aria-label="{html_text(title)}" viewBox="0 0 {width} {height}" width="{width}" height="{height}">'
        f"{''.join(rows)}</svg>\n"
    )


def _labels(name: str, value: str, middle: float) -> str:
    short = name if len(name) <= 38 else f"{name[:37]}…"
    return (
        f'<text x="0" y="{middle + 4}">{html_text(short)}</text>'
        f'<text x="{LABEL_PX + PLOT_PX + 8}" y="{middle + 4}">{html_text(value)}</text>'
    )


def _x(share: float) -> str:
    return f"{LABEL_PX + PLOT_PX * share:.1f}"


def _mark(result: CaseResult) -> str:
    return "good" if result.ok else "bad"


def _case(result: CaseResult) -> Iterator[str]:
    yield f'<h3 class="{_mark(result)}">{html_text(result.name)}</h3>\n<p>{html_text(result.about)}</p>\n'
    if result.why:
        yield f'<p class="bad">{html_text(result.why)}</p>\n'
    if not result.runs:
        return
    yield "<table><tr><th>run</th><th>result</th><th>rounds</th><th>tokens</th><th>dollars</th></tr>\n"
    for number, run in enumerate(result.runs, 1):
        usd = f"{run.usd:.4f}" if run.priced else "unknown"
        verdict = '<span class="good">solved</span>' if run.solved else '<span class="bad">not solved</span>'
        yield f"<tr><td>{number}</td><td>{verdict}{_run(run)}</td><td>{run.rounds}</td><td>{run.tokens:,}</td><td>{usd}</td></tr>\n"
    yield "</table>\n"


def _run(run: CaseRun) -> str:
    parts = [f"<br>{html_text(line)}" for line in explain_run(run)]
    if run.calls:
        parts.append(f'<br><span class="muted">{html_text(", ".join(run.calls))}</span>')
    if run.left_out:
        parts.append(f'<br><span class="muted">not judged: {html_text(", ".join(run.left_out))}</span>')
    if run.answer:
        parts.append(f"<details><summary>answer</summary><pre>{html_text(run.answer)}</pre></details>")
    return "".join(parts)


def explain_run(run: CaseRun) -> list[str]:
    """Return why a run is not solved, a line for each reason."""
    return [*filter(None, [run.error]), *(f"{one.key} {one.kind}: {one.why}" for one in run.failed)]


def render_junit(report: EvaluationReport) -> str:
    """Return the report as JUnit's XML: a test case for each case, which fails as the report says."""
    failures = sum(not one.ok and not one.broken for one in report.cases)
    errors = sum(bool(one.broken) for one in report.cases)
    counts = f'tests="{len(report.cases)}" failures="{failures}" errors="{errors}"'
    rows = "".join(map(_junit_case, report.cases))
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites {counts}>\n'
        f'<testsuite name="{html_text(f"stepline eval, {report.model}")}" {counts}>\n{rows}</testsuite>\n</testsuites>\n'
    )


def _junit_case(result: CaseResult) -> str:
    kind = "error" if result.broken else "failure"
    lines = "\n".join(line for run in result.runs for line in explain_run(run))
    body = f'<{kind} message="{html_text(result.why)}">{html_text(lines)}</{kind}>' if not result.ok else ""
    return f'<testcase classname="evaluation" name="{html_text(result.name)}">{body}</testcase>\n'
