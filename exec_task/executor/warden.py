"""The warden: creates the tree once, runs the zygote, and creates a cell for every run.

A cell is a new pid, IPC and mount namespace with a first process, `init`, that reaps the program's orphans.
Killing `init` kills everything in the cell; the client that requested the cell holds its pidfd for that. When its
control channel closes, the warden ends, and with it the zygote and every cell. Source:
docs/concepts/execution.md#the-zygote; man page pid_namespaces(7).
"""

from __future__ import annotations

import errno
import json
import os
import select
import signal
import socket
import sys
from pathlib import Path
from typing import Any, Final, NoReturn

from . import jail, kernel, rootfs, zygote

_BOOT_MAX_BYTES: Final = 64 * 1024
_CAP_SYS_ADMIN: Final = 21
_SHARED: Final = kernel.CLONE_NEWNS | kernel.CLONE_NEWNET | kernel.CLONE_NEWUTS | kernel.CLONE_NEWIPC
_HOST: Final = "executor"
_WARDEN: Final = 1
"""The warden's pid in its own pid namespace."""

READY: Final = b"ready"

NO_USER_NAMESPACE: Final = (
    "this kernel makes no user namespaces for an ordinary user ({error}): allow them with the sysctls "
    "user.max_user_namespaces, kernel.unprivileged_userns_clone=1 and "
    "kernel.apparmor_restrict_unprivileged_userns=0 where they exist, or run programs in Docker"
)
NO_NAMESPACE: Final = "the kernel refuses namespaces and mounts ({error}): run programs in Docker"
NO_SYS_ADMIN: Final = (
    "root without CAP_SYS_ADMIN, as in an ordinary container: run as an ordinary user, give the capability, or "
    "run programs in Docker"
)


class Cell:
    """The data that every cell needs: the pid namespace to return to, and the folders that programs read."""

    def __init__(self, own_pids: int, readable: list[Path]) -> None:
        self.own_pids = own_pids
        self.readable = readable


class UnsupportedError(Exception):
    """Programs cannot be isolated this way here; the message names the remedy."""


def main(control_fd: int, channel_fd: int) -> NoReturn:
    """Read the boot plan from the control channel, answer with the result, and then create cells.

    The plan has `root` and `runs` (folders), `home` (the folder of this package), `uid`, `gid`, `preload`.
    """
    control, channel = socket.socket(fileno=control_fd), socket.socket(fileno=channel_fd)
    plan = json.loads(control.recv(_BOOT_MAX_BYTES))
    try:
        namespaces = _leave(plan)
        if warden := os.fork():
            control.close()
            channel.close()
            os._exit(os.waitstatus_to_exitcode(os.waitpid(warden, 0)[1]) & 0xFF)
        kernel.set_pdeathsig(signal.SIGKILL)
        own_pids = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        namespaces += _hide_groups()
        readable = _settle(plan)
    except UnsupportedError as error:
        control.send(json.dumps({"unsupported": str(error)}).encode())
        os._exit(0)
    cells, inner = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    made = os.fork()
    if made == 0:
        control.close()
        cells.close()
        _be_zygote(inner, channel, own_pids, plan["preload"])
    inner.close()
    channel.close()
    control.send(json.dumps({"namespaces": namespaces, "readable": [*map(str, readable)]}).encode())
    _serve(control, cells, Cell(own_pids, readable), os.pidfd_open(made))


def _leave(plan: dict[str, Any]) -> list[str]:
    """Make the next fork begin a pid namespace, in a user namespace if needed.

    Return the names of all namespaces.

    The warden is the first process there, so everything below it ends with it. Also, an unprivileged user can
    return only to a pid namespace that it owns, and the warden returns after every cell.
    """
    if os.geteuid() == 0 and not kernel.capabilities()[0] >> _CAP_SYS_ADMIN & 1:
        raise UnsupportedError(NO_SYS_ADMIN)
    _enter_user_namespace(plan["uid"], plan["gid"])
    try:
        kernel.unshare(kernel.CLONE_NEWPID)
    except OSError as error:
        raise UnsupportedError(NO_NAMESPACE.format(error=error)) from error
    return ["pid", "ipc", "mnt", "net", "uts", "user"]


def _hide_groups() -> list[str]:
    """Enter a cgroup namespace if the kernel allows one, so that programs see no names of parent groups."""
    try:
        kernel.unshare(kernel.CLONE_NEWCGROUP)
    except OSError as error:
        kernel.note_refusal("unshare cgroup", error)
        return []
    return ["cgroup"]


def _settle(plan: dict[str, Any]) -> list[Path]:
    """Enter the namespaces that all runs share; return the interpreter's folders."""
    prefixes = [
        sys.prefix,
        sys.exec_prefix,
        sys.base_prefix,
        sys.base_exec_prefix,
        f"{plan['home']}/executor",
    ]
    try:
        kernel.unshare(_SHARED)
        readable = rootfs.build(
            Path(plan["root"]),
            runs=Path(plan["runs"]),
            prefixes=prefixes,
            uid=plan["uid"],
            gid=plan["gid"],
        )
        socket.sethostname(_HOST)
    except OSError as error:
        raise UnsupportedError(NO_NAMESPACE.format(error=error)) from error
    kernel.drop_bounding_set()  # once for all runs; capabilities already held stay, none can be gained
    kernel.set_dumpable(False)
    return readable


