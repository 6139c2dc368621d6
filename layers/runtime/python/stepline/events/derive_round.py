"""Client events of a round: the decision, its calls, refusals and results, and its programs.

Citations in their texts are links, as in the events of a turn's end. The events of programs feed a live view of a run.
The text of a program is shown: the model wrote it for this user.
Source: docs/reference/events.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, Final, TypeAlias

import msgspec
from msgspec.structs import replace

from stepline.errors import PathError
from stepline.events.types import (
    BundleItem,
    CacheBust,
    CallEnded,
    CallRejected,
    CallStarted,
    DecisionMade,
    ErrorCode,
    FilesOffered,
    Followups,
    Noticed,
    OfferedFile,
    PagesFetched,
    PlanShown,
    PooledSource,
    ProgramCode,
    ProgramContract,
    ProgramLog,
    ProgramName,
    ProgramObjective,
    ProgramStatus,
    ProgramTimings,
    PromisedFile,
    RoundUsage,
    SearchFiltered,
    SearchView,
    SourcesChanged,
    TimedThought,
    ToolFamily,
    ToolName,
    ToolProgress,
    ToolReported,
)
from stepline.model.batch import Batch
from stepline.model.block import Produced
from stepline.model.decision import Action, Notice
from stepline.model.entry import Closed, Decided, Deferred, Resulted, Started
from stepline.model.ids import Lane
from stepline.model.path import AttachmentPath, FilePath, parse_path
from stepline.model.plan_steps import Plan
from stepline.model.program.execution import ToolEvent
from stepline.model.program.promise import read_promises
from stepline.model.source import CONTROLS, host_of, web_url
from stepline.model.visible_text import shorten_line
from stepline.model.wire.event import ClientEvent, EventData, make_event
from stepline.rendering.excerpt import BODIES
from stepline.rendering.result import is_offered, result_path

TITLE_CHARS, SNIPPET_CHARS, HEAD_CHARS = 160, 280, 300
DAY_CHARS: Final = 10


def render_search(objective: str, results: Sequence[Mapping[str, Any]]) -> str:
    """Return a section with a list; rows are untrusted, so each text is escaped and only http(s) is linked."""
    head = f"<h3>{_text(objective, HEAD_CHARS)}</h3>" if objective.strip() else ""
    rows = "".join(map(_item, results))
    return f'<section class="web-search">{head}<ol>{rows}</ol></section>'


def _item(row: Mapping[str, Any]) -> str:
    url = web_url(str(row.get("url", "")))
    title = _text(row.get("title") or url, TITLE_CHARS)
    if url:
        title = f'<a href="{escape(url)}" target="_blank" rel="noopener noreferrer">{title}</a>'
    host = f"<cite>{_text(host_of(url), TITLE_CHARS)}</cite>" if url else ""
    day = _text(str(row.get("published_time_iso") or "")[:DAY_CHARS], DAY_CHARS)
    sid = row.get("sid")
    number = f' data-sid="{sid}"' if isinstance(sid, int) else ""
    return (
        f"<li{number}>{title} {host}{f' <time>{day}</time>' if day else ''}"
        f"<p>{_text(row.get('text', ''), SNIPPET_CHARS)}</p></li>"
    )


def _text(value: Any, chars: int) -> str:
    return escape(shorten_line(CONTROLS.sub(" ", value), chars)) if isinstance(value, str) else ""


PREVIEW_CHARS: Final = 600
PARAM_CHARS: Final = 120

NEVER_BEGAN: Final = frozenset(
    {
        "unknown_tool_id",
        "bad_params",
        "missing_turn_id",
        "missing_artifacts",
        "invalid_artifacts_json",
        "invalid_artifacts",
        "invalid_artifact_spec",
        "invalid_filename",
        "exec_missing_code",
        "exec_code_contaminated",
        "pre_exec_pull_required",
        "execution_unavailable",
        "backend_unavailable",
        "fargate_config_missing",
        "fargate_run_failed",
        "payload_too_large",
        "bundle_too_large",
        "sandbox_not_started",
        "isolation_failed",
        "unsupported_platform",
        "restore_failed",
        "docker_unavailable",
        "docker_image_missing",
        "docker_args_refused",
        "steered",
    }
)
"""Result codes of calls that were refused, lost or skipped before any part of them ran."""

_MISPLACED: Final = ("_not_first", "_not_second", "_not_third", "_not_fourth", "_not_fifth", "_not_sixth")

Citing: TypeAlias = Decided | Deferred | Closed

_BRACKETS: Final = "[\uff3b\ufe47\ufe5d"
"""Characters that can begin a citation."""


def decision_events(entry: Decided, batch: Batch) -> list[ClientEvent]:
    """Return the events of a decision: itself, its notices, its plan, its calls."""
    at, turn = batch.at, batch.state.turn
    notes = linked(entry.notes, entry)
    ok = entry.accepted
    made = _decision(entry, notes, rendered=batch.state.rendered)
    events = [make_event(made, at, turn, "completed" if ok else "error")]
    events += [_notice(entry, notice, at, turn) for notice in entry.notices]
    if entry.bust is not None:
        missed = CacheBust(
            iteration=entry.iteration,
            reason=entry.bust.reason,
            expected_tokens=entry.bust.expected_tokens,
            read_tokens=entry.bust.read_tokens,
        )
        events.append(make_event(missed, at, turn, "update"))
    if entry.plan is not None:
        events.append(plan_event(entry.plan, at, turn))
    for action in entry.actions if ok else ():
        events.append(make_event(_call(action, entry.iteration), at, turn, "started"))
        events += program_asked(action, entry, notes, at, turn)
    return events


def result_events(entry: Resulted, batch: Batch, lane: Lane | None) -> list[ClientEvent]:
    """Return the events of a result: itself, its tools' events, its program's end, its plans, its files."""
    ok = entry.status == "ok"
    at, turn = batch.at, batch.state.turn
    events = [make_event(_result(entry, turn), at, turn, "completed" if ok else "error")]
    for reported in entry.emitted:
        events += tool_reported(reported, entry.tool_id, entry.call_id, turn)
    events += program_ended(entry, at, turn)
    events += [plan_event(plan, at, turn) for plan in entry.plans]
    if entry.sources:
        events.append(make_event(_pooled(entry), at, turn, "update"))
    files = [_file(block, entry.call_id) for block in entry.blocks if is_offered(block)]
    if lane and (owner := batch.state.owner):
        files = [_named(file, lane, owner) for file in files]
    if files:
        events.append(make_event(FilesOffered(count=len(files), items=files), at, turn, "completed"))
    return events


def _pooled(entry: Resulted) -> SourcesChanged:
    rows = sorted(entry.sources, key=lambda row: row.sid)
    items = [
        PooledSource(
            sid=row.sid, title=row.title, url=web_url(row.url), path=row.path, source_type=row.source_type
        )
        for row in rows
    ]
    return SourcesChanged(tool_id=entry.tool_id, call_id=entry.call_id, count=len(items), items=items)


def plan_event(plan: Plan, at: str, turn: str) -> ClientEvent:
    """Return the event of a plan's snapshot."""
    shown = PlanShown(
        plan_id=plan.plan_id,
        steps=list(plan.steps),
        status={str(n): plan.status.get(str(n), "pending") for n in range(1, len(plan.steps) + 1)},
        current=plan.current,
        open=plan.is_open(),
    )
    return make_event(shown, at, turn, "update")


