"""Blocks: one turn's entries, piece by piece, each at its logical path.

The log stores each fact once; blocks are derived from it on demand. Only blocks that a tool
produced are in the log themselves. Source: docs/concepts/timeline.md#blocks.

A turn ends with its answers, its final state (`react.turn.finalize`, `react.state`) and the reason of its end
(`react.exit`); a compaction leaves blocks with its summaries. They follow from the turn's own entries, too.
Source: docs/concepts/turn.md#the-end-of-a-turn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, assert_never

import msgspec
from msgspec.structs import asdict

from stepline.model.batch import Batch
from stepline.model.block import Block, Produced
from stepline.model.decision import Action
from stepline.model.entry import (
    TURN_PARTS,
    ApprovalAnswered,
    ApprovalRequested,
    Begun,
    Closed,
    Compacted,
    Compacting,
    Contributed,
    Decided,
    Deferred,
    Deleted,
    Dropped,
    Entry,
    Feedback,
    Forked,
    Imported,
    Importing,
    Inbound,
    Listed,
    Opened,
    Owner,
    Pruned,
    Queued,
    Reopened,
    Resulted,
    Started,
    SteeredEntry,
    TakenOver,
    Titled,
    whole_answer,
)
from stepline.model.ids import Lane, call_id
from stepline.model.plan_steps import Plan
from stepline.model.source import Citation
from stepline.model.usage import Usage
from stepline.protocol.citation.token import cited_sids
from stepline.rendering.excerpt import cap_params
from stepline.rendering.plan_text import plan_facts, render_steps
from stepline.rendering.result import notice_call, notice_paths, result_path, whole_blocks
from stepline.rendering.turn_facts import Turn, event_place, fates_of, inbound_blocks, prompt_places

PRUNED = "older turns were shortened; every path still leads to the whole"

SOURCES_USED: Final = "sources_used"
"""The field of a block's meta with the sids of the sources that it uses."""

BlockGroup = tuple[Block, ...]
"""The blocks of one entry."""


def derive_groups(
    lane: Lane,
    turn: Turn,
    batches: Sequence[Batch],
    prompts: Sequence[Inbound],
    waited: Sequence[Inbound],
    *,
    turns: Sequence[Turn],
) -> tuple[BlockGroup, ...]:
    """Return the blocks of a turn, entry by entry, in the order of the log.

    `batches` go from the one that opened it to the one that closed it, or to the newest; `prompts` are the
    events that opened it, `waited` those that arrived before it and belong to no other turn. `turns` are those of
    the whole conversation.
    """
    walk = _Walk(lane, turn, fates_of(turn.id, batches), turns)
    groups: list[BlockGroup] = []
    for batch in batches:
        own = own_entries(turn, batch)
        for entry in own:
            found = walk.opening(prompts, waited) if isinstance(entry, Opened) else walk.blocks(batch, entry)
            groups.append(tuple(found))
        groups.append(tuple(walk.begin(batch)))
    return tuple(groups)


def own_entries(turn: Turn, batch: Batch) -> tuple[Entry, ...]:
    """Return the entries of a turn's batch that belong to the turn: one batch may end it and open the next."""
    entries = batch.entries
    if batch.n == turn.opened:
        first = next(i for i, e in enumerate(entries) if isinstance(e, Opened) and e.turn == turn.id)
        return entries[first:]
    if batch.n == turn.closed:
        last = next(i for i, e in enumerate(entries) if isinstance(e, Closed) and e.turn == turn.id)
        return entries[: last + 1]
    return entries


