"""What every backend of the Executor port does with a run that is cancelled: before its program begins, while it runs, after it."""

from __future__ import annotations

import dataclasses
import secrets
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from stepline.adapters.memory.executor import MemoryExecutor
from stepline.adapters.sandbox.cancel import Over
from stepline.model.program.execution import Run, RuntimeProfile
from tests.contract.executor_jobs import BACKENDS, LIMITS, Bench, bench_of

RUNS_HERE = [name for name in BACKENDS if name != "fargate"]
"""A task has no way to the log: what ends it is the state that waits for it."""

SHOWING = """
import subprocess, sys, time
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", "{mark}"], start_new_session=True)
while True:
    time.sleep(600)
"""
"""How a program says that it has come so far, and waits: by a child whose command line the machine shows."""


class WhenShown(Over):
    """Requested as soon as a process of this machine has the mark in its command line."""

    def __init__(self) -> None:
        super().__init__()
        self.mark = f"mark-{secrets.token_hex(8)}"

    @property
    def requested(self) -> bool:
        if not super().requested and processes_with(self.mark):
            self.set()
        return super().requested


def processes_with(mark: str) -> list[str]:
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            arguments = (folder / "cmdline").read_bytes().split(b"\0")
        except (FileNotFoundError, ProcessLookupError):
            continue
        if mark.encode() in arguments:
            found.append(folder.name)
    return found


@pytest.fixture(scope="module", params=RUNS_HERE)
def bench(request) -> Iterator[Bench]:
    with BACKENDS[request.param]() as made:
        yield made


@pytest.fixture
def memory() -> Iterator[Bench]:
    with bench_of(MemoryExecutor(lambda _: Run(returncode=0)), RuntimeProfile(backend="process")) as made:
        yield made


def cancelled(bench: Bench, code: str) -> Run:
    """Run a program, cancel it when it has come to its end and waits there, and see that nothing of it is left."""
    cancel = WhenShown()
    job = bench.job(textwrap.dedent(code) + SHOWING.format(mark=cancel.mark))
    run = bench.executor.run(dataclasses.replace(job, cancel=cancel))
    assert cancel.requested
    assert processes_with(cancel.mark) == []
    assert run.error == "cancelled"
    return run


def test_a_run_that_is_cancelled_before_it_begins_never_does(bench):
    cancel, fetched = Over(), []
    cancel.set()
    job = bench.job("open('outputs/x.txt', 'w').write('x')", files=(bench.file("outputs/in.txt", b"1"),))
    run = bench.executor.run(dataclasses.replace(job, cancel=cancel, fetch=fetched.append))
    assert (run.error, run.returncode, run.files, run.program_log) == ("cancelled", None, (), "")
    assert "did not begin" in run.message
    assert fetched == []


def test_a_run_that_is_cancelled_while_its_files_are_laid_out_never_begins(bench):
    cancel, fetched = Over(), []

    def fetch(key: str) -> bytes:
        fetched.append(key)
        cancel.set()
        return bench.artifacts.get(key)

    files = tuple(bench.file(f"outputs/{name}.txt", name.encode()) for name in ("first", "second"))
    job = bench.job("open('outputs/x.txt', 'w').write('x')", files=files)
    run = bench.executor.run(dataclasses.replace(job, cancel=cancel, fetch=fetch))
    assert (run.error, run.returncode, run.files) == ("cancelled", None, ())
    assert fetched == [files[0].key]
    assert bench.ran("print('next')").program_log == "next\n"


def test_a_cancelled_program_ends_and_keeps_its_files(bench):
    run = cancelled(bench, "open('outputs/half.txt', 'w').write('half'); print('so far', flush=True)")
    assert run.returncode not in (0, None)
    assert "steered" in run.message
    assert run.seconds < LIMITS.timeout_s
    assert run.program_log == "so far\n"
    assert bench.bytes(run, "outputs/half.txt") == b"half"
    assert run.isolation.backend == bench.executor.backend


def test_a_program_may_clean_up_on_its_signal_to_end(bench):
    code = """
        import signal

        def tidy(*_):
            open("outputs/tidied.txt", "w").write("all of it")
            sys.exit(0)

        signal.signal(signal.SIGTERM, tidy)
        """
    # It has a second for it, and on a busy machine may get no turn within one.
    run = next(run for run in (cancelled(bench, code) for _ in range(5)) if run.returncode == 0)
    assert bench.bytes(run, "outputs/tidied.txt") == b"all of it"


def test_a_program_that_ignores_the_word_is_killed(bench):
    cancelled(bench, "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)")
    assert bench.ran("print('next')").program_log == "next\n"


def test_a_program_that_has_ended_is_not_cancelled_any_more(bench):
    cancel = Over()
    run = bench.executor.run(dataclasses.replace(bench.job("print('whole')"), cancel=cancel))
    cancel.set()
    assert (run.error, run.program_log) == ("", "whole\n")
    assert bench.ran("print('next')").program_log == "next\n"


def test_the_twin_in_memory_begins_nothing_that_is_cancelled(memory):
    cancel = Over()
    assert memory.executor.run(dataclasses.replace(memory.job(""), cancel=cancel)).error == ""
    cancel.set()
    assert memory.executor.run(dataclasses.replace(memory.job(""), cancel=cancel)).error == "cancelled"
    assert len(memory.executor.jobs) == 1
