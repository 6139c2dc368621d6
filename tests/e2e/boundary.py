"""The boundaries of the deployed functions: where a worker stops until it is killed, or an answer is lost."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from stepline.local.stage.deployed import REPOSITORY
from tests.e2e.release import Releases

STOPPING = '''
"""The function `{name}`, which stops where a test says."""

import sys

sys.path.append({repository!r})

from lambdas._before.{name} import handler as before
from tests.e2e.stopping import stopping

handler = stopping(before, "{name}", {folder!r})
'''


class Boundary(NamedTuple):
    """The nth write `name` of a function in a conversation, and what happens there: `before`, `after` or `lost`."""

    function: str
    name: str
    nth: int
    how: str

    def __str__(self) -> str:
        return f"{self.function} {self.name} {self.nth} {self.how}"


@contextmanager
def stopping_functions(stage, folder: Path, functions: Sequence[str]) -> Iterator[Path]:
    """Let these functions stop where a plan in the folder says; afterwards the stage is as it was."""
    source = STOPPING.replace("{repository!r}", repr(str(REPOSITORY))).replace(
        "{folder!r}", repr(str(folder))
    )
    releases = Releases(stage)
    try:
        for function in functions:
            releases.publish(function, source)
        yield folder
    finally:
        releases.undo()


@contextmanager
def killing_at(folder: Path, conversation: str, boundary: Boundary) -> Iterator[None]:
    """Let something happen at a boundary of a conversation, and kill who stops there; it must be reached."""
    plan, gate = folder / f"{conversation}.plan", folder / f"{conversation}.gate"
    os.mkfifo(gate)
    plan.write_text(str(boundary))

    def kill() -> None:
        if pid := gate.read_text():  # which waits for a writer
            os.kill(int(pid), signal.SIGKILL)

    killer = threading.Thread(target=kill, daemon=True)
    if boundary.how != "lost":
        killer.start()
    yield
    assert not plan.exists(), f"{boundary}: it was never reached"


def reached(folder: Path, conversation: str) -> Counter[tuple[str, str]]:
    """Return how often which function came to which write in a conversation."""
    lines = (folder / f"{conversation}.trace").read_text().splitlines()
    return Counter((function, name) for function, name in (line.split() for line in lines))
