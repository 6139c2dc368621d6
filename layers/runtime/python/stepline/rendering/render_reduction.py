"""The standard form of reductions: cards, rows, stubs, hidden blocks, memories and checkpoints.

Each names the path of the whole content. A reduction is made of the piece that it replaces, whose text this form wrote:
the parts that it keeps are lines of data. Foreign text in a row is a JSON string, so that its content cannot
end it.
Source: docs/concepts/context.md#forgetting.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from stepline.model.entry import Compacted, Pruned
from stepline.model.plan_steps import Plan
from stepline.model.usage import BYTES_PER_TOKEN
from stepline.rendering.excerpt import render_glimpse
from stepline.rendering.piece import Kind, Piece
from stepline.rendering.plan_text import PlanFacts, plan_history, render_outline
from stepline.rendering.quote import INDENT, clip, label, quote
from stepline.rendering.render_entry import fit_text, render_text
from stepline.rendering.turn_facts import Turn

REPLACEMENT_BYTES: Final = int(240 * BYTES_PER_TOKEN)
"""Maximum bytes of the text that replaces one block."""
CARD_CHARS: Final = 4_000
HINT_CHARS: Final = 80
ROWS_SHOWN: Final = 40
GLIMPSED_CHARS: Final = 64_000

_ROWS: Final[dict[Kind, str]] = {
    "prompt": "user",
    "answer": "assistant",
    "call": "tool_call",
    "stage": "stage",
}
_SAID: Final[frozenset[Kind]] = frozenset({"prompt", "answer", "stage"})
_FILED: Final[frozenset[Kind]] = frozenset({"result", "code"})
"""Kinds that are named after the family of their path."""
_FAMILIES: Final = {"fi": "file", "sk": "skill", "so": "source"}
_TURN: Final = re.compile(r"[a-z]{2}:(turn_[^.]+)\.")


def render_pruned(entry: Pruned) -> str:
    """Render the message, once per turn, that earlier blocks are now shorter."""
    return (
        f"\n[SYSTEM MESSAGE]\nAbove, turns before the newest {entry.keep} are cards or rows now, and older "
        "results are one line each. Every path still leads to the whole: look for what you need in the "
        "visible timeline first, then read its path with react.read.\n"
    )


def render_card(piece: Piece) -> str:
    """Render the card of a turn with a working summary."""
    return f"[WORKING SUMMARY]\n[path: {piece.path}]\n{fit_text(piece.hint, CARD_CHARS)}\n"


def render_rows(pieces: Sequence[Piece]) -> str:
    """Render the rows of a turn without a summary, one per block of interest, and its end.

    A long turn has its first row and its newest rows; messages take precedence over actions.
    """
    rows = [(piece.kind in _SAID, row, piece.path) for piece in pieces if (row := _render_row(piece))]
    status = "".join([_turn_status(piece) for piece in pieces if piece.kind == "closing"][-1:])
    if not rows:
        return status
    newest = sorted(range(1, len(rows)), key=lambda index: (rows[index][0], index))
    shown = sorted([0, *newest[-(ROWS_SHOWN - 1) :]])
    lines = [rows[index][1] for index in shown]
    if len(shown) < len(rows):
        turn = _TURN.match(rows[0][2])
        where = f": ar:{turn[1]}.react.turn.index lists them" if turn else ""
        lines.insert(1, f"… {len(rows) - len(shown)} more rows{where}\n")
    return f"[PRUNED TURN DATA]\n{''.join(lines)}{status}"


def _render_row(piece: Piece) -> str:
    """Render the row of one block of a turn without a summary; "" for a block without one."""
    named = (
        _FAMILIES.get(piece.path.partition(":")[0], "tool_result")
        if piece.kind in _FILED
        else _ROWS.get(piece.kind, "")
    )
    if not named or not piece.path:
        return ""
    tool = f" tool={piece.tool}" if piece.tool else ""
    call = f" call_id={piece.call}" if piece.call and piece.call not in piece.path else ""
    hint = render_glimpse(_data(piece)) if piece.kind == "result" else piece.hint
    return f"{named}: path={piece.path}{tool}{call}{_facts(piece)}{_hint(clip(hint, HINT_CHARS))}\n"


def render_stub(piece: Piece) -> str:
    """Render the stub of a block that can be read again, on one line; "" for a block without one."""
    if piece.kind in ("status", "thinking"):
        return ""
    if piece.kind == "code":
        return f"[AI Agent wrote code].pruned {piece.path}{_hint(clip(piece.hint, HINT_CHARS))}\n"
    head = f"[TOOL RESULT {piece.call}].pruned {piece.tool}"
    if piece.path.startswith("fi:"):
        head = "[TRUNCATED FILE]"
    line = f"{head} path={piece.path}{_facts(piece)}"
    for hint in (render_glimpse(_data(piece)), clip(piece.hint, HINT_CHARS)):
        stub = f"{line}{_hint(hint)}"
        if len(stub.encode("utf-8", "surrogatepass")) <= REPLACEMENT_BYTES:
            return f"{stub}\n"
    return f"{line}\n"


def render_hidden(piece: Piece, replacement: str) -> str:
    """Render a hidden block as the agent's replacement."""
    return (
        f"[HIDDEN] react.read shows it again\n[path: {piece.path}]\n{quote(fit_replacement(replacement))}\n"
    )


