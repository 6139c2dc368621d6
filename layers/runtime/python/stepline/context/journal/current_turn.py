"""The open turn in the journal: sixteen sections in a fixed order, made of its entries.

Every request of the turn has each section, even an empty one, except the current slots, which are omitted if empty.
All sections are shortened alike if the request has no room for them. An artifact is shown by its beginning:
`show_artifacts` with its path stages the whole artifact for the next round.
Source: docs/concepts/journal.md#the-current-turn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from stepline.context.announce import Announced, render_plans, shown_rows
from stepline.context.journal.prior_turns import is_note, note_rows, offered_files, slot_row
from stepline.context.journal.turn_course import Course, Detail
from stepline.model.block import Block, Produced
from stepline.model.entry import (
    ApprovalAnswered,
    ApprovalRequested,
    Contributed,
    Decided,
    Deferred,
    Entry,
    Inbound,
    Resulted,
    SteeredEntry,
    TakenOver,
    Titled,
    whole_answer,
)
from stepline.model.ids import call_id
from stepline.model.source import Source, host_of
from stepline.model.usage import sum_usages
from stepline.rendering.excerpt import render_shape
from stepline.rendering.pieces_of_entry import NOTE_TYPES, is_shown, shown_blocks
from stepline.rendering.plan_text import count_done, current_plan, plan_steps, render_outline
from stepline.rendering.quote import INDENT, clip, inline, label, quote
from stepline.rendering.render_entry import (
    UNPREVIEWED,
    render_call,
    render_deferred,
    render_edited,
    render_elapsed,
    render_event,
    render_notice,
    render_prompt,
    render_result_head,
    render_round,
    render_round_end,
    render_steered,
    render_takeover,
)
from stepline.rendering.result import notice_paths, result_path
from stepline.rendering.turn_facts import event_place, feedback_path
from stepline.timeline.fold import Timeline
from stepline.timeline.workspace import fold_files, last_checkout, pulled_refs

PATH_CHARS: Final = 400
MIME_CHARS: Final = 100
SOURCES_SHOWN: Final = 24
SOURCE_CHARS: Final = 160


def artifact_rows(course: Course, detail: Detail) -> str:
    """Return the contents that the calls of the turn produced, each with its facts and its beginning."""
    found = []
    for _, _, entry in course.rows:
        if isinstance(entry, Resulted):
            own = result_path(course.turn.id, entry.call_id)
            found += [
                _artifact(entry, block, own, detail) for block in shown_blocks(entry) if _is_artifact(block)
            ]
    return detail.rows_of([detail.fit(text) for text in found])


def _is_artifact(block: Produced) -> bool:
    return block.type not in NOTE_TYPES and block.type != "react.notice"


def _artifact(entry: Resulted, block: Produced, own: str, detail: Detail) -> str:
    """Return one content; a part of another path names that path and its own."""
    source = str(block.meta.get("source_path") or "")
    path = source or block.path or own
    head = f"- {clip(path, PATH_CHARS)} | {clip(block.type, MIME_CHARS)} by {entry.call_id} {inline(entry.tool_id)}"
    part = f" | shown part: {clip(block.path, PATH_CHARS)}" if source and block.path else ""
    if block.body is not None:
        return f"{head}{part} | {_stored(block)}\n"
    most = detail.read_chars if entry.tool_id in UNPREVIEWED else detail.preview_chars
    facts = f"{clip(block.mime, MIME_CHARS)} | {len(block.text)} characters"
    return f"{head}{part} | {facts}\n{_beginning(block.text, most)}"


def _beginning(text: str, most: int) -> str:
    """Return a text of at most `most` characters whole, and the shape and the beginning of a longer one."""
    if len(text) <= most:
        return f"{quote(text)}\n"
    shape = render_shape(text)
    heading = f"shape:\n{quote(shape)}\npreview:\n" if shape else ""
    return f"{heading}{quote(text[:most])}\n...[truncated]: {len(text) - most} more characters; show_artifacts shows them\n"


def _stored(block: Produced) -> str:
    """Return the facts of a stored file: its type, its size, its visibility, and the extent of a picture or a PDF."""
    assert block.body is not None
    about: Any = block.meta.get("media")
    extent = clip(str(about.get("extent", "")), MIME_CHARS) if isinstance(about, dict) else ""
    facts = [
        clip(block.body.mime, MIME_CHARS),
        f"{block.body.size_bytes} bytes",
        clip(str(block.meta.get("visibility") or ""), MIME_CHARS),
        f"{extent}; show_artifacts attaches it" if extent else "",
    ]
    return " | ".join(fact for fact in facts if fact)


def file_rows(course: Course, detail: Detail) -> str:
    """Return the files of the turn below the folder of its programs, then the pulled and checked out files."""
    files = fold_files(course.blocks)
    rows = [
        f"- {clip(path, PATH_CHARS)} | {clip(file.mime, MIME_CHARS)} | {file.size_bytes} bytes\n"
        for path, file in files.items()
    ]
    rows += [f"- pulled: {clip(ref, PATH_CHARS)}\n" for ref in pulled_refs(course.blocks)]
    made = last_checkout(course.blocks)
    rows += [f"- checked out ({clip(made.mode, MIME_CHARS)}): {clip(ref, PATH_CHARS)}\n" for ref in made.refs]
    return detail.rows_of(rows)


def explored_rows(course: Course, detail: Detail) -> str:
    """Return the calls that added sources, with the numbers of these sources."""
    rows = []
    for _, _, entry in course.rows:
        if isinstance(entry, Resulted) and entry.sources:
            sids = ",".join(str(row.sid) for row in entry.sources)
            rows.append(
                f"- {entry.call_id} {inline(entry.tool_id)}: so:sources_pool[{clip(sids, detail.chars)}]"
                f" | {result_path(course.turn.id, entry.call_id)}\n"
            )
    return detail.rows_of(rows)


def _source_rows(timeline: Timeline, detail: Detail) -> str:
    """Return the rows of the pool: those cited last and the newest."""
    pool = timeline.sources
    shown = shown_rows(pool, timeline.cited, most=min(SOURCES_SHOWN, detail.rows))
    rows = [
        f"- SID:{sid:02} {label(clip(pool[sid].title, TITLE_CHARS))}"
        f" {clip(host_of(pool[sid].url) or pool[sid].path, TITLE_CHARS)} {label(clip(_text(pool[sid]), min(SOURCE_CHARS, detail.chars)))}\n"
        for sid in shown
    ]
    return "".join([*detail.more(len(pool) - len(shown)), *rows])


def _text(row: Source) -> str:
    return row.text or row.content


STAGED: Final = "[STAGED] the next round shows: "
STAGED_SHOWN: Final = 20


def render_course(course: Course, detail: Detail) -> str:
    """Return the events of the turn; if there are too many, the newest and all that came from outside; "" for none."""
    rows = [(detail.event(event, place, render_event), True) for event, place in course.waited]
    attempts = left = 0
    for _, _, entry in course.rows:
        if isinstance(entry, Decided):
            attempts += entry.accepted and bool(entry.answer)
            left = len(entry.actions) if entry.accepted else 0
        if isinstance(entry, Inbound):
            rows.append((detail.event(entry, event_place(course.turn.id, entry), render_event), True))
        elif text := "".join(_entry(course, entry, detail, attempts)):
            rows.append((text, False))
        if isinstance(entry, Resulted):
            left -= 1
            rows[-1] = (rows[-1][0] + ("" if left else render_round_end()), False)
    return detail.keep_events([(text if kept else detail.fit(text), kept) for text, kept in rows])


def _entry(course: Course, entry: Entry, detail: Detail, attempts: int) -> Iterator[str]:
    turn = course.turn.id
    match entry:
        case Decided():
            yield from _decision(turn, entry, detail, attempts)
        case Resulted():
            yield from _result(turn, entry, detail)
        case Deferred():
            yield render_deferred(entry, f"ar:{turn}.assistant.completion.attempt.{attempts}.outcome", ())
        case SteeredEntry():
            yield render_steered(entry)
        case TakenOver():
            yield render_takeover()
        case ApprovalAnswered() if entry.action is not None:
            yield render_edited(entry.call_id, entry.action, turn)
        case ApprovalRequested():
            yield f"[APPROVAL ASKED] {entry.action.call_id} {inline(entry.action.tool_id)}\n"
        case Contributed():
            yield from (_contributed(block, detail) for block in entry.blocks if _is_shown(block))
        case _:
            pass


def _is_shown(block: Produced) -> bool:
    return is_shown(block) and block.type not in NOTE_TYPES


def _contributed(block: Produced, detail: Detail) -> str:
    """Return a text of the bundle's code below its path, or the path of the content that it stored."""
    head = f"[STAGE] {clip(block.type, detail.chars)}\n"
    where = f"[path: {clip(block.path, detail.chars)}]\n" if block.path else ""
    return f"{head}{where}{detail.text(block.text, 'BLOCK') if block.text else ''}"


