"""The standard layout of what is left of whole ranges: summaries, what they carry along, and checkpoints."""

from __future__ import annotations

from collections.abc import Sequence

from stepline.model.entry import Compacted
from stepline.model.plan import Plan
from stepline.timeline.piece import Piece
from stepline.timeline.plan import render_steps
from stepline.timeline.render.quote import quote


def render_memory(entry: Compacted, path: str, covered: Sequence[str]) -> str:
    """Render the summary of the turns `covered`, oldest first."""
    named = list(covered) if len(covered) <= 8 else [*covered[:2], "…", *covered[-2:]]
    return (
        f"\n[COMPACTED PRIOR CONVERSATION MEMORY]\n[path: {path}]\n"
        f"covered_turns ({len(covered)}): {', '.join(named)}\n{quote(entry.summary)}\n"
        "[END COMPACTED PRIOR CONVERSATION MEMORY]\n"
    )


def render_carried(piece: Piece) -> str:
    """Render what stays visible of a range that was compacted: an event or a note."""
    return piece.text


def render_plans(plans: Sequence[Plan]) -> str:
    """Render the plans of compacted turns; "" for none."""
    if not plans:
        return ""
    rows = [
        f"plan_id={p.plan_id} snapshot_ref=ar:plan.latest:{p.plan_id}\n{render_steps(p)}\n" for p in plans
    ]
    return f"\n[COMPACTED PLAN HISTORY]\n{''.join(rows)}"


def render_checkpoint(entry: Compacted, path: str) -> str:
    """Render what is left of the open turn's earlier rounds."""
    return f"\n[MID-TURN COMPACTION]\n[path: {path}]\n{quote(entry.checkpoint)}\n"
