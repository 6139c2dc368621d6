"""Prior turns in the journal: the request, the outcome, and the deliverables; never the results of tools.

The text of a closed turn never changes, so the prior turns are a stable beginning. The newest turns are shown while there
is room; the others are one line, with their number and how to find them.
Source: docs/concepts/journal.md#prior-turns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from stepline.model.block import Block, read_note
from stepline.rendering.piece import byte_length
from stepline.rendering.quote import clip, quote
from stepline.rendering.turn_facts import Turn
from stepline.timeline.fold import Timeline
from stepline.timeline.workspace import fold_files

TURNS_MAX: Final = 24
"""Maximum prior turns shown: their batches are read at once."""
PROMPT_CHARS: Final = 800
EVENT_CHARS: Final = 240
ANSWER_CHARS: Final = 800
SUMMARY_CHARS: Final = 1_200
OBJECTIVE_CHARS: Final = 240
ROWS_SHOWN: Final = 12
"""Maximum rows of messages, files, tools or slots of a turn."""
NAME_CHARS: Final = 160
GOAL: Final = "goal:"
"""The field of a working summary that names the objective."""

STATUSES: Final = ("completed", "partial", "removed")
"""The statuses of slots: of a successful turn, of a failed turn, and of files that no longer exist."""


class PriorTurns:
    """The texts of the newest prior turns that fit, oldest first; `shown` are their turns."""

    def __init__(self, timeline: Timeline, room_bytes: int) -> None:
        closed = [turn for turn in timeline.history if turn.closed]
        texts: list[str] = []
        for turn in reversed(closed[-TURNS_MAX:]):
            text = render_prior(timeline, turn)
            room_bytes -= byte_length(text)
            if room_bytes < 0:
                break
            texts.append(text)
        self.shown: tuple[Turn, ...] = tuple(closed[len(closed) - len(texts) :])
        self.text = "".join([_omitted(closed[: len(closed) - len(texts)]), *reversed(texts)])

    def notes(self, timeline: Timeline) -> list[Block]:
        """Return the notes that the shown turns left."""
        return [block for turn in self.shown for block in timeline.turn_blocks(turn.id) if is_note(block)]


def at_hand(timeline: Timeline) -> Timeline:
    """Return the timeline with the batches of its newest turns loaded at once. Raises LookupError."""
    history, spare = timeline.history, TURNS_MAX + 1
    newest, before = history[-spare:], history[-spare - 1 : -spare]
    # A turn's events begin where the previous turn ended, and the events that opened it may be older still.
    starts = [n - 1 for turn in newest for n in turn.prompts]
    first = min([*starts, before[0].closed if before else 0])
    if first >= timeline.base:
        return timeline
    return replace(timeline, base=first, batches=timeline.since(first))


def is_note(block: Block) -> bool:
    """Return True if a block is a note of the agent for itself."""
    return block.type == "react.note"


def note_rows(blocks: Iterable[Block]) -> list[tuple[str, str, str]]:
    """Return the tagged lines of notes, each with its tag and the path of its note; an untagged note becomes one line."""
    return [
        (tag, text, block.path)
        for block in blocks
        for tag, text in (read_note(block.text) or [("", block.text)])
    ]


def _omitted(turns: Sequence[Turn]) -> str:
    if not turns:
        return ""
    ids = turns[0].id if len(turns) == 1 else f"{turns[0].id} to {turns[-1].id}"
    return (
        f"[EARLIER TURNS] {len(turns)} not shown ({ids}): react.memsearch finds them, and "
        "ar:<turn_id>.react.turn.index lists the paths of each\n"
    )


def render_prior(timeline: Timeline, turn: Turn) -> str:
    """Return a closed turn: prompt, objective, gate, log, slots by status, answer and summary."""
    blocks = timeline.turn_blocks(turn.id)
    summaries = timeline.resolve(f"ws:{turn.id}.conv.working.summary")
    summary = summaries[-1].text if summaries else ""
    ended = f"{turn.outcome}, {clip(turn.reason, NAME_CHARS)}"
    parts = [
        f"\n=== PRIOR TURN {turn.id} (started at {turn.started_at}; {ended})\n",
        _prompts(blocks),
        _objective(blocks, summary),
        f"[GATE] {'a gate named the conversation' if _has(blocks, 'stage.gate') else 'no gate in this turn'}\n",
        _log(blocks),
        _slots(turn, blocks),
        _answers(blocks),
        f"[TURN SUMMARY] ws:{turn.id}.conv.working.summary\n{_fit(summary, SUMMARY_CHARS)}",
    ]
    return "".join(parts)


def _has(blocks: Iterable[Block], kind: str) -> bool:
    return any(block.type == kind for block in blocks)


def _fit(text: str, chars: int) -> str:
    """Return the beginning of a foreign text as lines of data; the path above it leads to the rest."""
    shown = text[:chars].rstrip()
    return f"{quote(shown)}{'…' if len(shown) < len(text.rstrip()) else ''}\n" if shown else ""


def _prompts(blocks: Sequence[Block]) -> str:
    """Return the messages that opened the turn, the later messages, and the files of both."""
    opened = [block for block in blocks if block.type == "user.prompt"]
    later = [
        block
        for block in blocks
        if ".external." in block.path and not block.type.startswith("user.attachment")
    ]
    files = [block for block in blocks if block.type == "user.attachment" and block.body]
    rows = [
        f"[USER PROMPT SUMMARY] {block.path}\n{_fit(block.text, PROMPT_CHARS)}"
        for block in opened[:ROWS_SHOWN]
    ]
    rows += [
        f"- {clip(block.type, NAME_CHARS)} {block.path}: {clip(block.text, EVENT_CHARS)}\n"
        for block in later[-ROWS_SHOWN:]
    ]
    rows += [
        f"- attachment {block.path} | {clip(block.mime, NAME_CHARS)} | {block.body.size_bytes if block.body else 0} bytes\n"
        for block in files[:ROWS_SHOWN]
    ]
    return "".join(rows)


def _objective(blocks: Sequence[Block], summary: str) -> str:
    """Return the goal named by the turn's summary, and the plan that the turn worked on."""
    goal = next((line for line in summary.splitlines() if line.lower().startswith(GOAL)), "")
    plans = [block.path for block in blocks if block.type == "react.plan"]
    objective = clip(goal[len(GOAL) :], OBJECTIVE_CHARS) or "as the prompt says"
    return f"[OBJECTIVE] {objective}\n" + (f"- plan: {plans[-1]}\n" if plans else "")


