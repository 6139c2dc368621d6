"""Calls that a container's profile may refuse: as a profile for Docker, and as an interpreter that runs under one."""

from __future__ import annotations

import errno
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

EXECUTOR: Final = Path(__file__).parents[2] / "exec_task"

REFUSED: Final = {
    "close_range": 436,
    "landlock_create_ruleset": 444,
    "landlock_add_rule": 445,
    "landlock_restrict_self": 446,
}
"""Calls that hosts of containers are known to refuse, by their numbers on every architecture."""

_INTERPRETER: Final = """#!{python} -IB
import os, sys
sys.path.insert(0, {home!r})
from executor import kernel, seccomp
kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
out = seccomp._Assembler()
out.load(0)
for number in {numbers}:
    out.branch(0x15, number, yes="refuse")
out.give(seccomp.ALLOW)
out.label("refuse")
out.give(seccomp.ERRNO | {code})
seccomp.install(out.assemble().code)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""


def write_profile(folder: Path, code: int) -> str:
    """Write a profile that refuses the calls with an errno; return the option of `docker run` that names it."""
    path = folder / "profile.json"
    refused = {"names": list(REFUSED), "action": "SCMP_ACT_ERRNO", "errnoRet": code}
    path.write_text(json.dumps({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [refused]}))
    return f"--security-opt=seccomp={path}"


def write_interpreter(folder: Path, code: int = errno.EPERM, calls: Mapping[str, int] = REFUSED) -> Path:
    """Write a Python that refuses these calls with an errno, also to its child processes."""
    path = folder / "python"
    numbers = tuple(calls.values())
    path.write_text(
        _INTERPRETER.format(python=sys.executable, home=str(EXECUTOR), numbers=numbers, code=code)
    )
    path.chmod(0o755)
    return path
