"""The standard layout of what is left of whole ranges: summaries, what they carry along, and checkpoints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stepline.model.entry import Compacted
from stepline.model.plan import Plan
from stepline.timeline.piece import Piece
from stepline.timeline.plan import PlanFacts, plan_history
from stepline.timeline.render.excerpt import render_text
from stepline.timeline.render.outline import render_outline
from stepline.timeline.render.quote import INDENT
from stepline.timeline.render.reduction import render_clipped
from stepline.timeline.turn import Turn

TURNS_LISTED: Final = 8
ENDS_LISTED: Final = 2
CARRIED_BYTES: Final = 4_000
PLANS_LISTED: Final = 12
STEPS_LISTED: Final = 12
STEP_CHARS: Final = 80

_RECOVER: Final = (
    "use: background for what follows; newer text overrules it\n"
    "recover: react.read a ref named here, or ar:<turn>.react.turn.index for the refs of a turn\n"
)


def render_memory(entry: Compacted, path: str, covered: Sequence[Turn]) -> str:
    """Render the summary of the turns `covered`, oldest first."""
    facts = ""
    if covered:
        facts = (
            f"covered_turns ({len(covered)}): {', '.join(_named([turn.id for turn in covered]))}\n"
            f"time_range: {covered[0].started_at} to {covered[-1].started_at}; the first is the conversation's first\n"
        )
    return (
        f"\n[COMPACTED PRIOR CONVERSATION MEMORY]\n[path: {path}]\n{facts}{_RECOVER}"
        f"{render_text(entry.summary, 'MEMORY')}[END COMPACTED PRIOR CONVERSATION MEMORY]\n"
    )


def _named(turns: Sequence[str]) -> list[str]:
    if len(turns) <= TURNS_LISTED:
        return list(turns)
    return [*turns[:ENDS_LISTED], "…", *turns[-ENDS_LISTED:]]


def render_carried(piece: Piece) -> str:
    """Render what stays visible of a range that was compacted: an event or a note."""
    return render_clipped(piece, CARRIED_BYTES)


def render_plans(plans: Sequence[Plan]) -> str:
    """Render the plans of compacted turns, the one that changed last at the end; "" for none."""
    history = plan_history(plans)
    if not history:
        return ""
    left_out = len(history) - PLANS_LISTED
    more = f"… {left_out} older plans\n" if left_out > 0 else ""
    return f"\n[COMPACTED PLAN HISTORY]\n{more}{''.join(map(_plan, history[-PLANS_LISTED:]))}"


def _plan(plan: PlanFacts) -> str:
    steps = render_outline(plan.steps, most=STEPS_LISTED, chars=STEP_CHARS)
    note = f"{INDENT}{plan.note}\n" if plan.note else ""
    return f"plan_id={plan.plan_id} {plan.tag} snapshot_ref={plan.snapshot_ref}\n{steps}{note}"


def render_checkpoint(entry: Compacted, path: str) -> str:
    """Render what is left of the open turn's earlier rounds."""
    number = path.rpartition(".")[2]
    return (
        f"\n[MID-TURN COMPACTION {number}]\n[path: {path}]\nturn: {entry.turn}\n"
        "use: the earlier rounds of this turn; they are settled, go on from here\n"
        "recover: react.read a ref named here\n"
        f"{render_text(entry.checkpoint, 'CHECKPOINT')}"
    )
