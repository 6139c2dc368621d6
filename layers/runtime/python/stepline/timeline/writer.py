"""The writer: the pieces that one entry of the log adds to what the model reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from stepline.model.block import Produced
from stepline.model.decision import Action
from stepline.model.entry import Contributed, Decided, Resulted
from stepline.model.ids import call_id
from stepline.timeline.notice import notice_paths
from stepline.timeline.piece import ALL, Kind, Piece, byte_length
from stepline.timeline.render.entry import RESULT_PREVIEW_CHARS, SILENT, SILENT_TYPES, UNPREVIEWED
from stepline.timeline.render.layout import Layout
from stepline.timeline.render.quote import BLOB_CHARS, has_blob, inline, is_whole
from stepline.timeline.result import result_path

HINT_CHARS: Final = 160
DIGEST_CHARS: Final = 16
NOTE_TYPES: Final = frozenset({"react.note"})


class Writer:
    """Makes the pieces of one turn. `number` counts turns from 1."""

    __slots__ = ("layout", "number", "turn")

    def __init__(self, layout: Layout, turn: str, number: int) -> None:
        self.layout, self.turn, self.number = layout, turn, number

    def piece(self, kind: Kind, n: int, text: str, content: str = "", **facts: Any) -> Piece:
        """Return a piece; `content` is what its text shows."""
        if content:
            facts.setdefault("shows", "" if _encoded(content) else ALL)
            facts.setdefault("size", byte_length(content))
            facts.setdefault("hint", hint(content))
        return Piece(kind=kind, n=n, turn=self.number, text=text, **facts)

    def decision(self, n: int, entry: Decided, attempt: int, unseen: Sequence[str]) -> Iterator[Piece]:
        """Yield an open round if it has actions, else a closed one; and perhaps an answer, the `attempt`-th."""
        layout, turn = self.layout, self.turn
        facts: dict[str, Any] = {"round": entry.iteration + 1}
        yield self.piece("round", n, layout.round(entry, unseen), **facts)
        if entry.thinking:
            text = "\n".join(entry.thinking)
            path = f"ar:{turn}.react.thinking.{entry.iteration}"
            yield self.piece("thinking", n, layout.thinking(text), text, path=path, **facts)
        if entry.notes:
            first = entry.actions[0].call_id if entry.actions else call_id(turn, entry.iteration, 0)
            path = f"ar:{turn}.react.notes.{first}"
            yield self.piece("notes", n, layout.notes(entry.notes), entry.notes, path=path, **facts)
        for action in entry.actions:
            yield from self.call(n, action, facts)
        if entry.notices:
            for notice, path in zip(entry.notices, notice_paths(entry, turn), strict=True):
                shown = layout.notice(notice, path, entry.accepted)
                yield self.piece("notice", n, shown, path=path, shows=ALL, **facts)
        if entry.interrupted and entry.raw:
            path = f"ar:{turn}.react.decision.raw.interrupted.{entry.iteration}"
            yield self.piece("raw", n, layout.raw(entry.raw), entry.raw, path=path, **facts)
        # Beside an answer actions may run; their results close the frame behind it.
        if not (entry.accepted and entry.actions):
            yield self.piece("end", n, layout.end(), **facts)
        if entry.accepted and entry.answer:
            path = f"ar:{turn}.assistant.completion.attempt.{attempt}"
            yield self.piece("answer", n, layout.answer(entry.answer, path), entry.answer, path=path, **facts)
        if entry.accepted and entry.summary:
            path = f"ws:{turn}.conv.working.summary.attempt.{max(1, attempt)}"
            yield self.piece("summary", n, "", path=path, hint=entry.summary, **facts)

    def call(self, n: int, action: Action, facts: dict[str, Any]) -> Iterator[Piece]:
        call, layout = action.call_id, self.layout
        about = {"call": call, "tool": action.tool_id, **facts}
        if action.code is not None:
            path = f"fi:{self.turn}.code.{call}"
            yield self.piece("code", n, layout.code(action, self.turn), action.code, path=path, **about)
        whole = is_whole(action.params)
        yield self.piece(
            "call",
            n,
            layout.call(action, self.turn),
            path=f"tc:{self.turn}.{call}.call",
            shows=ALL if whole else "",
            hint=hint(", ".join(_named(action.params))),
            **about,
        )

    def result(self, n: int, entry: Resulted, *, last: bool) -> Iterator[Piece]:
        """Yield what an action did; the round's last result ends its frame."""
        facts: dict[str, Any] = {"call": entry.call_id, "tool": entry.tool_id, "round": entry.iteration + 1}
        path = result_path(self.turn, entry.call_id)
        yield self.piece("status", n, self.layout.status(entry), **facts)
        for block in entry.blocks:
            if block.type not in SILENT_TYPES and not block.meta.get(SILENT):
                yield self.block(n, block, block.path or path, facts)
        if last:
            yield self.piece("end", n, self.layout.end(), round=entry.iteration + 1)

    def block(self, n: int, block: Produced, path: str, facts: dict[str, Any]) -> Piece:
        tool = facts["tool"]
        if block.type in NOTE_TYPES:
            return self.piece("note", n, self.layout.note(block, path), block.text, path=path, **facts)
        text = self.layout.block(block, path, tool)
        if block.type == "react.notice":
            return self.piece("notice", n, text, path=path, shows=ALL, **facts)
        body, meta = block.body, block.meta
        source = meta.get("source_path", "")
        size = body.size_bytes if body else byte_length(block.text)
        return self.piece(
            "result",
            n,
            text,
            path=source or path,
            shows=_shows(block, path, tool),
            mime=body.mime if body else block.mime,
            size=size,
            hint=hint(block.text),
            range=_range(meta),
            bulk=True,
            **facts,
        )

    def contributed(self, n: int, entry: Contributed) -> Iterator[Piece]:
        """Yield what the code of a bundle said."""
        for block in entry.blocks:
            if block.type in SILENT_TYPES or block.meta.get(SILENT):
                continue
            note = block.type in NOTE_TYPES
            text = (
                self.layout.note(block, block.path)
                if note
                else self.layout.stage(block, block.path, entry.at)
            )
            yield self.piece("note" if note else "stage", n, text, block.text, path=block.path)


