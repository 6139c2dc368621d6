"""The context of one conversation for a bundle's code.

The browser adds blocks, renders requests and exports documents. It only holds the last loaded timeline and the
announced lines: the timeline is a fold of the log. The client searches earlier turns, and fetches the content of
paths; the store reads turns, and keeps values. Another user's conversation is a NotFoundError.

Source: docs/how-to/write-a-bundle.md#the-context.
"""

from __future__ import annotations

import base64
import hashlib
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, TypeAlias, Unpack, cast, overload

import msgspec
from msgspec.structs import replace

from stepline.bundle.runtime import Runtime, in_thread
from stepline.bundle.turn_payload import TurnResult, closed_result
from stepline.context.announce import CONSTRAINT_CHARS, CONSTRAINTS_SHOWN, announce, render_pool
from stepline.context.request import render_timeline
from stepline.delivery.effect import publish
from stepline.errors import (
    DependencyError,
    Fenced,
    InputError,
    LimitError,
    NotFoundError,
    PathError,
    ToolError,
)
from stepline.log.bindings import Policy, Ports
from stepline.log.fence import check_owner
from stepline.log.journal import Draft, Journal
from stepline.log.owned_conversations import OwnedConversations
from stepline.loop.agent import Agent
from stepline.loop.hooks.run_hook import messages_of
from stepline.model.base import Value
from stepline.model.batch import Batch, State
from stepline.model.block import Block, Body, Produced
from stepline.model.decision import RoundFacts
from stepline.model.entry import Contributed, Inbound, Pruned
from stepline.model.ids import DEFAULT_BUNDLE, Lane, execution_name, utc
from stepline.model.path import PATH_FAMILIES, FilePath, TurnPath, out_key, parse_path
from stepline.model.source import Source
from stepline.ports.model import Part
from stepline.timeline.export import Export, export_sources, export_timeline, export_turn
from stepline.timeline.fold import Timeline
from stepline.tools.content import CONTENT_TOO_LARGE, PathContent, check_body_size, load_content
from stepline.tools.context import URL_S, Resolver, Store, ToolContext
from stepline.tools.memory.recall import SearchOptions, search_memory
from stepline.tools.sources import SourcePool

if TYPE_CHECKING:
    from stepline.bundle.parts import Parts
    from stepline.model.file.served_form import Disposition

logger = logging.getLogger(__name__)

BlockLike: TypeAlias = Produced | Mapping[str, Any]
"""A block, or a mapping with its fields: `text`; optional: `type`, `path`, `mime`, `body`, `author`, `meta`."""

TYPE: Final = "bundle.note"
AUTHOR: Final = "bundle"
OWN_NAME: Final = "system.message."
"""The prefix of the names of a bundle's blocks in a turn; other names are the runtime's."""

EXPORT_MIME: Final = "application/json"

MALFORMED: Final = {
    "ar": "invalid_path_ar",
    "tc": "invalid_path_tc",
    "so": "invalid_path_so",
    "fi": "invalid_path_file",
    "sk": "invalid_path_skill",
}
"""Error codes of invalid paths, by family; `invalid_path_kind` for all others."""

ABSENT: Final = frozenset({"not_found", "turn_not_found", "family_not_available"})