def fit_replacement(text: str) -> str:
    """Return a text of at most 240 tokens: itself, a glimpse of it, or its beginning."""
    if len(quote(text).encode("utf-8", "surrogatepass")) <= REPLACEMENT_BYTES:
        return text
    glimpse = render_glimpse(text)
    room = REPLACEMENT_BYTES // 4
    return glimpse if text[:1] in ("{", "[") and len(glimpse) <= room else clip(text, room)


def render_clipped(piece: Piece, limit_bytes: int) -> str:
    """Render a piece in at most `limit_bytes`: its beginning, and a line with the cut and its path."""
    data = piece.text.encode("utf-8", "surrogatepass")
    if len(data) <= limit_bytes:
        return piece.text
    where = f": react.read {piece.path} shows all of it" if piece.path else ""
    note = f"\n...[truncated]{where}\n"
    room = max(0, limit_bytes - len(note.encode("utf-8", "surrogatepass")))
    return data[:room].decode("utf-8", "ignore").rstrip() + note


def _data(piece: Piece) -> str:
    """Return the data lines of a piece's text without their indentation; of a range, its lines only."""
    if len(piece.text) > GLIMPSED_CHARS:
        return piece.hint
    lines = [line[len(INDENT) :] for line in piece.text.split("\n") if line.startswith(INDENT)]
    data = "\n".join(lines)
    return data.partition("\n\n")[2] if piece.range else data


def _facts(piece: Piece) -> str:
    """Return the type and size of a file, and the range of a partial read."""
    mime = f" mime={clip(piece.mime, 60)}" if piece.mime else ""
    file = f"{mime} size={piece.size}" if piece.path.startswith("fi:") else ""
    return f"{file} range={piece.range}" if piece.range else file


def _hint(hint: str) -> str:
    return f" hint={label(hint)}" if hint else ""


def _turn_status(piece: Piece) -> str:
    """Return the end of a turn as part of a card; a hidden end keeps its shown text."""
    end = piece.text.lstrip()
    marker = "[TURN ENDED]"
    return f"[TURN STATUS]{end.removeprefix(marker)}" if end.startswith(marker) else end


TURNS_LISTED: Final = 8
ENDS_LISTED: Final = 2
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


def render_plans(plans: Sequence[Plan]) -> str:
    """Render the plans of compacted turns, the most recently changed one last; "" for none."""
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
    """Render the checkpoint of the open turn's earlier rounds."""
    number = path.rpartition(".")[2]
    return (
        f"\n[MID-TURN COMPACTION {number}]\n[path: {path}]\nturn: {entry.turn}\n"
        "use: the earlier rounds of this turn; they are settled, go on from here\n"
        "recover: react.read a ref named here\n"
        f"{render_text(entry.checkpoint, 'CHECKPOINT')}"
    )
