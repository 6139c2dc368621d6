"""The table of attempts that share one run, and the program that makes them all."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from exec_task.executor import kernel, seccomp
from exec_task.executor.calls import NUMBERS

from .programs.files import FILES
from .programs.frames import FRAMES
from .programs.kernel import KERNEL
from .programs.network import NETWORK

PROGRAMS = Path(__file__).parent / "programs"
BATCHES = {"network": NETWORK, "files": FILES, "kernel": KERNEL, "frames": FRAMES}
ROOTS = (
    "/workspace",
    "/tmp",
    "/etc",
    "/dev/shm",
    "/run",
    "/runs",
    "/var",
    "/root",
    "/home",
    "/srv",
    "/mnt",
    "/opt/stepline",
    "/opt/supervisor",
    "/spool",
    "/private",
)
SOCKETS = ("/var/run/docker.sock", "/run/docker.sock", "/run/containerd/containerd.sock")


def expected(batch: str) -> Mapping[str, tuple[Any, ...]]:
    """Return what each attempt of a batch may come to if it is stopped."""
    return {name: stopped for name, (_, stopped) in BATCHES[batch].items()}


def render_program(batch: str, host: Mapping[str, Any], only: Sequence[str] = ()) -> str:
    """Return the text of a program that makes a batch's attempts, or `only` some, knowing `host`."""
    column = seccomp.ARCHITECTURES[kernel.MACHINE].column
    numbers = {name: pair[column] for name, pair in NUMBERS.items() if pair[column] is not None}
    known = {**host, "numbers": numbers, "roots": ROOTS, "sockets": SOCKETS}
    names = list(only or expected(batch))
    begin = "begin_slowly()\n" if batch == "frames" else ""
    here = {"files": "NOT_FORKED", "frames": "FRAMES"}.get(batch, "()")
    return (
        (PROGRAMS / f"{batch}.py").read_text()
        + (PROGRAMS / "runner.py").read_text()
        + f"\nHOST = {json.dumps(known)}\n{begin}make({{name: {batch.upper()}[name] for name in {names}}}, {here})\n"
    )


def render_host(
    servers: list[int], planted: Mapping[str, str], secret: str, max_file_bytes: int
) -> dict[str, Any]:
    """Return what an attacker could know at best: pids, paths and names on this machine."""
    half = len(secret) // 2
    return {
        "supervisor": os.getpid(),
        "servers": servers,
        "secret_halves": [secret[:half], secret[half:]],
        "max_file_bytes": max_file_bytes,
        **planted,
    }