class ContextBrowser:
    """Reads a conversation, and adds to it while its turn runs in this process."""

    def __init__(self, runtime: Runtime, lane: Lane, parts: Parts, *, user: str) -> None:
        """Create a browser for `user`; nothing is read. `parts` make the agent if none is given to `use`."""
        self._runtime = runtime
        self._ports = runtime.ports
        self._lane = lane
        self._parts = parts
        self._user = user
        self._agent: Agent | None = None
        self._timeline = Timeline.empty(lane)
        self._announced: tuple[str, ...] = ()

    def use(self, agent: Agent) -> None:
        """Use this agent's view of the conversation."""
        self._agent = agent

    async def load_timeline(self) -> Timeline:
        """Read the log, and return the current timeline. Raises DependencyError."""
        return await in_thread(self._runtime, self._load)

    @property
    def sources_pool(self) -> Mapping[int, Source]:
        """The rows of the pool by sid, as last loaded."""
        return self._timeline.sources

    async def contribute(self, blocks: Iterable[BlockLike]) -> tuple[str, ...]:
        """Add blocks to the open turn permanently, as one entry of the log; return their paths.

        The model reads them from the next round on. A block that exists already, unchanged, is not added
        again.

        Raises:
            InputError: `turn_not_open`, there is no turn to add to; `bad_block`.
            Fenced: the turn runs in another process.
            BusyError, DependencyError: temporary.
        """
        read = read_blocks(blocks)
        return await in_thread(self._runtime, self._contribute, read)

    def announce(self, blocks: Iterable[BlockLike]) -> None:
        """Add these blocks' lines to the ANNOUNCE of each request from now on, replacing earlier ones.

        They are not stored, and end with this object. Raises LimitError `announce_too_large`; InputError
        `bad_block`.
        """
        said = tuple(
            line for block in read_blocks(blocks) for line in block.text.splitlines() if line.strip()
        )
        if len(said) > CONSTRAINTS_SHOWN or any(len(line) > CONSTRAINT_CHARS for line in said):
            raise LimitError(
                f"at most {CONSTRAINTS_SHOWN} lines of {CONSTRAINT_CHARS} characters are announced",
                code="announce_too_large",
            )
        self._announced = said

    def announced(self) -> tuple[str, ...]:
        """Return the announced lines."""
        return self._announced

    async def timeline(
        self,
        *,
        include_sources: bool = True,
        include_announce: bool = True,
        force_sanitize: bool = False,
        cache_last: bool = True,
    ) -> tuple[Part, ...]:
        """Return the parts after the system part of the model's next request, for a request of your own.

        `force_sanitize` shortens everything as far as possible without a model, in these parts only: for a
        request that was refused as too long. Without `cache_last` the last part of the timeline has no cache
        mark.
        """

        def rendered() -> tuple[Part, ...]:
            timeline, now = self._load(), self._ports.clock.now()
            return render_context(
                _shorten(timeline, now) if force_sanitize else timeline,
                self._ports.of(timeline.state.bundle).policy,
                now,
                include_sources=include_sources,
                include_announce=include_announce,
                cache_last=cache_last,
                announced=self._announced,
            )

        return await in_thread(self._runtime, rendered)

    async def persist(self) -> dict[str, Body]:
        """Export the conversation, its pool and its newest turn to the artifact store.

        Return the stored bodies by kind (docs/reference/exports.md). The log does not depend on them.
        """
        return await in_thread(self._runtime, lambda: persist_exports(self._ports, self._load()))

    persist_timeline = persist

    # --- in a worker thread

    def _load(self) -> Timeline:
        journal = Journal(self._ports, self._lane, "browse")
        tail = journal.tail(consistent=True)
        check_owner(tail, self._user)
        self._timeline = self._runtime.history.load(journal, segment=tail.state.segment, consistent=True)
        return self._timeline

    def _contribute(self, blocks: tuple[Produced, ...]) -> tuple[str, ...]:
        timeline = self._load()
        turn = timeline.current.id if timeline.current else ""
        placed = place_blocks(blocks, self._checked(timeline.state, turn))
        new = missing_blocks(placed, timeline)
        if new:
            journal = Journal(self._ports, self._lane, "contribute")
            at = utc(self._ports.clock.now())

            def plan(tail: Batch) -> Draft:
                entry = Contributed(turn=self._checked(tail.state, turn), at=at, blocks=new)
                return Draft(entries=(entry,), state=tail.state)

            publish(self._ports, self._lane, journal.commit(plan, tail=timeline.tail))
        return tuple(block.path for block in placed)

    def _checked(self, state: State, turn: str) -> str:
        """Return the open turn if it is this one and runs here. Raises InputError, Fenced."""
        if state.status != "open" or not turn:
            raise InputError("there is no open turn to add to", code="turn_not_open")
        here = self._runtime.machine.status(execution_name(self._lane, state.epoch)) == "running"
        if state.turn != turn or not here:
            raise Fenced("the turn does not run here any more")
        return turn

    def tool_context(self) -> ToolContext:
        """Return the current conversation, in the form that a tool of the agent gets. Reads the log. Raises DependencyError."""
        timeline = self._load()
        return ToolContext(
            lane=self._lane,
            turn=timeline.turns[-1] if timeline.turns else "",
            call_id="",
            iteration=0,
            ts=utc(self._ports.clock.now()),
            artifacts=self._ports.artifacts,
            timeline=timeline,
            caps=self.agent.caps,
            sources=SourcePool(timeline.sources),
            shelves=self.agent.shelves,
            services=self.agent.services,
            user=self._user,
            resolvers=self.agent.resolvers,
            memory=self._ports.memory,
            grants=self._ports.grants,
            store=Store(
                artifacts=self._ports.artifacts,
                lane=self._lane,
                user=self._user,
                bundle=timeline.state.bundle if timeline.n else self._own_bundle(),
            ),
            conversations=OwnedConversations(self._ports, self._runtime.history, self._lane, self._user),
        )

    def _own_bundle(self) -> str:
        """Return the name that a conversation of this bundle will have; the default one has none."""
        named = self._runtime.name_of(self._parts.bundle)
        return "" if named == DEFAULT_BUNDLE else named

    @property
    def agent(self) -> Agent:
        """The agent whose context this is."""
        if self._agent is None:
            self._agent = self._runtime.build_agent(self._parts)
        return self._agent


