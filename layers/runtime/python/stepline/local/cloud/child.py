"""Programs that a deployment starts: the CDK, Docker, the app's own modules."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

from stepline.local.stage.deployed import REPOSITORY
from stepline.model.base import Value

TOKEN_VARIABLE: Final = "STEPLINE_TOKEN"  # noqa: S105 - the variable's name
"""Holds the caller's token, which is for the stage's websocket and for no program started here."""

NOT_FOUND: Final = 127
"""The exit code by which a shell says that there is no such program."""


class Done(Value):
    """How a program ended; `text` is what it printed, if that was caught."""

    code: int
    text: str = ""


class Run(Protocol):
    """Start a program, in the checkout unless told otherwise, and wait for its end."""

    def __call__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        *,
        catch: bool = False,
        cwd: Path = REPOSITORY,
    ) -> Done:
        """Let it print where we print, or `catch` what it prints. Never raises for an exit code."""
        ...


def run(
    command: Sequence[str], environment: Mapping[str, str], *, catch: bool = False, cwd: Path = REPOSITORY
) -> Done:
    """Run a program of this machine; one that is not there ends like one that cannot be executed."""
    if not shutil.which(command[0], path=environment.get("PATH")):
        return Done(code=NOT_FOUND, text=f"{command[0]} is not installed")
    known = {name: value for name, value in environment.items() if name != TOKEN_VARIABLE}
    done = subprocess.run(list(command), cwd=cwd, env=known, check=False, capture_output=catch, text=True)
    return Done(code=done.returncode, text=(done.stdout or done.stderr) if catch else "")
