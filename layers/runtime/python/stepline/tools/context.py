"""The context and the output of a tool call.

Shelves hold content outside the conversation that is read by path, provided by a bundle.

    ks:<rel>          the bundle's knowledge
    sk:<namespace>.<id>   its skills
    <namespace>:<rel>     what its resolvers find for the user

A family without a shelf does not exist for the agent. Content of a shelf enters the log when a read shows it, or a pull makes
a file of it.
"""

from __future__ import annotations

import hashlib
import logging
import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias

import msgspec
from msgspec.structs import replace

from stepline.context.rules import ContextRules
from stepline.errors import LimitError, NotFoundError, ToolError
from stepline.metering.metered_model import MeteredModel, Metering
from stepline.model.base import Value
from stepline.model.block import Block, Body, Hide
from stepline.model.decision import RemoteTask
from stepline.model.entry import Resulted
from stepline.model.ids import Lane
from stepline.model.path import (
    AttachmentPath,
    CallPath,
    FilePath,
    out_key,
    parse_path,
    store_key,
    version_ref,
)
from stepline.model.plan_steps import Plan
from stepline.model.program.execution import ToolEvent
from stepline.model.source import Source
from stepline.model.usage import Usage
from stepline.model.version import TIMELINE, Layout
from stepline.model.visible_text import shorten_line
from stepline.ports.artifacts import Artifacts
from stepline.ports.descriptor import SecretReader, SettingsReader
from stepline.ports.mcp.mcp_server import McpServers
from stepline.ports.memory_index import MemoryIndex
from stepline.ports.model import ModelClient
from stepline.ports.search import WebPages, WebSearch
from stepline.ports.signal import Cancel, NeverCancelled
from stepline.ports.task import Grants
from stepline.protocol.citation.token import renumber_citations
from stepline.rendering.piece import Attached, Piece, Shown
from stepline.rendering.turn_facts import Turn
from stepline.timeline.sources_pool import is_eligible
from stepline.tools.sources import SourcePool

if TYPE_CHECKING:
    from stepline.model.file.served_form import Disposition

logger = logging.getLogger(__name__)

NOT_JSON: Final = "event_not_json"
CALL_CANCELLED: Final = "cancelled"
PROGRESS: Final = "react.tool.progress"
PROGRESS_CHARS: Final = 200
CHARS_PER_TOKEN_MAX: Final = 4
STORED_BYTES_MAX: Final = 256 * 1024
URL_S: Final = 3600
URL_MAX_S: Final = 7 * 86_400
"""The maximum lifetime of a signed S3 URL. Source: docs.aws.amazon.com/AmazonS3, "Download and upload objects with presigned URLs"."""
READ_TOKENS_MIN: Final = 4_000


class ReadCaps(Value):
    """Limits of a read of one path; tokens are estimated, bytes are UTF-8 or a file's.

    A picture is scaled down to at most `max_image_bytes` as sent, and a PDF has at most `max_doc_bytes`; with 0 none is
    attached.
    """

    max_chars: int = 48_000
    max_tokens: int = 12_000
    max_bytes: int = 10 * 1024 * 1024
    max_image_bytes: int = 5 * 1024 * 1024
    max_doc_bytes: int = 10 * 1024 * 1024

    def without_media(self) -> ReadCaps:
        """Return the limits of a program's reads, which attach nothing to a request."""
        return replace(self, max_image_bytes=0, max_doc_bytes=0)


def fit_read_caps(caps: ReadCaps, *, context_fraction: float, window_tokens: int) -> ReadCaps:
    """Return the configured caps, lowered to a share of the model's window of `window_tokens`."""
    tokens = max(READ_TOKENS_MIN, min(caps.max_tokens, int(window_tokens * context_fraction)))
    return replace(caps, max_chars=min(caps.max_chars, tokens * CHARS_PER_TOKEN_MAX), max_tokens=tokens)


