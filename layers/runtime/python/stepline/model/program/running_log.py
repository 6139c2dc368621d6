"""The output of a running program, for users who watch it: its end, stored again while it grows.

One object next to the run's others, `exec/…/<call>/log.json`, which each copy replaces. The program's supervisor
writes it, and has no other connection to these users.

Source: docs/concepts/streaming.md#the-log-of-a-program.
"""

from __future__ import annotations

import re
from typing import Final

from stepline.model.base import Value
from stepline.model.ids import CALL, SEGMENT, TURN, Lane
from stepline.model.path import exec_key
from stepline.model.program.execution import ExecRequest

LOG: Final = "log.json"
LOG_CHARS: Final = 64 * 1024
_NAME: Final = SEGMENT.pattern
_KEY: Final = re.compile(
    rf"exec/({_NAME})/({_NAME})/({_NAME})/({TURN.pattern})/({CALL.pattern})/{re.escape(LOG)}"
)


class RunningLog(Value):
    """The end of a program's output, from its character `start` on, at most LOG_CHARS of it.

    `lane` is the one of the stream that shows it. Characters before `since` were in the copy before this one.
    `ended`: nothing follows. The program ran from `began_at` to `ended_at`, "" if that is not known.
    """

    lane: str
    start: int = 0
    since: int = 0
    text: str = ""
    ended: bool = False
    began_at: str = ""
    ended_at: str = ""

    @property
    def end(self) -> int:
        """The number of characters that the program has printed."""
        return self.start + len(self.text)


def log_lane(request: ExecRequest) -> str:
    """Return the name of the lane of a run's log."""
    return f"exec.{request.index}.log"


def log_key(lane: Lane, turn: str, call: str) -> str:
    """Return the object key of a run's log."""
    return exec_key(lane, turn, call, LOG)


def read_log_key(key: str) -> tuple[Lane, str, str] | None:
    """Return the conversation, the turn and the call of a log's key; None for another key."""
    found = _KEY.fullmatch(key)
    if found is None:
        return None
    tenant, project, conversation, turn, call = found.groups()
    return Lane(tenant=tenant, project=project, conversation=conversation), turn, call
