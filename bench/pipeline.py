"""The whole pipeline from pieces of a generation to lanes, over sixteen rounds of about a million characters.

It includes parser, admission, fields, citations and the program widget, with a new parser and a new `Show`
per round.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from bench.parser import FindSplitter
from bench.row import Limit, MeasureError, Row
from stepline.model.ids import call_id
from stepline.model.source import Citation
from stepline.protocol.decision.fanout import FanoutRule
from stepline.protocol.decision.round_rules import RoundRules
from stepline.protocol.parser.channel_parser import ChannelParser
from stepline.protocol.stream.lane import LaneClosed, LaneEvent, LaneOpened, LanePiece
from stepline.protocol.stream.show import Show
from stepline.tools.catalogue import default_registry

ROUNDS = 9  # interleaved; the best of each counts
SIZES = (8, 40)
GOAL_TIMES = {8: 13.0, 40: 13.0}

DECISION_ROUNDS = 15
WRITTEN_CHARS = 23_000
CODE_CHARS = 16 * 1024

TURN = "turn_20260101T000000_abcdef"
SOURCES = {
    sid: Citation(
        sid=sid, title=f"Quarterly report {sid}: Müller & Söhne", url=f"https://example.com/r/{sid}"
    )
    for sid in range(1, 13)
}

PROSE = (
    "The figures of the last quarter rise by 7 % against the plan [[S:3]], mostly in the north, and the churn "
    "falls. Größere Kunden bleiben länger; see `report.md` and the rest of it 🙂, which «nobody» had expected. "
    "What holds for the large ones does not hold for the small: their contracts end in autumn, their prices rise, "
    "and nobody calls them. In the south the plan was too high from the start, as last year's report says.\n"
)
HTML = (
    '<section class="kpi" id="k1"><h2>Umsatz</h2>\n  <p>12,4 % &rarr; <b>up</b> [[S:1,2]]</p>\n'
    "  <ul><li>Norden: stärker als geplant</li><li>Süden: wie geplant</li></ul>\n"
    '  <table><tr><td class="num">12,4</td><td class="num">11,8</td></tr></table></section>\n'
)
MARKDOWN = (
    "## Findings\n\n- churn is down, see [[S:1-3]]\n- `margin` holds, außer im Süden\n\n"
    "| region | plan | is |\n|---|---|---|\n| north | 10 | 12 |\n\n```sql\nSELECT a, b FROM t WHERE a < 2;\n```\n\n"
)
_CODE = (
    "def total(rows):\n    # rows with a price below 1 are free\n"
    "    return sum(r['price'] * r['n'] for r in rows if r['price'] < 1.0 or not r[\"free\"])\n\n"
)


def filled(text: str, chars: int) -> str:
    return (text * (chars // len(text) + 1))[:chars]


def _decision(**fields: object) -> str:
    text = json.dumps(fields, ensure_ascii=False, indent=1)
    return f"<channel:ReactDecisionOutV2>\n```json\n{text}\n```\n</channel:ReactDecisionOutV2>\n"


def _call(tool_id: str, notes: str, **params: object) -> str:
    return _decision(action="call_tool", notes=notes, tool_call={"tool_id": tool_id, "params": params})


def write(path: str, content: str) -> str:
    return _call("react.write", f"writing {path}", path=path, channel="canvas", content=content, kind="file")


def make_rounds() -> list[str]:
    """Return sixteen generations, together about a million characters."""
    code = f"<channel:code>\n{filled(_CODE, CODE_CHARS)}</channel:code>\n"
    rounds = []
    for number in range(DECISION_ROUNDS):
        page = filled(HTML + PROSE, WRITTEN_CHARS)
        report = filled(MARKDOWN + PROSE * 2, WRITTEN_CHARS)
        contract = [{"filename": f"outputs/totals_{number}.csv", "description": "Monthly totals"}]
        rounds.append(
            f"<channel:thinking>{PROSE * 2}</channel:thinking>\n"
            + write(f"outputs/page_{number}.html", page)
            + write(f"outputs/report_{number}.md", report)
            + _call(
                "exec_tools.execute_code_python",
                "adding up",
                contract=contract,
                prog_name=f"Totals {number}",
            )
            + code
        )
    answer = _decision(
        action="complete", final_answer=MARKDOWN * 6 + PROSE * 20, suggested_followups=["Go on"]
    )
    rounds.append(
        f"<channel:thinking>{PROSE}</channel:thinking>\n{answer}<channel:code></channel:code>\n"
        f"<channel:summary>{PROSE * 6}</channel:summary>\n"
    )
    return rounds


def make_rules() -> RoundRules:
    """Return the rules of such a round: the built-in tools, several actions, sources."""
    tools = {spec.tool_id: spec for spec in default_registry(executes=True).specs}
    allowed = [spec.tool_id for spec in tools.values() if spec.in_react]
    return RoundRules(
        tools=tools,
        allowed=allowed,
        call_id=lambda index: call_id(TURN, 0, index),
        turn=TURN,
        fanout=FanoutRule(mode="safe_fanout"),
        sources=SOURCES,
    )


def show_round(pieces: list[str], rules: RoundRules) -> list[LaneEvent]:
    """Return the lane events of one generation."""
    shown: list[LaneEvent] = []
    parser, show = ChannelParser(), Show(rules, shown.append)
    feed, publish = parser.feed, show.show
    for piece in pieces:
        publish(feed(piece))
    publish(parser.close())
    show.close()
    return shown


def _run_pipeline(rounds: list[list[str]], rules: RoundRules) -> None:
    for pieces in rounds:
        show_round(pieces, rules)


def _run_splitter(rounds: list[list[str]]) -> None:
    for pieces in rounds:
        feed = FindSplitter().feed
        for piece in pieces:
            feed(piece)


def _check_lanes(rounds: list[list[str]], rules: RoundRules) -> None:
    """Raise MeasureError unless every lane is present and complete, and the programs are whole."""
    shown = 0
    for pieces in rounds:
        events = show_round(pieces, rules)
        opened = [event.lane for event in events if isinstance(event, LaneOpened)]
        closed = [event for event in events if isinstance(event, LaneClosed)]
        if sorted(opened) != sorted(one.lane for one in closed) or any(one.aborted for one in closed):
            raise MeasureError("a lane did not end as it should")
        shown += sum(len(event.text) for event in events if isinstance(event, LanePiece))
    least = 2 * DECISION_ROUNDS * WRITTEN_CHARS + DECISION_ROUNDS * CODE_CHARS
    if shown < least:
        raise MeasureError(f"only {shown} characters were shown")


def cpu_s(run: Callable[[], Any]) -> float:
    start = time.process_time()
    run()
    return time.process_time() - start


def rows() -> list[Row]:
    """Return `pipeline_mb_s_<n>`."""
    texts, rules = make_rounds(), make_rules()
    chars = sum(map(len, texts))
    found = []
    for size in SIZES:
        rounds = [[text[at : at + size] for at in range(0, len(text), size)] for text in texts]
        _check_lanes(rounds, rules)
        runs = {"ours": partial(_run_pipeline, rounds, rules), "limit": partial(_run_splitter, rounds)}
        best = dict.fromkeys(runs, float("inf"))
        for _ in range(ROUNDS):
            best = {name: min(best[name], cpu_s(run)) for name, run in runs.items()}
        found.append(
            Row(
                metric=f"pipeline_mb_s_{size}",
                value=round(chars / 1e6 / best["ours"], 1),
                unit="MB/s",
                limit=Limit("str_find_push", round(chars / 1e6 / best["limit"], 1)),
                goal_times=GOAL_TIMES[size],
                note=f"{len(texts)} rounds, {chars} characters, from pieces to lanes",
            )
        )
    return found