class Resolver(Protocol):
    """The conversation so far, by logical path. `stepline.timeline.fold.Timeline` is one."""

    @property
    def plans(self) -> Mapping[str, Plan]:
        """The newest snapshot of every plan, by plan id."""

    @property
    def turns(self) -> tuple[str, ...]:
        """The ids of all turns, oldest first."""

    @property
    def history(self) -> Sequence[Turn]:
        """All turns, oldest first; one that runs is the last."""

    @property
    def pieces(self) -> Sequence[Piece]:
        """The pieces that the model reads, in order."""

    @property
    def media(self) -> Sequence[Attached]:
        """The pictures and PDFs that they attached, in order; a request has the newest."""

    def resolve(self, path: str) -> tuple[Block, ...]:
        """Return the newest group of blocks that carry `path`, in order; none if there is no such path.

        `path` is canonical; an alias (`ws:<turn>.conv.working.summary`, `ar:plan.latest:<plan>`, a turn's
        bare completion) leads to its target. A view (`meta.source_path`) is never its source.
        """

    def turn_blocks(self, turn: str) -> tuple[Block, ...]:
        """Return every block of one turn, in the order of the log; none for an unknown turn."""

    def visible(self, path: str) -> Shown | None:
        """Return the newest position at which the model sees the whole of `path`: its block, or a view of it."""


class Conversations(Protocol):
    """The other conversations of this one's owner, in the same project of the same tenant."""

    @property
    def owner(self) -> str:
        """The user whose conversations they are."""

    def find(self, conversation: str) -> Resolver | None:
        """Return a conversation; None if there is none of this name, or if it belongs to another user.

        Raises DependencyError.
        """

    def newest(self, limit: int) -> tuple[tuple[str, ...], bool]:
        """Return the most recently used conversations by name, without this one, and whether there are more.

        Raises DependencyError.
        """


class NoDescriptors:
    """No settings, and no secrets: asking for one is an error."""

    def get_settings(self) -> Mapping[str, Any]:
        return {}

    def get_plain(self, path: str, default: Any = None) -> Any:
        return default

    def get_secret(self, path: str) -> str:
        raise ToolError(f"there is no secret {path[:80]!r} here", code="secret_missing")


class ToolServices(Protocol):
    """The deployment's services for tools, the same in a round and in a program.

    Each is made when a tool asks for it: most calls need none.
    """

    @property
    def settings(self) -> SettingsReader:
        """The descriptors without secrets."""

    @property
    def secrets(self) -> SecretReader:
        """The descriptors of secrets."""

    @property
    def model(self) -> ModelClient | None:
        """The model; None where there is none."""


class NoServices:
    """The services of a deployment without descriptors and without a model."""

    settings: Final = NoDescriptors()
    secrets: Final = NoDescriptors()
    model: Final = None


NO_SERVICES: Final = NoServices()


@dataclass(frozen=True, kw_only=True)
class Store:
    """Values of a bundle by name, one set for each user of a project, stored next to their conversations.

    No log depends on them: the last write of a name wins, whichever turn or attempt makes it.
    """

    artifacts: Artifacts
    lane: Lane
    user: str
    bundle: str = ""

    def get(self, name: str) -> Any:
        """Return the JSON value of a name, None if it has none. Raises InputError `bad_name`; DependencyError."""
        try:
            return msgspec.json.decode(self.artifacts.get(self._key(name)))
        except NotFoundError:
            return None

    def put(self, name: str, value: Any) -> None:
        """Store a JSON value under a name; None removes the current value.

        Raises InputError `bad_name`; LimitError `store_value_too_large`; DependencyError; TypeError if it is no JSON.
        """
        body = msgspec.json.encode(value)
        if len(body) > STORED_BYTES_MAX:
            raise LimitError(
                f"a stored value has at most {STORED_BYTES_MAX} bytes", code="store_value_too_large"
            )
        self.artifacts.replace(self._key(name), body, mime="application/json")

    def _key(self, name: str) -> str:
        return store_key(self.lane, self.user, name, bundle=self.bundle)


def drop_report(_report: ToolEvent) -> None:
    """Drop a report: no client watches this call."""