def _decision(turn: str, entry: Decided, detail: Detail, attempts: int) -> Iterator[str]:
    yield render_round(entry, ())
    first = entry.actions[0].call_id if entry.actions else call_id(turn, entry.iteration, 0)
    if entry.thinking and not entry.interrupted:
        yield f"[thinking] ar:{turn}.react.thinking.{entry.iteration}\n{detail.text(chr(10).join(entry.thinking), 'THINKING')}"
    if entry.notes:
        yield f"[AI Agent say]: ar:{turn}.react.notes.{first}\n{detail.text(entry.notes, 'NOTES')}"
    for action in entry.actions:
        if action.code is not None:
            yield f"[AI Agent wrote code] fi:{turn}.code.{action.call_id}\n{detail.text(action.code, 'CODE')}"
        yield render_call(action, turn)
    if staged := (*entry.show_artifacts, *(f"sk:{skill}" for skill in entry.show_skills)):
        yield f"{STAGED}{', '.join(clip(path, detail.chars) for path in staged[:STAGED_SHOWN])}\n"
    for notice, path in zip(entry.notices, notice_paths(entry, turn), strict=True):
        yield render_notice(notice, path, entry.accepted)
    if entry.interrupted and entry.raw:
        path = f"ar:{turn}.react.decision.raw.interrupted.{entry.iteration}"
        yield f"[REACT DECISION RAW INTERRUPTED] {path}\n{detail.text(entry.raw, 'RAW')}"
    if not (entry.accepted and entry.actions):
        yield render_round_end()
    if entry.accepted and entry.answer:
        path = f"ar:{turn}.assistant.completion.attempt.{attempts}"
        yield f"\n[ASSISTANT MESSAGE]\n[path: {path}]\n{detail.text(whole_answer(entry), 'ASSISTANT MESSAGE')}"


