"""Checks of a log in the making: that its turns, events and compactions fit together as every reader relies on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NoReturn

from stepline.log.importing.foreign_value import refuse
from stepline.model.entry import (
    Closed,
    Compacted,
    Decided,
    Deferred,
    Dropped,
    Entry,
    Feedback,
    Inbound,
    Opened,
    Pruned,
    Resulted,
    Steered,
    TakenOver,
    Titled,
)

_WITHIN = (Decided, Resulted, Deferred, Steered, TakenOver, Compacted, Pruned)
"""Entries that only an open turn has."""


def check_log(slots: Mapping[int, Sequence[Entry]]) -> None:
    """Refuse entries that no log has in this order. Raises InputError `import_bad_rows`."""
    open_turn, arrived = "", dict[int, bool]()
    opened, turns = set[int](), set[str]()
    for n in sorted(slots):
        if n < 1:
            _refuse(n, "batches count from 1")
        if sum(isinstance(entry, Inbound) for entry in slots[n]) > 1:
            _refuse(n, "it has two events")
        for entry in slots[n]:
            match entry:
                case Inbound():
                    arrived[n] = bool(open_turn)
                case Opened():
                    if open_turn or entry.turn in turns:
                        _refuse(n, "it opens a turn while another one is open, or a second time")
                    if len(set(entry.prompts)) < len(entry.prompts) or not arrived.keys() >= set(
                        entry.prompts
                    ):
                        _refuse(n, "it names an event that did not wait for a turn")
                    arrived = {
                        one: True for one, told in arrived.items() if not told and one not in entry.prompts
                    }
                    open_turn = entry.turn
                    turns.add(entry.turn)
                    opened.add(n)
                case Closed():
                    if open_turn != entry.turn:
                        _refuse(n, "it ends a turn that is not open")
                    open_turn = ""
                case Dropped():
                    arrived.pop(entry.n, None)
                case Compacted() if entry.cut and entry.cut not in opened:
                    _refuse(n, "it cuts where no turn began")
                case Feedback() | Titled():
                    pass
                case _ if isinstance(entry, _WITHIN) and not open_turn:
                    _refuse(n, "it has an entry of a turn, and none is open")
                case _:
                    pass


def _refuse(n: int, why: str) -> NoReturn:
    refuse("import_bad_rows", f"batch {n}", why)