def _enter_user_namespace(uid: int, gid: int) -> None:
    """Enter a user namespace, in which the kernel counts processes separately from the uid's other processes.

    An ordinary caller becomes `uid` and `gid`; outside, it still acts as the caller. Root keeps every id, including
    the owners of other files and the program's own uid, and loses its power over everything that this namespace
    does not own.
    """
    try:
        if os.geteuid() == 0:
            _map_from_outside(
                {name: _same(Path("/proc/self", name).read_text()) for name in ("uid_map", "gid_map")}
            )
            return
        outer_uid, outer_gid = os.geteuid(), os.getegid()
        kernel.unshare(kernel.CLONE_NEWUSER)
        _write_maps(
            "self",
            {"setgroups": "deny", "uid_map": f"{uid} {outer_uid} 1", "gid_map": f"{gid} {outer_gid} 1"},
        )
    except OSError as error:
        raise UnsupportedError(NO_USER_NAMESPACE.format(error=error)) from error


def _same(known: str) -> str:
    """Return the map that keeps every id of a namespace; `known` is that namespace's own map."""
    extents = (line.split() for line in known.splitlines())
    return "\n".join(f"{first} {first} {count}" for first, _, count in extents)


def _map_from_outside(maps: dict[str, str]) -> None:
    """Enter a user namespace whose maps must be written from the current one, by a child that stays in it."""
    entered, entering = os.pipe2(os.O_CLOEXEC)
    owner, writer = os.getpid(), os.fork()
    if writer == 0:
        os.close(entering)
        _write_when_entered(entered, owner, maps)
    os.close(entered)
    try:
        kernel.unshare(kernel.CLONE_NEWUSER)
        os.write(entering, READY)
    finally:
        os.close(entering)
        code = os.waitstatus_to_exitcode(os.waitpid(writer, 0)[1])
    if code:
        raise OSError(code, os.strerror(code))


def _write_when_entered(entered: int, owner: int, maps: dict[str, str]) -> NoReturn:
    """Write the maps of `owner`'s namespace once it exists; exit with 0, or the errno of a failure."""
    code = errno.EIO
    try:
        if os.read(entered, len(READY)):
            _write_maps(str(owner), maps)
        code = 0
    except OSError as error:
        code = error.errno or code
    finally:
        os._exit(code)


def _write_maps(process: str, maps: dict[str, str]) -> None:
    for name, text in maps.items():
        Path("/proc", process, name).write_text(text, encoding="ascii")


def _be_zygote(cells: socket.socket, channel: socket.socket, own_pids: int, preload: list[str]) -> NoReturn:
    kernel.set_pdeathsig(signal.SIGKILL)
    if os.getppid() != _WARDEN:
        os._exit(0)  # it ended before the line above
    from . import main as program  # noqa: PLC0415 - the warden itself has no use for it

    jail.prebuild({"own_pid_ns": True, "protected_pids": []})
    missing = zygote.warm(preload)
    channel.send(json.dumps({"ready": program.__name__, "missing": missing}).encode())
    zygote.serve(cells, channel, own_pids)


def _serve(control: socket.socket, cells: socket.socket, cell: Cell, made: int) -> NoReturn:
    """Create a cell for every message, which names the run's folder and carries the program's socket and pipe.

    The answer is the pidfd of the cell's first process, which also goes to the zygote with the socket and the pipe.
    When the zygote, whose pidfd is `made`, ends, everything here ends.
    """
    events = select.poll()
    events.register(control, select.POLLIN)
    events.register(made, select.POLLIN)
    while True:
        if any(fd == made for fd, _ in events.poll()):
            os._exit(1)
        message, ends, _, _ = socket.recv_fds(control, 4096, 2)
        if not message:
            os._exit(0)
        _reap()
        try:
            pid = _put_up(json.loads(message)["run"], cell)
        except OSError as error:
            control.send(json.dumps({"failed": str(error)}).encode())
            continue
        pidfd = os.pidfd_open(pid)
        socket.send_fds(cells, [b"cell"], [pidfd, *ends])
        socket.send_fds(control, [b'{"cell":true}'], [pidfd])
        for fd in (pidfd, *ends):
            os.close(fd)


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return


def _put_up(run: str, cell: Cell) -> int:
    """Fork the first process of a cell and return its pid when the cell is ready."""
    ready, writer = os.pipe2(os.O_CLOEXEC)
    kernel.unshare(kernel.CLONE_NEWPID)
    try:
        pid = os.fork()
        if pid == 0:
            os.close(ready)  # so that writing fails if the warden has ended by now
            _init(run, writer, cell)
    finally:
        zygote.join(cell.own_pids, kernel.CLONE_NEWPID)
        os.close(writer)
    with os.fdopen(ready, "rb") as pipe:
        word = pipe.read()
    if word != READY:
        os.waitpid(pid, 0)
        raise OSError(f"the cell was not put up: {word.decode(errors='replace')[:500]}")
    return pid


def _init(run: str, writer: int, cell: Cell) -> NoReturn:
    """Run as the first process of a cell: create its folders, then reap until killed."""
    try:
        kernel.set_pdeathsig(signal.SIGKILL)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        kernel.unshare(kernel.CLONE_NEWNS | kernel.CLONE_NEWIPC)
        rootfs.fit(run, cell.readable)
        # In a user namespace the zygote may join only a dumpable process. No process in the cell has the
        # capabilities of this one, so none of them may inspect it anyway.
        kernel.set_dumpable(True)
        os.write(writer, READY)
        kernel.close_range(0)
    except BaseException as error:  # noqa: BLE001 - the error goes to the warden; no code may continue in this fork
        os.write(writer, f"{type(error).__name__}: {error}".encode())
        os._exit(1)
    while True:
        signal.sigwait({signal.SIGCHLD})
        _reap()
