"""What a tool is given and what it gives back.

Shelves: what stands outside the conversation and is read by path all the same, as a bundle provides it.

    ks:<rel>          the bundle's knowledge
    sk:<namespace>.<id>   its skills

A family without a shelf does not exist for the agent. Nothing of a shelf is in the log until a read has shown it.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol, TypeAlias

import msgspec
from msgspec.structs import replace

from stepline.context.rules import ContextRules
from stepline.errors import ToolError
from stepline.model.base import Value
from stepline.model.block import Block, Body
from stepline.model.entry import Hide
from stepline.model.ids import Lane
from stepline.model.path import CallPath, out_key
from stepline.model.plan_steps import Plan
from stepline.model.program.execution import ToolEvent
from stepline.model.source import Source
from stepline.ports.artifacts import Artifacts
from stepline.ports.descriptor import SecretReader, SettingsReader
from stepline.ports.model import ModelClient
from stepline.ports.search import WebSearch
from stepline.ports.signal import Cancel, NeverCancelled
from stepline.rendering.piece import Piece, Shown
from stepline.tools.sources import SourcePool

logger = logging.getLogger(__name__)

NOT_JSON: Final = "event_not_json"
CANCELLED: Final = "cancelled"
CHARS_PER_TOKEN_MAX: Final = 4
READ_TOKENS_MIN: Final = 4_000


class ReadCaps(Value):
    """How much of one path a read may show; tokens are estimated, bytes are UTF-8 or a file's."""

    max_chars: int = 48_000
    max_tokens: int = 12_000
    max_bytes: int = 10 * 1024 * 1024


def fit_read_caps(
    *, max_chars: int, max_tokens: int, max_bytes: int, context_fraction: float, window_tokens: int
) -> ReadCaps:
    """Return the configured caps, lowered to a share of the model's window of `window_tokens`."""
    tokens = max(READ_TOKENS_MIN, min(max_tokens, int(window_tokens * context_fraction)))
    return ReadCaps(
        max_chars=min(max_chars, tokens * CHARS_PER_TOKEN_MAX), max_tokens=tokens, max_bytes=max_bytes
    )


class Resolver(Protocol):
    """The conversation so far, by logical path. `stepline.timeline.fold.Timeline` is one."""

    @property
    def plans(self) -> Mapping[str, Plan]:
        """The newest snapshot of every plan, by plan id."""
        ...

    @property
    def turns(self) -> tuple[str, ...]:
        """The ids of all turns, oldest first."""
        ...

    @property
    def pieces(self) -> Sequence[Piece]:
        """What the model reads of it, in order."""
        ...

    def resolve(self, path: str) -> tuple[Block, ...]:
        """Return the newest group of blocks that carry `path`, in order; none if there is no such path.

        `path` is canonical; an alias (`ws:<turn>.conv.working.summary`, `ar:plan.latest:<plan>`, a turn's bare
        completion) leads to what it stands for. A view (`meta.source_path`) is never its source.
        """
        ...

    def turn_blocks(self, turn: str) -> tuple[Block, ...]:
        """Return every block of one turn, in the order of the log; none for a turn that is not here."""
        ...

    def visible(self, path: str) -> Shown | None:
        """Return where the model sees the whole of `path` now, the newest place: the block itself, or a view of it."""
        ...


class NoDescriptors:
    """A place without descriptors: there is nothing to read, and asking for a secret is an error."""

    def get_settings(self) -> Mapping[str, Any]:
        return {}

    def get_plain(self, path: str, default: Any = None) -> Any:
        return default

    def get_secret(self, path: str) -> str:
        raise ToolError(f"there is no secret {path[:80]!r} here", code="secret_missing")


