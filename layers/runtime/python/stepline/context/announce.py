"""ANNOUNCE and SOURCES POOL: the volatile end of a request.

Both are rendered anew for every request, after the last cache mark, and never stored. Every token here is
paid in full in every round.

ANNOUNCE holds the current facts. Anything that does not change belongs into the system part, and a quiet
announce stays below 150 tokens. Source: docs/concepts/context.md#announce.

SOURCES POOL lists the sources that can be cited, one per line: the rows cited last, with the beginning of their
texts, and the newest ones; the others are counted. Whole texts are in the timeline, or are read at their paths.
Source: docs/concepts/context.md#sources-pool.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from stepline.model.base import Value
from stepline.model.decision import RoundFacts
from stepline.model.entry import Feedback
from stepline.model.ids import UTC_ZONE, local_time
from stepline.model.plan_steps import Plan
from stepline.model.source import Source, host_of
from stepline.rendering.piece import byte_length
from stepline.rendering.plan_text import count_done, plan_steps, render_outline
from stepline.rendering.quote import INDENT, clip, inline, inline_json, label
from stepline.rendering.render_entry import render_elapsed
from stepline.rendering.turn_facts import AdmittedEvent
from stepline.timeline.workspace import (
    SavedFile,
    carry_on,
    deleted_files,
    last_checkout,
    project_files,
    pulled_refs,
)

if TYPE_CHECKING:
    from stepline.timeline.fold import Timeline

CELLS: Final = 10
PLANS_SHOWN: Final = 4
EVENTS_SHOWN: Final = 4
EVENT_CHARS: Final = 120
FILES_SHOWN: Final = 3
FEEDBACKS_SHOWN: Final = 4
ROOTS_SHOWN: Final = 6
SCOPES_SHOWN: Final = 6
REFS_SHOWN: Final = 6
LISTED_SHOWN: Final = 24
"""The folders and files of a project in `ls workspace`."""
SCOPE_TURNS_SHOWN: Final = 3
NAME_CHARS: Final = 120
CONSTRAINTS_SHOWN: Final = 12
CONSTRAINT_CHARS: Final = 400
SECTION_BYTES: Final = 6_000
"""Maximum bytes of one section; only four sections can approach it, and only with misused input."""


class Saved(Value):
    """The newest version of a project that has a git history, and its turn, if there is one.

    `missing` is a later turn that is not saved yet. `readable` is false if the store did not answer.
    """

    turn: str = ""
    files: tuple[SavedFile, ...] = ()
    missing: str = ""
    readable: bool = True


class Workspace(Value):
    """The facts of the open turn's workspace.

    `roots` are the turns whose files are present, `scopes` the number of files in the turn's own `files/` by top-level
    folder or file. `dirty`: they differ from the version that is `saved`.
    """

    roots: tuple[str, ...] = ()
    scopes: Mapping[str, int] = {}
    checkout_mode: str = ""
    checked_out: tuple[str, ...] = ()
    dirty: bool = False
    saved: Saved | None = None


class Announced(Value):
    """The facts of an announce.

    `turn` is the open one. `iteration` counts from 0; reactive events added `credits` to `max_iterations`.
    `reserved`: this round is the last one, for an answer only. `finalize` counts the rounds left after a
    steer, with this one; 0 if the turn is not bounded. `finalize_tools` may be called in such a round except
    the last. `fresh` is the feedback that is not in the timeline yet, `incorporated` the feedback that entered it since
    the newest request; in both, `turn_at` is known if the turn is in the timeline. `local` is the time in the user's
    `timezone`, if that is not UTC. `workspace` is the section about it, "" without any. `extra` are lines of the bundle's
    code.
    """

    now: str
    turn: str
    iteration: int
    max_iterations: int
    credits: int = 0
    elapsed_s: float = 0.0
    reserved: bool = False
    finalize: int = 0
    finalize_tools: tuple[str, ...] = ()
    timezone: str = UTC_ZONE
    local: str = ""
    plans: tuple[Plan, ...] = ()
    events: tuple[AdmittedEvent, ...] = ()
    fresh: tuple[Feedback, ...] = ()
    incorporated: tuple[Feedback, ...] = ()
    workspace: str = ""
    extra: tuple[str, ...] = ()


def announce(timeline: Timeline, facts: RoundFacts) -> str:
    """Return the announce of a round of the current turn, in the timeline's layout."""
    return render_announce(gather_facts(timeline, facts))


