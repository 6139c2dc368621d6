"""What the open turn has come to so far, in numbers that ride in the state, so that its end needs no reading back."""

from __future__ import annotations

from stepline.model.base import Row
from stepline.model.usage import Usage


class Tally(Row):
    """Counts of the open turn; all zero while none is open.

    `rounds` are recorded decisions, refused ones included, `files` what was offered to the user, a file once
    each time it is written. `model_ms` is spent on decisions, `tools_ms` in tools. `opened_ms` is when the turn
    began, in milliseconds of the epoch; 0 if that was not counted yet.
    """

    usage: Usage = Usage()
    rounds: int = 0
    files: int = 0
    model_ms: int = 0
    tools_ms: int = 0
    opened_ms: int = 0
