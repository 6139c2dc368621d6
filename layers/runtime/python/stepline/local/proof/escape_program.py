"""A program that tries to leave its jail, and the outcomes by which each attempt is refused.

It needs nothing but Python and leaves nothing changed where an attempt succeeds. `tests/security/escape` has the whole
suite, which needs a machine of one's own. Source: docs/concepts/execution.md#the-jail.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_REFUSED: Final = ("EACCES", "EPERM")
_NOT_THERE: Final = (*_REFUSED, "ENOENT", "ENOTDIR")
_NOT_WRITTEN: Final = (*_NOT_THERE, "EROFS")
_NONE: Final = ("none",)

ATTEMPTS: Final[Mapping[str, tuple[str, ...]]] = {
    "an IPv4 socket": _REFUSED,
    "an IPv6 socket": _REFUSED,
    "a datagram socket": _REFUSED,
    "a raw socket": _REFUSED,
    "a netlink socket": _REFUSED,
    "a socket to the hypervisor": _REFUSED,
    "the metadata address": _REFUSED,
    "the address of a task's credentials": _REFUSED,
    "the runtime interface of a function": _REFUSED,
    "a name server": ("gaierror",),
    "the socket of a container daemon": (*_NOT_THERE, "ECONNREFUSED"),
    "secrets in its environment": _NONE,
    "secrets in the environment of other processes": _NONE,
    "the memory of other processes": _NONE,
    "open files of other processes": _NONE,
    "another root by a process": _NONE,
    "passwords of the system": _NOT_THERE,
    "the disk": _NOT_THERE,
    "the memory of the kernel": _NOT_THERE,
    "the home of root": _NOT_THERE,
    "writing to /": _NOT_WRITTEN,
    "writing to /etc": _NOT_WRITTEN,
    "writing to /usr/lib": _NOT_WRITTEN,
    "writing beside its folders": _NOT_WRITTEN,
    "writing to the bundle": _NOT_WRITTEN,
    "writing beside the supervisor's socket": _NOT_WRITTEN,
    "changing a module of Python": _NOT_WRITTEN,
    "changing a setting of the kernel": _NOT_WRITTEN,
    "becoming root": (*_REFUSED, "EINVAL"),
    "a namespace of its own": _REFUSED,
    "tracing a process": _REFUSED,
    "a tool that was not granted": ("tool_not_allowed", "unknown_tool"),
    "a tool with another token": ("unauthorized",),
    "a tool without the supervisor": ("ModuleNotFoundError",),
}
"""The attempts, each with the outcomes of a refusal: an errno, an exception, a code, or a search that found none."""

PROGRAM: Final = r"""
# A test of this sandbox by its operator. Every line of its output should be a refusal; it changes nothing.
import ctypes, errno, json, os, socket

def sock(*args):
    return lambda: socket.socket(*args).close()

def dial(host, port):
    return lambda: socket.create_connection((host, port), 3).close()

def read(path):
    return lambda: os.listdir(path) if path == "/root" else open(path, "rb").read(1)

def write(path):
    def attempt():
        new = not os.path.exists(path)
        open(path, "ab").close()
        if new:
            os.unlink(path)
    return attempt

def call(name, *args):
    def attempt():
        if getattr(ctypes.CDLL(None, use_errno=True), name)(*args) < 0:
            raise OSError(ctypes.get_errno(), name)
    return attempt

def others(name, look):
    def attempt():
        found = []
        for pid in {*filter(str.isdigit, os.listdir("/proc"))} - {str(os.getpid())}:
            try:
                found += [pid] * bool(look(f"/proc/{pid}/{name}"))
            except OSError:
                pass
        return found
    return attempt

def variables():
    words = ("AWS", "ECS", "KEY", "SECRET", "PASSWORD", "CREDENTIAL", "STEPLINE")
    return [name for name in os.environ if any(word in name for word in words)]

def tool():
    from agent_io_tools import tool_call
    tool_call("react.write", {"path": "x.txt", "content": "x"})

def forge():
    body = {"v": 1, "id": 1, "type": "call", "token": "x" * 43, "tool_id": "react.read", "params": {}}
    data = json.dumps(body).encode()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(30)
        connection.connect(json.loads(os.environ["AGENT_IO_CONTEXT"])["socket"])
        connection.sendall(len(data).to_bytes(4, "big") + data)
        answer = json.loads(connection.recv(65536)[4:])
    if not answer["ok"]:
        error = Exception()
        error.code = answer["error"]["code"]
        raise error

def library():
    import stepline

stream = socket.SOCK_STREAM
attempts = {
    "an IPv4 socket": sock(socket.AF_INET),
    "an IPv6 socket": sock(socket.AF_INET6),
    "a datagram socket": sock(socket.AF_INET, socket.SOCK_DGRAM),
    "a raw socket": sock(socket.AF_INET, socket.SOCK_RAW, 1),
    "a netlink socket": sock(16, socket.SOCK_RAW, 0),
    "a socket to the hypervisor": sock(40, stream),
    "the metadata address": dial("169.254.169.254", 80),
    "the address of a task's credentials": dial("169.254.170.2", 80),
    "the runtime interface of a function": dial("127.0.0.1", 9001),
    "a name server": lambda: socket.getaddrinfo("example.com", 443),
    "the socket of a container daemon": lambda: socket.socket(socket.AF_UNIX).connect("/var/run/docker.sock"),
    "secrets in its environment": variables,
    "secrets in the environment of other processes": others("environ", lambda path: open(path, "rb").read(1)),
    "the memory of other processes": others("mem", lambda path: open(path, "rb")),
    "open files of other processes": others("fd", lambda path: os.readlink(path + "/0")),
    "another root by a process": others("root", os.readlink),
    "passwords of the system": read("/etc/shadow"),
    "the disk": read("/dev/vda"),
    "the memory of the kernel": read("/dev/mem"),
    "the home of root": read("/root"),
    "writing to /": write("/proof"),
    "writing to /etc": write("/etc/proof"),
    "writing to /usr/lib": write("/usr/lib/proof"),
    "writing beside its folders": write("/workspace/proof"),
    "writing to the bundle": write("/workspace/bundle/proof"),
    "writing beside the supervisor's socket": write("/workspace/socket/proof"),
    "changing a module of Python": write(json.__file__),
    "changing a setting of the kernel": write("/proc/sys/kernel/core_pattern"),
    "becoming root": lambda: os.setuid(0),
    "a namespace of its own": call("unshare", 0x10000000),
    "tracing a process": call("ptrace", 0, 0, 0, 0),
    "a tool that was not granted": tool,
    "a tool with another token": forge,
    "a tool without the supervisor": library,
}

def outcome(attempt):
    try:
        found = attempt()
    except Exception as error:
        code = getattr(error, "code", "") or errno.errorcode.get(getattr(error, "errno", None), "")
        return type(error).__name__ if isinstance(error, socket.gaierror) or not code else code
    return "none" if found == [] else f"reached {found}"[:80]

found = json.dumps({name: outcome(attempt) for name, attempt in attempts.items()})
open("outputs/attempts.json", "w").write(found)
print(found)
""".strip()
