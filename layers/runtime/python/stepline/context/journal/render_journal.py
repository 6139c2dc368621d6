"""The journal's request: system blocks A and B cached, C not; one cached human text, followed by the media.

    system   A  instructions                                                    cached
             B  common tools, active skills, infrastructure tools, skills,      cached
                and the wrap-up block in the last round
             C  the time                                                        not cached
    human    1  operational digest, then the numbers of the loop's rounds       cached
             2  lines of the bundle and of a project's history, if any          not cached
             …  media                                                           not cached

    operational digest = turn session journal (prior turns, current turn), session log, staged artifacts

The session log has a line for each event of the open turn; lines are only added.
A pure function of its arguments. Source: docs/concepts/journal.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from stepline.context.announce import (
    Announced,
    gather_facts,
    render_constraints,
    render_finalize,
)
from stepline.context.estimate import MARGIN
from stepline.context.journal.current_turn import Digest, render_current
from stepline.context.journal.prior_turns import PriorTurns, at_hand
from stepline.context.journal.staged import JournalText, StagedContent
from stepline.context.journal.staged_text import render_shown, render_skills
from stepline.context.journal.turn_course import DETAILS, Course
from stepline.context.media import tokens_to_bytes
from stepline.context.request import Rendered
from stepline.model.decision import RoundFacts
from stepline.model.entry import (
    ApprovalAnswered,
    ApprovalRequested,
    Contributed,
    Decided,
    Deferred,
    Entry,
    Feedback,
    Inbound,
    Resulted,
    SteeredEntry,
    TakenOver,
    Titled,
)
from stepline.model.ids import UTC_ZONE
from stepline.model.usage import BYTES_PER_TOKEN
from stepline.ports.model import Media, Part
from stepline.rendering.piece import byte_length, estimate_bytes
from stepline.rendering.quote import clip
from stepline.rendering.render_entry import render_forked
from stepline.timeline.fold import Timeline

LOG_HEADER: Final = "[SESSION LOG (recent events)] oldest -> newest, append-only\n"
MESSAGE_CHARS: Final = 240
DATA_CHARS: Final = 120
IDS_SHOWN: Final = 8


def render_log(course: Course, most_bytes: int) -> str:
    """Return the log of the turn; if it exceeds `most_bytes`, its oldest lines become a count."""
    lines = [
        _line(entry.at, "user", f"{entry.event} {place.path}", entry.text) for entry, place in course.prompts
    ]
    lines += [
        _line(event.at, "user", f"{event.event} {place.path}", event.text) for event, place in course.waited
    ]
    for _, at, entry in course.rows:
        lines += _lines(at, entry)
    size, left_out = sum(map(byte_length, lines)), 0
    while size > most_bytes and left_out < len(lines):
        size -= byte_length(lines[left_out])
        left_out += 1
    counted = f"- … {left_out} earlier ones\n" if left_out else ""
    return "".join([LOG_HEADER, counted, *lines[left_out:]])


def _line(at: str, area: str, message: str, data: str = "") -> str:
    shown = clip(data, DATA_CHARS)
    return f"- {at} [{area}] {clip(message, MESSAGE_CHARS)}{f' | {shown}' if shown else ''}\n"


def _lines(at: str, entry: Entry) -> Iterator[str]:  # noqa: C901 - one branch a kind of entry
    match entry:
        case Inbound():
            yield _line(entry.at, "user", f"{entry.event} {entry.message_id}", entry.text)
        case Titled():
            yield _line(entry.at, "user.prompt.summary", "titled", entry.title)
        case Decided():
            yield from _decision(at, entry)
        case Resulted():
            code = str((entry.error or {}).get("code", ""))
            rows = [f"{len(entry.sources)} sources"] if entry.sources else []
            data = "; ".join([*([code] if code else []), *rows])
            yield _line(entry.at, "react", f"{entry.tool_id} {entry.call_id}: {entry.status}", data)
        case Deferred():
            yield _line(at, "solver", "the answer was not the last word: events had arrived")
        case SteeredEntry():
            yield _line(entry.at, "solver", f"steered, {entry.finalize} rounds left", entry.text)
        case TakenOver():
            yield _line(at, "solver", "the turn was taken over")
        case ApprovalRequested():
            yield _line(
                entry.at, "solver", f"approval asked for {entry.action.call_id}", entry.action.tool_id
            )
        case ApprovalAnswered():
            yield _line(entry.at, "user", f"{entry.verdict} {entry.call_id}", entry.text)
        case Feedback():
            yield _line(entry.at, "feedback", f"{entry.origin} on {entry.turn}: {entry.word}", entry.text)
        case Contributed():
            yield _line(entry.at, "solver", f"the bundle added {len(entry.blocks)} blocks", entry.code)
        case _:
            pass


def _decision(at: str, entry: Decided) -> Iterator[str]:
    calls = ", ".join(f"{action.tool_id} {action.call_id}" for action in entry.actions[:IDS_SHOWN])
    word = entry.action if entry.accepted else "refused" if not entry.interrupted else "cut off"
    yield _line(at, "react", f"round {entry.iteration + 1}: {word}", calls)
    for notice in entry.notices:
        yield _line(at, "react", "notice", notice.code)
    if staged := (*entry.show_artifacts, *(f"sk:{skill}" for skill in entry.show_skills)):
        yield _line(at, "react", "stages for the next round", ", ".join(staged[:IDS_SHOWN]))


PRIOR_SHARE: Final = 1 / 3
"""The share of prior turns in the room that the constant texts leave: the same in every round of a turn."""
LOG_SHARE: Final = 1 / 8
"""The share of the session log in that room."""
SKILLS_SHARE: Final = 1 / 2
"""The maximum share of the staged skills in that room."""
CURRENT_SHARE: Final = 1 / 2
"""The share of the current turn in the rest; the staged artifacts get the remainder."""
HEADER: Final = "[OPERATIONAL DIGEST]\n[TURN SESSION JOURNAL] oldest -> newest\n"
FRAME_BYTES: Final = 200
"""Room for the lines around the digest's parts."""
GUARD: Final = (
    "Resolve today, yesterday, this week and the like from these lines alone, and say nothing of a date that neither they, "
    "the user nor a source gives: never guess one.\n"
)


