"""How much memory a run's processes hold together."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator

import msgspec

from stepline.adapters.process.memory import used_bytes
from tests.contract.executor_jobs import LIMITS, sound_process_bench

MIB = 1 << 20

FAMILY = """
import os, sys
shared, own, children = (int(word) for word in sys.argv[1:])
held = bytearray(os.urandom(1)) * (shared << 20)
ends = os.pipe()
for _ in range(children):
    if not os.fork():
        more = bytearray(os.urandom(1)) * (own << 20)
        os.write(ends[1], b".")
        sys.stdin.read()
        os._exit(0)
for _ in range(children):
    os.read(ends[0], 1)
print("ready", flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def family(*, shared_mib: int = 0, own_mib: int = 0, children: int = 0) -> Iterator[int]:
    """Hold processes until the end: a parent, and children that each have its memory and some of their own."""
    with subprocess.Popen(
        [sys.executable, "-I", "-c", FAMILY, str(shared_mib), str(own_mib), str(children)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        pidfd = os.pidfd_open(process.pid)
        try:
            yield pidfd
        finally:
            os.close(pidfd)
            process.communicate()


def test_processes_count_with_all_below_them():
    with family(own_mib=20, children=4) as pidfd:
        assert used_bytes((pidfd,), enough_bytes=0) > 80 * MIB


def test_what_processes_share_counts_once():
    with family(shared_mib=60, children=4) as pidfd:
        assert 60 * MIB < used_bytes((pidfd,), enough_bytes=0) < 120 * MIB


def test_less_than_is_enough_is_not_looked_at_closely():
    with family(shared_mib=60, children=4) as pidfd:
        assert used_bytes((pidfd,), enough_bytes=1 << 40) > 300 * MIB


def test_who_is_gone_uses_nothing():
    with subprocess.Popen(["true"]) as process:
        pidfd = os.pidfd_open(process.pid)
    try:
        assert used_bytes((pidfd,), enough_bytes=0) == 0
    finally:
        os.close(pidfd)


def test_a_run_whose_processes_together_use_too_much_is_ended():
    with sound_process_bench() as bench:
        run = bench.run(
            """
            import os, time
            for _ in range(5):
                if not os.fork():
                    break
            held = bytearray(b"x") * (80 << 20)
            time.sleep(50)
            """,
            limits=msgspec.structs.replace(LIMITS, memory_bytes=320 * MIB),
        )
        assert (run.error, run.returncode) == ("memory_limit", -9), run
        assert str(320 * MIB) in run.message
        assert bench.ran("print('next')").program_log == "next\n"