def gather_facts(timeline: Timeline, facts: RoundFacts) -> Announced:
    """Return all facts of a round of the current turn."""
    turn = timeline.current
    now = datetime.fromisoformat(facts.now)
    since = datetime.fromisoformat(turn.started_at) if turn else now
    return Announced(
        now=facts.now,
        turn=turn.id if turn else "",
        iteration=facts.iteration,
        max_iterations=facts.max_iterations,
        credits=timeline.state.credits,
        elapsed_s=(now - since).total_seconds(),
        reserved=facts.last_round,
        finalize=facts.finalize,
        finalize_tools=facts.finalize_tools,
        timezone=timeline.timezone,
        local="" if timeline.timezone == UTC_ZONE else local_time(now, timeline.timezone),
        plans=tuple(timeline.plans.values()),
        events=timeline.events_since(0),
        fresh=_feedbacks(timeline, timeline.fresh),
        incorporated=_feedbacks(timeline, timeline.incorporated),
        workspace=facts.workspace or show_workspace(timeline),
        extra=facts.extra,
    )


def _feedbacks(timeline: Timeline, keys: Iterable[str]) -> tuple[Feedback, ...]:
    known = [timeline.feedback[key] for key in dict.fromkeys(keys) if key in timeline.feedback]
    began = {turn.id: turn.started_at for turn in timeline.history} if known else {}
    return tuple(replace(entry, turn_at=began.get(entry.turn, "")) for entry in known)


def show_workspace(timeline: Timeline, saved: Saved | None = None) -> str:
    """Return the section about the open turn's workspace; "" for an empty one of a project without a history.

    `saved` is the project's newest version, if it has a history.
    """
    turn = timeline.current.id if timeline.current else ""
    found = _find_workspace(timeline, turn, saved)
    return render_workspace(found, turn) if found else ""


def _find_workspace(timeline: Timeline, turn: str, saved: Saved | None) -> Workspace | None:
    if not timeline.has_files:
        return Workspace(roots=(turn,), saved=saved) if saved else None
    blocks = timeline.turn_blocks(turn)
    own = project_files(blocks, turn)
    made = last_checkout(blocks)
    before = {file.path: file.sha256 for file in saved.files} if saved else {}
    after = carry_on(before, {path: file.sha256 for path, file in own.items()}, deleted_files(blocks, turn))
    return Workspace(
        roots=tuple(sorted({turn, *(ref.partition("/")[0] for ref in pulled_refs(blocks))})),
        scopes=Counter(map(_scope, sorted(own))),
        checkout_mode=made.mode,
        checked_out=made.refs,
        dirty=after != before,
        saved=saved,
    )


def _scope(path: str) -> str:
    """Return the top level of a path: `app/`, or the name of a file."""
    head, slash, _ = path.partition("/")
    return f"{head}{slash}"


def render_announce(facts: Announced) -> str:
    """Return the announce: budget, finalize, time, plans, events and alerts of this turn, workspace, feedback, constraints."""
    sections = [
        _budget(facts),
        render_finalize(facts),
        _time(facts),
        render_plans(facts),
        _events(facts.events),
        _alerts(facts.events),
        facts.workspace,
        _feedback(facts),
        render_constraints(facts.extra),
    ]
    return "\n".join([_fit(section) for section in sections if section]) + "\n"


def _fit(section: str) -> str:
    """Return the first lines of a section that fit."""
    room = SECTION_BYTES - byte_length(section)
    if room >= 0:
        return section
    lines = section.split("\n")
    while room < 0:
        room += byte_length(lines.pop()) + 1
    return "\n".join([*lines, f"{INDENT}… cut"])