class HostingService:
    """Creates URLs of files of the conversation: `hosting_service` of a workflow."""

    def __init__(self, context: Callable[[], ToolContext]) -> None:
        """Serve the conversation of a context; nothing is read."""
        self._context = context

    def get_artifact_url(self, ref: str, *, disposition: Disposition = "download", ttl_s: int = URL_S) -> str:
        """Return a URL of the file at a logical path, by the rules of `ToolContext.artifact_url`. Secret.

        Reads the log: if other coroutines wait, call it in a thread. Raises the errors of `artifact_url`;
        NotFoundError, the conversation is another user's; DependencyError.
        """
        return self._context().artifact_url(ref, disposition=disposition, ttl_s=ttl_s)


class ContextRAGClient:
    """Searches earlier turns, and fetches the content of paths: `ctx_client` of a workflow."""

    def __init__(self, runtime: Runtime, context: Callable[[], ToolContext]) -> None:
        """Create a client for the conversation of a context; nothing is read."""
        self._runtime = runtime
        self._context = context

    async def search(self, query: str, **options: Unpack[SearchOptions]) -> dict[str, Any]:
        """Return the parts of closed turns that match a query, as `stepline.search_memory` does, with its options."""
        return await in_thread(self._runtime, lambda: search_memory(self._context(), query, **options))

    @overload
    async def fetch_ctx(self, refs: str) -> dict[str, Any]: ...

    @overload
    async def fetch_ctx(self, refs: list[str] | tuple[str, ...]) -> list[dict[str, Any]]: ...

    async def fetch_ctx(
        self, refs: str | list[str] | tuple[str, ...]
    ) -> dict[str, Any] | list[dict[str, Any]]:
        """Return the whole content at one or several logical paths: `path`, and either `ret` or `err`.

        `ret` has `mime` and `payload` (JSON, rows of the pool), `text` or `base64`; `err` has `code` and
        `message`.
        """
        if isinstance(refs, str):
            return (await in_thread(self._runtime, self._fetch, [refs]))[0]
        return await in_thread(self._runtime, self._fetch, list(refs))

    def _fetch(self, refs: list[str]) -> list[dict[str, Any]]:
        context = self._context()
        return [fetch(ref, context) for ref in refs]


class StoredTurn(Value):
    """A turn: its events with their payloads, beginning with the one that opened it, and its result, None while it runs."""

    turn_id: str
    messages: tuple[Inbound, ...]
    result: TurnResult | None = None


class ConversationStore:
    """Turns, timeline and artifacts of a conversation, and values of its user: `store` of a workflow and of a hook.

    It holds nothing: the log and the artifacts that it names are read, and the values are objects of the user. A call reads the log: in a coroutine, use `asyncio.to_thread`. Each raises NotFoundError if the conversation is
    another user's, and DependencyError.
    """

    def __init__(self, context: Callable[[], ToolContext]) -> None:
        """Serve the conversation of a context; nothing is read."""
        self._context = context

    def turns(self) -> tuple[str, ...]:
        """Return the ids of all turns, oldest first."""
        return self._context().timeline.turns

    def turn(self, turn_id: str = "") -> StoredTurn:
        """Return a turn, by default the newest. Raises NotFoundError `turn_not_found`."""
        timeline = self.timeline()
        found = next((one for one in reversed(timeline.history) if turn_id in ("", one.id)), None)
        if found is None:
            raise NotFoundError("the conversation has no such turn", code="turn_not_found")
        messages, closed = messages_of(timeline, found)
        result = closed_result(closed) if closed else None
        return StoredTurn(turn_id=found.id, messages=messages, result=result)

    def timeline(self) -> Timeline:
        """Return the timeline, as `ctx_browser.load_timeline` does."""
        return cast("Timeline", self._context().timeline)  # only the context of a program has another one

    def artifact(self, path: str) -> dict[str, Any]:
        """Return the whole content at a logical path: `path`, and either `ret` or `err`, as `ctx_client.fetch_ctx`."""
        return fetch(path, self._context())

    def get(self, name: str) -> Any:
        """Return the JSON value of a name, None if it has none. Raises InputError `bad_name`."""
        return self._values().get(name)

    def put(self, name: str, value: Any) -> None:
        """Store a JSON value under a name, for all conversations of the user; None removes the current value.

        Raises InputError `bad_name`; LimitError `store_value_too_large`; TypeError if it is no JSON.
        """
        self._values().put(name, value)

    def _values(self) -> Store:
        values = self._context().store
        assert values is not None, "the contexts of workflows and hooks have one"
        return values