@dataclass(frozen=True, kw_only=True)
class ToolContext:
    """One call, and the services that its tool may use. `ts` is the time of the call, ISO-8601.

    `events` collects the events that the tool emits, and `report` sends one to clients at once. `usages` collects the tokens of its model calls, which `metering`
    records. `services` and `sources` are for the tools of a bundle, `search` and `pages` for tools of the web, `servers`
    for those of MCP servers, `memory` for those of memory, and `conversations` gives access to the owner's other
    conversations. Any of them may be missing; where a program calls, the last three are.
    `sources` is the conversation's pool, shared by the calls of a run. `shelves` hold a bundle's content outside the
    conversation, by the family of the paths. `rules` are the limits of the model's context. `cancel` asks a
    cancellable tool to end the call early. `versions` are the turns whose project is in a git history. `grants` create
    URLs of files, and `store` keeps values next to the conversation; a program's tools have neither. `user` is the owner
    of the conversation, for whom `resolvers` find the content of a bundle's own paths, by their namespace. `layout` is
    that of the requests that the model reads.
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
    report: Callable[[ToolEvent], None] = field(default=drop_report, repr=False)
    usages: list[Usage] = field(default_factory=list)
    metering: Metering = field(default_factory=Metering, repr=False)
    services: ToolServices = field(default=NO_SERVICES, repr=False)
    search: WebSearch | None = None
    pages: WebPages | None = None
    servers: McpServers | None = field(default=None, repr=False)
    memory: MemoryIndex | None = None
    conversations: Conversations | None = None
    sources: SourcePool = field(default_factory=SourcePool)
    shelves: Mapping[str, Shelf] = field(default_factory=dict)
    rules: ContextRules = field(default_factory=ContextRules)
    cancel: Cancel = field(default_factory=NeverCancelled)
    versions: Collection[str] = ()
    grants: Grants | None = None
    store: Store | None = None
    user: str = ""
    resolvers: Mapping[str, Resolve] = field(default_factory=dict)
    layout: Layout = TIMELINE

    @property
    def settings(self) -> SettingsReader:
        """The deployment's settings, by path (`get_plain`)."""
        return self.services.settings

    @property
    def secrets(self) -> SecretReader:
        """The deployment's secrets, by path (`get_secret`)."""
        return self.services.secrets

    @property
    def model(self) -> ModelClient | None:
        """The model; None where there is none. The turn pays for its calls."""
        model = self.services.model
        if model is None:
            return None
        return MeteredModel(model=model, metering=self.metering, usages=self.usages)

    def visible(self, path: str) -> Shown | None:
        """Return where the model sees the whole of a path; None if it does not."""
        return self.timeline.visible(path) if self.layout.shows_timeline else None

    def shelf(self, family: str) -> Shelf | None:
        """Return the shelf of a path family, or of a namespace; None if there is none."""
        if resolve := self.resolvers.get(family):
            return lambda path: resolve(path, self)
        return self.shelves.get(family)

    def artifact_url(
        self, file: str | Body, *, disposition: Disposition = "download", ttl_s: int = URL_S
    ) -> str:
        """Return a URL at which anyone who has it can download a file of this conversation, for `ttl_s` seconds.

        `file` is its path, or its body if the log does not have it yet. An internal file has no URL. With `preview` a
        browser displays harmless types. The URL is a secret for clients and services. Never put it into a result or an
        answer: it would be kept after it has expired, and its text would differ each time.

        Raises ToolError: `not_found`, there is no file; `hosting_unavailable`, files have no URLs here. Raises PathError.
        """
        if self.grants is None:
            raise ToolError("files have no addresses here", code="hosting_unavailable")
        from stepline.model.file.served_form import serve_as  # noqa: PLC0415 - few calls need a URL

        body = file if isinstance(file, Body) else self._hosted(file)
        name = "" if isinstance(file, Body) else file.rpartition("/")[2]
        form = serve_as(body.mime, name, disposition)
        return self.grants.serve(body.key, form, ttl_s=min(ttl_s, URL_MAX_S)).url

    def _hosted(self, path: str) -> Body:
        from stepline.timeline.hosted_file import find_hosted  # noqa: PLC0415 - as above

        found = parse_path(path)
        if not isinstance(found, FilePath | AttachmentPath):
            raise ToolError("no file stands at this path", code="not_found")
        try:
            return find_hosted(self.lane, self.timeline, found).body
        except NotFoundError as error:
            raise ToolError("no file of the user's stands at this path", code="not_found") from error

    def cite(self, rows: Iterable[Source]) -> tuple[Source, ...]:
        """Return the rows with the numbers by which a text cites them, for the call's output.

        Raises ToolError `too_many_sources`.
        """
        return self.sources.cite(replace(row, turn_id=row.turn_id or self.turn) for row in rows)

    def version_fact(self, turn: str) -> dict[str, str]:
        """Return the git ref of the project that a turn left, as a fact of a result; {} if it is in no history."""
        return {"version_ref": version_ref(self.lane, turn)} if turn in self.versions else {}

    def check_cancelled(self) -> None:
        """Raise ToolError `cancelled` if the call was cancelled."""
        if self.cancel.requested:
            raise ToolError("the user steered, and the call ended before it was done", code=CALL_CANCELLED)

    def emit(self, kind: str, data: Mapping[str, Any], *, live: bool = False) -> None:
        """Send an event to the user's clients, in order, once the call's result is in the log.

        With `live` it is a report: clients get it at once, while the call runs, and it is in no log. The oldest reports
        are kept if a call sends too many; those of a hook are dropped.

        Data that is not JSON does not fail the call: the error is logged, and clients get an event of the same
        `kind` with an error instead.
        """
        try:
            event = msgspec.json.decode(msgspec.json.encode(dict(data)), type=dict[str, Any])
        except (TypeError, ValueError, RecursionError, msgspec.MsgspecError):
            logger.exception("tool event not told", extra={"call_id": self.call_id})
            event = {"error": {"code": NOT_JSON}}
        send = self.report if live else self.events.append
        send(ToolEvent(type=kind, at=self.ts, data=event))

    def progress(self, done: float, total: float = 0, text: str = "") -> None:
        """Report how far the call is: `done` of `total`, which is 0 if it is unknown. `text` says what it does now.

        Clients show the newest one, as a bar. Of many, about every hundredth is sent.
        """
        if not (math.isfinite(done) and math.isfinite(total)):
            return  # no amount
        shown = {"done": done, "total": total, "text": shorten_line(text, PROGRESS_CHARS)}
        self.emit(PROGRESS, shown, live=True)

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
        """Return a notice about this call's result, which the model reads in the next round."""
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
    """The output of a call: blocks in the order the model reads them, and the snapshots of changed plans.

    `ret` is the JSON value returned to a program; if None, it gets the blocks. `sources` are the rows
    from `ToolContext.cite`, `hides` the paths that the model reads shorter from here on. With a `task` the call continues
    elsewhere, and there is no result yet. `recorded` is the whole result of an earlier run of the call, which a replay
    gives instead of running it.
    """

    status: Literal["ok", "error"] = "ok"
    blocks: tuple[Block, ...] = ()
    plans: tuple[Plan, ...] = ()
    error: dict[str, Any] | None = None
    ret: Any = None
    sources: tuple[Source, ...] = ()
    hides: tuple[Hide, ...] = ()
    task: RemoteTask | None = None
    recorded: Resulted | None = None


