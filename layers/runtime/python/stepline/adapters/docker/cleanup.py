"""The end of containers and volumes: of a run when its answer stands, and of runs whose caller crashed."""

from __future__ import annotations

import logging
import subprocess
import threading
import time
from collections.abc import Mapping
from typing import Final

from stepline.adapters.docker.plan import EXPIRES, Plan
from stepline.adapters.docker.session import Role

logger = logging.getLogger(__name__)

COMMAND_S: Final = 60.0
GOODBYE_S: Final = 15.0
SWEEP_EVERY_S: Final = 60.0
_FORMAT: Final = f'{{{{.Label "{EXPIRES}"}}}}'


class Cleaner:
    """Removes beside the caller's way: nobody waits for it but `wait`."""

    def __init__(self, docker: str) -> None:
        self._docker = docker
        self._threads: list[threading.Thread] = []
        self._swept_s = -SWEEP_EVERY_S

    def stop(self, container: str) -> None:
        """End a container, after a second in which its program may do so by itself; it stays, with its exit code."""
        self._do("stop", "-t", "1", container)

    def clean(self, plan: Plan, children: Mapping[Role, subprocess.Popen[bytes]]) -> None:
        """Remove what a run made, once its commands have ended, and look for what others left."""
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        due = time.monotonic() - self._swept_s >= SWEEP_EVERY_S
        if due:
            self._swept_s = time.monotonic()
        thread = threading.Thread(target=self._clean, args=(plan, children, due), name="docker-cleanup")
        self._threads.append(thread)
        thread.start()

    def wait(self) -> None:
        """Return when everything is removed, or the daemon gave up."""
        for thread in self._threads:
            thread.join()

    def sweep(self, now_s: float) -> None:
        """Remove the containers and volumes of ours whose time is over."""
        containers = self._expired(("ps", "--all", "--format", "{{.Names}}"), now_s)
        if containers:
            logger.warning("containers of lost runs removed", extra={"count": len(containers)})
            self._do("rm", "--force", *containers)
        volumes = self._expired(("volume", "ls", "--format", "{{.Name}}"), now_s)
        if volumes:
            logger.warning("volumes of lost runs removed", extra={"count": len(volumes)})
            self._do("volume", "rm", "--force", *volumes)

    def _clean(self, plan: Plan, children: Mapping[Role, subprocess.Popen[bytes]], due: bool) -> None:
        if plan.executor_name:
            self._do("rm", "--force", plan.executor_name)
        for role, child in children.items():
            try:
                child.wait(GOODBYE_S)
            except subprocess.TimeoutExpired:
                logger.warning("container did not end by itself", extra={"role": role})
                self._do("rm", "--force", plan.supervisor_name)
                child.kill()
                child.wait()
        if plan.volume:
            self._do("volume", "rm", "--force", plan.volume)
        if due:
            self.sweep(time.time())

    def _expired(self, command: tuple[str, ...], now_s: float) -> list[str]:
        *listing, name = command
        said = self._do(*listing, f"{name} {_FORMAT}", "--filter", f"label={EXPIRES}")
        rows = [line.rpartition(" ") for line in said.splitlines()]
        return [name for name, _, expires in rows if expires.isdecimal() and int(expires) < now_s]

    def _do(self, *arguments: str) -> str:
        """Run a command to its end and return what it said; a daemon that is gone has nothing to remove."""
        try:
            done = subprocess.run(  # noqa: S603 - our own arguments, no shell
                [self._docker, *arguments],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                timeout=COMMAND_S,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            logger.warning("docker does not answer", extra={"command": arguments[0], "reason": str(error)})
            return ""
        if done.returncode:
            logger.info("docker refused", extra={"command": arguments[0], "reason": done.stderr[-300:]})
        return done.stdout
