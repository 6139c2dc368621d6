"""Attempts on other processes, on the machine's limits, and on calls of the kernel. Runs inside the sandbox."""

import ctypes
import fcntl
import mmap
import os
import resource
import signal
import socket
import struct

HOST = {}
# In its own container the program itself is the first process: then the second is another one.
FIRST = 1 if os.getpid() != 1 else 2


def call(name, *args):
    def attempt():
        number = HOST["numbers"][name]
        values = [ctypes.c_long(arg() if callable(arg) else arg) for arg in args]
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.syscall(ctypes.c_long(number), *values) < 0:
            raise OSError(ctypes.get_errno(), name)
        return "done"

    return attempt


def text(value):
    kept.append(ctypes.create_string_buffer(value))
    return ctypes.addressof(kept[-1])


kept = []


def send(pid):
    return lambda: os.kill(HOST[pid] if isinstance(pid, str) else pid, signal.SIGKILL)


def kill_zygotes():
    reached = []
    for pid in HOST["servers"]:
        try:
            os.kill(pid, signal.SIGKILL)
        except OSError:
            continue
        reached.append(pid)
    return reached


def kill_the_supervisors_group():
    os.killpg(HOST["supervisor"], signal.SIGKILL)


def signal_by_pidfd():
    signal.pidfd_send_signal(os.pidfd_open(FIRST), signal.SIGKILL)


def steal_a_descriptor():
    number = HOST["numbers"]["pidfd_getfd"]
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(ctypes.c_long(number), os.pidfd_open(FIRST), 0, 0) < 0:
        raise OSError(ctypes.get_errno(), "pidfd_getfd")


def have_the_kernel_signal():
    ours, _ = socket.socketpair()
    fcntl.fcntl(ours, fcntl.F_SETOWN, FIRST)


def watch_a_folder():
    libc = ctypes.CDLL(None, use_errno=True)
    if (watch := libc.inotify_init1(0)) < 0 or libc.inotify_add_watch(watch, b"/usr/lib", 0xFFF) < 0:
        raise OSError(ctypes.get_errno(), "inotify")


def be_signalled_of_a_folder():
    fcntl.fcntl(os.open("/usr/lib", os.O_RDONLY), fcntl.F_NOTIFY, fcntl.DN_ACCESS | fcntl.DN_MULTISHOT)


def block_writers_of_a_file():
    open("leased", "w").close()
    try:
        fcntl.fcntl(os.open("leased", os.O_RDONLY), fcntl.F_SETLEASE, fcntl.F_RDLCK)
    finally:
        os.unlink("leased")


def see_what_of_a_file_is_in_memory():
    with open("seen", "w+") as file:
        try:
            call("cachestat", file.fileno, lambda: text(bytes(16)), lambda: text(bytes(40)), 0)()
        finally:
            os.unlink("seen")


def give_a_file_attributes(by):
    def attempt():
        with open("given", "w") as file:
            try:
                if by == "ioctl":
                    fcntl.ioctl(file, 0x40086602, struct.pack("q", 0))
                else:
                    call(by, -100, lambda: text(b"given"), lambda: text(bytes(24)), 24, 0)()
            finally:
                os.unlink("given")

    return attempt


def limit_of_core_dumps():
    (limits,) = [line.split()[4:6] for line in open("/proc/self/limits") if line.startswith("Max core file")]
    return limits


def limit_another():
    resource.prlimit(FIRST, resource.RLIMIT_NOFILE, (0, 0))


def slow_down_a_user():
    os.setpriority(os.PRIO_USER, 0, 19)


def slow_down_the_first():
    os.setpriority(os.PRIO_PROCESS, FIRST, 19)


def move_another():
    os.sched_setaffinity(FIRST, {0})


def raise_a_limit():
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard * 2, hard * 2))


def take_all_memory():
    blocks = []
    while True:
        blocks.append(mmap.mmap(-1, 256 << 20))


def take_all_descriptors():
    held = []
    while len(held) < 100_000:
        held.append(os.dup(0))
    return len(held)