def render_journal(
    timeline: Timeline,
    *,
    text: JournalText,
    skills: Sequence[StagedContent],
    shown: Sequence[StagedContent],
    media: Sequence[Media],
    facts: RoundFacts,
    minimum_tokens: int,
) -> Rendered:
    """Return the parts of a request in this layout; `skills`, `shown` and `media` are the contents that this request stages.

    A provider caches no prefix below `minimum_tokens`. Raises LookupError if required batches cannot be read.
    """
    timeline = at_hand(timeline)
    announced = gather_facts(timeline, facts)
    fixed = sum(byte_length(part) for part in (text.instructions, text.tools, text.catalogue))
    whole = int(facts.budget_tokens * BYTES_PER_TOKEN / MARGIN)
    base = max(0, whole - fixed)
    system = _system(text, render_skills(skills, int(base * SKILLS_SHARE)), announced)
    tail = "\n".join(part for part in (facts.workspace.rstrip("\n"), render_constraints(facts.extra)) if part)
    beside = sum(map(byte_length, (*system, tail))) + sum(tokens_to_bytes(one.tokens) for one in media)
    human = _human(timeline, announced, shown, base_bytes=base, room_bytes=whole - beside)
    sizes = [byte_length(system[0]), byte_length(system[0] + system[1])]
    marks = [estimate_bytes(size) >= minimum_tokens for size in (*sizes, sizes[1] + byte_length(human))]
    return Rendered(
        system=(
            Part(text=system[0], cache=marks[0]),
            Part(text=system[1], cache=marks[1]),
            Part(text=system[2]),
        ),
        content=(
            Part(text=human, cache=marks[2]),
            *([Part(text=f"{tail}\n")] if tail else []),
            *media,
        ),
    )


def _system(text: JournalText, skills: str, facts: Announced) -> tuple[str, str, str]:
    """Return the blocks A, B and C."""
    wrapup = text.wrapup if facts.reserved else ""
    second = [text.tools, skills, text.catalogue, wrapup]
    return text.instructions, "\n".join(part for part in second if part), _render_time(facts)


def _render_time(facts: Announced) -> str:
    """Return block C: the time, the user's zone, and the guard against guessed dates."""
    local = f"user_local_time: {facts.local}\n" if facts.local else ""
    return (
        "[TIME EVIDENCE (GROUND TRUTH)]\n"
        f"current_utc_date: {facts.now[:10]}\ncurrent_utc_timestamp: {facts.now}\n"
        f"user_timezone: {clip(facts.timezone or UTC_ZONE, 64)}\n{local}{GUARD}"
    )


def _human(
    timeline: Timeline, facts: Announced, shown: Sequence[StagedContent], *, base_bytes: int, room_bytes: int
) -> str:
    """Return the cached text in `room_bytes`; the shares of the texts that are stable in a turn refer to `base_bytes`."""
    rounds = render_rounds(facts)
    priors = PriorTurns(timeline, int(base_bytes * PRIOR_SHARE))
    log, current = "", ""
    kept = render_forked(timeline.kept_effects)
    left = room_bytes - byte_length(rounds) - byte_length(kept) - FRAME_BYTES
    if (turn := timeline.current) is not None:
        course = Course(timeline=timeline, turn=turn)
        log = render_log(course, int(base_bytes * LOG_SHARE))
        left -= byte_length(log)
        digest = Digest(course=course, announced=facts, notes=priors.notes(timeline))
        spare = left - byte_length(priors.text)
        current = _fit_current(digest, int(spare * CURRENT_SHARE) if shown else spare)
        left -= byte_length(current)
    if byte_length(priors.text) > left:
        priors = PriorTurns(timeline, max(0, left))
    staged = render_shown(shown, left - byte_length(priors.text))
    return f"{HEADER}{priors.text}{kept}{current}\n{log}{staged}\n{rounds}"


def _fit_current(digest: Digest, most_bytes: int) -> str:
    """Return the open turn in the most detail that fits."""
    text = ""
    for detail in DETAILS:
        text = render_current(digest, detail)
        if byte_length(text) <= most_bytes:
            break
    return text


def render_rounds(facts: Announced) -> str:
    """Return the numbers of the loop's rounds, and those that a steer or the last round leaves."""
    last = "LAST ROUND: only complete or exit is accepted.\n" if facts.reserved else ""
    steered = render_finalize(facts)
    return (
        f"[LOOP ROUNDS]\niteration_index: {facts.iteration}\nmax_iterations: {facts.max_iterations + facts.credits}\n"
        f"{last}{f'{steered}{chr(10)}' if steered else ''}"
    )