def read_blocks(blocks: Iterable[BlockLike]) -> tuple[Produced, ...]:
    """Return the blocks. Raises InputError `bad_block` for an invalid mapping."""
    return tuple(_read_block(block) for block in blocks)


def place_blocks(blocks: Iterable[Produced], turn: str) -> tuple[Produced, ...]:
    """Return the blocks, each with a path in this turn; a missing path is derived from the content.

    Raises InputError `bad_block` for a path that is neither a file's of this turn nor
    `ar:<turn>.system.message.<name>`.
    """
    return tuple(_placed(block, turn) for block in blocks)


def missing_blocks(blocks: Iterable[Produced], timeline: Resolver) -> tuple[Produced, ...]:
    """Return the blocks that do not exist at their paths yet, or differ."""
    return tuple(
        block for block in blocks if not any(_same(block, there) for there in timeline.resolve(block.path))
    )


def _read_block(block: BlockLike) -> Produced:
    if isinstance(block, Produced):
        return block
    if unknown := sorted(block.keys() - set(Produced.__struct_fields__)):
        raise InputError(f"a block has no {', '.join(unknown)[:120]}", code="bad_block")
    try:
        return msgspec.convert({"type": TYPE, "author": AUTHOR, **block}, Produced)
    except (msgspec.ValidationError, TypeError) as error:
        raise InputError(f"this is no block: {error}", code="bad_block") from error


def _placed(block: Produced, turn: str) -> Produced:
    if not block.path:
        digest = hashlib.sha256(f"{block.type}\0{block.text}".encode("utf-8", "surrogatepass")).hexdigest()[
            :12
        ]
        return replace(block, path=f"ar:{turn}.{OWN_NAME}bundle_{digest}")
    try:
        path = parse_path(block.path)
    except PathError as error:
        raise InputError(f"{block.path[:120]!r} is no path", code="bad_block") from error
    match path:
        case FilePath(turn=own) if own == turn:
            return replace(block, path=str(path))
        case TurnPath(turn=own, name=name) if own == turn and name.startswith(OWN_NAME):
            return replace(block, path=str(path))
        case _:
            raise InputError(f"{block.path[:120]} is not a bundle's to write in this turn", code="bad_block")


def _same(block: Produced, there: Block) -> bool:
    return (block.type, block.text, block.body) == (there.type, there.text, there.body)


def fetch(ref: str, context: ToolContext) -> dict[str, Any]:
    """Return `path`, and `ret` (`mime`, and `payload`, `text` or `base64`) or `err` (`code`, `message`).

    `payload` is parsed JSON, or rows of the pool; `base64` holds bytes that are not text.
    """
    try:
        path = parse_path(_checked(ref, context.resolvers), context.resolvers)
    except ToolError as refused:
        return _refused(ref, refused.reason, refused)
    except PathError as refused:
        return _refused(ref, MALFORMED.get(_family_of(ref), "invalid_path_kind"), refused)
    try:
        return {"path": ref, "ret": _contents(load_content(path, context), context)}
    except ToolError as refused:
        return _refused(ref, _code(refused.reason), refused)
    except DependencyError as error:
        logger.warning("path not fetched", extra={"code": error.reason})
        return _refused(ref, "tool_failure", error)


def _code(reason: str) -> str:
    if reason == CONTENT_TOO_LARGE:
        return reason
    return "not_found" if reason in ABSENT else "tool_failure"


