"""The open turn in the journal: sixteen sections in a fixed order, from its own entries.

Each section stands in every request of the turn, empty or not, but for the current slots, which stand there if there are any.
The sections get shorter, all alike, where the request has no room for them.
Source: docs/concepts/journal.md#the-current-turn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from stepline.context.announce import Announced, render_plans
from stepline.context.journal.prior_turns import is_note, note_rows, offered_files, slot_row
from stepline.context.journal.turn_artifacts import (
    artifact_rows,
    explored_rows,
    file_rows,
    source_rows,
)
from stepline.context.journal.turn_course import Course, Detail
from stepline.context.journal.turn_events import render_course
from stepline.model.block import Block
from stepline.model.entry import Decided, Inbound, Resulted, Titled
from stepline.model.usage import sum_usages
from stepline.rendering.plan_text import count_done, current_plan, plan_steps, render_outline
from stepline.rendering.quote import INDENT, clip, label
from stepline.rendering.render_entry import render_elapsed, render_prompt
from stepline.rendering.turn_facts import feedback_path
from stepline.timeline.workspace import pulled_refs

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
    """Return the messages that opened the turn; long ones are cut, and their paths lead to the whole."""
    course = digest.course
    shown = course.prompts[: detail.rows]
    texts = [detail.fit(render_prompt(event, place.path, "", place.files)) for event, place in shown]
    return "".join([*texts, *detail.more(len(course.prompts) - len(shown))])


def _used(digest: Digest, detail: Detail) -> str:
    """Return the paths of other turns, and of what is in no turn, that this turn has read or pulled."""
    course = digest.course
    own = f":{course.turn.id}."
    read = [str(block.meta["source_path"]) for block in course.blocks if block.meta.get("source_path")]
    pulled = [f"fi:{ref.replace('/', '.', 1)}" for ref in pulled_refs(course.blocks)]
    paths = [path for path in dict.fromkeys([*read, *pulled]) if own not in path]
    return detail.rows_of([f"- {clip(path, detail.chars)}\n" for path in paths])


def _objective(digest: Digest, _: Detail) -> str:
    timeline = digest.course.timeline
    plan = current_plan(timeline.plans.values())
    told = f"plan_id={plan.plan_id}: {count_done(plan)}" if plan else "what the user's message asks for"
    return f"conversation: {label(clip(timeline.title, TITLE_CHARS))}\nobjective: {told}\n"


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
    said = sorted(
        digest.course.timeline.feedback.values(), key=lambda entry: (entry.at, entry.turn, entry.origin)
    )
    return detail.rows_of(
        [
            f"- {entry.at} {entry.origin} on {feedback_path(entry.turn)}: {entry.word}"
            f"{f' {label(clip(entry.text, detail.chars))}' if entry.text else ''}\n"
            for entry in said
        ]
    )


def _contract(digest: Digest, detail: Detail) -> str:
    """Return the steps of the current plan that are not done, below the sentence that says what a slot is."""
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
    return source_rows(digest.course.timeline, detail)


def _progress(digest: Digest, _: Detail) -> str:
    """Return the turn in numbers."""
    course = digest.course
    entries = [entry for _, _, entry in course.rows]
    decisions = [entry for entry in entries if isinstance(entry, Decided)]
    results = Counter(entry.status for entry in entries if isinstance(entry, Resulted))
    told = ", ".join(f"{count} {status}" for status, count in sorted(results.items())) or "none"
    events = sum(isinstance(entry, Inbound) for entry in entries)
    return (
        f"rounds: {len(decisions)}, of them refused: {sum(not entry.accepted for entry in decisions)}\n"
        f"calls: {told}\n"
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
"""The sections that are left out if they are empty."""