def _log(blocks: Sequence[Block]) -> str:
    """Return the number of rounds, and the number of calls of each tool."""
    rounds = sum(block.type == "react.round.start" for block in blocks)
    calls = Counter(block.tool_id for block in blocks if block.type == "react.tool.call")
    listed = [f"{clip(tool, NAME_CHARS)} x{count}" for tool, count in calls.most_common(ROWS_SHOWN)]
    notices = sum(block.type == "react.notice" for block in blocks)
    rest = f"; notices: {notices}" if notices else ""
    return f"[SOLVER LOG] rounds: {rounds}; calls: {', '.join(listed) or 'none'}{rest}\n"


def offered_files(turn: Turn, blocks: Iterable[Block]) -> dict[str, Block]:
    """Return the slots of a turn: the newest block of each external file below its `outputs/`, by path."""
    root = f"fi:{turn.id}.outputs/"
    return {
        block.path: block
        for block in blocks
        if block.body and block.path.startswith(root) and block.meta.get("visibility") == "external"
    }


def slot_row(path: str, block: Block) -> str:
    """Return a slot on one line: its name, its path, and its type."""
    name = path.partition(".outputs/")[2]
    mime, size = (block.body.mime, block.body.size_bytes) if block.body else (block.mime, 0)
    return f"- {clip(name, NAME_CHARS)}: {path} | {clip(mime, NAME_CHARS)} | {size} bytes\n"


def _slots(turn: Turn, blocks: Sequence[Block]) -> str:
    slots = offered_files(turn, blocks)
    if not slots:
        return "[PRODUCED SLOTS] none\n"
    here = {f"fi:{path.replace('/', '.', 1)}" for path in fold_files(blocks)}
    done = STATUSES[0] if turn.outcome == "completed" else STATUSES[1]
    grouped: dict[str, list[str]] = {status: [] for status in STATUSES}
    for path, block in slots.items():
        grouped[done if path in here else STATUSES[2]].append(slot_row(path, block))
    rows = ["[PRODUCED SLOTS]\n"]
    for status, found in grouped.items():
        more = [f"- … {len(found) - ROWS_SHOWN} more\n"] if len(found) > ROWS_SHOWN else []
        rows += [f"{status}:\n", *found[:ROWS_SHOWN], *more] if found else []
    return "".join(rows)


def _answers(blocks: Sequence[Block]) -> str:
    found = [block for block in blocks if block.type == "assistant.completion"]
    if not found:
        return "[ASSISTANT RESPONSE SUMMARY] none: the turn ended without an answer\n"
    newest = found[-1]
    earlier = f" (the last of {len(found)})" if len(found) > 1 else ""
    return f"[ASSISTANT RESPONSE SUMMARY] {newest.path}{earlier}\n{_fit(newest.text, ANSWER_CHARS)}"
