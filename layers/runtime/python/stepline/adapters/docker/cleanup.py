"""Removal of containers and volumes: after a run's answer, or after its caller's end.

Each run has a guard, a shell that waits at the end of a pipe. It removes everything when the run is over, or
when the pipe closes because the caller was killed, so no program outlives its caller. Leftovers of killed
guards, as after a power failure, are removed by a later run, by the time in their label.
"""

from __future__ import annotations

import contextlib
import logging
import subprocess
import time
from collections.abc import Iterable
from typing import Final

from stepline.adapters.docker.command_line import EXPIRES, Plan
from stepline.adapters.docker.containers import COMMAND_S

logger = logging.getLogger(__name__)

SWEEP_EVERY_S: Final = 60.0

# Empty standard input means the caller was killed, perhaps while the daemon was still creating objects. A
# volume is free a moment after its last container is gone.
_GUARD: Final = """
docker=$1 volume=$2
shift 2
read -r told || {
    "$docker" rm --force --volumes "$@"
    sleep 5
}
"$docker" rm --force --volumes "$@"
[ -n "$volume" ] || exit 0
for pause in 0.1 0.3 1 3 10; do
    "$docker" volume rm "$volume" && break
    "$docker" volume inspect "$volume" || break
    sleep $pause
done
"""
_SWEEP: Final = f"""
docker=$1
now=$(date +%s)
overdue() {{ while read -r name expires; do [ "${{expires:-$now}}" -lt "$now" ] && echo "$name"; done; }}
label='{{{{.Label "{EXPIRES}"}}}}'
for name in $("$docker" ps --all --filter label={EXPIRES} --format "{{{{.Names}}}} $label" | overdue); do
    "$docker" rm --force --volumes "$name"
done
for name in $("$docker" volume ls --filter label={EXPIRES} --format "{{{{.Name}}}} $label" | overdue); do
    "$docker" volume rm "$name"
done
"""


class Cleaner:
    """Removes the containers and volumes of runs."""

    def __init__(self, docker: str) -> None:
        self._docker = docker
        self._leaving: list[subprocess.Popen[bytes]] = []
        self._swept_s = -SWEEP_EVERY_S

    def guard(self, plan: Plan) -> subprocess.Popen[bytes]:
        """Start to guard a run's objects, until `clean` or the end of this process."""
        names = [name for name in (plan.executor_name, plan.supervisor_name) if name]
        return self._begin(_GUARD, plan.volume, *names, stdin=subprocess.PIPE)

    def clean(self, guard: subprocess.Popen[bytes], children: Iterable[subprocess.Popen[bytes]]) -> None:
        """Have a run's guard remove everything, and from time to time other leftovers.

        `children` are the run's commands.
        """
        assert guard.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # the guard was killed; a later run removes its objects
            guard.stdin.write(b"over\n")
        guard.stdin.close()
        self._leaving = [child for child in self._leaving if child.poll() is None]
        self._leaving += children
        if time.monotonic() - self._swept_s >= SWEEP_EVERY_S:
            self._swept_s = time.monotonic()
            self.sweep()

    def sweep(self) -> None:
        """Start removing our containers and volumes whose time is over."""
        self._begin(_SWEEP)

    def wait(self) -> None:
        """Return when everything is removed, or the daemon gave up."""
        for child in self._leaving:
            try:
                child.wait(COMMAND_S)
            except subprocess.TimeoutExpired:
                logger.warning("a command of docker does not end")
                child.kill()
                child.wait()
        self._leaving.clear()

    def _begin(
        self, script: str, *arguments: str, stdin: int = subprocess.DEVNULL
    ) -> subprocess.Popen[bytes]:
        child = subprocess.Popen(  # noqa: S603 - our own script and names
            ["/bin/sh", "-c", script, "sh", self._docker, *arguments],
            stdin=stdin,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            bufsize=0,
        )
        self._leaving.append(child)
        return child
