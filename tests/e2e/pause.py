"""A release of `act` that waits between two actions until a test has come, so that it can be killed just there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.e2e.release import Releases

WAITING = '''
"""The actions of a round, with a stop before the second one while the gate is there."""

import os
import stat
import time

from lambdas._before.{name} import handler
from stepline.loop import act

GATE = {gate!r}
run_next = act._run_next


def run_later(work, timeline):
    if timeline.state.cursor.action == 1 and os.path.exists(GATE) and stat.S_ISFIFO(os.stat(GATE).st_mode):
        open(GATE, "w").close()  # which waits for a reader
        time.sleep(60)
    return run_next(work, timeline)


act._run_next = run_later
'''


@contextmanager
def pause_before_the_second_action(stage, folder: Path) -> Iterator[Pause]:
    """Yield the gate at which the stage's `act` waits; afterwards the stage is as it was."""
    pause = Pause(stage, folder / "gate")
    releases = Releases(stage)
    try:
        releases.publish("act", WAITING.replace("{gate!r}", repr(str(pause.gate))))
        yield pause
    finally:
        pause.open()
        releases.undo()


class Pause:
    """The gate, a named pipe: a writer waits for a reader."""

    def __init__(self, stage, gate: Path) -> None:
        self.gate = gate
        self._stage = stage
        os.mkfifo(gate)

    def kill(self) -> int:
        """Wait until a worker is at the gate, open it for later ones, and kill that worker."""
        self.gate.read_bytes()
        self.open()
        return self._stage.kill_workers("act")

    def open(self) -> None:
        """Let every worker through."""
        self.gate.unlink(missing_ok=True)
