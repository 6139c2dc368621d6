"""The documents of an imported conversation: sorted into its head, its pool and its turns.

A turn has its own document, or else its blocks are in that of the timeline. Turns have the order of the timeline; turns
that it does not name are ordered by time. An object's key in a document is never read: bytes are found by their hash,
under the keys of the new conversation.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from stepline.log.importing.foreign_value import (
    BEGIN,
    COUNT_MAX,
    NAME_CHARS,
    Findings,
    count_of,
    is_address,
    json_of,
    meta_of,
    name_of,
    refuse_import,
    text_of,
    time_of,
    turn_of,
)
from stepline.log.importing.import_document import DOCUMENTS_MAX, Document
from stepline.model.base import Value
from stepline.model.block import Block, Body
from stepline.model.file.attachment import ATTACHMENT_MAX_BYTES, MIME, SHA256
from stepline.model.ids import TURN
from stepline.model.source import Source
from stepline.timeline.entry_rows import BatchRow, OutsideRow
from stepline.timeline.export import SOURCES, TIMELINE_KIND, TURN_LOG
from stepline.timeline.sources_pool import SID_MAX, fit_source, is_eligible

BLOCKS_MAX: Final = 20_000
"""The most blocks of an import."""
TYPE_CHARS: Final = 64
ITERATION_MAX: Final = 100_000
PLAIN: Final = "text/markdown"
_UNNAMED: Final = "application/octet-stream"


def read_block(raw: Any, where: str, findings: Findings, *, at: str) -> Block:
    """Return a block of a document, without a key and with its path unchanged; `at` is its time if it has none.

    Raises InputError `import_bad_value`, `import_bad_block`, `import_too_deep`, `import_too_large`.
    """
    if not isinstance(raw, Mapping):
        refuse_import("import_bad_block", where, "a block is an object")
    kind = name_of(raw.get("type"), findings, most=TYPE_CHARS)
    if not kind:
        refuse_import("import_bad_block", where, "a block has a `type`")
    meta = meta_of(raw.get("meta"), where, findings)
    if isinstance(
        raw.get("payload"), dict
    ):  # the existing system keeps the whole parameters of a call next to its text
        meta.setdefault("payload", json_of(raw["payload"], f"{where}.payload", findings))
    if raw.get("hidden"):
        findings.change("hidden")
    turn = raw.get("turn_id") or meta.get("turn_id")
    call = raw.get("call_id") or meta.get("tool_call_id")
    iteration = raw.get("iteration") if raw.get("iteration") is not None else meta.get("iteration")
    return Block(
        type=kind,
        author=name_of(raw.get("author"), findings, most=TYPE_CHARS) or "react",
        ts=time_of(raw.get("ts"), findings, default=at),
        turn_id=turn if isinstance(turn, str) and TURN.fullmatch(turn) else "",
        path=text_of(raw.get("path"), where, most=4_096).removeprefix("conv:"),
        mime=_mime(raw.get("mime"), PLAIN),
        text=text_of(raw.get("text"), where),
        body=_body(raw, where, findings),
        call_id=text_of(call, where, most=TYPE_CHARS * 4) if isinstance(call, str) else "",
        tool_id=name_of(raw.get("tool_id") or meta.get("tool_id"), findings, most=TYPE_CHARS * 2),
        iteration=count_of(iteration, most=ITERATION_MAX),
        meta=meta,
    )


def inline_bytes(raw: Any) -> bytes | None:
    """Return the bytes that a block holds as base64; None if there are none. Raises InputError `import_bad_base64`."""
    encoded = raw.get("base64") if isinstance(raw, Mapping) else None
    if not isinstance(encoded, str) or not encoded:
        return None
    try:
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError) as error:
        refuse_import("import_bad_base64", "a block", str(error)[:100])


def _body(raw: Mapping[str, Any], where: str, findings: Findings) -> Body | None:
    body = raw.get("body")
    if body is not None and not isinstance(body, Mapping):
        refuse_import("import_bad_value", where, "`body` is an object")
    if body:
        sha, size, mime = body.get("sha256"), body.get("size_bytes"), body.get("mime")
        if not isinstance(sha, str) or not SHA256.fullmatch(sha):
            refuse_import("import_bad_hash", where, "a body is named by the 64 hex digits of its SHA-256")
        if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= ATTACHMENT_MAX_BYTES:
            refuse_import("import_bad_value", where, f"a body has at most {ATTACHMENT_MAX_BYTES} bytes")
        return Body(key="", sha256=sha, size_bytes=size, mime=_mime(mime, _UNNAMED))
    data = inline_bytes(raw)
    if data is None:
        return None
    findings.change("base64")
    digest = hashlib.sha256(data).hexdigest()
    return Body(key="", sha256=digest, size_bytes=len(data), mime=_mime(raw.get("mime"), _UNNAMED))


def _mime(value: Any, default: str) -> str:
    """Return a media type, with its parameters if any, or the default for any other value."""
    if (
        not isinstance(value, str)
        or len(value) > NAME_CHARS
        or not value.isascii()
        or not value.isprintable()
    ):
        return default
    return value if MIME.fullmatch(value.partition(";")[0].strip()) else default


SOURCES_MAX: Final = 10_000
_TEXTS: Final = (
    *(
        "title",
        "url",
        "text",
        "content",
        "mime",
        "path",
        "turn_id",
        "published_time_iso",
        "modified_time_iso",
    ),
    *("fetched_time_iso", "author", "authority", "favicon_url"),
)
_SCORES: Final = ("objective_relevance", "query_relevance")
_ALIASES: Final = {"favicon": "favicon_url", "published": "published_time_iso", "logical_path": "path"}
_TYPES: Final = ("web", "file", "attachment", "manual")


def _read_sources(rows: Any, where: str, findings: Findings) -> dict[int, Source]:
    """Return the rows of a pool that the sources pool accepts. Raises InputError `import_bad_value`, `import_too_large`."""
    if not isinstance(rows, list):
        refuse_import("import_bad_value", where, "`sources_pool` is a list")
    if len(rows) > SOURCES_MAX:
        refuse_import("import_too_large", where, f"a pool has at most {SOURCES_MAX} rows")
    pool: dict[int, Source] = {}
    for index, raw in enumerate(rows):
        row = _row(raw, f"{where}.sources_pool[{index}]")
        if not 0 < row.sid <= SID_MAX or not is_eligible(row):
            findings.leave_out("source")
            continue
        fitted = fit_source(row)
        if fitted != row or row.sid in pool:
            findings.change("source")
        pool[row.sid] = fitted
    return pool


def _row(raw: Any, where: str) -> Source:
    if not isinstance(raw, dict):
        refuse_import("import_bad_value", where, "a source is an object")
    values = {_ALIASES.get(name, name): value for name, value in _named(raw)}
    fields: dict[str, Any] = {name: _score(values.get(name)) for name in _SCORES}
    for name in _TEXTS:
        if values.get(name) is not None:
            fields[name] = text_of(values[name], f"{where}.{name}")
    if fields.get("path") and not is_address(fields["path"]):
        fields["path"] = ""
    kind = values.get("source_type")
    return Source(
        sid=count_of(values.get("sid")),
        source_type=kind if kind in _TYPES else "web",
        size_bytes=count_of(values.get("size_bytes")),
        **fields,
    )


def _named(raw: dict[Any, Any]) -> Iterable[tuple[str, Any]]:
    """Yield the fields, those under another system's names first, so that Stepline's names win."""
    fields = [(str(name), value) for name, value in raw.items()]
    return sorted(fields, key=lambda pair: pair[0] not in _ALIASES)


def _score(value: Any) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(value) if 0 <= value <= 1 else None


BATCHES_MAX: Final = 20_000
TURNS_MAX: Final = 2_000
_SUMMARY: Final = ("conv.range.summary", "react.plan.history")
_PRESERVED: Final = ".preserved"


class ImportedTurn(Value):
    """One turn: its blocks, and the rows of its batches, None if no document has them. `where` names its document."""

    turn: str
    where: str
    blocks: tuple[Block, ...]
    rows: tuple[BatchRow, ...] | None = None


class ImportedConversation(Value):
    """One conversation as its documents describe it. `own`: Stepline exported them, with rows of batches."""

    turns: tuple[ImportedTurn, ...]
    pool: Mapping[int, Source]
    title: str
    ended_at: str
    own: bool
    last: int = 0
    outside: tuple[OutsideRow, ...] = ()
    block_count: int = 0


def read_imported_conversation(documents: Sequence[Document], findings: Findings) -> ImportedConversation:
    """Return the conversation that documents describe. Raises InputError `import_*`."""
    timeline, sources, logs = _sorted(documents)
    head: Mapping[str, Any] = timeline.payload if timeline else {}
    where = timeline.name if timeline else "documents"
    ids = _turn_ids(head, where)
    began = time_of(head.get("conversation_started_at"), Findings(), default=BEGIN)
    loose = _by_turn(head, where, findings, at=began, known=logs.keys())
    order = list(dict.fromkeys([*ids, *loose, *sorted(logs, key=lambda turn: (_began(logs[turn]), turn))]))
    if len(order) > TURNS_MAX:
        refuse_import("import_too_large", where, f"a conversation has at most {TURNS_MAX} turns")
    own = bool(logs) and all(isinstance(log.payload.get("batches"), list) for log in logs.values())
    own = own and not (loose.keys() - logs.keys()) and not (set(ids) - logs.keys())
    turns = [_turn(turn, logs.get(turn), loose.get(turn, []), findings, own=own, at=began) for turn in order]
    bare = sum(turn is None for turn in turns)
    if bare:
        findings.leave_out("turn_without_blocks", bare)
    found = tuple(turn for turn in turns if turn is not None)
    if not found:
        refuse_import("import_empty", where, "no document has a turn with blocks")
    count = sum(len(turn.blocks) for turn in found)
    if count > BLOCKS_MAX:
        refuse_import("import_too_large", where, f"an import has at most {BLOCKS_MAX} blocks")
    rows = head.get("sources_pool") if head.get("sources_pool") is not None else None
    if sources is not None:
        rows, where = sources.payload.get("sources_pool"), sources.name
    last = count_of(head.get("last_sequence"))
    if last > BATCHES_MAX:
        refuse_import("import_too_large", where, f"an import has at most {BATCHES_MAX} batches")
    title = head.get("conversation_title")
    return ImportedConversation(
        turns=found,
        pool=_read_sources(rows if rows is not None else [], where, findings),
        title=title if isinstance(title, str) else "",
        ended_at=time_of(head.get("last_activity_at"), Findings(), default=""),
        own=own,
        last=last if own else 0,
        outside=_outside(head, where, findings) if own else (),
        block_count=count,
    )


def _sorted(documents: Sequence[Document]) -> tuple[Document | None, Document | None, dict[str, Document]]:
    if not documents:
        refuse_import("import_empty", "documents", "there are none")
    if len(documents) > DOCUMENTS_MAX:
        refuse_import("import_too_large", "documents", f"an import has at most {DOCUMENTS_MAX}")
    single: dict[str, Document] = {}
    logs: dict[str, Document] = {}
    for index, document in enumerate(documents):
        named = msgspec.structs.replace(document, name=document.name or f"documents[{index}]")
        if named.kind == TURN_LOG:
            turn = turn_of(named.payload.get("turn_id"), named.name)
            chosen, key = logs, turn
        elif named.kind in (TIMELINE_KIND, SOURCES):
            chosen, key = single, named.kind
        else:
            refuse_import("import_unknown_document", named.name, "it is none of the kinds that an export has")
        if key in chosen:
            refuse_import("import_document_twice", named.name, f"there is another one of {key}")
        chosen[key] = named
    return single.get(TIMELINE_KIND), single.get(SOURCES), logs


def _turn_ids(head: Mapping[str, Any], where: str) -> list[str]:
    raw = head.get("turn_ids") or []
    if not isinstance(raw, list):
        refuse_import("import_bad_value", where, "`turn_ids` is a list")
    if len(raw) > TURNS_MAX:
        refuse_import("import_too_large", where, f"a conversation has at most {TURNS_MAX} turns")
    return [turn_of(one, f"{where}.turn_ids[{index}]") for index, one in enumerate(raw)]


def _by_turn(
    head: Mapping[str, Any], where: str, findings: Findings, *, at: str, known: Iterable[str]
) -> dict[str, list[Block]]:
    """Return the blocks of the timeline's document by turn, without those of turns that have a document."""
    raw = _blocks(head.get("blocks") or [], where)
    found: dict[str, list[Block]] = {}
    has_log, newest = frozenset(known), ""
    for index, one in enumerate(raw):
        turn = _turn_in(one) or newest
        newest = turn
        kind = one.get("type") if isinstance(one, Mapping) else None
        if turn in has_log and not _is_carried(kind):
            continue
        block = read_block(one, f"{where}.blocks[{index}]", findings, at=at)
        if not turn:
            findings.leave_out(block.type)
            continue
        found.setdefault(turn, []).append(msgspec.structs.replace(block, turn_id=turn))
    return found


