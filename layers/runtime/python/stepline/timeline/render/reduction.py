"""The standard layout of what was reduced: pruned turns, stubs and hidden blocks. Each names the path of the whole."""

from __future__ import annotations

from stepline.model.entry import Pruned
from stepline.timeline.piece import Piece
from stepline.timeline.render.quote import quote

_ROWS = {
    "prompt": "user",
    "answer": "assistant",
    "call": "tool_call",
    "result": "tool_result",
    "stage": "stage",
    "closing": "turn_status",
}


def render_pruned(entry: Pruned) -> str:
    """Render, once a turn, that older turns are shorter now."""
    return (
        "\n[SYSTEM MESSAGE]\nOlder turns above are shortened. Nothing is lost: each path still leads to the whole. Look "
        "whether what you need is visible, and read a path with react.read if it is not.\n"
    )


def render_card(piece: Piece) -> str:
    """Render what is left of a turn that has a working summary."""
    return f"[WORKING SUMMARY]\n[path: {piece.path}]\n{quote(piece.hint)}\n"


def render_row(piece: Piece) -> str:
    """Render what is left of one block of a turn without a summary; "" for what says nothing any more."""
    label = _ROWS.get(piece.kind, "")
    if not label or not piece.path:
        return ""
    if piece.kind == "result" and piece.path.startswith("fi:"):
        label = "file"
    tool = f" tool={piece.tool} call_id={piece.call}" if piece.tool else ""
    mime = f" mime={piece.mime} size={piece.size}" if label == "file" else ""
    part = f" range={piece.range}" if piece.range else ""
    hint = f' hint="{piece.hint}"' if piece.hint else ""
    return f"{label}: path={piece.path}{tool}{mime}{part}{hint}\n"


def render_stub(piece: Piece) -> str:
    """Render what is left of a result that can be read again."""
    part = f"range: {piece.range}\n" if piece.range else ""
    return f"[TOOL RESULT {piece.call}].pruned {piece.tool}\n[path: {piece.path}]\n{part}hint:\n{quote(piece.hint)}\n"


def render_hidden(piece: Piece, replacement: str) -> str:
    """Render a block that the agent hid, by what it put in its place."""
    return f"[HIDDEN]\n[path: {piece.path}]\n{quote(replacement)}\n"