class _Walk:
    """The derivation of one turn's blocks, with its answers so far and the newest snapshots of its plans."""

    def __init__(
        self, lane: Lane, turn: Turn, fates: Mapping[int, Mapping[str, str]], turns: Sequence[Turn]
    ) -> None:
        self.lane, self.turn, self.fates, self.turns = lane, turn, fates, turns
        self.attempts: list[Block] = []
        self.plans: dict[str, Plan] = {}
        self.begun = -1
        self.staged = False

    def opening(self, prompts: Sequence[Inbound], waited: Sequence[Inbound]) -> list[Block]:
        turn = self.turn
        blocks = [self.block("turn.header", "system", turn.started_at, text=turn.id)]
        for event, place in zip(prompts, prompt_places(turn.id, prompts), strict=True):
            blocks += inbound_blocks(self.lane, turn.id, event, place, kind="user.prompt")
        return blocks + [block for event in waited for block in self.external(event)]

    def blocks(self, batch: Batch, entry: Entry) -> list[Block]:  # noqa: C901, PLR0911, PLR0912 - one branch a kind of entry
        match entry:
            case Inbound():
                return self.external(entry, **self.fates.get(batch.n, {}))
            case Decided():
                return self.decision(entry, batch.at)
            case Resulted():
                return self.result(entry)
            case Deferred():
                path = f"ar:{self.turn.id}.assistant.completion.attempt.{len(self.attempts)}.outcome"
                kind, text = (
                    "assistant.completion.attempt.outcome",
                    "not the turn's last word: events arrived",
                )
                return [self.block(kind, "react", batch.at, path=path, text=text)]
            case Closed():
                return self.closing(entry)
            case TakenOver():
                name = f"takeover_{entry.takeovers}"
                return [self.message(name, batch.at, "the turn was interrupted and went on from here")]
            case SteeredEntry():
                text = "the user steered" if entry.finalize else "the user said stop"
                return [self.message(f"steered_{entry.n}", entry.at, text)]
            case Pruned():
                return [self.message("cache_pruned", entry.at, PRUNED)]
            case Compacted() if entry.status == "completed":
                return self.summaries(entry, batch.n)
            case Titled() if entry.text:
                return [self.block("stage.gate", "system", entry.at, text=entry.text)]
            case Contributed():
                return [self.contributed(block, entry.at) for block in entry.blocks]
            case ApprovalAnswered() if entry.action is not None:
                return self.call(entry.action, entry.at, entry.iteration)
            case Owner() | Opened() | Reopened() | Started() | Dropped() | Feedback() | Titled():
                return []
            case Compacting() | Compacted() | Listed() | ApprovalRequested() | ApprovalAnswered() | Deleted():
                return []
            case Importing() | Imported() | Forked() | Queued() | Begun():
                return []
            case _:
                assert_never(entry)

    def begin(self, batch: Batch) -> list[Block]:
        """Return the start of the round that begins after a batch: before the model is called, so before its answer."""
        turn, cursor = self.turn.id, batch.state.cursor
        if batch.state.turn != turn or cursor.phase != "decide" or cursor.iteration == self.begun:
            return []
        self.begun = cursor.iteration
        about = {"call_id": call_id(turn, self.begun, 0), "iteration": self.begun}
        path, meta = f"ar:{turn}.react.round.start.{about['call_id']}", {"phase": "decision"}
        return [self.block("react.round.start", "react", batch.at, path=path, meta=meta, **about)]

    def message(self, name: str, at: str, text: str) -> Block:
        path = f"ar:{self.turn.id}.system.message.{name}"
        return self.block("system.message", "system", at, path=path, text=text)

    def contributed(self, block: Produced, at: str) -> Block:
        fields = {name: getattr(block, name) for name in ("path", "mime", "text", "body", "meta")}
        return self.block(block.type, block.author, at, **fields)

    def block(self, kind: str, author: str, ts: str, **fields: Any) -> Block:
        return Block(type=kind, author=author, ts=ts, turn_id=self.turn.id, **fields)

    def external(self, event: Inbound, **fate: str) -> list[Block]:
        turn = self.turn.id
        return inbound_blocks(self.lane, turn, event, event_place(turn, event), **fate)

    def decision(self, entry: Decided, at: str) -> list[Block]:
        turn, round_ = self.turn.id, entry.iteration
        call = entry.actions[0].call_id if entry.actions else call_id(turn, round_, 0)
        common: dict[str, Any] = {"call_id": call, "iteration": round_}
        start = entry.started_at
        blocks: list[Block] = []
        if not self.staged:
            self.staged = True
            blocks.append(self.block("stage.react", "react", start, meta={"model": entry.model}))
        if entry.thinking:
            path, text = f"ar:{turn}.react.thinking.{round_}", "\n".join(entry.thinking)
            blocks.append(
                self.block("react.thinking", "assistant", start, path=path, text=text, iteration=round_)
            )
        if entry.notes:
            path, meta = f"ar:{turn}.react.notes.{call}", {"channel": "timeline_text", "action": entry.action}
            blocks.append(
                self.block(
                    "react.notes", "assistant", start, path=path, text=entry.notes, meta=meta, **common
                )
            )
        if entry.plan is not None:
            blocks += self.ack(entry.plan, at, round_)
        for action in entry.actions:
            blocks += self.call(action, at, round_)
        for notice, path in zip(entry.notices, notice_paths(entry, turn), strict=True):
            text = _json({"code": notice.code, "message": notice.message, **notice.extra})
            about = {**common, "call_id": notice_call(notice, entry, turn)}
            blocks.append(
                self.block(
                    "react.notice", "system", at, path=path, mime="application/json", text=text, **about
                )
            )
        if entry.raw:
            infix = ".interrupted" if entry.interrupted else ""
            cut: dict[str, Any] = {"interrupted": True} if entry.interrupted else {}
            path = f"ar:{turn}.react.decision.raw{infix}.{round_}"
            blocks.append(
                self.block(
                    "react.decision.raw", "assistant", start, path=path, text=entry.raw, meta=cut, **common
                )
            )
        if entry.accepted:
            blocks += self.answer(entry, at)
        return blocks

    def call(self, action: Action, at: str, round_: int) -> list[Block]:
        turn, call = self.turn.id, action.call_id
        common: dict[str, Any] = {"call_id": call, "tool_id": action.tool_id, "iteration": round_}
        blocks: list[Block] = []
        if action.code is not None:
            path = f"fi:{turn}.code.{call}"
            blocks.append(
                self.block("react.tool.code", "assistant", at, path=path, text=action.code, **common)
            )
        params, omitted = cap_params(action.params)
        meta = {"tool_call_preview_capped": True, "omitted_fields": omitted, "payload": action.params}
        text = _json({"tool_id": action.tool_id, "tool_call_id": call, "params": params, "ts": at})
        path = f"tc:{turn}.{call}.call"
        blocks.append(
            self.block(
                "react.tool.call",
                "assistant",
                at,
                path=path,
                mime="application/json",
                text=text,
                meta=meta if omitted else {},
                **common,
            )
        )
        return blocks

    def answer(self, entry: Decided, at: str) -> list[Block]:
        blocks: list[Block] = []
        turn = self.turn.id
        if entry.answer:
            n = len(self.attempts) + 1
            path = f"ar:{turn}.assistant.completion.attempt.{n}"
            attempt = self.block(
                "assistant.completion.attempt",
                "assistant",
                entry.started_at,
                path=path,
                text=whole_answer(entry),
                iteration=entry.iteration,
                meta={"attempt": n, **_cited(entry.answer, entry.citations)},
            )
            self.attempts.append(attempt)
            blocks.append(attempt)
        if entry.summary:
            n = max(1, len(self.attempts))
            path = f"ws:{turn}.conv.working.summary.attempt.{n}"
            meta = {
                "kind": "working_summary",
                "source_channel": "summary",
                "summary_scope": "completion_attempt",
                "attempt": n,
                "covered_turn_ids": [turn],
            }
            blocks.append(
                self.block("conv.working.summary", "assistant", at, path=path, text=entry.summary, meta=meta)
            )
        return blocks

    def result(self, entry: Resulted) -> list[Block]:
        blocks = list(whole_blocks(entry, self.turn.id))
        path = result_path(self.turn.id, entry.call_id)
        if not any(block.path == path for block in blocks):
            fact = {"status": entry.status, **({"error": entry.error} if entry.error else {})}
            status = self.block(
                "react.tool.result",
                "react",
                entry.at,
                path=path,
                mime="application/json",
                text=_json(fact),
                call_id=entry.call_id,
                tool_id=entry.tool_id,
                iteration=entry.iteration,
            )
            blocks.insert(0, status)
        return blocks + [self.plan(plan, entry.at, entry.iteration) for plan in entry.plans]

    def summaries(self, entry: Compacted, n: int) -> list[Block]:
        """Return the texts of batch `n` that replace earlier turns, and the open turn's rounds."""
        turn, blocks = self.turn.id, []
        if entry.cut:
            kind, covered = "conv.range.summary", [one.id for one in self.turns if one.opened < entry.cut]
            meta = {"covered_turn_ids": covered}
            blocks.append(
                self.block(kind, "system", entry.at, path=f"su:{turn}.{kind}", text=entry.summary, meta=meta)
            )
        if entry.split:
            kind = "react.current_turn.compaction_checkpoint"
            path = f"ar:{turn}.react.mid_turn.compaction.{n}"
            blocks.append(self.block(kind, "system", entry.at, path=path, text=entry.checkpoint))
        return blocks

    def plan(self, plan: Plan, at: str, round_: int) -> Block:
        self.plans[plan.plan_id] = plan
        path = f"ar:{self.turn.id}.react.plan.{plan.plan_id}"
        text = _json({**msgspec.to_builtins(plan), "current": plan.current})
        return self.block(
            "react.plan", "react", at, path=path, mime="application/json", text=text, iteration=round_
        )

    def ack(self, plan: Plan, at: str, round_: int) -> list[Block]:
        path = f"ar:{self.turn.id}.react.plan.ack.{round_}"
        text = render_steps(plan)
        return [
            self.block("react.plan.ack", "react", at, path=path, text=text, iteration=round_),
            self.plan(plan, at, round_),
        ]

    def closing(self, entry: Closed) -> list[Block]:
        changed = tuple(self.plans.values())
        return [*completion_blocks(entry, self.attempts), *ending_blocks(entry, changed)]


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