def _is_carried(kind: Any) -> bool:
    """Return True for a block that a compaction left in the timeline's document, which a turn's own may lack."""
    return isinstance(kind, str) and (kind in _SUMMARY or kind.endswith(_PRESERVED))


def _turn_in(raw: Any) -> str:
    """Return the turn that a block names, or else the turn in its path."""
    if not isinstance(raw, Mapping):
        return ""
    meta = raw.get("meta")
    path = raw.get("path")
    named = path.removeprefix("conv:").partition(":")[2].partition(".")[0] if isinstance(path, str) else ""
    for name in (raw.get("turn_id"), meta.get("turn_id") if isinstance(meta, Mapping) else None, named):
        if isinstance(name, str) and name.startswith("turn_"):
            return turn_of(name, "a block's turn")
    return ""


def _turn(
    turn: str, log: Document | None, loose: Sequence[Block], findings: Findings, *, own: bool, at: str
) -> ImportedTurn | None:
    if log is None:
        return ImportedTurn(turn=turn, where=turn, blocks=tuple(loose)) if loose else None
    payload, where = log.payload, log.name
    began = time_of(payload.get("ts"), Findings(), default=at)
    raw = _blocks(payload.get("blocks") or [], where)
    blocks = tuple(
        msgspec.structs.replace(read_block(one, f"{where}.blocks[{index}]", findings, at=began), turn_id=turn)
        for index, one in enumerate(raw)
    )
    if not blocks:
        return None
    if own:
        rows: tuple[BatchRow, ...] = _rows(
            payload["batches"], tuple[BatchRow, ...], f"{where}.batches", findings
        )
        rows = tuple(_timed(row, findings, at=began) for row in rows)
        return ImportedTurn(turn=turn, where=where, blocks=blocks, rows=rows)
    stored = {(block.type, block.path) for block in blocks}
    early = tuple(block for block in loose if (block.type, block.path) not in stored)
    return ImportedTurn(turn=turn, where=where, blocks=(*early, *blocks))


