"""Attempts to reach anything over a wire, or another process over a socket. Runs inside the sandbox."""

import ctypes
import mmap
import os
import platform
import socket
import stat
import urllib.request

HOST = {}  # what the test knows of the machine: put here when the programs are joined into one


def make_socket(family, kind=socket.SOCK_STREAM, protocol=0):
    def attempt():
        socket.socket(family, kind, protocol)

    return attempt


def fetch(url):
    def attempt():
        try:
            urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=3)
        except OSError as error:
            raise getattr(error, "reason", error) from None

    return attempt


def resolve_a_name():
    socket.getaddrinfo("example.com", 443)


def inet_socketpair():
    ctypes.CDLL(None).socketpair  # noqa: B018 - fails here, not in the call
    pair = (ctypes.c_int * 2)()
    return checked(ctypes.CDLL(None, use_errno=True).socketpair(socket.AF_INET, socket.SOCK_STREAM, 0, pair))


def io_uring():
    return syscall("io_uring_setup", 8, ctypes.addressof(ctypes.create_string_buffer(120)))


def x32_socket():
    return raw_syscall(0x40000000 | 41, socket.AF_INET, socket.SOCK_STREAM, 0)


def i386_socket():
    code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(
        b"\xb8\x67\x01\x00\x00\xbb\x02\x00\x00\x00\xb9\x01\x00\x00\x00\xcd\x80\xc3"
    )  # socket(2, 1) by int 0x80
    address = ctypes.addressof(ctypes.c_char.from_buffer(code))
    return ctypes.CFUNCTYPE(ctypes.c_int)(address)()


def host_abstract_socket():
    socket.socket(socket.AF_UNIX).connect("\0" + HOST["abstract"])


def control_socket():
    socket.socket(socket.AF_UNIX).connect("/workspace/socket/control.sock")


def other_unix_sockets():
    found = []
    places = (
        os.path.join(top, name) for root in HOST["roots"] for top, _, names in os.walk(root) for name in names
    )
    for path in {*places, *HOST["sockets"]} - {SUPERVISOR}:
        try:
            if stat.S_ISSOCK(os.lstat(path).st_mode):
                socket.socket(socket.AF_UNIX).connect(path)
                found.append(path)
        except OSError:
            continue
    return found


def raw_syscall(number, *args):
    libc = ctypes.CDLL(None, use_errno=True)
    return checked(libc.syscall(ctypes.c_long(number), *(ctypes.c_long(arg) for arg in args)))


def syscall(name, *args):
    return raw_syscall(HOST["numbers"][name], *args)


def checked(result):
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


SUPERVISOR = "/workspace/socket/supervisor.sock"
REFUSED = ("EACCES", "EPERM")
UNREACHABLE = (*REFUSED, "ECONNREFUSED", "ENOENT")

NETWORK = {
    "an IPv4 stream socket": (make_socket(socket.AF_INET), REFUSED),
    "an IPv4 datagram socket": (make_socket(socket.AF_INET, socket.SOCK_DGRAM), REFUSED),
    "an IPv6 stream socket": (make_socket(socket.AF_INET6), REFUSED),
    "an IPv6 datagram socket": (make_socket(socket.AF_INET6, socket.SOCK_DGRAM), REFUSED),
    "a raw ICMP socket": (make_socket(socket.AF_INET, socket.SOCK_RAW, 1), REFUSED),
    "a netlink socket": (make_socket(16, socket.SOCK_RAW), REFUSED),
    "a packet socket": (make_socket(17, socket.SOCK_RAW), REFUSED),
    "the kernel's crypto socket": (make_socket(38, socket.SOCK_SEQPACKET), REFUSED),
    "a socket to the hypervisor": (make_socket(40), REFUSED),
    "a Bluetooth socket": (make_socket(31, socket.SOCK_RAW, 1), REFUSED),
    "an XDP socket": (make_socket(44, socket.SOCK_RAW), REFUSED),
    "an IPv4 socket pair": (inet_socketpair, REFUSED),
    "the instance metadata service": (fetch("http://169.254.169.254/latest/meta-data/"), REFUSED),
    "the task's credential endpoint": (fetch("http://169.254.170.2/v2/credentials"), REFUSED),
    "the Lambda runtime interface": (
        fetch("http://127.0.0.1:9001/2018-06-01/runtime/invocation/next"),
        REFUSED,
    ),
    "a name server": (resolve_a_name, ("EAI_AGAIN", "EAI_NONAME", "EAI_FAIL")),
    "io_uring": (io_uring, (*REFUSED, "ENOSYS")),
    "a socket that the host listens on in the abstract namespace": (host_abstract_socket, UNREACHABLE),
    "the socket by which a task's first process got its program": (control_socket, UNREACHABLE),
    "any other Unix socket in sight": (other_unix_sockets, ([],)),
}
if platform.machine() == "x86_64":
    NETWORK |= {
        "a socket by the x32 call numbers": (x32_socket, ("SIGSYS",)),
        "a socket by the 32-bit call gate": (i386_socket, ("SIGSYS",)),
    }
