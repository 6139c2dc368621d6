"""Questions and orders to the daemon about one container of a run."""

from __future__ import annotations

import logging
import subprocess
from typing import Final

logger = logging.getLogger(__name__)

COMMAND_S: Final = 60.0


def stop(docker: str, container: str) -> None:
    """End a container, after a second in which its program may do so by itself; it stays, with its exit code."""
    _ask(docker, "stop", "-t", "1", container)


def was_out_of_memory(docker: str, container: str) -> bool:
    """Return whether the kernel ended an ended container because its memory was used up."""
    return _ask(docker, "inspect", "--format", "{{.State.OOMKilled}}", container).strip() == "true"


def _ask(docker: str, *arguments: str) -> str:
    """Return what a short command prints; nothing, and a warning in the log, if it fails."""
    try:
        done = subprocess.run(  # noqa: S603 - our own arguments, no shell
            [docker, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=True,
            timeout=COMMAND_S,
        )
    except (OSError, subprocess.SubprocessError) as error:
        logger.warning("docker did not answer", extra={"asked": arguments, "reason": str(error)})
        return ""
    return done.stdout