@dataclass(frozen=True, kw_only=True)
class ToolContext:
    """Whose call this is, and what the tool may use. `ts` is the time of the call, ISO-8601.

    `events` collects what the tool emits. `model`, `settings`, `secrets` and `sources` are for the tools of a
    bundle, `search` is for those that look something up; a place that has none of them gives none. `sources` is the
    conversation's pool, to which the calls of a run add together. `shelves` hold what a bundle lets the agent read
    beside the conversation, by the family of the paths (`tools.shelf`). `rules` are the limits of what the model reads.
    `cancel` says whether the call is to end early, to a tool that says of itself that it can.
    """

    lane: Lane
    turn: str
    call_id: str
    iteration: int
    ts: str
    artifacts: Artifacts
    timeline: Resolver
    caps: ReadCaps
    events: list[ToolEvent] = field(default_factory=list)
    model: ModelClient | None = None
    settings: SettingsReader = field(default_factory=NoDescriptors)
    secrets: SecretReader = field(default_factory=NoDescriptors)
    search: WebSearch | None = None
    sources: SourcePool = field(default_factory=SourcePool)
    shelves: Mapping[str, Shelf] = field(default_factory=dict)
    rules: ContextRules = field(default_factory=ContextRules)
    cancel: Cancel = field(default_factory=NeverCancelled)

    def cite(self, rows: Iterable[Source]) -> tuple[Source, ...]:
        """Return the rows with the numbers by which a text cites them; the call's output returns them, too.

        Raises ToolError `too_many_sources`.
        """
        return self.sources.cite(replace(row, turn_id=row.turn_id or self.turn) for row in rows)

    def check_cancelled(self) -> None:
        """Go on only if the call is still wanted. Raises ToolError `cancelled`."""
        if self.cancel.requested:
            raise ToolError("the user steered, and the call ended before it was done", code=CANCELLED)

    def emit(self, kind: str, data: Mapping[str, Any]) -> None:
        """Tell the user's clients something, in order, as soon as the call's result stands in the log.

        What is no JSON does not break the call: it is logged, and clients are told under the same `kind` that
        something could not be told.
        """
        try:
            told = msgspec.json.decode(msgspec.json.encode(dict(data)), type=dict[str, Any])
        except (TypeError, ValueError, RecursionError, msgspec.MsgspecError):
            logger.exception("tool event not told", extra={"call_id": self.call_id})
            told = {"error": {"code": NOT_JSON}}
        self.events.append(ToolEvent(type=kind, at=self.ts, data=told))

    def path(self, part: str) -> str:
        """Return the logical path of a part of this call: `result`, `notice`, `view.<i>`."""
        return str(CallPath(turn=self.turn, call=self.call_id, part=part))

    def block(self, tool_id: str, path: str = "", **fields: Any) -> Block:
        """Return a block of this call: a result by the agent, unless `fields` say otherwise."""
        made = {"type": "react.tool.result", "author": "react", **fields}
        return Block(
            ts=self.ts,
            turn_id=self.turn,
            path=path,
            call_id=self.call_id,
            tool_id=tool_id,
            iteration=self.iteration,
            **made,
        )

    def result(self, tool_id: str, content: Mapping[str, Any] | str) -> Block:
        """Return the status block of this call: JSON, or Markdown for a text."""
        text = content if isinstance(content, str) else render_json(content)
        mime = "text/markdown" if text is content else "application/json"
        return self.block(tool_id, self.path("result"), mime=mime, text=text)

    def notice(self, tool_id: str, code: str, message: str, extra: Mapping[str, Any] | None = None) -> Block:
        """Return a notice about this call's result, which the model reads next round."""
        return self.block(
            tool_id,
            self.path("notice"),
            type="react.notice",
            author="system",
            mime="application/json",
            text=render_json({"code": code, "message": message, **(extra or {})}),
            meta={"code": code, "rel": "result"},
        )


class ToolOutput(Value):
    """What a call came to: blocks in the order the model reads them, and the snapshots of changed plans.

    `ret` is the JSON value that a program gets back; None: what the blocks say. `sources` are what
    `ToolContext.cite` made of the rows that the call brought, `hides` what the model reads shorter from here on.
    """

    status: Literal["ok", "error"] = "ok"
    blocks: tuple[Block, ...] = ()
    plans: tuple[Plan, ...] = ()
    error: dict[str, Any] | None = None
    ret: Any = None
    sources: tuple[Source, ...] = ()
    hides: tuple[Hide, ...] = ()


def render_json(content: Mapping[str, Any]) -> str:
    """Return JSON as the model reads it: compact, and nothing but what JSON demands is escaped."""
    return msgspec.json.encode(content).decode()


class Shelved(Value):
    """What stands at a path of a shelf: a text, or `data` for bytes that are none. `path`: where, if an alias was asked for."""

    text: str = ""
    data: bytes | None = None
    mime: str = "text/markdown"
    path: str = ""


Shelf: TypeAlias = Callable[[str], Shelved | None]
"""Returns what stands at a canonical path, None if nothing does. Raises ToolError."""


def read_shelf(path: str, shelf: Shelf, context: ToolContext) -> Block:
    """Return what stands at a path of a shelf as a block that the log does not hold; bytes go to the artifact store.

    Raises ToolError: `not_found`, or what the shelf refuses.
    """
    found = shelf(path)
    if found is None:
        raise ToolError("nothing stands at this path", code="not_found")
    body = _store(found, context) if found.data is not None else None
    kind = "react.skill" if path.startswith("sk:") else "react.knowledge"
    where = found.path or path
    return Block(
        type=kind, author="react", ts=context.ts, path=where, mime=found.mime, text=found.text, body=body
    )


def _store(found: Shelved, context: ToolContext) -> Body:
    data = found.data or b""
    digest = hashlib.sha256(data).hexdigest()
    key = out_key(context.lane, context.turn, digest)
    context.artifacts.put(key, data, mime=found.mime)
    return Body(key=key, sha256=digest, size_bytes=len(data), mime=found.mime)