def _blocks(raw: Any, where: str) -> list[Any]:
    if not isinstance(raw, list):
        refuse_import("import_bad_value", where, "`blocks` is a list")
    if len(raw) > BLOCKS_MAX:
        refuse_import("import_too_large", where, f"an import has at most {BLOCKS_MAX} blocks")
    return raw


def _began(log: Document) -> str:
    ts = log.payload.get("ts")
    return ts if isinstance(ts, str) else ""


def _outside(head: Mapping[str, Any], where: str, findings: Findings) -> tuple[OutsideRow, ...]:
    rows: tuple[OutsideRow, ...] = _rows(
        head.get("outside") or [], tuple[OutsideRow, ...], f"{where}.outside", findings
    )
    return rows


def _rows(raw: Any, kind: Any, where: str, findings: Findings) -> Any:
    """Return the rows of a document. Raises InputError `import_bad_rows`."""
    if not isinstance(raw, list) or len(raw) > BATCHES_MAX:
        refuse_import("import_bad_rows", where, f"it is a list of at most {BATCHES_MAX}")
    clean = json_of(raw, where, findings)
    try:
        rows = msgspec.convert(clean, kind)
    except (msgspec.ValidationError, TypeError) as error:
        refuse_import("import_bad_rows", where, str(error)[:200])
    _check_numbers(msgspec.to_builtins(rows), where)
    return rows


def _timed(row: BatchRow, findings: Findings, *, at: str) -> BatchRow:
    """Return a row with a valid time; an invalid one is replaced by the default."""
    return msgspec.structs.replace(row, at=time_of(row.at, findings, default=at))


def _check_numbers(value: Any, where: str) -> None:
    """Refuse numbers that are not counts, except in the payload of an event or in an error."""
    if isinstance(value, bool):
        return
    if isinstance(value, int) and not 0 <= value <= COUNT_MAX:
        refuse_import("import_bad_rows", where, "a number counts something, from 0 on")
    if isinstance(value, dict):
        for name, one in value.items():
            if name not in ("payload", "error"):
                _check_numbers(one, where)
    if isinstance(value, list | tuple):
        for one in value:
            _check_numbers(one, where)
