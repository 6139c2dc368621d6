"""A result's blocks, as the log stores them and as everybody reads them: the two directions of one rule.

What a tool produced is stored without what its call says; whoever reads a block gets it whole.

Where the notices of a decision stand: each at a path of its own.

    tc:<turn>.<call>.notice          what there is to say of a call; of one that runs, what its tool says
    tc:<turn>.<call>.notice.<n>      what the runtime says besides, from 1

A notice about a decision that was dropped stands under the call that it would have been, any other under the
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
"""Blocks that the model meets in ANNOUNCE or by reading a path, never in the timeline."""

SILENT: Final = "silent"
"""Meta of a single block of which the same is true."""

_PLAIN: Final = Produced()


def result_path(turn: str, call: str) -> str:
    """Return where the status of a call stands."""
    return f"tc:{turn}.{call}.result"


def lean_blocks(blocks: Iterable[Block], path: str) -> tuple[Produced, ...]:
    """Return the blocks of a call as its result stores them; `path` is the call's own."""
    return tuple(_lean(block, path) for block in blocks)


def whole_blocks(entry: Resulted, turn: str) -> tuple[Block, ...]:
    """Return the blocks that a result of this turn stores, with what the call says about them."""
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
    """Tell whether a block is a file that the user may have."""
    meant = block.body is not None and block.path.startswith("fi:")
    return meant and block.meta.get("visibility") == "external"


def _lean(block: Block, path: str) -> Produced:
    # The encoder leaves a field out if it is the default itself; an equal string of another module is not.
    said: dict[str, Any] = {
        name: value
        for name in Produced.__struct_fields__
        if (value := getattr(block, name)) != getattr(_PLAIN, name)
    }
    if block.path == path:
        said.pop("path")
    return Produced(**said)


PARENT: Final = "parent_tool_call_id"


def notice_call(notice: Notice, entry: Decided, turn: str) -> str:
    """Return the call that a notice of a decision stands under."""
    call = notice.extra.get(PARENT)
    return call if isinstance(call, str) and CALL.fullmatch(call) else call_id(turn, entry.iteration, 0)


def notice_paths(entry: Decided, turn: str) -> list[str]:
    """Return the paths of a decision's notices, in their order."""
    taken = Counter(action.call_id for action in entry.actions)
    paths = []
    for notice in entry.notices:
        call = notice_call(notice, entry, turn)
        number = taken[call]
        taken[call] += 1
        paths.append(f"tc:{turn}.{call}.notice{f'.{number}' if number else ''}")
    return paths