def _result(turn: str, entry: Resulted, detail: Detail) -> Iterator[str]:
    """Yield the status of a call, the paths of its artifacts, and its notices."""
    yield render_result_head(entry)
    own = result_path(turn, entry.call_id)
    for block in shown_blocks(entry):
        path = clip(str(block.meta.get("source_path") or block.path or own), detail.chars)
        if block.type == "react.notice":
            yield f"[REACT NOTICE]\n[path: {path}]\n{detail.text(block.text, 'NOTICE')}"
        else:
            yield f"artifact: {path}\n"


SLOT_MAPPING: Final = "A slot is an external file below outputs/: turn_<id>.slots.<name> is the file fi:turn_<id>.outputs/<name>.\n"
TITLE_CHARS: Final = 120
GATE_CHARS: Final = 400
NOTE_CHARS: Final = 240


@dataclass(frozen=True, kw_only=True)
class Digest:
    """The facts of the sections: the turn's course, those of an announce, and the notes of prior turns."""

    course: Course
    announced: Announced
    notes: Sequence[Block]


Section: TypeAlias = Callable[[Digest, Detail], str]


def render_current(digest: Digest, detail: Detail) -> str:
    """Return the sections of the open turn, in their order."""
    turn = digest.course.turn
    parts = [f"\n=== CURRENT TURN (live) {turn.id} (started at {turn.started_at})\n"]
    for title, section in SECTIONS.items():
        text = section(digest, detail)
        if text or title not in OPTIONAL:
            parts.append(f"\n[{title}]\n{text or f'{INDENT}none{chr(10)}'}")
    return "".join(parts)


