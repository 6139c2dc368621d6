"""A Landlock domain: limits the files that the program may open.

It allows no TCP, and no signals or abstract sockets outside the domain.

It is a second layer after the mounts and the filter. A kernel without Landlock, or a profile that refuses it, is
reported. If Landlock is available and then fails, the program does not run, because the filter was chosen for it.
Rights that the kernel does not know yet are omitted. Source: https://docs.kernel.org/userspace-api/landlock.html.
"""

from __future__ import annotations

import errno
import functools
import os
import stat
import struct
from collections.abc import Iterable
from typing import Final

from . import kernel

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on both architectures
_ASK_VERSION: Final = 1
_BENEATH: Final = 1

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_MAKE_CHAR, _MAKE_BLOCK = 1 << 6, 1 << 11
_TRUNCATE, _IOCTL_DEV = 1 << 14, 1 << 15

_READ: Final = _EXECUTE | _READ_FILE | _READ_DIR
_OF_A_FILE: Final = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_TCP: Final = 0b11  # bind, connect
_SCOPES: Final = 0b11  # abstract sockets, signals

SIGNAL_SCOPE_ABI: Final = 6
ABSTRACT_SCOPE_ABI: Final = 6


def _known_file_rights(abi: int) -> int:
    """Return all file rights of this ABI: 13 in the first version, then REFER, TRUNCATE and IOCTL_DEV."""
    return (1 << (13 + (abi >= 2) + (abi >= 3) + (abi >= 5))) - 1


@functools.cache
def kernel_abi() -> int:
    """Return the Landlock version of this kernel; 0 if it has none or the container's profile refuses it."""
    try:
        return kernel.syscall(_CREATE_RULESET, None, 0, _ASK_VERSION)
    except OSError as error:
        if error.errno not in (*kernel.ABSENT, errno.EOPNOTSUPP):
            raise
        kernel.note_refusal("landlock_create_ruleset", error)
        return 0


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        parent = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return  # a missing path needs no right: system folders differ between images
    try:
        if not stat.S_ISDIR(os.fstat(parent).st_mode):
            rights &= _OF_A_FILE
        kernel.syscall(_ADD_RULE, ruleset, _BENEATH, struct.pack("<Qi", rights, parent), 0)
    finally:
        os.close(parent)


def restrict(read: Iterable[str] | None, write: Iterable[str] | None, abi: int | None = None) -> int:
    """Close the domain around this process and return its ABI; 0 if the kernel has none.

    Files below `read` may be read and executed; below `write` everything but creating devices is allowed; all
    other files are inaccessible. With neither, only the mounts limit file access. Needs no_new_privs; raises
    OSError.
    """
    abi = kernel_abi() if abi is None else abi
    if not abi:
        return 0
    files = 0 if read is None and write is None else _known_file_rights(abi)
    network = _TCP if abi >= 4 else 0
    scopes = _SCOPES if abi >= SIGNAL_SCOPE_ABI else 0
    if not files | network | scopes:
        return 0
    words = 1 + (abi >= 4) + (abi >= SIGNAL_SCOPE_ABI)
    attributes = struct.pack("<3Q", files, network, scopes)[: 8 * words]
    ruleset = kernel.syscall(_CREATE_RULESET, attributes, len(attributes), 0)
    try:
        for path in read or ():
            _allow(ruleset, path, files & _READ)
        for path in write or ():
            _allow(ruleset, path, files & ~(_MAKE_CHAR | _MAKE_BLOCK))
        kernel.syscall(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)
    return abi
