"""The writer: makes the pieces that one entry of the log adds to the timeline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from stepline.model.block import Produced
from stepline.model.decision import Action
from stepline.model.entry import ApprovalAnswered, Contributed, Decided, Inbound, Resulted, whole_answer
from stepline.model.ids import call_id
from stepline.rendering.piece import ALL, Attached, Kind, Piece, byte_length
from stepline.rendering.quote import BLOB_CHARS, clip, has_blob
from stepline.rendering.result import SILENT, SILENT_TYPES, notice_paths, result_path
from stepline.rendering.text_form import TextForm
from stepline.rendering.turn_facts import EventPaths, whole_text

HINT_CHARS: Final = 160
DIGEST_CHARS: Final = 16
NOTICE_CHARS: Final = 1_500
"""The length up to which no form may cut a notice."""
NOTE_TYPES: Final = frozenset({"react.note"})
DIGESTED: Final = frozenset({"react.read", "react.write"})
"""Tools whose status, at the call's own path, repeats the facts of the other blocks."""


class Writer:
    """Makes the pieces of one turn. `number` counts turns from 1."""

    __slots__ = ("form", "number", "turn")

    def __init__(self, form: TextForm, turn: str, number: int) -> None:
        self.form, self.turn, self.number = form, turn, number

    def piece(self, kind: Kind, n: int, text: str, content: str = "", **facts: Any) -> Piece:
        """Return a piece; `content` is the content that its text shows."""
        if content:
            whole = not _encoded(content) and self.form.shows_text(content, "")
            facts.setdefault("shows", ALL if whole else "")
            facts.setdefault("size", byte_length(content))
            facts.setdefault("hint", hint(content))
        return Piece(kind=kind, n=n, turn=self.number, text=text, **facts)

    def prompt(self, n: int, event: Inbound, place: EventPaths, carried: str) -> Piece:
        """Return an event that opened the turn; `carried` is its path in the previous turn."""
        text = self.form.prompt(event, place.path, carried, place.files)
        return self.piece("prompt", n, text, path=place.path, **self._inbound_facts(event))

    def event(self, n: int, event: Inbound, place: EventPaths) -> Piece:
        """Return an event that arrived while the turn was open."""
        text = self.form.event(event, place.path, place.files)
        return self.piece("event", n, text, path=place.path, **self._inbound_facts(event))

    def _inbound_facts(self, event: Inbound) -> dict[str, Any]:
        text = whole_text(event)
        shown = not _encoded(text) and self.form.shows_event(event)
        named = ", ".join(file.filename for file in event.attachments)
        begins = hint(text or named or ("" if event.steers else event.event))
        return {"shows": ALL if shown else "", "size": byte_length(text), "hint": begins}

    def decision(
        self,
        n: int,
        entry: Decided,
        attempt: int,
        unseen: Sequence[str],
        meanwhile: Sequence[Piece] = (),
    ) -> Iterator[Piece]:
        """Yield an open round if it has actions, else a closed one; and its answer, the `attempt`-th, if any.

        The pieces of `meanwhile`, which arrived while the model was generating, follow the decision in the round.
        """
        form, turn = self.form, self.turn
        facts: dict[str, Any] = {"round": entry.iteration + 1}
        yield self.piece("round", n, form.round(entry, unseen), **facts)
        if entry.thinking and not entry.interrupted:  # else the raw text contains it
            text = "\n".join(entry.thinking)
            path = f"ar:{turn}.react.thinking.{entry.iteration}"
            yield self.piece("thinking", n, form.thinking(text, path), text, path=path, **facts)
        if entry.notes:
            first = entry.actions[0].call_id if entry.actions else call_id(turn, entry.iteration, 0)
            path = f"ar:{turn}.react.notes.{first}"
            yield self.piece("notes", n, form.notes(entry.notes, path), entry.notes, path=path, **facts)
        for action in entry.actions:
            yield from self.call(n, action, facts)
        if entry.notices:
            for notice, path in zip(entry.notices, notice_paths(entry, turn), strict=True):
                text = form.notice(notice, path, entry.accepted)
                shows = _shows_notice(text, notice.message)
                yield self.piece("notice", n, text, path=path, shows=shows, **facts)
        if entry.interrupted and entry.raw:
            path = f"ar:{turn}.react.decision.raw.interrupted.{entry.iteration}"
            about = {"size": byte_length(entry.raw), "hint": hint(entry.raw), **facts}
            yield self.piece("raw", n, form.raw(entry.raw, path), path=path, **about)
        yield from meanwhile
        # Actions may run together with an answer; their results close the frame after it.
        if not (entry.accepted and entry.actions):
            yield self.piece("end", n, form.end(), **facts)
        if entry.accepted and entry.answer:
            path = f"ar:{turn}.assistant.completion.attempt.{attempt}"
            text = form.answer(whole_answer(entry), path, attempt)
            yield self.piece("answer", n, text, whole_answer(entry), path=path, **facts)
        if entry.accepted and entry.summary:
            path = f"ws:{turn}.conv.working.summary.attempt.{max(1, attempt)}"
            yield self.piece("summary", n, "", path=path, hint=entry.summary, **facts)

    def call(self, n: int, action: Action, facts: dict[str, Any]) -> Iterator[Piece]:
        call, form = action.call_id, self.form
        about = {"call": call, "tool": action.tool_id, **facts}
        if action.code is not None:
            path = f"fi:{self.turn}.code.{call}"
            text = form.code(action, self.turn)
            yield self.piece("code", n, text, action.code, path=path, bulk=True, **about)
        yield self.piece(
            "call",
            n,
            form.call(action, self.turn),
            path=f"tc:{self.turn}.{call}.call",
            shows=ALL if form.shows_call(action) else "",
            hint=hint(", ".join(_named(action.params))),
            **about,
        )

    def edited(self, n: int, entry: ApprovalAnswered, action: Action) -> Piece:
        """Return the call that runs instead of the one that a person edited."""
        return self.piece(
            "call",
            n,
            self.form.edited(entry.call_id, action, self.turn),
            path=f"tc:{self.turn}.{action.call_id}.call",
            shows=ALL if self.form.shows_call(action) else "",
            hint=hint(", ".join(_named(action.params))),
            call=action.call_id,
            tool=action.tool_id,
            round=entry.iteration + 1,
        )

    def result(self, n: int, entry: Resulted, *, last: bool) -> Iterator[Piece]:
        """Yield the pieces of a result; the round's last result ends its frame."""
        facts: dict[str, Any] = {"call": entry.call_id, "tool": entry.tool_id, "round": entry.iteration + 1}
        path = result_path(self.turn, entry.call_id)
        yield self.piece("status", n, self.form.status(entry), bulk=entry.status == "ok", **facts)
        for block in shown_blocks(entry):
            yield self.block(n, block, block.path or path, facts)
        if last:
            yield self.piece("end", n, self.form.end(), round=entry.iteration + 1)

    def block(self, n: int, block: Produced, path: str, facts: dict[str, Any]) -> Piece:
        tool = facts["tool"]
        if block.type in NOTE_TYPES:
            return self.piece("note", n, self.form.note(block, path), block.text, path=path, **facts)
        body, meta = block.body, block.meta
        source = meta.get("source_path", "")
        text = self.form.block(block, source or path, tool)
        if block.type == "react.notice":
            shows = _shows_notice(text, block.text)
            return self.piece("notice", n, text, path=path, shows=shows, **facts)
        size = body.size_bytes if body else byte_length(block.text)
        return self.piece(
            "result",
            n,
            text,
            path=source or path,
            shows=self.shows(block, path, tool),
            mime=body.mime if body else block.mime,
            size=size,
            hint=hint(block.text),
            range=_range(meta),
            bulk=True,
            view=path if source else "",
            media=_media(block, source) if tool == "react.read" else None,
            **facts,
        )

    def shows(self, block: Produced, path: str, tool: str) -> str:
        """Return the value of `Piece.shows` for a result's block."""
        meta = block.meta
        if block.body is not None or _encoded(block.text) or not self.form.shows_text(block.text, tool):
            return ""
        if meta.get("source_path"):
            return "" if meta.get("whole") is not True else str(meta.get("source_sha256", ""))[:DIGEST_CHARS]
        return digest_text(block.text) if path.startswith("fi:") else ALL

    def contributed(self, n: int, entry: Contributed) -> Iterator[Piece]:
        """Yield the text of a bundle's code."""
        for block in entry.blocks:
            if not is_shown(block):
                continue
            note = block.type in NOTE_TYPES
            text = self.form.note(block, block.path) if note else self.form.stage(block, block.path, entry.at)
            yield self.piece("note" if note else "stage", n, text, block.text, path=block.path)