def _prompt(digest: Digest, detail: Detail) -> str:
    """Return the messages that opened the turn; long ones are cut, and their paths lead to the whole text."""
    course = digest.course
    shown = course.prompts[: detail.events]
    texts = [detail.event(event, place, render_prompt) for event, place in shown]
    return "".join([*texts, *detail.more(len(course.prompts) - len(shown))])


def _used(digest: Digest, detail: Detail) -> str:
    """Return the paths of other turns, and of content outside turns, that this turn has read or pulled."""
    course = digest.course
    own = f":{course.turn.id}."
    read = [str(block.meta["source_path"]) for block in course.blocks if block.meta.get("source_path")]
    pulled = [f"fi:{ref.replace('/', '.', 1)}" for ref in pulled_refs(course.blocks)]
    paths = [path for path in dict.fromkeys([*read, *pulled]) if own not in path]
    return detail.rows_of([f"- {clip(path, detail.chars)}\n" for path in paths])


def _objective(digest: Digest, _: Detail) -> str:
    timeline = digest.course.timeline
    plan = current_plan(timeline.plans.values())
    objective = f"plan_id={plan.plan_id}: {count_done(plan)}" if plan else "what the user's message asks for"
    return f"conversation: {label(clip(timeline.title, TITLE_CHARS))}\nobjective: {objective}\n"


def _gate(digest: Digest, _: Detail) -> str:
    titled = [entry for _, _, entry in digest.course.rows if isinstance(entry, Titled) and entry.text]
    route = "gate, then react" if titled else "react"
    return "".join(
        [f"route: {route}\n", *(f"gate: {label(clip(entry.text, GATE_CHARS))}\n" for entry in titled[-1:])]
    )


def _guidance(digest: Digest, detail: Detail) -> str:
    return detail.fit(f"{render_plans(digest.announced)}\n")


def _memories(digest: Digest, detail: Detail) -> str:
    notes = [*digest.notes, *filter(is_note, digest.course.blocks)]
    return detail.rows_of(
        [
            f"- [{tag or 'note'}] {clip(path, NOTE_CHARS)}: {clip(text, min(NOTE_CHARS, detail.chars))}\n"
            for tag, text, path in note_rows(notes)
        ]
    )


def _feedback(digest: Digest, detail: Detail) -> str:
    feedback = sorted(
        digest.course.timeline.feedback.values(), key=lambda entry: (entry.at, entry.turn, entry.origin)
    )
    return detail.rows_of(
        [
            f"- {entry.at} {entry.origin} on {feedback_path(entry.turn)}: {entry.word}"
            f"{f' {label(clip(entry.text, detail.chars))}' if entry.text else ''}\n"
            for entry in feedback
        ]
    )


def _contract(digest: Digest, detail: Detail) -> str:
    """Return the steps of the current plan that are not done, below the sentence that defines a slot."""
    plan = current_plan(digest.course.timeline.plans.values())
    steps = [step for step in plan_steps(plan) if step[0] not in ("done", "failed")] if plan else []
    return SLOT_MAPPING + (render_outline(steps, most=detail.rows) or f"{INDENT}none to fill: no open plan\n")