def _budget(facts: Announced) -> str:
    most = max(1, facts.max_iterations + facts.credits)
    at = min(max(facts.iteration + 1, 1), most)
    split = f" ({facts.max_iterations} + {facts.credits} reactive bonus)" if facts.credits else ""
    filled = round(at / most * CELLS)
    bar = "█" * filled + "░" * (CELLS - filled)
    last = "\nLAST ROUND: only complete or exit is accepted." if facts.reserved else ""
    return (
        f"╔══ ANNOUNCE — Iteration {at}/{most}{split} ══╗{last}\n"
        f"[BUDGET]\niterations  {bar} {most - at} remaining\n"
        f"time_elapsed_in_turn  {render_elapsed(facts.elapsed_s)}"
    )


def render_finalize(facts: Announced) -> str:
    """Return the rounds and calls that a steer leaves to the turn; "" if it is not bounded."""
    if not facts.finalize:
        return ""
    tools = facts.finalize_tools if facts.finalize > 1 else ()
    allowed = f"{', '.join(tools)}; then complete or exit" if tools else "complete or exit"
    return (
        "[FINALIZE] the user steered: put down what you have, and answer\n"
        f"- rounds left, counting this one: {facts.finalize}\n- accepted now: {allowed}"
    )


def _time(facts: Announced) -> str:
    local = f"user_local_time: {facts.local}\n" if facts.local else ""
    return (
        f"[AUTHORITATIVE TEMPORAL CONTEXT (GROUND TRUTH)]\nuser_timezone: {clip(facts.timezone, 64)}\n{local}"
        f"current_utc_timestamp: {facts.now}\ncurrent_utc_date: {facts.now[:10]}"
    )


def shown_plans(plans: Iterable[Plan]) -> list[Plan]:
    """Return the open plans to show, the most recently changed one last; the current one is always included."""
    found = sorted((plan for plan in plans if plan.is_open()), key=lambda plan: (plan.last_ts, plan.plan_id))
    current = [plan for plan in found[:-PLANS_SHOWN] if plan.current]
    return [*current, *found[-(PLANS_SHOWN - len(current)) :]]


def render_plans(facts: Announced) -> str:
    """Return the open plans; a plan that changed in this turn has all its steps."""
    shown = shown_plans(facts.plans)
    if not shown:
        return "[OPEN PLANS]\n- plans: none"
    rows = [_plan(plan, whole=plan.current or plan.last_turn_id == facts.turn) for plan in shown]
    return "\n".join([f"[OPEN PLANS]\n- plans: {len(shown)} visible", *rows])


def _plan(plan: Plan, *, whole: bool) -> str:
    head = (
        f"{INDENT}• plan_id={plan.plan_id}{' (current)' if plan.current else ''}"
        f" snapshot_ref=ar:plan.latest:{plan.plan_id}\n{INDENT}{INDENT}"
    )
    updated = f"updated {plan.last_ts} in {plan.last_turn_id}"
    if not whole:
        return f"{head}{count_done(plan)}, {updated}"
    steps = render_outline(plan_steps(plan), indent=INDENT * 2).rstrip("\n")
    return f"{head}created {plan.created_ts} in {plan.origin_turn_id}, {updated}\n{steps}"


def _events(events: Sequence[AdmittedEvent]) -> str:
    return _newest("[LIVE TURN EVENTS]\n- events", [event for event in events if not _is_alert(event)])


def _alerts(events: Sequence[AdmittedEvent]) -> str:
    """Return the alerts that services sent to this turn, which its other events do not push out; "" without any."""
    return _newest("[SERVICE ALERTS]\n- alerts", list(filter(_is_alert, events)))


def _is_alert(event: AdmittedEvent) -> bool:
    return event.inbound.event == "alert" and bool(event.inbound.source)


def _newest(head: str, events: Sequence[AdmittedEvent]) -> str:
    if not events:
        return ""
    shown = events[-EVENTS_SHOWN:]
    many = (
        f"{len(events)} total" if len(shown) == len(events) else f"showing last {len(shown)} of {len(events)}"
    )
    return "\n".join([f"{head}: {many}", *map(_event, shown)])