def _media(block: Produced, source: str) -> Attached | None:
    """Return the picture or document of a view; None for a view of text."""
    about = block.meta.get("media")
    if block.body is None or not isinstance(about, dict):
        return None
    return Attached(
        path=source,
        body=block.body,
        tokens=about["tokens"],
        extent=about["extent"],
        source=str(block.meta.get("source_sha256", ""))[:DIGEST_CHARS],
    )


def hint(text: str) -> str:
    """Return the beginning of a text on one line."""
    return clip(text, HINT_CHARS)


def is_shown(block: Produced) -> bool:
    """Return True if a block is shown in the timeline."""
    return block.type not in SILENT_TYPES and not block.meta.get(SILENT)


def shown_blocks(entry: Resulted) -> list[Produced]:
    """Return the blocks of a result that the model reads, without a block that repeats the facts of others."""
    shown = [block for block in entry.blocks if is_shown(block)]
    return [block for block in shown if len(shown) == 1 or not _is_digest(block, entry.tool_id)]


def _is_digest(block: Produced, tool: str) -> bool:
    """Return True if a block only repeats the facts of the other blocks."""
    if tool not in DIGESTED or block.path or block.mime != "application/json":
        return False
    if tool != "react.read":
        return True
    rows = msgspec.json.decode(block.text).get("paths", ())
    return bool(rows) and all("view" in row and "next" not in row for row in rows)


def _shows_notice(text: str, content: str) -> str:
    """Return `ALL` for a notice, unless it is long enough to have been cut."""
    return ALL if len(content) <= NOTICE_CHARS and len(text) <= NOTICE_CHARS else ""


def digest_text(text: str) -> str:
    """Return the first hex digits of a text's SHA-256."""
    import hashlib  # noqa: PLC0415 - few texts of a log are files

    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:DIGEST_CHARS]


def _range(meta: dict[str, Any]) -> str:
    found = meta.get("read_range")
    if not isinstance(found, dict):
        return ""
    if found.get("range_kind") == "lines" and not found.get("partial_lines"):
        return f"lines:{str(found.get('lines', '')).partition(']')[0].lstrip('[')}"
    start = found.get("offset_text_symbols", 0)
    return f"text_symbols:{start}-{start + found.get('text_symbols', 0)}"


def _named(params: dict[str, Any]) -> Iterator[str]:
    """Yield the parameters that distinguish calls: the short ones."""
    for name, value in params.items():
        if isinstance(value, str | int | float | bool) and len(str(value)) <= HINT_CHARS:
            yield f"{name}={value}"


def _encoded(text: str) -> bool:
    return len(text) >= BLOB_CHARS and has_blob(text)
