"""Attempts to read what is not the program's, and to write where it must not. Runs inside the sandbox."""

import contextlib
import json
import os
import socket
import stat
import subprocess
import sys

HOST = {}
MAIN = os.getpid()
MARK = "escape-was-here"


def read(path):
    return lambda: open(path if path.startswith("/") else HOST[path]).read()


def write(path):
    def attempt():
        with open(path if path.startswith("/") else HOST[path], "w") as file:
            file.write(MARK)

    return attempt


def shown_secrets():
    """Look for the secret wherever a file can be read, and in the kernel's data about processes."""
    files = ("environ", "cmdline", "mountinfo")
    places = [f"/proc/{pid}/{name}" for pid in filter(str.isdigit, os.listdir("/proc")) for name in files]
    for root in HOST["roots"]:
        for top, _, names in os.walk(root):
            places += [os.path.join(top, name) for name in names]
    # It comes in two halves, for this text is in the program's own file.
    secret = "".join(HOST["secret_halves"]).encode()
    found = []
    for path in places:
        try:
            if path.startswith("/proc") or stat.S_ISREG(os.lstat(path).st_mode):
                with open(path, "rb") as file:
                    found += [path] * (secret in file.read(1 << 20))
        except OSError:
            continue
    return found


def secrets_of_tools():
    """Lie in wait where a supervisor might write what its tools need, have it call a tool, and look."""
    for folder in ("/tmp/descriptors", "/tmp/stepline", "/dev/shm/descriptors", "/workspace/descriptors"):
        with contextlib.suppress(OSError):
            os.mkdir(folder)
    from agent_io_tools import tool_call

    with contextlib.suppress(Exception):  # at any answer, its host exists now
        tool_call("react.read", {"paths": ["ar:none"]})
    return shown_secrets()


def keys_of_the_function():
    """Have a function call a server, then look for its secret, the model's key and the ticket of the run."""
    from agent_io_tools import tool_call

    assert tool_call("mcp.crm.add", {}) == "served"
    return shown_secrets()


def undeclared_calls():
    """Ask the model, and servers that were not granted; return the codes."""
    from agent_io_tools import ToolCallError, tool_call

    codes = []
    for tool_id in ("model_tools.ask", "mcp.crm.delete", "mcp.other.add", "react.memsearch"):
        try:
            codes.append(tool_call(tool_id, {"prompt": "x", "query": "x"}))
        except ToolCallError as refused:
            codes.append(refused.code)
    return sorted(set(codes))


def environment():
    """Return the undocumented variables."""
    known = """
    WORKDIR OUTPUT_DIR EXECUTION_ID BUNDLE_ID BUNDLE_ROOT AGENT_IO_CONTEXT PATH HOME TMPDIR MPLCONFIGDIR MPLBACKEND
    LANG LC_ALL LC_CTYPE TZ PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE OPENBLAS_NUM_THREADS OMP_NUM_THREADS MKL_NUM_THREADS
    NUMEXPR_NUM_THREADS XDG_CACHE_HOME
    """
    return sorted(set(os.environ) - set(known.split()))


def inherited_descriptors():
    """Return what is open above 2 and is not the connection to the supervisor."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            fd = int(name)
            status = os.fstat(fd)
        except OSError:
            continue  # the folder that was just listed
        if fd <= 2 or (stat.S_ISSOCK(status.st_mode) and peer_of(fd).endswith("/socket/supervisor.sock")):
            continue
        found.append(os.readlink(f"/proc/self/fd/{fd}"))
    return found


def peer_of(fd):
    with socket.socket(fileno=os.dup(fd)) as connection:
        try:
            return connection.getpeername()
        except OSError:
            return ""


def others():
    """Yield the processes in sight that are not the program's own."""
    own = {MAIN, os.getpid(), os.getppid()}
    for name in filter(str.isdigit, os.listdir("/proc")):
        if int(name) not in own:
            yield int(name)


def look_into_others():
    found = []
    for pid in [*others(), HOST["supervisor"], *HOST["servers"]]:
        for name in ("environ", "mem", "maps", "fd", "root", "cwd", "exe"):
            path = f"/proc/{pid}/{name}"
            try:
                if name in ("root", "cwd", "exe"):
                    os.readlink(path)
                elif name == "fd":
                    os.readlink(f"{path}/{os.listdir(path)[0]}")  # an empty folder reveals nothing
                else:
                    open(path, "rb").read(1)
            except (OSError, IndexError):
                continue
            found.append(path)
    return found