_NO_USAGE: Final = Usage()


def completion_blocks(entry: Closed, attempts: Sequence[Block]) -> list[Block]:
    """Return the answers of a turn, the newest at the plain path, and the suggested followups."""
    answers = [(block.text, block.ts, block.meta) for block in attempts]
    if entry.answer and (not answers or answers[-1][0] != whole_answer(entry)):
        cited = _cited(entry.answer, entry.citations)
        answers.append((whole_answer(entry), entry.started_at or entry.at, cited))
    blocks = []
    for index, (text, ts, about) in enumerate(answers, 1):
        number = "" if index == len(answers) else f".{index}"
        meta = {"completion_index": index, "completion_count": len(answers)}
        if SOURCES_USED in about:
            meta[SOURCES_USED] = about[SOURCES_USED]
        path = f"ar:{entry.turn}.assistant.completion{number}"
        blocks.append(
            Block(
                type="assistant.completion",
                author="assistant",
                ts=ts,
                turn_id=entry.turn,
                path=path,
                text=text,
                meta=meta,
            )
        )
    if entry.followups:
        text = _json(list(entry.followups))
        blocks.append(
            Block(
                type="stage.suggested_followups",
                author="assistant",
                ts=entry.at,
                turn_id=entry.turn,
                mime="application/json",
                text=text,
            )
        )
    return blocks


