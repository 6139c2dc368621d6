"""Run tests in children of a process that has collected them: a child swaps the code of one function, and runs its tests.

A child is forked before any test ran, so that no test sees what another one left. Properties try the same examples in
each run, and stop at the first that fails.
"""

from __future__ import annotations

import contextlib
import cProfile
import itertools
import json
import os
import resource
import select
import signal
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from types import CodeType
from typing import Any, Final, Literal, NamedTuple

import pytest

from tests.mutants.listing import LIBRARY, Mutant
from tests.tiers import in_landing

PROFILE: Final = "mutants"
CPU_S: Final = 20
"""CPU time of a child, beside what its tests need: a mutant may loop for ever."""
WALL_S: Final = 300
"""A mutant may wait for ever."""
MEMORY_BYTES: Final = 8 << 30

Outcome = Literal["killed", "survived", "timeout", "skipped"]


class Result(NamedTuple):
    """What became of a run; `test` is the one that failed, "" if none did."""

    outcome: Outcome
    test: str = ""


class Recorded(NamedTuple):
    """What a run with the library as it is says: functions by test, seconds by test, and tests that fail."""

    functions: Mapping[str, Sequence[str]]
    seconds: Mapping[str, float]
    failed: Sequence[str]

    def tests_of(self, mutant: Mutant) -> set[str]:
        return set(self.functions.get(f"{mutant.path}:{mutant.function}", ())).difference(self.failed)


class Child:
    """A forked process; what its work returns comes back through a pipe."""

    def __init__(self, work: Callable[[], Any], *, cpu_s: float) -> None:
        self.output, written = os.pipe()
        self._pieces: list[bytes] = []
        self._ends_at = time.monotonic() + WALL_S + 20 * cpu_s
        self._pid = os.fork()
        if self._pid:
            os.close(written)
            return
        code = 1
        try:
            os.setsid()
            resource.setrlimit(resource.RLIMIT_CPU, (int(CPU_S + 5 * cpu_s), int(CPU_S + 5 * cpu_s) + 5))
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
            text = json.dumps(work()).encode()
            with os.fdopen(written, "wb") as pipe:
                pipe.write(text)
            code = 0
        except BaseException:  # noqa: BLE001 - nothing of a child may go on in the code that forked it
            traceback.print_exc()
        finally:
            os._exit(code)

    def read(self) -> bool:
        """Read what there is; report whether the child goes on."""
        found = os.read(self.output, 1 << 20)
        self._pieces.append(found)
        return bool(found)

    def is_late(self) -> bool:
        return time.monotonic() > self._ends_at

    def end(self) -> Any:
        """Return what the work returned, None if it did not end by itself."""
        if self.is_late():
            self._kill()
        os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOWAIT)
        self._kill()  # what its tests have started
        os.close(self.output)
        _, status = os.waitpid(self._pid, 0)
        text = b"".join(self._pieces)
        assert text or os.WIFSIGNALED(status), "a child failed"
        return json.loads(text) if text else None

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._pid, signal.SIGKILL)


def run_children(
    works: Iterable[tuple[str, Callable[[], Any], float]], processes: int
) -> Iterator[tuple[str, Any]]:
    """Run works in children, at most `processes` at a time; yield the name and the result of each as it ends."""
    waiting = iter(works)
    running: dict[int, tuple[str, Child]] = {}
    while True:
        while len(running) < processes and (work := next(waiting, None)):
            child = Child(work[1], cpu_s=work[2])
            running[child.output] = work[0], child
        if not running:
            return
        ready, _, _ = select.select(list(running), [], [], 1)
        for output, (name, child) in list(running.items()):
            if (output in ready and not child.read()) or child.is_late():
                del running[output]
                yield name, child.end()


class Session:
    """A plugin of pytest that hands what was collected to `work`, and runs no test itself."""

    def __init__(self, work: Callable[[Session], None]) -> None:
        self._work = work
        self._failed = ""
        self.items: dict[str, pytest.Item] = {}

    def pytest_sessionstart(self) -> None:
        from hypothesis import HealthCheck, Phase, settings  # pytest rewrites it before it is imported

        settings.register_profile(
            PROFILE,
            settings(),
            max_examples=20,
            deadline=None,
            database=None,
            derandomize=True,
            phases=(Phase.explicit, Phase.generate),
            suppress_health_check=[HealthCheck.too_slow],
        )
        settings.load_profile(PROFILE)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self.items = {item.nodeid: item for item in session.items if in_landing(item.nodeid)}
        self._work(self)
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._failed = report.nodeid

    def run(self, tests: Sequence[str], mutant: Mutant | None = None) -> Result:
        """Run tests until one fails, in this process: a child."""
        if mutant and not swap(mutant):
            return Result("skipped")
        for test, _ in self._each(tests):
            if self._failed:
                return Result("killed", test)
        return Result("survived")

    def record(self, tests: Sequence[str], mutants: Iterable[Mutant]) -> Recorded:
        """Run tests with the library as it is, in this process: a child. Find those that run a mutant's function."""
        wanted = {f"{mutant.path}:{mutant.function}" for mutant in mutants}
        seconds, failed, found = {}, [], defaultdict(list)
        profile = cProfile.Profile()
        profile.enable()
        for test, took in self._each(tests):
            profile.disable()
            seconds[test] = took
            failed += [test] if self._failed else []
            self._failed = ""
            for function in wanted.intersection(_name(entry.code) for entry in profile.getstats()):
                found[function].append(test)
            profile.clear()
            profile.enable()
        profile.disable()
        return Recorded(found, seconds, failed)

    def _each(self, tests: Sequence[str]) -> Iterator[tuple[str, float]]:
        items = [self.items[test] for test in tests]
        plugins = items[0].config.pluginmanager if items else None
        if plugins and (reporter := plugins.getplugin("terminalreporter")):
            plugins.unregister(reporter)
        for item, following in itertools.zip_longest(items, items[1:]):
            begun = time.process_time()
            try:
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            except BaseException:  # noqa: BLE001 - a mutant may interrupt or exit
                self._failed = item.nodeid
            yield item.nodeid, time.process_time() - begun


def _name(code: CodeType | str) -> str:
    """Return a function of the library as `path:name`, "" for any other."""
    if isinstance(code, str) or not code.co_filename.startswith(f"{LIBRARY}/"):
        return ""
    return f"{code.co_filename.removeprefix(f'{LIBRARY}/')}:{code.co_qualname.partition('.<locals>')[0]}"


def swap(mutant: Mutant) -> bool:
    """Give a function the code that it has in the mutant's text; report False if that needs another closure."""
    owner: Any = import_module(mutant.path.removesuffix(".py").replace("/", ".").removesuffix(".__init__"))
    code = compile(mutant.text(), str(LIBRARY / mutant.path), "exec", dont_inherit=True)
    *classes, name = mutant.function.split(".")
    for one in classes:
        owner, code = getattr(owner, one), _code(code, one)
    found = vars(owner)[name]
    function, changed = getattr(found, "__func__", found), _code(code, name)
    if function.__code__.co_freevars != changed.co_freevars:
        return False
    function.__code__ = changed
    return True


def _code(code: CodeType, name: str) -> CodeType:
    return [const for const in code.co_consts if isinstance(const, CodeType) and const.co_name == name][-1]