def linked(text: str, cited: Citing) -> str:
    """Return an entry's Markdown with its citations as links; the log keeps the tokens."""
    return link_citations(text, cited)[0] if cited.citations or cited.unresolved else text


def link_citations(text: str, cited: Citing) -> tuple[str, tuple[int, ...], tuple[int, ...]]:
    """Return the text with links, the known sids that it cites, and the unknown ones.

    It equals the streamed text: without a pool, nothing is replaced; with a pool, unknown citations are left out.
    """
    pooled = bool(cited.citations or cited.unresolved)
    if not pooled and not any(mark in text for mark in _BRACKETS):
        return text, (), ()
    # Most functions post events and most answers have no citations: these imports would cost them 10 ms.
    from stepline.protocol.citation.citation_stream import CitationStream  # noqa: PLC0415 - see above
    from stepline.protocol.citation.token import cited_sids  # noqa: PLC0415 - see above

    if not pooled:
        return text, (), cited_sids(text)
    stream = CitationStream({source.sid: source for source in cited.citations}, "markdown", pooled=True)
    shown = stream.feed(text) + stream.close()
    return shown, stream.used, stream.unresolved


def summarise_params(params: dict[str, Any]) -> dict[str, Any]:
    """Return a call's parameters for a client: long strings by length, nested values by count."""
    return {name: _summarise(name, value) for name, value in params.items()}