def write_a_large_file():
    with open("/workspace/out/large", "wb") as file:
        try:
            for _ in range(101):
                file.write(bytes(HOST["max_file_bytes"] // 100 + 1))
                file.flush()
        finally:
            os.unlink("/workspace/out/large")


def punch_a_large_hole():
    with open("/workspace/out/hole", "wb") as file:
        try:
            os.truncate(file.fileno(), HOST["max_file_bytes"] + 1)
        finally:
            os.unlink("/workspace/out/hole")


def take_disk_by(request):
    """Return an attempt to have blocks that are in no file's size: by a mode of fallocate, or by an ioctl."""

    def attempt():
        libc = ctypes.CDLL(None, use_errno=True)
        with open("beyond", "wb") as file:
            try:
                if request < 256:
                    number = HOST["numbers"]["fallocate"]
                    values = [ctypes.c_long(it) for it in (number, file.fileno(), request, 0, 1 << 20)]
                    if libc.syscall(*values) < 0:
                        raise OSError(ctypes.get_errno(), "fallocate")
                else:
                    fcntl.ioctl(file, request, struct.pack("hhqqiI4i", 0, 0, 0, 1 << 20, *[0] * 6))
                return f"{os.fstat(file.fileno()).st_blocks} blocks"
            finally:
                os.unlink("beyond")

    return attempt


def take_memory_in_files_of_no_folder():
    """Fill files that only a descriptor knows, which no limit on a process counts, up to 32 MB."""
    held = []
    while len(held) < 32:
        held.append(os.memfd_create(f"{len(held)}"))
        os.write(held[-1], bytes(1 << 20))
    return len(held)


def fork_until_refused():
    """Make processes until the kernel has enough; the number that came to be is below the limit."""
    children = []
    try:
        while len(children) < 10_000:
            pid = os.fork()
            if pid == 0:
                signal.pause()
            children.append(pid)
        return len(children)
    finally:
        for pid in children:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def capabilities():
    status = open("/proc/self/status").read()
    return [
        line
        for line in status.splitlines()
        if line.startswith("Cap") and line[:6] != "CapBnd" and int(line[8:], 16)
    ]


NEWUSER, NEWNS, NEWPID, NEWNET = 0x10000000, 0x20000, 0x20000000, 0x40000000
REFUSED = ("EPERM", "EACCES")
GONE = (*REFUSED, "ESRCH")
NO_SUCH_MODE = (*REFUSED, "ENOTSUP")  # another name for EOPNOTSUPP

KERNEL = {
    "a signal to the supervisor": (send("supervisor"), GONE),
    "signals to the warden and the zygote": (kill_zygotes, ([],)),
    "a signal to the supervisor's group": (kill_the_supervisors_group, GONE),
    "a signal to the first process": (send(FIRST), GONE),
    "a signal to every process": (send(-1), REFUSED),
    "a signal by descriptor": (signal_by_pidfd, GONE),
    "a signal by the kernel's hand": (have_the_kernel_signal, REFUSED),
    "a descriptor of another process": (steal_a_descriptor, GONE),
    "limits of the first process": (limit_another, REFUSED),
    "limits of the supervisor": (lambda: resource.prlimit(HOST["supervisor"], resource.RLIMIT_CPU), GONE),
    "the priority of the supervisor": (
        lambda: os.setpriority(os.PRIO_PROCESS, HOST["supervisor"], 19),
        GONE,
    ),
    "the priority of a whole user": (slow_down_a_user, REFUSED),
    "the priority of the first process": (slow_down_the_first, REFUSED),
    "the processors of the first process": (move_another, REFUSED),
    "tracing the first process": (call("ptrace", 16, FIRST, 0, 0), REFUSED),
    "reading memory of the first process": (call("process_vm_readv", FIRST, 0, 0, 0, 0, 0), REFUSED),
    "writing memory of the first process": (call("process_vm_writev", FIRST, 0, 0, 0, 0, 0), REFUSED),
    "comparing with the first process": (call("kcmp", FIRST, os.getpid, 0, 0, 0), REFUSED),
    "a user namespace": (call("unshare", NEWUSER), REFUSED),
    "a mount namespace": (call("unshare", NEWNS), REFUSED),
    "a child in a user namespace": (call("clone", NEWUSER | signal.SIGCHLD, 0, 0, 0, 0), REFUSED),
    "a child in other namespaces": (call("clone", NEWPID | NEWNET | signal.SIGCHLD, 0, 0, 0, 0), REFUSED),
    "a child by the newer call": (call("clone3", lambda: text(bytes(88)), 88), ("ENOSYS", "EPERM")),
    "a sibling instead of a child": (call("clone", 0x8000 | signal.SIGCHLD, 0, 0, 0, 0), REFUSED),
    "entering a namespace": (call("setns", lambda: os.open("/proc/self/ns/net", os.O_RDONLY), 0), REFUSED),
    "a mount": (
        call("mount", lambda: text(b"none"), lambda: text(b"/tmp"), lambda: text(b"tmpfs"), 0, 0),
        REFUSED,
    ),
    "taking a mount away": (call("umount2", lambda: text(b"/workspace/socket"), 2), REFUSED),
    "another root": (call("chroot", lambda: text(b"/tmp")), REFUSED),
    "a root of its own": (call("pivot_root", lambda: text(b"/"), lambda: text(b"/tmp")), REFUSED),
    "a copy of the tree": (call("open_tree", -100, lambda: text(b"/"), 1), REFUSED),
    "a file system context": (call("fsopen", lambda: text(b"tmpfs"), 0), REFUSED),
    "a file by its handle": (call("open_by_handle_at", -100, 0, 0), REFUSED),
    "BPF": (call("bpf", 0, 0, 0), REFUSED),
    "the key ring": (call("keyctl", 0, -3, 0), REFUSED),
    "a key": (call("add_key", lambda: text(b"user"), lambda: text(b"k"), lambda: text(b"v"), 1, -3), REFUSED),
    "faults handled by itself": (call("userfaultfd", 1), (*REFUSED, "ENOSYS")),
    "performance counters": (call("perf_event_open", lambda: text(bytes(128)), 0, -1, -1, 0), REFUSED),
    "another kernel": (call("kexec_load", 0, 0, 0, 0), REFUSED),
    "a kernel module": (call("init_module", 0, 0, 0), REFUSED),
    "a restart": (call("reboot", 0xFEE1DEAD, 672274793, 0, 0), REFUSED),
    "swapping": (call("swapon", 0, 0), REFUSED),
    "the host's name": (call("sethostname", lambda: text(b"x"), 1), REFUSED),
    "the clock": (call("clock_settime", 0, lambda: text(bytes(16))), REFUSED),
    "disk quotas": (call("quotactl", 0, 0, 0, 0), REFUSED),
    "process accounting": (call("acct", 0), REFUSED),
    "typing into a terminal": (lambda: fcntl.ioctl(0, 0x5412, b"x"), REFUSED),
    "another personality": (call("personality", 0x0040000), REFUSED),
    "shared memory that stays": (call("shmget", 0, 4096, 0o1600), REFUSED),
    "a message queue that stays": (call("msgget", 0, 0o1600), REFUSED),
    "capabilities": (capabilities, ([],)),
    "raising a limit": (raise_a_limit, ("ValueError", "EPERM")),
    "all memory": (take_all_memory, ("ENOMEM", "MemoryError")),
    "all descriptors": (take_all_descriptors, ("EMFILE",)),
    "a file beyond the limit": (write_a_large_file, ("EFBIG", "SIGXFSZ")),
    "a hole beyond the limit": (punch_a_large_hole, ("EFBIG", "SIGXFSZ")),
    "disk beyond a file's end": (take_disk_by(1), NO_SUCH_MODE),
    "a hole punched where disk was": (take_disk_by(3), NO_SUCH_MODE),
    "a range that was never written": (take_disk_by(0x11), NO_SUCH_MODE),
    "disk reserved by the older call": (take_disk_by(0x40305828), REFUSED),
    "disk reserved by the newer call": (take_disk_by(0x4030582A), REFUSED),
    "a range of zeros reserved": (take_disk_by(0x40305839), REFUSED),
    "more disk at every write": (take_disk_by(0x401C5820), REFUSED),
    "contexts for I/O, of which the machine has few": (
        call("io_setup", 128, lambda: text(bytes(8))),
        REFUSED,
    ),
    "waiting until all files are written": (call("sync"), REFUSED),
    "waiting until a file system is written": (
        call("syncfs", lambda: os.open(".", os.O_RDONLY)),
        REFUSED,
    ),
    "memory in files of no folder": (take_memory_in_files_of_no_folder, REFUSED),
    "memory that even the kernel cannot read": (call("memfd_secret", 0), REFUSED),
    "news of a folder that others use": (watch_a_folder, REFUSED),
    "news of it by signals": (be_signalled_of_a_folder, REFUSED),
    "a lease, for which others wait": (block_writers_of_a_file, REFUSED),
    "what of a file is in the machine's memory": (see_what_of_a_file_is_in_memory, REFUSED),
    "attributes of a file by the newest call": (give_a_file_attributes("file_setattr"), REFUSED),
    "attributes of a file by the older one": (give_a_file_attributes("ioctl"), REFUSED),
    "core dumps, which a program of the machine may be given": (limit_of_core_dumps, (["1", "1"],)),
    "core dumps by a lower limit": (
        lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)),
        ("ValueError",),
    ),
    "a fork bomb": (fork_until_refused, ("EAGAIN",)),
}
