"""A Python that has imported its programs' modules: each program starts as its fork, without a second of imports.

A program has its own environment, folder, arguments and streams, and ends as the interpreter ends. For tests that are
not about the start of a program.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pytest

# A fork leaves the loop and falls off the script's end, so that an exception, an exit and a signal end it as ever.
_SERVER: Final = """
import importlib, json, os, runpy, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
for line in sys.stdin:
    job = json.loads(line)
    pid = os.fork()
    if not pid:
        break
    print(pid, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
else:
    sys.exit()
os.setsid()
for number, path in enumerate(job["streams"]):
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOCTTY)
    os.dup2(file, number)
    os.close(file)
sys.stdin, sys.stdout = open(0), open(1, "w")
sys.stderr = open(2, "w", buffering=1, errors="backslashreplace")
os.environ.clear()
os.environ.update(job["env"])
os.chdir(job["cwd"])
sys.argv = ["-", *job["argv"]]
sys.path[0] = os.getcwd()
importlib.invalidate_caches()
if job["module"]:
    runpy.run_module(job["module"], run_name="__main__", alter_sys=True)
else:
    exec(job["code"], {"__name__": "__main__"})
"""


class WarmProcess:
    """A running program, with the interface of `subprocess.Popen`."""

    def __init__(self, server: subprocess.Popen[bytes]) -> None:
        # Unbuffered: `select` does not see a line that was read ahead.
        assert server.stdout is not None
        self._answers = server.stdout
        self.pid = int(self._answers.readline())
        self.returncode: int | None = None

    def poll(self, wait_s: float | None = 0) -> int | None:
        """Return the exit code, waiting at most `wait_s` for it."""
        if self.returncode is None and select.select([self._answers], [], [], wait_s)[0]:
            self.returncode = int(self._answers.readline())
        return self.returncode

    def wait(self) -> int | None:
        return self.poll(None)

    def terminate(self) -> None:
        os.kill(self.pid, 15)

    def kill(self) -> None:
        os.kill(self.pid, 9)


class WarmPython:
    """Starts programs, one at a time, with these modules imported."""

    def __init__(self, *modules: str) -> None:
        command = [sys.executable, "-c", _SERVER, *modules]
        self._server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)

    def close(self) -> None:
        self._server.communicate()

    def start(
        self,
        argv: Sequence[object],
        *,
        streams: Sequence[object],
        env: Mapping[str, str],
        module: str = "",
        code: str = "",
        cwd: object = None,
    ) -> WarmProcess:
        """Run a module, or code, with three files or terminals as its streams."""
        job = {"argv": [*map(str, argv)], "streams": [*map(str, streams)], "env": dict(env)}
        job |= {"module": module, "code": code, "cwd": str(cwd or Path.cwd())}
        assert self._server.stdin is not None
        line = memoryview(f"{json.dumps(job)}\n".encode())
        while line:  # an unbuffered pipe may accept only a part
            line = line[self._server.stdin.write(line) or 0 :]
        return WarmProcess(self._server)

    def run(self, command: Sequence[object], **options: Any) -> subprocess.CompletedProcess[str]:
        """Act as `subprocess.run` with captured texts: `python -m MODULE` as a fork, any other command unchanged."""
        if list(command[:2]) != [sys.executable, "-m"]:
            return subprocess.run(list(map(str, command)), **{"check": False, **options})  # noqa: PLW1510 - it is among them
        env = options.get("env") or os.environ  # noqa: TID251 - what a child process inherits
        with tempfile.TemporaryDirectory() as folder:
            said = [Path(folder, name) for name in ("stdout", "stderr")]
            streams = [os.devnull, *said]
            process = self.start(
                command[3:], module=str(command[2]), streams=streams, env=env, cwd=options.get("cwd")
            )
            if process.poll(options.get("timeout")) is None:
                process.kill()
                process.wait()
                raise subprocess.TimeoutExpired(str(command), options["timeout"])
            out, err = (path.read_text() for path in said)
        return subprocess.CompletedProcess(list(command), process.returncode or 0, out, err)

    def serve(self, module: object, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let one of our modules that starts `python -m` start it here."""
        there = {name: getattr(subprocess, name) for name in ("DEVNULL", "STDOUT", "TimeoutExpired")}
        monkeypatch.setattr(module, "subprocess", SimpleNamespace(run=self.run, **there))