def write_into_others():
    found = []
    for pid in [*others(), HOST["supervisor"], *HOST["servers"]]:
        for name in ("mem", "oom_score_adj", "clear_refs", "timerslack_ns", "comm"):
            try:
                with open(f"/proc/{pid}/{name}", "r+b", buffering=0) as file:
                    file.write(b"0")
            except OSError:
                continue
            found.append(f"{pid}/{name}")
    return found


def leave_by_a_link():
    os.symlink("/", "/tmp/up")
    try:
        return open("/tmp/up" + HOST["world_readable"]).read()
    finally:
        os.unlink("/tmp/up")


def leave_by_proc_root():
    return open(f"/proc/1/root{HOST['world_readable']}").read()


def hard_link_to_a_foreign_file():
    os.link("/etc/passwd", "/workspace/out/passwd")


def take_the_socket_away():
    os.unlink("/workspace/socket/supervisor.sock")


def put_another_socket_there():
    os.rename("/workspace/work/user_code.py", "/workspace/socket/supervisor.sock")


def listen_in_its_place():
    socket.socket(socket.AF_UNIX).bind("/workspace/socket/second.sock")


def open_the_socket_for_all():
    os.chmod("/workspace/socket/supervisor.sock", 0o777)


def rename_the_workspace():
    os.rename("/workspace/socket", "/workspace/other")


def change_the_bundle():
    open("/workspace/bundle/guide/roses.md", "a").write(MARK)


def remove_from_the_bundle():
    os.unlink("/workspace/bundle/guide/roses.md")


def put_another_file_into_the_bundle():
    os.rename("/workspace/work/user_code.py", "/workspace/bundle/guide/roses.md")


def open_the_bundle_for_writing():
    os.chmod("/workspace/bundle/guide", 0o777)


def take_the_bundle():
    os.chown("/workspace/bundle/guide/roses.md", os.getuid(), os.getgid())


def move_the_bundle():
    os.rename("/workspace/bundle", "/workspace/other")


def change_site_packages():
    places = {path for path in sys.path if path and not path.startswith(("/workspace", "/tmp"))}
    places |= {os.path.dirname(json.__file__), os.path.dirname(os.__file__)}
    written = []
    for place in sorted(places):
        try:
            write(os.path.join(place, "sitecustomize.py"))()
        except OSError:
            continue
        written.append(place)
    return written


def change_a_module_in_place():
    open(json.__file__, "a").write("\n")


def make_a_device():
    os.mknod("/workspace/out/disk", 0o600 | stat.S_IFBLK, os.makedev(254, 0))


def become(call, *args):
    return lambda: getattr(os, call)(*args)


def setuid_binaries():
    """Return the setuid files that were executed with another effective uid than ours.

    The dynamic loader prints the kernel's auxiliary vector to any unprivileged user.
    """
    gained = []
    for top in ("/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/lib/openssh", "/usr/lib/dbus-1.0"):
        for name in os.listdir(top) if os.path.isdir(top) else ():
            path = os.path.join(top, name)
            try:
                status = os.lstat(path)
                if not stat.S_ISREG(status.st_mode) or not status.st_mode & (stat.S_ISUID | stat.S_ISGID):
                    continue
                printed = subprocess.run(
                    [path, "--help"],
                    env={"LD_SHOW_AUXV": "1"},
                    stdin=-3,
                    capture_output=True,
                    text=True,
                    check=False,
                    timeout=1,
                ).stdout
            except (OSError, subprocess.SubprocessError):
                continue
            facts = dict(line.split(":", 1) for line in printed.splitlines() if line.startswith("AT_"))
            if {facts.get(f"AT_{n}", "").strip() for n in ("UID", "EUID", "GID", "EGID")} != {
                str(os.getuid())
            }:
                gained.append(path)
    return gained


