"""Unnamed resources of a program: removed files that are open, and descriptors in flight."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from stepline.model.program.execution import MIB
from tests.contract.executor_jobs import LIMITS, Bench, process_bench, skip_unsupported

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user sees no descriptors of programs")


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    with process_bench() as found:
        skip_unsupported(found)
        yield found


WAYS = {
    "open": "hold.append(file)",
    "open in a child": "hold.append(os.fork() or time.sleep(60))",
    "mapped": "file.flush(); hold.append(mmap.mmap(file.fileno(), 0)); file.close()",
    "below its old place": "os.lseek(file.fileno(), 0, 0); hold.append(file)",
}


@pytest.mark.parametrize("way", WAYS)
def test_a_removed_file_counts_as_long_as_it_is_held(bench, way):
    code = f"""
    import mmap, os, time
    hold = []
    for n in range(16):
        file = open(f"outputs/{{n}}", "w+b")
        file.write(bytes(1 << 20))
        os.unlink(file.name)
        {WAYS[way]}
    time.sleep(60)
    """
    run = bench.run(code, limits=replace(LIMITS, max_delta_bytes=8 * MIB))
    assert run.error == "exec_workspace_delta_limit"


def test_a_removed_file_that_no_process_holds_does_not_count(bench):
    run = bench.ran(
        """
        import os, time
        for n in range(16):
            with open("outputs/a", "wb") as file:
                file.write(bytes(1 << 20))
            os.unlink("outputs/a")
            time.sleep(0.1)
        """,
        limits=replace(LIMITS, max_delta_bytes=8 * MIB),
    )
    assert run.error == ""


def test_descriptors_in_flight_are_bounded(bench):
    run = bench.run("""
    import socket, time
    one, other = socket.socketpair()
    null = open("/dev/null")
    for n in range(100):
        socket.send_fds(one, [b"x"], [null.fileno()])
    time.sleep(60)
    """)
    assert run.error == "descriptors_in_flight"


def test_received_descriptors_are_not_in_flight(bench):
    run = bench.ran("""
    import os, socket, time
    one, other = socket.socketpair()
    null = open("/dev/null")
    for n in range(300):
        socket.send_fds(one, [b"x"], [null.fileno()])
        os.close(socket.recv_fds(other, 1, 1)[1][0])
    time.sleep(1)
    """)
    assert run.error == ""
