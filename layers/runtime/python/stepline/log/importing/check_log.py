"""Checks of a log in the making: that its turns, events and compactions fit together as every reader relies on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NoReturn

from stepline.log.importing.foreign_value import refuse
from stepline.model.entry import (
    Closed,
    Compacted,
    Contributed,
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
)

REDUCTIONS_MAX: Final = 1_000
"""The most prunings, compactions and hidings of a log."""
_WITHIN: Final = (Decided, Resulted, Deferred, Steered, TakenOver, Compacted, Pruned, Contributed)
"""Entries that only an open turn has."""
FEEDBACK_MAX: Final = 40
"""The most feedback of one batch, whose rows are put with it in one transaction."""


def check_log(slots: Mapping[int, Sequence[Entry]]) -> None:
    """Refuse entries that no log has in this order. Raises InputError `import_bad_rows`."""
    course = _Course()
    for n in sorted(slots):
        if n < 1:
            _refuse(n, "batches count from 1")
        if sum(isinstance(entry, Inbound) for entry in slots[n]) > 1:
            _refuse(n, "it has two events")
        if sum(isinstance(entry, Feedback) for entry in slots[n]) > FEEDBACK_MAX:
            _refuse(n, f"it has feedback on more than {FEEDBACK_MAX // 2} turns")
        for entry in slots[n]:
            course.take(n, entry)


class _Course:
    """The course of a log: the open turn, where turns began, and the events that wait, each with whether a turn shows it."""

    def __init__(self) -> None:
        self._open = ""
        self._began: set[int] = set()
        self._turns: set[str] = set()
        self._arrived: dict[int, bool] = {}
        self._reduced = 0

    def take(self, n: int, entry: Entry) -> None:
        """Take the next entry."""
        self._count(n, entry)
        match entry:
            case Inbound():
                self._arrived[n] = bool(self._open)
            case Opened():
                self._open_turn(n, entry)
            case Closed():
                if self._open != entry.turn:
                    _refuse(n, "it ends a turn that is not open")
                self._open = ""
            case Dropped():
                self._arrived.pop(entry.n, None)
            case _ if isinstance(entry, _WITHIN) and not self._open:
                _refuse(n, "it has an entry of a turn, and none is open")
            case Compacted() if entry.cut and entry.cut not in self._began:
                _refuse(n, "it cuts where no turn began")
            case _:
                pass

    def _count(self, n: int, entry: Entry) -> None:
        """Refuse more reductions than a conversation has: each goes over all that the model reads."""
        if isinstance(entry, Resulted):
            self._reduced += len(entry.hides)
        self._reduced += isinstance(entry, Pruned | Compacted)
        if self._reduced > REDUCTIONS_MAX:
            refuse("import_too_large", f"batch {n}", f"a log has at most {REDUCTIONS_MAX} reductions")

    def _open_turn(self, n: int, entry: Opened) -> None:
        prompts = set(entry.prompts)
        if self._open or entry.turn in self._turns:
            _refuse(n, "it opens a turn while another one is open, or a second time")
        if len(prompts) < len(entry.prompts) or not self._arrived.keys() >= prompts:
            _refuse(n, "it names an event that did not wait for a turn")
        waited = (one for one, shown in self._arrived.items() if not shown and one not in prompts)
        self._arrived = dict.fromkeys(waited, True)
        self._open = entry.turn
        self._turns.add(entry.turn)
        self._began.add(n)


def _refuse(n: int, why: str) -> NoReturn:
    refuse("import_bad_rows", f"batch {n}", why)