def _event(event: AdmittedEvent) -> str:
    inbound = event.inbound
    asks = f"reactive={inbound.reactive}" if inbound.event_class in ("reactive", "quiet") else "explicit=True"
    source = f" source={inline(inbound.source)}" if _is_alert(event) else ""
    rows = [f"{INDENT}• {inline(inbound.event)} seq={event.n} {asks}{source}"]
    if inbound.text or inbound.steers:
        rows.append(f"text={clip(inbound.text, EVENT_CHARS) or '(empty stop control)'}")
    elif inbound.payload:
        rows.append(f"payload={clip(inline_json(inbound.payload), EVENT_CHARS)}")
    if inbound.attachments:
        names = ", ".join(file.filename for file in inbound.attachments[:FILES_SHOWN])
        rows.append(f"attachments={len(inbound.attachments)}: {clip(names, EVENT_CHARS)}")
    return f"\n{INDENT}{INDENT}".join(rows)


def render_workspace(found: Workspace, turn: str) -> str:
    """Return the section about the workspace of the open `turn`."""
    saved = found.saved
    roots = [f"{root} ({'current' if root == turn else 'read-only'})" for root in found.roots[-ROOTS_SHOWN:]]
    refs = [clip(ref, NAME_CHARS) for ref in found.checked_out[:REFS_SHOWN]]
    rows = [
        "[WORKSPACE]",
        f"implementation: {'git' if saved else 'custom'}",
        f"current_turn_root: {turn}/",
        f"local turn roots: {', '.join(roots)}",
        f"current editable workspace: {_scopes(found.scopes)}",
        f"checkout_mode: {found.checkout_mode or 'none'}",
        f"checked_out_from: {', '.join(refs) or ('current-turn only' if found.scopes else 'none')}",
    ]
    return "\n".join([*rows, *(_history(found, saved) if saved else ())])


def _scopes(scopes: Mapping[str, int]) -> str:
    shown = [f"{clip(name, NAME_CHARS)} ({count})" for name, count in list(scopes.items())[:SCOPES_SHOWN]]
    left = len(scopes) - len(shown)
    return ", ".join([*shown, *([f"{left} more"] if left > 0 else [])]) or "none"


def _history(found: Workspace, saved: Saved) -> list[str]:
    """Return the lines about the git history: its state, the last published turn, and `ls workspace` with paths."""
    status = "dirty" if found.dirty else "clean" if saved.turn else "uninitialized"
    rows = [
        "repo_mode: a version for each turn",
        f"repo_status: {status if saved.readable else 'unavailable'}",
        "current_turn_publish: pending",
        f"last_published_turn: {saved.turn or 'none'}",
    ]
    if saved.missing:
        rows.append(f"publish_error: {saved.missing} is not saved yet; the end of this turn tries again")
    scopes: dict[str, dict[str, int]] = {}
    for file in saved.files:
        turns = scopes.setdefault(_scope(file.path), {})
        turns[file.turn] = turns.get(file.turn, 0) + 1
    if not scopes:
        return rows
    rows.append("ls workspace (react.pull, then react.checkout these paths in their order, to continue one):")
    for name, turns in list(scopes.items())[:LISTED_SHOWN]:
        shown = [f"fi:{turn}.files/{name}" for turn in sorted(turns)[-SCOPE_TURNS_SHOWN:]]
        rows.append(
            f"{INDENT}{clip(name, NAME_CHARS)} ({sum(turns.values())}): {clip(' '.join(shown), 4 * NAME_CHARS)}"
        )
    if len(scopes) > LISTED_SHOWN:
        rows.append(f"{INDENT}{len(scopes) - LISTED_SHOWN} more")
    return rows


def _feedback(facts: Announced) -> str:
    rows = []
    if facts.fresh:
        users = all(entry.origin == "user" for entry in facts.fresh)
        rows.append("[NEW USER FEEDBACKS]" if users else "[NEW FEEDBACKS]")
        left_out = len(facts.fresh) - FEEDBACKS_SHOWN
        if left_out > 0:
            rows.append(f"{INDENT}… {left_out} older ones")
        rows += [_feedback_row(entry) for entry in facts.fresh[-FEEDBACKS_SHOWN:]]
    if facts.incorporated:
        turns = [entry.turn for entry in facts.incorporated[-FEEDBACKS_SHOWN:]]
        count = len(facts.incorporated)
        rows.append(f"feedback incorporated above ({count}): {', '.join(dict.fromkeys(turns))}")
    return "\n".join(rows)


