"""The timeline: CPU time of decode + fold + render for a cold log, and of fold + render for one more round.

`limit` is the join of texts that were rendered before: what nobody can avoid. The decode's share is a peer's place,
because the log's bytes must be read whatever is made of them.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import Any

from stepline.model.batch import Batch, Cursor, State, decode_batch, encode_batch
from stepline.model.block import Block
from stepline.model.decision import Action
from stepline.model.entry import Decided, Inbound, Opened, Owner, Resulted
from stepline.model.ids import Lane, call_id
from stepline.model.usage import Usage
from stepline.timeline.fold import Timeline
from stepline.timeline.render import render

SIZES = (10, 1000, 5000)
REPEATS = 15  # the best counts
WARM_GOAL_MS = 4.0

LANE = Lane(tenant="bench", project="bench", conversation="timeline")
AT = "2026-11-21T10:10:10.000Z"


def make_log(blocks: int) -> list[Batch]:
    """Return a log of one turn with `blocks` decisions and results, about 600 bytes each as stored."""
    turn = "turn_20261121T101010_abcdef"
    said = Inbound(message_id="m1", event="prompt", text="Summarise the report.", user="ada", at=AT)
    opening = (Owner(user="ada"), said, Opened(turn=turn, at=AT, prompts=(1,)))
    log = [_batch(1, State(status="open", turn=turn, opened=1, epoch=1, claim=1), opening)]
    for i in range(blocks // 2):
        n, call = len(log) + 1, call_id(turn, i, 0)
        state = State(
            status="open", turn=turn, opened=1, epoch=1, claim=n, cursor=Cursor(iteration=i), rendered=n - 1
        )
        action = Action(call_id=call, tool_id="web_tools.fetch", params={"q": "word " * 20})
        decision = Decided(
            turn=turn,
            iteration=i,
            claim=n - 1,
            rendered=n - 1,
            action="call_tool",
            started_at=AT,
            at=AT,
            thinking=("I look at the next page and decide then.",),
            actions=(action,),
            usage=Usage(input_tokens=300, output_tokens=90),
        )
        path = f"tc:{turn}.{call}.result"
        block = Block(
            type="react.tool.result", author="react", ts=AT, turn_id=turn, path=path, text="word " * 40
        )
        result = Resulted(
            call_id=call, tool_id="web_tools.fetch", iteration=i, status="ok", at=AT, blocks=(block,)
        )
        log += [_batch(n, state, (decision,)), _batch(n + 1, state, (result,))]
    return log


def rows() -> list[dict[str, Any]]:
    """Return `timeline_cold_cpu_ms_<n>` and `timeline_warm_cpu_ms_<n>`."""
    found = []
    for size in SIZES:
        log = make_log(size)
        stored = [encode_batch(batch) for batch in log]
        before = Timeline.empty(LANE).extended(log[:-2])
        texts = [part.text for part in render(before.extended(log[-2:]), system="").content]
        decode = _best_ms(lambda stored=stored: [decode_batch(body) for body in stored])
        join = _best_ms(lambda texts=texts: "".join(texts))
        cold = _best_ms(
            lambda stored=stored: _render(Timeline.empty(LANE), [decode_batch(body) for body in stored])
        )
        warm = _best_ms(lambda before=before, log=log: _render(before, log[-2:]))
        found += [
            _row(f"timeline_cold_cpu_ms_{size}", cold, {"decode_alone": decode}, join, goal="none", met=True),
            _row(
                f"timeline_warm_cpu_ms_{size}",
                warm,
                {"decode_all": decode},
                join,
                goal=f"<= {WARM_GOAL_MS}",
                met=warm <= WARM_GOAL_MS,
            ),
        ]
    return found


def _render(timeline: Timeline, batches: list[Batch]) -> tuple[Timeline, object]:
    after = timeline.extended(batches)
    return after, render(after, system="rules", announce="now")


def _batch(n: int, state: State, entries: tuple[Any, ...]) -> Batch:
    return Batch(n=n, by="0123456789abcdef", at=AT, step="decide", entries=entries, state=state)


def _best_ms(run: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(REPEATS):
        gc.collect()
        start = time.process_time()
        kept = run()
        best = min(best, time.process_time() - start)
        del kept
    return round(best * 1000, 3)


def _row(
    metric: str, value: float, peers: dict[str, float], limit: float, *, goal: str, met: bool
) -> dict[str, Any]:
    return {
        "metric": metric,
        "value": value,
        "unit": "ms",
        "peers": peers,
        "limit": limit,
        "goal": goal,
        "met": met,
    }


if __name__ == "__main__":
    for row in rows():
        print(row)
