"""Run child programs of a deployment: the CDK, Docker, the app's own modules."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

from stepline.local.stage.deployed import REPOSITORY
from stepline.model.base import Value

CALLER_TOKEN_VARIABLE: Final = "STEPLINE_TOKEN"  # noqa: S105 - the variable's name
"""The variable with the caller's token. It is used for the stage's websocket; no child program gets it."""

NOT_FOUND: Final = 127
"""The exit code of a shell for a missing program."""


class Done(Value):
    """A program's exit code, and its output if that was captured."""

    code: int
    text: str = ""


class RunCommand(Protocol):
    """Start a program, by default in the checkout, and wait for it to end."""

    def __call__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        *,
        catch: bool = False,
        cwd: Path = REPOSITORY,
    ) -> Done:
        """Run with our output, or capture it with `catch`. Never raises for an exit code."""


def run(
    command: Sequence[str], environment: Mapping[str, str], *, catch: bool = False, cwd: Path = REPOSITORY
) -> Done:
    """Run a program of this machine; a missing one gives exit code 127."""
    if not shutil.which(command[0], path=environment.get("PATH")):
        return Done(code=NOT_FOUND, text=f"{command[0]} is not installed")
    known = {name: value for name, value in environment.items() if name != CALLER_TOKEN_VARIABLE}
    done = subprocess.run(list(command), cwd=cwd, env=known, check=False, capture_output=catch, text=True)
    return Done(code=done.returncode, text=(done.stdout or done.stderr) if catch else "")
