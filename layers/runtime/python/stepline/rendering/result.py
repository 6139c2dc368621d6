"""A result's blocks, stored without redundant facts and read with them; and the paths of a decision's notices.

A block is stored without the facts of its call, and gets them back when it is read.

    tc:<turn>.<call>.notice          the first notice of a call; if the call runs, the notice of its tool
    tc:<turn>.<call>.notice.<n>      further notices, by the runtime, from 1

A notice about a dropped action has the call id that the action would have had; any other notice has the
round's first.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

from stepline.model.block import Block, Produced
from stepline.model.decision import Notice
from stepline.model.entry import Decided, Resulted
from stepline.model.ids import CALL, call_id

SILENT_TYPES: Final = frozenset({"react.plan", "react.plan.ack", "react.state", "react.exit"})
"""Blocks that the model reads in ANNOUNCE or at their path, never in the timeline."""

SILENT: Final = "silent"
"""Meta field that marks a single block as silent, too."""

_PLAIN: Final = Produced()


def result_path(turn: str, call: str) -> str:
    """Return the path of a call's status."""
    return f"tc:{turn}.{call}.result"


def lean_blocks(blocks: Iterable[Block], path: str) -> tuple[Produced, ...]:
    """Return the blocks of a call in the form that its result stores; `path` is the call's own."""
    return tuple(_lean(block, path) for block in blocks)


def whole_blocks(entry: Resulted, turn: str) -> tuple[Block, ...]:
    """Return the stored blocks of a result of this turn, with the facts of their call."""
    return tuple(
        Block(
            type=block.type,
            author=block.author,
            ts=entry.at,
            turn_id=turn,
            path=block.path or result_path(turn, entry.call_id),
            mime=block.mime,
            text=block.text,
            body=block.body,
            call_id=entry.call_id,
            tool_id=entry.tool_id,
            iteration=entry.iteration,
            meta=block.meta,
        )
        for block in entry.blocks
    )


def is_offered(block: Produced) -> bool:
    """Return True if a block is a file offered to the user."""
    meant = block.body is not None and block.path.startswith("fi:")
    return meant and block.meta.get("visibility") == "external"


def _lean(block: Block, path: str) -> Produced:
    # The encoder omits a field only if its value is the default object itself, not merely equal to it.
    kept: dict[str, Any] = {
        name: value
        for name in Produced.__struct_fields__
        if (value := getattr(block, name)) != getattr(_PLAIN, name)
    }
    if block.path == path:
        kept.pop("path")
    return Produced(**kept)


PARENT: Final = "parent_tool_call_id"


def notice_call(notice: Notice, entry: Decided, turn: str) -> str:
    """Return the call id of a notice of a decision."""
    call = notice.extra.get(PARENT)
    return call if isinstance(call, str) and CALL.fullmatch(call) else call_id(turn, entry.iteration, 0)


def notice_paths(entry: Decided, turn: str) -> list[str]:
    """Return the paths of a decision's notices, in order."""
    counts = Counter(action.call_id for action in entry.actions)
    paths = []
    for notice in entry.notices:
        call = notice_call(notice, entry, turn)
        number = counts[call]
        counts[call] += 1
        paths.append(f"tc:{turn}.{call}.notice{f'.{number}' if number else ''}")
    return paths
