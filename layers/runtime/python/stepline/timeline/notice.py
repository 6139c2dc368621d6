"""Where the notices of a decision stand: each at a path of its own.

    tc:<turn>.<call>.notice          what there is to say of a call; of one that runs, what its tool says
    tc:<turn>.<call>.notice.<n>      what the runtime says besides, from 1

A notice about a decision that was dropped stands under the call that it would have been, any other under the
round's first.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from stepline.model.decision import Notice
from stepline.model.entry import Decided
from stepline.model.ids import CALL, call_id

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