def hint(text: str) -> str:
    """Return the beginning of a text on one line."""
    line = inline(text[: HINT_CHARS * 4])
    return line if len(line) <= HINT_CHARS else line[: HINT_CHARS - 1] + "…"


def _shows(block: Produced, path: str, tool: str) -> str:
    """Return what a result's block shows all of, in the words of `Piece.shows`."""
    meta = block.meta
    if block.body is not None or _encoded(block.text):
        return ""
    if meta.get("source_path"):
        return "" if meta.get("whole") is not True else str(meta.get("source_sha256", ""))[:DIGEST_CHARS]
    if len(block.text) > RESULT_PREVIEW_CHARS and tool not in UNPREVIEWED:
        return ""
    return digest(block.text) if path.startswith("fi:") else ALL


def digest(text: str) -> str:
    """Return the beginning of a text's SHA-256, in hex."""
    import hashlib  # noqa: PLC0415 - few texts of a log are files

    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:DIGEST_CHARS]


def _range(meta: dict[str, Any]) -> str:
    found = meta.get("read_range")
    if not isinstance(found, dict):
        return ""
    if found.get("range_kind") == "lines":
        return f"lines:{found.get('lines', '')}"
    start = found.get("offset_text_symbols", 0)
    return f"text_symbols:{start}-{start + found.get('text_symbols', 0)}"


def _named(params: dict[str, Any]) -> Iterator[str]:
    """Yield the parameters that tell one call from another: the short ones."""
    for name, value in params.items():
        if isinstance(value, str | int | float | bool) and len(str(value)) <= HINT_CHARS:
            yield f"{name}={value}"


def _encoded(text: str) -> bool:
    return len(text) >= BLOB_CHARS and has_blob(text)