def _summarise(name: str, value: Any) -> Any:
    match value:
        case str() if name in BODIES or len(value) > PARAM_CHARS:
            return {"chars": len(value)}
        case dict():
            return {"items": len(value)}
        case list() if any(isinstance(item, dict | list) for item in value) or name in BODIES:
            return {"items": len(value)}
        case list():
            return [_summarise(name, item) for item in value]
        case _:
            return value


def _decision(entry: Decided, notes: str, *, rendered: int) -> DecisionMade:
    bundle = _bundle(entry)
    times = (*entry.thinking_ms, *((0, 0),) * len(entry.thinking))
    return DecisionMade(
        claim=entry.claim,
        iteration=entry.iteration,
        action=entry.action,
        accepted=entry.accepted,
        notes=notes,
        tools=[ToolName(tool_id=action.tool_id, call_id=action.call_id) for action in entry.actions],
        interrupted=entry.interrupted,
        bundle_size=len(bundle),
        bundle=bundle,
        declined=entry.declined is not None,
        started_at=entry.started_at,
        rendered=rendered,
        rounds_left=entry.rounds_left,
        model=entry.model,
        thinking=[
            TimedThought(text=text, began_ms=began, ended_ms=ended)
            for text, (began, ended) in zip(entry.thinking, times, strict=False)
        ],
        usage=_usage(entry),
        answer=linked(entry.answer, entry) if entry.interrupted else "",
    )


def _usage(entry: Decided) -> RoundUsage | None:
    return RoundUsage(**msgspec.structs.asdict(entry.cost)) if entry.usage or entry.lost else None


def _bundle(entry: Decided) -> list[BundleItem]:
    """Return the actions of a decision with several; an answer follows its calls."""
    if len(entry.actions) + (entry.action != "call_tool") < 2:
        return []
    calls = [
        BundleItem(action="call_tool", tool_id=action.tool_id, call_id=action.call_id)
        for action in entry.actions
    ]
    return calls if entry.action == "call_tool" else [*calls, BundleItem(action=entry.action)]


def _notice(entry: Decided, notice: Notice, at: str, turn: str) -> ClientEvent:
    """Return the event of a notice: a refusal of the decision or of one of its actions, or a correction.

    Its text is for the model, and may repeat the content of a refused action: only facts are sent.
    """
    given = notice.extra.get("index")
    index = given if type(given) is int else None  # a bool is an int, too
    if entry.accepted and index is None:
        return make_event(Noticed(iteration=entry.iteration, code=notice.code), at, turn, "update")
    rejected = CallRejected(
        iteration=entry.iteration,
        code=notice.code,
        phase="rejected",
        executed=False,
        action_index=index or 0,
        tool_id=_word(notice, "tool_id"),
        parent_tool_call_id=_word(notice, "parent_tool_call_id"),
    )
    return make_event(rejected, at, turn, "error")


def _word(notice: Notice, name: str) -> str:
    found = notice.extra.get(name)
    return found[:PARAM_CHARS] if isinstance(found, str) else ""


def _family(tool_id: str) -> ToolFamily:
    return "react" if tool_id.startswith("react.") else "external"


def _call(action: Action, iteration: int) -> CallStarted:
    return CallStarted(
        tool_id=action.tool_id,
        call_id=action.call_id,
        iteration=iteration,
        params=summarise_params(action.params),
        tool_family=_family(action.tool_id),
        phase="started",
        executed=False,
    )


def _result(entry: Resulted, turn: str) -> CallEnded:
    own = result_path(turn, entry.call_id)
    return CallEnded(
        tool_id=entry.tool_id,
        call_id=entry.call_id,
        iteration=entry.iteration,
        status=entry.status,
        duration_ms=entry.duration_ms,
        paths=list(dict.fromkeys([block.path or own for block in entry.blocks])),
        preview=_preview(entry.blocks, own, ok=entry.status == "ok"),
        tool_family=_family(entry.tool_id),
        phase="completed",
        executed=None if entry.status == "unverified" else not never_began(entry),
        code=_code_of(entry),
    )


def _code_of(entry: Resulted) -> str:
    code = (entry.error or {}).get("code")
    return code if isinstance(code, str) else ""


def never_began(entry: Resulted) -> bool:
    """Return True if a call was refused, lost or skipped before any part of it ran."""
    code = _code_of(entry)
    ended_before = code == "cancelled" and entry.program and not entry.duration_ms
    return ended_before or code in NEVER_BEGAN or code.endswith(_MISPLACED)


def _preview(blocks: Iterable[Produced], own: str, *, ok: bool) -> str:
    """Return the beginning of the text for the user: a successful call's status, or an external block."""
    for block in blocks:
        seen = block.meta.get("visibility")
        if block.text and (seen == "external" or (ok and seen is None and block.path in ("", own))):
            return block.text[:PREVIEW_CHARS]
    return ""