def _feedback_row(entry: Feedback) -> str:
    return (
        f"{INDENT}• turn {entry.turn} | turn_ts {entry.turn_at} | feedback_ts {entry.at} | {entry.origin}"
        f" | {entry.word} | {clip(entry.text, EVENT_CHARS)}"
    )


def render_constraints(extra: Sequence[str]) -> str:
    """Return the lines of the bundle's code; "" without any."""
    if not extra:
        return ""
    lines = [f"{INDENT}- {clip(line, CONSTRAINT_CHARS)}" for line in extra[:CONSTRAINTS_SHOWN]]
    return "\n".join(["[CONSTRAINTS]", *lines])


POOL_BYTES: Final = 800
"""The bytes of the pool, 250 tokens: the texts get the bytes that its rows leave."""
ROWS_SHOWN: Final = 10
CITED_SHOWN: Final = 4
TITLE_CHARS: Final = 36
PLACE_CHARS: Final = 60
MIME_CHARS: Final = 40
TEXT_CHARS: Final = 160
TEXT_MIN_CHARS: Final = 40
_QUOTED: Final = 6
"""Bytes around a text: a blank, two quotes, and its ellipsis."""
PAGES: Final = frozenset({"", "text/html", "application/xhtml+xml", "text/plain"})
"""MIME types of a page, which a row does not name."""


def render_pool(pool: Mapping[int, Source], cited: Mapping[int, int] | None = None) -> str:
    """Return the pool for the request, "" if it is empty. `cited` maps a sid to its last citation."""
    if not pool:
        return ""
    texts = _texts(pool, cited or {})
    shown = shown_rows(pool, cited or {}, most=ROWS_SHOWN - (len(texts) + 1) // 2)
    many = f"{len(pool)} {'source' if len(pool) == 1 else 'sources'}"
    hidden = len(pool) - len(shown)
    count = f": {len(shown)} cited or newest ones; the other {hidden} at so:sources_pool" if hidden else ""
    lines = {0: f"[SOURCES POOL] {many}{count}", **{sid: _row(pool[sid]) for sid in shown}}
    if texts:
        left = POOL_BYTES - byte_length("\n".join(lines.values())) - 1
        chars = min(TEXT_CHARS, max(TEXT_MIN_CHARS, left // len(texts) - _QUOTED))
        lines |= {sid: f"{lines[sid]} {label(clip(text, chars))}" for sid, text in texts.items()}
    return "\n".join(lines.values()) + "\n"


def shown_rows(pool: Mapping[int, Source], cited: Mapping[int, int], most: int = ROWS_SHOWN) -> list[int]:
    """Return the sids of the rows to show, ascending: those cited last, and the newest."""
    shown = dict.fromkeys(_cited_last(pool, cited))
    for sid in sorted(pool, reverse=True):
        if len(shown) >= most:
            break
        shown[sid] = None
    return sorted(shown)


def _cited_last(pool: Mapping[int, Source], cited: Mapping[int, int]) -> list[int]:
    return sorted((sid for sid in cited if sid in pool), key=lambda sid: (cited[sid], sid))[-CITED_SHOWN:]


def _texts(pool: Mapping[int, Source], cited: Mapping[int, int]) -> dict[int, str]:
    """Return the texts of the rows cited last, for those that have one."""
    found = {sid: pool[sid].text or pool[sid].content for sid in _cited_last(pool, cited)}
    return {sid: text for sid, text in found.items() if text.strip()}


def _row(row: Source) -> str:
    mime = "" if row.mime.partition(";")[0] in PAGES else f" {clip(row.mime, MIME_CHARS)}"
    place = clip(host_of(row.url) or row.path, PLACE_CHARS)
    return f"SID:{row.sid:02} {label(clip(row.title, TITLE_CHARS))}{mime} {place}".rstrip()