def _events(digest: Digest, detail: Detail) -> str:
    return render_course(digest.course, detail)


def _artifacts(digest: Digest, detail: Detail) -> str:
    return artifact_rows(digest.course, detail)


def _files(digest: Digest, detail: Detail) -> str:
    return file_rows(digest.course, detail)


def _explored(digest: Digest, detail: Detail) -> str:
    return explored_rows(digest.course, detail)


def _pool(digest: Digest, detail: Detail) -> str:
    return _source_rows(digest.course.timeline, detail)


def _progress(digest: Digest, _: Detail) -> str:
    """Return the counts of the turn."""
    course = digest.course
    entries = [entry for _, _, entry in course.rows]
    decisions = [entry for entry in entries if isinstance(entry, Decided)]
    results = Counter(entry.status for entry in entries if isinstance(entry, Resulted))
    counts = ", ".join(f"{count} {status}" for status, count in sorted(results.items())) or "none"
    events = sum(isinstance(entry, Inbound) for entry in entries)
    return (
        f"rounds: {len(decisions)}, of them refused: {sum(not entry.accepted for entry in decisions)}\n"
        f"calls: {counts}\n"
        f"notices: {sum(len(entry.notices) for entry in decisions)}\n"
        f"events: {events}\n"
        f"answers: {course.answers}\n"
        f"sources: {len(course.timeline.sources)}\n"
    )


def _slots(digest: Digest, detail: Detail) -> str:
    course = digest.course
    return detail.rows_of(
        [slot_row(path, block) for path, block in offered_files(course.turn, course.blocks).items()]
    )


def _budget(digest: Digest, _: Detail) -> str:
    facts, course = digest.announced, digest.course
    usage = sum_usages(entry.cost for _, _, entry in course.rows if isinstance(entry, Decided))
    most = max(1, facts.max_iterations + facts.credits)
    return (
        f"iterations: {facts.iteration} used of {most}"
        f"{f' ({facts.max_iterations} + {facts.credits} reactive bonus)' if facts.credits else ''}, "
        f"{max(0, most - facts.iteration)} left with this one\n"
        f"tokens: {usage.prompt_tokens} in, {usage.output_tokens} out\n"
        f"time_elapsed_in_turn: {render_elapsed(facts.elapsed_s)}\n"
    )


SECTIONS: Final[dict[str, Section]] = {
    "USER PROMPT STRUCTURAL/SEMANTIC INVENTORIZATION SUMMARY": _prompt,
    "CONTEXT USED (digest of past turns)": _used,
    "OBJECTIVE": _objective,
    "GATE": _gate,
    "SOLVER.COORDINATOR DECISION (planner guidance)": _guidance,
    "TURN MEMORIES -- CHRONOLOGICAL": _memories,
    "USER FEEDBACK -- CHRONOLOGICAL": _feedback,
    "SOLVER.TURN CONTRACT SLOTS (to fill)": _contract,
    "SOLVER.REACT.EVENTS (oldest -> newest)": _events,
    "SOLVER.CURRENT ARTIFACTS (oldest -> newest)": _artifacts,
    "FILES (CURRENT) -- OUT_DIR-relative paths": _files,
    "EXPLORED IN THIS TURN. WEB SEARCH/FETCH ARTIFACTS": _explored,
    "TURN SOURCES POOL (global SIDs)": _pool,
    "SOLVER.CURRENT TURN PROGRESS SNAPSHOT": _progress,
    "CURRENT SLOTS": _slots,
    "BUDGET SNAPSHOT": _budget,
}
"""The sections of the open turn, in the order of a request."""

OPTIONAL: Final = frozenset({"CURRENT SLOTS"})
"""The sections that are omitted if they are empty."""
