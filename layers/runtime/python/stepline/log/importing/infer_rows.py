"""Rows of a turn whose document has none: the entries are inferred from the types and the order of the blocks.

The existing system keeps blocks only. A round is its thinking, notes, calls and answer together. A result is the blocks
that follow with the id of a call. The end is the completions with the final state. Any other block was contributed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from stepline.errors import PathError
from stepline.log.importing.foreign_value import Findings, object_of
from stepline.log.importing.read_ending import COMPLETION
from stepline.model.base import Value
from stepline.model.block import Block
from stepline.model.path import SourcesPath, parse_path
from stepline.protocol.citation.token import cited_sids
from stepline.rendering.turn_facts import ATTACHMENT
from stepline.timeline.entry_rows import (
    AnyRow,
    BatchRow,
    ClosedRow,
    CompactedRow,
    ContributedRow,
    DecidedRow,
    DeferredRow,
    InboundRow,
    OpenedRow,
    ResultedRow,
    TitledRow,
)
from stepline.timeline.sources_pool import SID_MAX

IMPORTED_OPEN: Final = "imported_open"
"""The code of a turn that was still open when it was exported: the import ends it."""

_DECISION: Final = frozenset(
    {
        "stage.react",
        "react.thinking",
        "react.notes",
        "react.plan.ack",
        "react.tool.code",
        "react.tool.call",
        "react.decision.raw",
        "react.notice",
        "assistant.completion.attempt",
        "conv.working.summary",
    }
)
_EVENTS: Final = frozenset({"user.followup", "user.steer", "event.external"})
_ENDING: Final = frozenset(
    {COMPLETION, "stage.suggested_followups", "react.turn.finalize", "react.state", "react.exit"}
)
_ANSWERS: Final = ("assistant.completion.attempt", COMPLETION)
_OWN_WORDS: Final = frozenset({"react.turn.finalize", "react.state", "react.exit"})
"""Blocks of an end that Stepline generates itself."""
_SUMMARY: Final = "conv.range.summary"
_OUTCOME: Final = "assistant.completion.attempt.outcome"
_FEEDBACK: Final = "turn.feedback"


class Inferred(Value):
    """The rows in the order of their batches, the blocks in the order in which the rows consume them, and the last batch."""

    rows: tuple[BatchRow, ...]
    blocks: tuple[Block, ...]
    last: int


def infer_rows(
    turn: str,
    blocks: Sequence[Block],
    n: int,
    *,
    sids: Collection[int],
    left: dict[int, None],
    findings: Findings,
) -> Inferred:
    """Return the rows of a turn that begins in batch `n`.

    `sids` are the numbers of the pool, `left` those that no result has carried yet: the first result that names one
    carries it.
    """
    walk = _Walk(turn, n, sids, findings)
    walk.left = left
    at = walk.opening(blocks)
    while at < len(blocks):
        at = walk.next(blocks, at)
    walk.end(blocks[-1].ts)
    return Inferred(rows=tuple(walk.rows), blocks=(*walk.blocks, *walk.feedback), last=walk.n - 1)


class _Walk:
    """The course of one turn, block by block."""

    def __init__(self, turn: str, n: int, sids: Collection[int], findings: Findings) -> None:
        self.turn, self.n, self._sids, self._findings = turn, n, sids, findings
        self.rows: list[BatchRow] = []
        self.blocks: list[Block] = []
        self.feedback: list[Block] = []
        self._round: list[Block] = []
        self._ending: list[Block] = []
        self._calls: dict[str, str] = {}
        self._done: set[str] = set()
        self._attempts: list[str] = []
        self._iteration = -1
        self._opened = n
        self.left: dict[int, None] = {}

    def opening(self, blocks: Sequence[Block]) -> int:
        """Read the opening blocks of the turn; return the index of the first block after them."""
        at, early = 0, list[Block]()
        while at < len(blocks) and (blocks[at].type == _SUMMARY or _is_preserved(blocks[at])):
            early.append(blocks[at])
            at += 1
        opening = list[Block]()
        if at < len(blocks) and blocks[at].type == "turn.header":
            opening.append(blocks[at])
            at += 1
        loose, prompts = list[Block](), list[int]()
        while at < len(blocks) and blocks[at].type == "user.prompt":
            event, others, at = _with_files(blocks, at)
            opening += event
            loose += others
            prompts.append(self.n + len(prompts))
        self.n = self._opened = prompts[-1] if prompts else self.n
        began = (opening or blocks)[0].ts
        self._put(OpenedRow(blocks=len(opening), prompts=tuple(prompts)), opening, began)
        for block in (*early, *loose):
            self._other(block)
        return at

    def next(self, blocks: Sequence[Block], at: int) -> int:
        """Read the blocks at an index; return the index after them."""
        block = blocks[at]
        if block.type in _EVENTS:
            event, loose, end = _with_files(blocks, at)
            self._put_complete_round()
            self._put(InboundRow(blocks=len(event)), event, block.ts)
            for one in loose:
                self._other(one)
            return end
        if self._is_of_result(block):
            end = at + 1
            while (
                end < len(blocks) and blocks[end].call_id == block.call_id and _may_follow_call(blocks[end])
            ):
                end += 1
            self._result(blocks[at:end])
            return end
        self._single(block)
        return at + 1

    def _single(self, block: Block) -> None:
        """Read a block that is neither an event nor a result."""
        if block.type in _DECISION or (block.type == "react.plan" and self._acknowledged()):
            self._round.append(block)
            if block.type == "react.tool.call" and block.call_id:
                self._put_round()
        elif block.type in _ENDING:
            self._ending.append(block)
        elif block.type == _FEEDBACK:
            self.feedback.append(block)
        elif block.type in ("react.round.start", "turn.header"):
            self._put_round()
            self._findings.change(block.type)
        else:
            self._put_complete_round()
            self._other(block)

    def _put_complete_round(self) -> None:
        """Put the round's decision if it is complete: in a log, it comes before the block that follows here."""
        if any(one.type in ("react.tool.call", "assistant.completion.attempt") for one in self._round):
            self._put_round()

    def _is_of_result(self, block: Block) -> bool:
        """Return True if a block belongs to the result of a known call that has no result yet."""
        if block.call_id not in self._calls or block.call_id in self._done:
            return False
        return _may_follow_call(block) and not (block.type == "react.notice" and self._round)

    def end(self, at: str) -> None:
        """End the turn as its ending blocks describe, or as one that was still running."""
        self._put_round()
        ending = self._ending
        answers = [block for block in ending if block.type == COMPLETION]
        missing = len(answers) - 1 - len(self._attempts)
        if answers and missing > 0:
            for block in answers[:missing]:
                self._findings.change("completion_as_attempt")
                self._round = [block]
                self._put_round()
        if not ending:
            self._findings.change(IMPORTED_OPEN)
            ending = [closed_open(self.turn, at)]
        for block in ending:
            if block.type in _OWN_WORDS:
                self._findings.change(block.type)
        row = ClosedRow(blocks=len(ending), answered=bool(answers))
        self._put(row, ending, ending[-1].ts)

    def _acknowledged(self) -> bool:
        return bool(self._round) and self._round[-1].type == "react.plan.ack"

    def _put(self, row: AnyRow, blocks: Sequence[Block], at: str) -> None:
        self.rows.append(BatchRow(n=self.n, at=at, entries=(row,)))
        self.blocks += blocks
        self.n += 1

    def _put_round(self) -> None:
        """Put the round's decision, if there is one."""
        own, self._round = self._round, []
        if not own:
            return
        calls = {block.call_id: block.tool_id for block in own if block.type == "react.tool.call"}
        answers = [block.text for block in own if block.type in _ANSWERS]
        accepted = bool(calls or answers or any(block.type == "conv.working.summary" for block in own))
        cut = any(block.meta.get("interrupted") is True for block in own)
        self._iteration = max(self._iteration + 1, *(block.iteration for block in own))
        began = next((block.ts for block in own if block.type in _ANSWERS), own[0].ts)
        text = "\n".join([*answers, *(block.text for block in own if block.type == "react.notes")])
        row = DecidedRow(
            blocks=len(own),
            iteration=self._iteration,
            rendered=self.n - 1,
            started_at=began,
            action="call_tool" if calls and not answers else "complete" if accepted else "exit",
            accepted=accepted,
            interrupted=cut and not accepted,
            citations=tuple(sid for sid in cited_sids(text) if sid in self._sids),
        )
        self._put(row, own, own[-1].ts)
        self._calls |= calls
        self._attempts += answers

    def _result(self, own: Sequence[Block]) -> None:
        self._put_round()
        made = [block for block in own if block.type != "react.plan"]
        plans = [block for block in own if block.type == "react.plan"]
        call = own[0].call_id
        self._done.add(call)
        facts = object_of(made[0].text) if made and made[0].path.endswith(".result") else None
        failed = bool(facts and facts.get("error"))
        row = ResultedRow(
            blocks=len(own),
            call_id=call,
            tool_id=self._calls[call] or own[0].tool_id,
            iteration=max(self._iteration, 0),
            status="error" if failed else "ok",
            stored=len(made),
            plans=len(plans),
            sources=tuple(sid for block in own for sid in self._named(block.path)),
        )
        self._put(row, [*made, *plans], own[0].ts)

    def _named(self, path: str) -> list[int]:
        """Return the sids of the pool that a path names."""
        if "sources_pool" not in path:
            return []
        try:
            found = parse_path(path)
        except PathError:
            return []
        ranges = (found.ranges or ((1, SID_MAX),)) if isinstance(found, SourcesPath) else ()
        named = [sid for sid in self.left if any(first <= sid <= last for first, last in ranges)]
        for sid in named:
            del self.left[sid]
        return named

    def _other(self, block: Block) -> None:
        """Put a block that has no round: a summary of earlier turns, a title, or a contributed block."""
        if block.type == _SUMMARY:
            row: AnyRow = CompactedRow(blocks=1, cut=self._opened)
        elif block.type == _OUTCOME:
            row = DeferredRow(blocks=1)
            self._findings.change(block.type)
        elif block.type == "stage.gate" and block.text:
            row = TitledRow(blocks=1)
        else:
            row = ContributedRow(blocks=1)
        self._put(row, [block], block.ts)


def closed_open(turn: str, at: str) -> Block:
    """Return the ending block that an import gives a turn without an end."""
    text = f'{{"outcome":"error","reason":"error","code":"{IMPORTED_OPEN}"}}'
    return Block(type="react.exit", author="react", ts=at, turn_id=turn, text=text, mime="application/json")


def _is_preserved(block: Block) -> bool:
    """Return True if a compaction of the existing system kept the block next to its summary."""
    return block.type.endswith((".preserved", ".history"))


def _may_follow_call(block: Block) -> bool:
    return block.type not in _DECISION or block.type == "react.notice"


def _with_files(blocks: Sequence[Block], at: int) -> tuple[list[Block], list[Block], int]:
    """Return an event with the files whose bytes are named, its other files, and the index after all of them."""
    event, loose = [blocks[at]], list[Block]()
    at += 1
    while at < len(blocks) and blocks[at].type.startswith(ATTACHMENT):
        pair = blocks[at : at + 2]
        kinds = [block.type for block in pair]
        whole = kinds == [f"{ATTACHMENT}.meta", ATTACHMENT] and pair[0].path == pair[1].path
        if whole and pair[1].body is not None:
            event += pair
            at += 2
        else:
            loose.append(blocks[at])
            at += 1
    return event, loose, at