def run_what_it_wrote():
    path = f"/tmp/program-{os.getpid()}"
    with open(path, "w") as file:
        file.write("#!/bin/sh\necho ran\n")
    os.chmod(path, 0o755)
    try:
        return subprocess.run([path], capture_output=True, text=True, check=True).stdout
    finally:
        os.unlink(path)


REFUSED = ("EACCES", "EPERM", "EROFS")
NOT_THERE = ("ENOENT", "EACCES", "EPERM")

FILES = {
    "a world-readable file of the host": (read("world_readable"), NOT_THERE),
    "a file of the host that only root may read": (read("root_only"), NOT_THERE),
    "the host's file through a link": (leave_by_a_link, NOT_THERE),
    "the host's file through another process's root": (leave_by_proc_root, NOT_THERE),
    "/etc/shadow": (read("/etc/shadow"), NOT_THERE),
    "the host's disk": (read("/dev/vda"), NOT_THERE),
    "the kernel's memory": (read("/dev/mem"), NOT_THERE),
    "/proc/kcore": (read("/proc/kcore"), NOT_THERE),
    "the environment of the first process": (read("/proc/1/environ"), NOT_THERE),
    "the secret, anywhere": (shown_secrets, ([],)),
    "the secrets of a tool, once it has been called": (secrets_of_tools, ([],)),
    "the key of the model, the secrets of servers and the ticket, once a call was made": (
        keys_of_the_function,
        ([],),
    ),
    "the model, servers and memory that were not granted": (undeclared_calls, (["tool_not_allowed"],)),
    "undocumented variables": (environment, ([],)),
    "descriptors that were left open": (inherited_descriptors, ([],)),
    "memory, descriptors and root of the supervisor, the zygote and every process": (look_into_others, ([],)),
    "writing into other processes by /proc": (write_into_others, ([],)),
    **{
        f"writing to {path}": (write(path), REFUSED)
        for path in (
            "/escaped",
            "/etc/escaped",
            "/usr/lib/escaped",
            "/workspace/escaped",
            "/workspace/socket/escaped",
            "/workspace/bundle/escaped",
            "/workspace/bundle/guide/escaped",
        )
    },
    "writing to the host's file": (write("world_readable"), (*NOT_THERE, "EROFS")),
    "writing to /proc/sys/kernel/core_pattern": (
        write("/proc/sys/kernel/core_pattern"),
        (*NOT_THERE, "EROFS"),
    ),
    "writing to /proc/sysrq-trigger": (write("/proc/sysrq-trigger"), (*NOT_THERE, "EROFS")),
    "writing to the control groups": (write("/sys/fs/cgroup/escaped"), (*NOT_THERE, "EROFS")),
    "changing what the next run imports": (change_site_packages, ([],)),
    "appending to a module of Python": (change_a_module_in_place, REFUSED),
    "a hard link to a foreign file": (hard_link_to_a_foreign_file, (*REFUSED, "EXDEV")),
    "a device": (make_a_device, REFUSED),
    "removing the supervisor's socket": (take_the_socket_away, REFUSED),
    "putting a file in its place": (put_another_socket_there, (*REFUSED, "EXDEV")),
    "listening beside it": (listen_in_its_place, REFUSED),
    "opening it for every user": (open_the_socket_for_all, REFUSED),
    "moving its folder": (rename_the_workspace, (*REFUSED, "EBUSY")),
    "changing a file of the bundle": (change_the_bundle, REFUSED),
    "removing a file of the bundle": (remove_from_the_bundle, REFUSED),
    "putting another file in its place": (put_another_file_into_the_bundle, (*REFUSED, "EXDEV")),
    "opening the bundle for writing": (open_the_bundle_for_writing, REFUSED),
    "becoming the owner of a file of the bundle": (take_the_bundle, REFUSED),
    "moving the bundle": (move_the_bundle, (*REFUSED, "EBUSY")),
    "becoming root": (become("setuid", 0), (*REFUSED, "EINVAL")),
    "becoming the group root": (become("setgid", 0), (*REFUSED, "EINVAL")),
    "changing its groups": (become("setgroups", [0]), (*REFUSED, "EINVAL")),
    "setuid programs": (setuid_binaries, ([],)),
    "executing a file that it wrote": (run_what_it_wrote, REFUSED),
}
NOT_FORKED = {"descriptors that were left open"}
