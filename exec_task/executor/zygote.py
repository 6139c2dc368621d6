"""The zygote: a process with packages imported that becomes a program by a fork, in a prepared cell.

The fork is made before there is a program, and waits: a program then starts without that cost. Each fork is
used once. The zygote holds and reads no secret: a program's payload arrives through descriptors that only the
fork reads. It is the program's parent outside the cell, so it gets the program's status; it never
touches the cell's files.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import socket
import sys
import traceback
from collections.abc import Sequence
from typing import Final, NoReturn

from . import kernel

REFUSED: Final = 126
PLAN_MAX_BYTES: Final = 4 * 1024 * 1024
_FEED: Final = 3

_SETNS: Final = {"x86_64": 308, "aarch64": 268}


def join(fd: int, flags: int) -> None:
    """Enter the namespaces named by `flags` (CLONE_NEW*) of a pidfd's process, or the namespace of `fd`."""
    kernel.syscall(_SETNS[kernel.MACHINE], fd, flags)


def warm(preload: Sequence[str]) -> list[str]:
    """Import the available modules of `preload`, and freeze them for the collector.

    Return missing or broken ones.
    """
    missing = []
    for name in preload:
        try:
            importlib.import_module(name)
        except Exception:  # noqa: BLE001 - a package that cannot be imported is the program's problem, not ours
            missing.append(name)
    gc.collect()
    gc.freeze()
    return missing


def serve(cells: socket.socket, channel: socket.socket, own_pids: int) -> NoReturn:
    """Fork a program for every cell until the warden ends.

    `own_pids` is a descriptor of this process's pid namespace.

    A cell arrives as the pidfd of its first process, with the socket for the program's payload and the pipe for its
    output. The zygote sends `started`, with a pidfd of the program, and `status` (as from waitpid) to the channel.
    """
    while True:
        message, fds, _, _ = socket.recv_fds(cells, 16, 3)
        if not message:
            os._exit(0)
        try:
            pid = _fork(own_pids, *fds)
        except OSError as error:
            channel.send(json.dumps({"failed": str(error)}).encode())
            continue
        finally:
            for fd in fds:
                os.close(fd)
        program = os.pidfd_open(pid)
        socket.send_fds(channel, [b'{"started":true}'], [program])
        os.close(program)
        _, status = os.waitpid(pid, 0)
        channel.send(json.dumps({"status": status}).encode())


def _fork(own_pids: int, cell: int, feed: int, output: int) -> int:
    join(cell, kernel.CLONE_NEWPID)
    try:
        pid = os.fork()
        if pid == 0:
            _become(cell, feed, output)
    finally:
        join(own_pids, kernel.CLONE_NEWPID)
    return pid


def _become(cell: int, feed: int, output: int) -> NoReturn:
    """Become a program: enter the cell, close the zygote's descriptors, wait for the payload, run it."""
    try:
        join(cell, kernel.CLONE_NEWNS | kernel.CLONE_NEWIPC)
        _reseed_random()
        _redirect_output(output)
        os.dup2(feed, _FEED)
        kernel.close_range(_FEED + 1)
        with socket.socket(fileno=_FEED) as waiting:
            message, fds, _, _ = socket.recv_fds(waiting, 16, 1)
        if not message:
            os._exit(0)  # the program is no longer needed
        (payload,) = fds
        plan = json.loads(os.read(payload, PLAN_MAX_BYTES))
        os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
        kernel.close_range(3)

        from . import main  # noqa: PLC0415 - the zygote has already imported it

        main.run(plan)
    except BaseException:  # noqa: BLE001 - after any error, this fork must never return to the zygote's loop
        traceback.print_exc()
    os._exit(REFUSED)


def _redirect_output(output: int) -> None:
    """Make `output` standard output and error, with new streams: the zygote's streams assume seekable files."""
    for fd, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(output, fd)
        stream = os.fdopen(fd, "w", encoding="utf-8", errors="backslashreplace", closefd=False)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _reseed_random() -> None:
    """Reseed the random generators: numpy's legacy generator would repeat the zygote's numbers in every run."""
    random = sys.modules.get("numpy.random")
    if random is not None:
        random.seed()
