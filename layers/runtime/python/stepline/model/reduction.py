"""Entries by which the model reads less of a conversation; every path still leads to the whole."""

from __future__ import annotations

from typing import Literal, TypeAlias

from stepline.model.base import Value
from stepline.model.usage import Usage

CompactionKind: TypeAlias = Literal["history", "history_with_split_turn", "current_turn_prefix"]
CompactionTrigger: TypeAlias = Literal["render_token_limit", "forced"]


class Pruned(Value, tag="pruned", tag_field="kind"):
    """Older turns are read shorter from here on: no cache of them lives (`ttl`), it pays (`price`), or to make room (`budget`).

    The `keep` newest turns, counting the open one, stay turns, the `intact` newest of them untouched; older ones
    become cards or rows. `settled`: of the open turn, too, the results up to this batch are read by their stubs.
    """

    turn: str
    at: str
    cause: Literal["ttl", "price", "budget"]
    keep: int
    intact: int
    settled: int = 0
    before_tokens: int = 0
    after_tokens: int = 0


class Compaction(Value):
    """What both ends of a compaction say. `id` names it; tokens are estimates of the whole request."""

    id: str
    turn: str
    at: str
    scope: CompactionKind
    trigger: CompactionTrigger
    before_tokens: int
    max_tokens: int


class Compacting(Compaction, tag="compacting", tag_field="kind"):
    """A compaction begins: a model is about to be asked for a summary."""


class Compacted(Compaction, tag="compacted", tag_field="kind"):
    """A compaction ended, for better or worse.

    `completed`: the model reads `summary`, which has absorbed an older one, in place of every turn before the one
    that batch `cut` opened, and `checkpoint` in place of the open turn's rounds up to batch `split`; 0 is nothing of
    the kind. What else stays has `room` bytes, the longest of it cut to fit; 0 is no bound. `reason` says why nothing
    changed, or why the words are the runtime's and no model's. `summary` covers `turns` turns, the ids of the first
    and the last are `covered`. `usage` is what the summaries cost.
    """

    status: Literal["completed", "skipped", "error"]
    reason: str = ""
    cut: int = 0
    summary: str = ""
    split: int = 0
    checkpoint: str = ""
    room: int = 0
    turns: int = 0
    covered: tuple[str, ...] = ()
    after_tokens: int = 0
    usage: Usage | None = None
