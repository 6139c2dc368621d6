"""The model's view of one entry, as one text; and every line that the format itself may write."""

from __future__ import annotations

import re
from collections.abc import Sequence

from stepline.model.entry import Decided, Resulted
from stepline.rendering.pieces_of_entry import Writer
from stepline.rendering.text_form import STANDARD

PATH = r"[a-z]{2}:\S+"
STRUCTURE = re.compile(
    r"|━{38}|TURN \S+ \(started at \S+\)|┌──────── ROUND \d+ ────────┐|└────────────────────────┘"
    rf"|\[ts: \S+\]|\[path: {PATH}\]|\[carried over from: {PATH}\]|\[decided before it could read: .+\]"
    rf"|\[(?:thinking|AI Agent wrote code|REACT DECISION RAW INTERRUPTED)\](?: {PATH})?|\[AI Agent say\]: .*"
    rf"|\[AI Agent say\]: {PATH}|\[TOOL CALL tc_\w+\]\.call \S+|\[EDITED BY THE USER\] instead of tc_\w+, which was not run:|Params: \{{.*|\[TOOL RESULT tc_\w+\]\.result \S+"
    r"|\[(?:USER MESSAGE|FOLLOWUP DURING TURN|STEER DURING TURN|EXTERNAL EVENT: [a-z][a-z0-9_-]*|ASSISTANT MESSAGE|INTERNAL NOTE"
    r"|ASSISTANT MESSAGE ATTEMPT OUTCOME|PROTOCOL VIOLATION|REACT NOTICE|SYSTEM MESSAGE|BINARY FILE NOT ATTACHED"
    r"|USER FEEDBACK|AUTO FEEDBACK|OPEN PLANS|WORKING SUMMARY|PRUNED TURN DATA|COMPACTED PLAN HISTORY"
    r"|COMPACTED PRIOR CONVERSATION MEMORY|END COMPACTED PRIOR CONVERSATION MEMORY|MID-TURN COMPACTION \d+)\]"
    r"|\[FILE ATTACHED\] .+|\[(?:NOT )?ATTACHED\] .+"
    r"|\[[A-Z ]+ PREVIEW TRUNCATED\]|full_text_(?:chars|bytes): \d+|tokens_estimate: \d+|visible_preview_chars: \d+"
    r"|preview_lines: 1-\d+ of \d+|shape:|preview:|\.\.\.\[truncated\]: .+"
    r"|\[completion: \d+\]|\[sources_used: \[[\d, …a-z]+\]\]|\[BUDGET\] rounds=\d+ elapsed=\w+"
    r"|status: .+|error: \{.*|code: .*|message:|extra: \{.*|reaction: \w+|waiting: .+"
    rf"|logical_path: {PATH}|mime: .+|size_bytes: \d+|visibility: internal|summary: .+|content: stored.+"
    r"|plan_id=.+|\[USER ATTACHMENT(?: TEXT)?\] .*|\[STAGE\] [\w.]+|\[TURN ENDED\] .+|\[FORKED\] .+|\[TURN STATUS\] .+"
    rf"|(?:user|assistant|tool_call|tool_result|file|skill|source|stage): path={PATH}.*|… \d+ more rows.*"
    rf"|\[TOOL RESULT tc_\w+\]\.pruned \S+ path={PATH}.*|\[TRUNCATED FILE\] path={PATH}.*"
    rf"|\[AI Agent wrote code\]\.pruned {PATH}.*|\[HIDDEN\] react\.read shows it again"
    r"|covered_turns \(\d+\): .+|time_range: .+|use: .+|recover: .+|turn: \S+|… \d+ older plans"
    r"|reactive: no|sent_by: (?:user|service \".*)|payload: \{.*"
    r"|The user (?:steered|said stop) \(ar:\S+\)\. .+|The user has this message\. .+|The turn was interrupted and .+|Above, turns before .+"
)


def forged(text: str) -> list[str]:
    """Return the lines of a timeline that the format did not write and that are not indented as data."""
    return [line for line in text.splitlines() if line[:2] != "  " and not STRUCTURE.fullmatch(line)]


def render_decision(entry: Decided, turn: str, *, attempt: int, unseen: Sequence[str]) -> str:
    pieces = Writer(STANDARD, turn, 1).decision(1, entry, attempt, unseen)
    return "".join(piece.text for piece in pieces)


def render_result(entry: Resulted, turn: str, *, last: bool) -> str:
    return "".join(piece.text for piece in Writer(STANDARD, turn, 1).result(1, entry, last=last))