def _family_of(ref: str) -> str:
    """Return the family of a path: the text before its first colon; `so` for a bare `sources_pool[…]`."""
    text = ref.strip().removeprefix("conv:")
    return "so" if text.startswith("sources_pool") else text.partition(":")[0]


def _checked(ref: str, namespaces: Collection[str]) -> str:
    text = ref.strip().removeprefix("conv:")
    if not text:
        raise ToolError("a path is not empty", code="invalid_path_empty")
    families = (*PATH_FAMILIES, *namespaces)
    if _family_of(ref) in families:
        return text
    code = "invalid_path_kind" if ":" in text else "invalid_path_literal"
    raise ToolError(f"a logical path begins with one of {', '.join(families)} and a colon", code=code)


def _contents(content: PathContent, context: ToolContext) -> dict[str, Any]:
    if content.rows:
        return {"mime": content.mime, "payload": list(content.rows)}
    if content.text is None:
        if content.body is not None:
            check_body_size(content.body)
        data = context.artifacts.get(content.body.key) if content.body else b""
        return {"mime": content.mime, "base64": base64.b64encode(data).decode()}
    if content.mime.partition(";")[0] == "application/json":
        with suppress(msgspec.DecodeError):  # declared as JSON but invalid: it is a text
            return {"mime": content.mime, "payload": msgspec.json.decode(content.text)}
    return {"mime": content.mime, "text": content.text}


def _refused(ref: str, code: str, error: Exception) -> dict[str, Any]:
    return {"path": ref, "err": {"code": code, "message": str(error)}}


def render_context(
    timeline: Timeline,
    policy: Policy,
    now: datetime,
    *,
    include_sources: bool,
    include_announce: bool,
    cache_last: bool,
    announced: Sequence[str] = (),
) -> tuple[Part, ...]:
    """Return the parts of a request after the system part, in order, with cache marks where they pay.

    `announced` are a bundle's lines in ANNOUNCE. Without `cache_last` the timeline's last part has no mark.
    """
    parts = list(render_timeline(timeline, minimum_tokens=policy.context.cache_minimum_tokens))
    if parts and not cache_last:
        parts[-1] = parts[-1].with_mark(cache=False)
    rest = [render_pool(timeline.sources, timeline.cited)] if include_sources else []
    if include_announce:
        cursor = timeline.state.cursor
        rounds = policy.max_iterations
        last = cursor.iteration + 1 >= rounds + timeline.state.credits
        facts = RoundFacts(
            now=utc(now),
            iteration=cursor.iteration,
            max_iterations=rounds,
            last_round=last,
            extra=tuple(announced),
        )
        rest.append(announce(timeline, facts))
    return (*parts, *(Part(text=text) for text in rest if text))


def _shorten(timeline: Timeline, now: datetime) -> Timeline:
    """Return the timeline shortened as far as possible without a model; the log is not changed.

    Every turn but the newest is a card or rows, and the results of the newest are stubs.
    """
    if not timeline.history:
        return timeline
    turn = timeline.history[-1].id
    entry = Pruned(turn=turn, at=utc(now), cause="budget", keep=1, intact=1, settled=timeline.n)
    return timeline.extended(
        [Batch(n=timeline.n + 1, by="", at=entry.at, entries=(entry,), state=timeline.state)]
    )


def persist_exports(ports: Ports, timeline: Timeline) -> dict[str, Body]:
    """Store the conversation, its sources and its newest turn as documents; return them by kind.

    They are named by their content: unchanged ones exist already. Nothing is stored for an empty
    conversation.
    """
    put = {}
    for export in _exports(timeline.whole(), ttl_s=ports.of(timeline.state.bundle).policy.context.ttl_s):
        data = msgspec.json.encode(export)
        digest = hashlib.sha256(data).hexdigest()
        key = out_key(timeline.lane, timeline.history[-1].id, digest)
        ports.artifacts.put(key, data, mime=EXPORT_MIME)
        put[export.kind] = Body(key=key, sha256=digest, size_bytes=len(data), mime=EXPORT_MIME)
    return put


def _exports(timeline: Timeline, *, ttl_s: float) -> Iterator[Export]:
    if timeline.history:
        yield export_timeline(timeline, ttl_s=ttl_s)
        yield export_sources(timeline)
        yield export_turn(timeline, timeline.history[-1].id)