def render_json(content: Mapping[str, Any]) -> str:
    """Return JSON for the model: compact, with no more escapes than JSON requires."""
    return msgspec.json.encode(content).decode()


class Shelved(Value):
    """The content of a shelf's path: a text, or `data` for bytes. `path` is the target of an alias.

    The text cites `sources` by their numbers. `imports` are the paths to read before this one.
    """

    text: str = ""
    data: bytes | None = None
    mime: str = "text/markdown"
    path: str = ""
    sources: tuple[Source, ...] = ()
    imports: tuple[str, ...] = ()


Shelf: TypeAlias = Callable[[str], Shelved | None]
"""Returns the content of a canonical path, None if there is none. Raises ToolError."""

Resolve: TypeAlias = Callable[[str, ToolContext], Shelved | None]
"""Returns the content of a canonical path for the user of a call, None if there is none. Raises ToolError."""


def read_shelf(path: str, shelf: Shelf, context: ToolContext) -> tuple[Block, tuple[Source, ...]]:
    """Return the content of a shelf's path as a block, which the log does not hold, and the rows that it cites.

    Bytes are put into the artifact store. Raises ToolError: `not_found`, `too_many_sources`, or the shelf's own refusal.
    """
    found = shelf(path)
    if found is None:
        raise ToolError("nothing stands at this path", code="not_found")
    body = None if found.data is None else store_bytes(found.data, found.mime, context)
    kind = "react.skill" if path.startswith("sk:") else "react.knowledge"
    text, where = found.text, found.path or path
    rows = [row for row in found.sources if is_eligible(row)]
    cited = context.cite(replace(row, sid=0) for row in rows)
    if found.sources:
        text = renumber_citations(text, {row.sid: own.sid for row, own in zip(rows, cited, strict=True)})
    block = Block(type=kind, author="react", ts=context.ts, path=where, mime=found.mime, text=text, body=body)
    return block, cited


def store_bytes(data: bytes, mime: str, context: ToolContext) -> Body:
    """Store bytes in the artifact store, under this turn. Raises DependencyError."""
    digest = hashlib.sha256(data).hexdigest()
    key = out_key(context.lane, context.turn, digest)
    context.artifacts.put(key, data, mime=mime)
    return Body(key=key, sha256=digest, size_bytes=len(data), mime=mime)
