"""What ends as blocks: a turn, and the turns before that a compaction sums up.

A turn ends with its answers, how it stands (`react.turn.finalize`, `react.state`) and why it ended (`react.exit`).

All of it follows from the turn's own entries, so it is derived with the others and stored nowhere.
Source: docs/concepts/turn.md#the-end-of-a-turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from stepline.model.block import Block
from stepline.model.entry import Closed, Compacted
from stepline.model.plan import Plan
from stepline.model.usage import Usage
from stepline.timeline.plan import plan_facts, render_steps

_NO_USAGE: Final = Usage()


def completion_blocks(entry: Closed, attempts: Sequence[Block]) -> list[Block]:
    """Return the answers of a turn, the newest at the plain path, and what the user may ask next."""
    answers = [(block.text, block.ts) for block in attempts]
    if entry.answer and (not answers or answers[-1][0] != entry.answer):
        answers.append((entry.answer, entry.started_at or entry.at))
    blocks = []
    for index, (text, ts) in enumerate(answers, 1):
        number = "" if index == len(answers) else f".{index}"
        meta = {"completion_index": index, "completion_count": len(answers)}
        path = f"ar:{entry.turn}.assistant.completion{number}"
        blocks.append(
            Block(
                type="assistant.completion",
                author="assistant",
                ts=ts,
                turn_id=entry.turn,
                path=path,
                text=text,
                meta=meta,
            )
        )
    if entry.followups:
        text = _json(list(entry.followups))
        blocks.append(
            Block(
                type="stage.suggested_followups",
                author="assistant",
                ts=entry.at,
                turn_id=entry.turn,
                mime="application/json",
                text=text,
            )
        )
    return blocks


def summary_blocks(entry: Compacted, n: int) -> list[Block]:
    """Return what batch `n` wrote in place of the turns before, and of the open turn's rounds."""
    turn, blocks = entry.turn, []
    if entry.cut:
        path, kind = f"su:{turn}.conv.range.summary", "conv.range.summary"
        blocks.append((path, kind, entry.summary))
    if entry.split:
        path, kind = f"ar:{turn}.react.mid_turn.compaction.{n}", "react.current_turn.compaction_checkpoint"
        blocks.append((path, kind, entry.checkpoint))
    return [
        Block(type=kind, author="system", ts=entry.at, turn_id=turn, path=path, text=text)
        for path, kind, text in blocks
    ]


def ending_blocks(entry: Closed, plans: Sequence[Plan]) -> list[Block]:
    """Return the blocks; `plans` are the newest snapshots of those that the turn changed."""
    left = [plan for plan in plans if plan.is_open()]
    return [
        _block(entry, "react.turn.finalize", "text/markdown", render_finalize(entry, left)),
        _block(entry, "react.state", "application/json", _json(state_facts(entry, plans))),
        _block(entry, "react.exit", "application/json", _json(_exit(entry))),
    ]


def render_finalize(entry: Closed, plans: Sequence[Plan]) -> str:
    """Return what the turn came to, with the `plans` that it leaves open."""
    usage = entry.usage or _NO_USAGE
    parts = f"model {_seconds(entry.model_ms)}, tools {_seconds(entry.tools_ms)}"
    lines = [
        f"╔══ TURN {'COMPLETED' if entry.outcome == 'completed' else 'FAILED'} — {entry.reason} ══╗",
        "[BUDGET]",
        f"rounds  {entry.rounds}",
        f"time_elapsed_in_turn  {_seconds(entry.elapsed_ms)} ({parts})",
        f"tokens  {usage.prompt_tokens} in ({usage.cache_read_tokens} cached), {usage.output_tokens} out",
        f"files  {entry.files}",
    ]
    if plans:
        lines.append("[OPEN PLANS]")
    for plan in plans:
        lines += [f"plan_id={plan.plan_id}{' (current)' if plan.current else ''}", render_steps(plan)]
    return "\n".join(lines) + "\n"


def state_facts(entry: Closed, plans: Sequence[Plan]) -> dict[str, Any]:
    """Return the state in which the turn ended, for machines."""
    return {
        "turn_id": entry.turn,
        **_exit(entry),
        "rounds": entry.rounds,
        "files": entry.files,
        "elapsed_ms": entry.elapsed_ms,
        "model_ms": entry.model_ms,
        "tools_ms": entry.tools_ms,
        "model": entry.model,
        "usage": msgspec.to_builtins(entry.usage or _NO_USAGE),
        "plans": [plan_facts(plan) for plan in plans],
    }


def _exit(entry: Closed) -> dict[str, str]:
    return {
        "outcome": entry.outcome,
        "reason": entry.reason,
        **({"code": entry.code} if entry.code else {}),
    }


def _block(entry: Closed, kind: str, mime: str, text: str) -> Block:
    return Block(
        type=kind,
        author="react",
        ts=entry.at,
        turn_id=entry.turn,
        path=f"ar:{entry.turn}.{kind}",
        mime=mime,
        text=text,
    )


def _seconds(ms: int) -> str:
    return f"{ms / 1000:.1f}s"


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