def _cited(text: str, citations: Sequence[Citation]) -> dict[str, list[int]]:
    """Return the sids that one answer uses; `citations` are the known sources of its decision, with its notes."""
    known = {cited.sid for cited in citations}
    sids = [sid for sid in cited_sids(text) if sid in known]
    return {SOURCES_USED: sids} if sids else {}


def ending_blocks(entry: Closed, plans: Sequence[Plan]) -> list[Block]:
    """Return the final blocks; `plans` are the newest snapshots of the plans that the turn changed."""
    left = [plan for plan in plans if plan.is_open()]
    return [
        _block(entry, "react.turn.finalize", "text/markdown", render_turn_totals(entry, left)),
        _block(entry, "react.state", "application/json", _json(state_facts(entry, plans))),
        _block(entry, "react.exit", "application/json", _json(_exit(entry))),
    ]


def render_turn_totals(entry: Closed, plans: Sequence[Plan]) -> str:
    """Return the result of the turn in figures, with the `plans` that it leaves open."""
    usage = entry.usage or _NO_USAGE
    parts = f"model {_seconds(entry.model_ms)}, tools {_seconds(entry.tools_ms)}"
    lines = [
        f"╔══ TURN {'COMPLETED' if entry.outcome == 'completed' else 'FAILED'} — {entry.reason} ══╗",
        "[BUDGET]",
        f"rounds  {entry.rounds}",
        f"time_elapsed_in_turn  {_seconds(entry.elapsed_ms)} ({parts})",
        f"tokens  {usage.prompt_tokens} in ({usage.cache_read_tokens} cached), {usage.output_tokens} out",
        f"files  {entry.files}",
    ]
    if plans:
        lines.append("[OPEN PLANS]")
    for plan in plans:
        lines += [f"plan_id={plan.plan_id}{' (current)' if plan.current else ''}", render_steps(plan)]
    return "\n".join(lines) + "\n"


def state_facts(entry: Closed, plans: Sequence[Plan]) -> dict[str, Any]:
    """Return the final state of the turn, for machines."""
    return {
        "turn_id": entry.turn,
        **_exit(entry),
        "rounds": entry.rounds,
        "files": entry.files,
        "elapsed_ms": entry.elapsed_ms,
        "model_ms": entry.model_ms,
        "tools_ms": entry.tools_ms,
        **{name: ms for name in TURN_PARTS[2:] if (ms := getattr(entry, name))},
        "model": entry.model,
        "usage": asdict(entry.usage or _NO_USAGE),
        "plans": [plan_facts(plan) for plan in plans],
    }


def _exit(entry: Closed) -> dict[str, str]:
    return {
        "outcome": entry.outcome,
        "reason": entry.reason,
        **({"code": entry.code} if entry.code else {}),
    }


def _block(entry: Closed, kind: str, mime: str, text: str) -> Block:
    return Block(
        type=kind,
        author="react",
        ts=entry.at,
        turn_id=entry.turn,
        path=f"ar:{entry.turn}.{kind}",
        mime=mime,
        text=text,
    )


def _seconds(ms: int) -> str:
    return f"{ms / 1000:.1f}s"