def _file(block: Produced, call: str) -> OfferedFile:
    body = block.body
    assert body is not None
    return OfferedFile(
        logical_path=block.path,
        filename=block.path.rpartition("/")[2],
        mime=body.mime,
        size_bytes=body.size_bytes,
        sha256=body.sha256,
        call_id=call,
    )


def _named(file: OfferedFile, lane: Lane, owner: str) -> OfferedFile:
    """Return a file with its resource name, if it can have one."""
    from stepline.model.file.resource_name import ResourceName  # noqa: PLC0415 - few batches offer files

    try:
        path = parse_path(file.logical_path)
    except PathError:  # a bundle's tool may write any path
        return file
    if not isinstance(path, FilePath | AttachmentPath):
        return file
    return replace(file, rn=str(ResourceName(lane=lane, user=owner, path=path)))


TYPED: Final[Mapping[str, type[EventData]]] = {
    model.EVENT: model for model in (SearchFiltered, PagesFetched, Followups, ToolProgress)
}
"""Tool events with a separate type; all others are `react.tool.event`."""


def program_asked(action: Action, entry: Decided, objective: str, at: str, turn: str) -> list[ClientEvent]:
    """Return the events of a call that runs a program; none for another call."""
    if action.code is None:
        return []
    run, name = action.call_id, action.params.get("prog_name")
    promised = [PromisedFile(**file) for file in read_promises(action.params.get("contract"))]
    steps: list[EventData] = []
    if objective:
        steps.append(ProgramObjective(execution_id=run, text=objective))
    if isinstance(name, str) and name:
        steps.append(ProgramName(execution_id=run, text=name))
    steps.append(ProgramCode(execution_id=run, language="python", text=action.code))
    steps.append(ProgramContract(execution_id=run, contract=promised))
    written = ProgramTimings(codegen=entry.code_ms)
    steps.append(ProgramStatus(execution_id=run, status="gen", timings=written))
    return [make_event(data, at, turn, "started") for data in steps]


def program_started(entry: Started, at: str, turn: str) -> list[ClientEvent]:
    """Return the event of a program that starts; none for another action."""
    if not entry.deadline:
        return []
    status = ProgramStatus(execution_id=entry.call_id, status="exec", deadline=entry.deadline)
    return [make_event(status, at, turn, "running")]


def program_ended(entry: Resulted, at: str, turn: str) -> list[ClientEvent]:
    """Return the end of a call's program, if it had one."""
    if not entry.program:
        return []
    ok = entry.status == "ok"
    status = ProgramStatus(
        execution_id=entry.call_id,
        status="done" if ok else "error",
        timings=ProgramTimings(exec=entry.duration_ms, start=entry.starting_ms, collect=entry.collecting_ms),
        error=None if ok else ErrorCode(code=str((entry.error or {}).get("code", entry.status))),
    )
    events = [make_event(status, at, turn, "completed" if ok else "error")]
    if entry.log:
        log = ProgramLog(execution_id=entry.call_id, text=entry.log, log_bytes=entry.log_bytes)
        events.insert(0, make_event(log, at, turn, "update"))
    return events


def tool_reported(reported: ToolEvent, tool_id: str, call_id: str, turn: str) -> list[ClientEvent]:
    """Return the event of a tool or a hook; one of a known type with invalid data becomes a `react.tool.event`.

    The results of a search are also sent as HTML, which is not stored.
    """
    whose = {"tool_id": reported.tool_id or tool_id, "call_id": call_id}
    model = TYPED.get(reported.type)
    if model is None:
        return [_untyped(reported, whose, turn)]
    named = {name: value for name, value in whose.items() if name in model.__struct_fields__}
    try:
        data = msgspec.convert({**reported.data, **named}, model)
    except msgspec.ValidationError:  # the client gets it nevertheless, as an event of unknown type
        return [_untyped(reported, whose, turn)]
    events = [make_event(data, reported.at, turn, "update")]
    if isinstance(data, SearchFiltered):
        html = render_search(data.objective, data.results)
        events.append(
            make_event(SearchView(search_id=data.search_id, html=html, **whose), reported.at, turn, "update")
        )
    return events


def _untyped(reported: ToolEvent, whose: Mapping[str, str], turn: str) -> ClientEvent:
    return make_event(
        ToolReported(type=reported.type, data=reported.data, **whose), reported.at, turn, "update"
    )
