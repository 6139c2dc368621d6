"""The two containers of a task under what can happen to them. What a program comes to in them: test_executor.py."""

from __future__ import annotations

import dataclasses
import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from msgspec.structs import replace

from stepline.local.cloud.checks.probe import probe_command, read_report
from stepline.model.program.execution import MIB, Run
from stepline.ports.executor import Job
from tests.contract.executor_jobs import IN_CONTAINERS, LIMITS, SAID, Bench
from tests.contract.task_containers import END_S, TaskExecutor, docker, task
from tests.security.escape.task_definition import Container
from tests.support.container_profile import write_profile

# Its output is on its way to the supervisor before the file is there.
RUNS = (
    "import time\nprint('so far', flush=True)\nopen('outputs/half.txt', 'w').write('half')\ntime.sleep(600)"
)
BEGUN = "until [ -s /workspace/out/turn_0001/outputs/half.txt ]; do sleep 0.05; done"


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    with IN_CONTAINERS["fargate"]() as made:
        yield made


def executor(bench: Bench) -> TaskExecutor:
    assert isinstance(bench.executor, TaskExecutor)
    return bench.executor


def run_until(bench: Bench, job: Job, happens: Callable[[str, str], object]) -> Run:
    """Start a task, have something happen to its two containers once the program runs, and return what is stored."""
    made = executor(bench)
    name = made.hand_over(job)
    with task(made, name) as supervisor:
        docker("exec", supervisor, "sh", "-c", BEGUN, timeout_s=END_S)
        happens(supervisor, supervisor.replace("supervisor", "executor", 1))
        made.wait(supervisor)
    return made.collect(name, job)


def heard(bench: Bench) -> list[str]:
    """Return what the newest task said to the state that waits for it."""
    return list(executor(bench).cloud.waiting.values())[-1]


def test_a_task_lives_says_so_and_leaves_nothing_of_its_handover(bench):
    bench.ran("print('hello')")
    assert executor(bench).cloud.secrets == {}
    assert heard(bench)[0] == "SendTaskHeartbeat"
    assert heard(bench)[-1] == "SendTaskSuccess"
    assert executor(bench).exit_code == 0


@pytest.mark.parametrize("code", ["", "EPERM", "ENOSYS"])
def test_the_probe_of_a_doctor_reports_the_isolation_that_programs_have_there(bench, tmp_path, code):
    made = executor(bench)
    arguments = made.definition.executor.arguments
    profile = [write_profile(tmp_path, getattr(errno, code))] if code else []
    program, *rest = probe_command()
    line = docker(
        *("run", "--rm", "--pull=never", "--network=none", *profile, *arguments),
        *(f"--entrypoint={program}", made.image, *rest),
    )
    found = read_report(line)
    refused = tuple(f"{call}: {code}" for call in ("close_range", "landlock_create_ruleset") if code)
    ran = bench.ran("print('hello')").isolation
    if code:
        ran = replace(ran, landlock_abi=0, refused=refused)
    assert found == ran


def test_a_killed_executor_container_is_reported_with_the_known_facts(bench):
    run = run_until(bench, bench.job(RUNS), lambda _, other: docker("kill", other))
    assert (run.error, run.returncode) == ("sandbox_execution_failed", None)
    assert run.program_log == "so far\n"
    assert bench.bytes(run, "outputs/half.txt") == b"half"
    assert heard(bench)[-1] == "SendTaskSuccess"


def test_a_stopped_task_stores_its_partial_result_and_reports_it(bench):
    run = run_until(bench, bench.job(RUNS), lambda supervisor, _: docker("stop", "-t", "60", supervisor))
    assert run.error == "task_stopped"
    assert run.program_log == "so far\n"
    assert bench.bytes(run, "outputs/half.txt") == b"half"
    assert heard(bench)[-1] == "SendTaskSuccess"
    assert executor(bench).exit_code == 0


def test_an_executors_container_that_is_stopped_first_ends_its_program_and_says_why(bench):
    run = run_until(bench, bench.job(RUNS), lambda _, other: docker("stop", "-t", "60", other))
    assert (run.error, run.program_log) == ("task_stopped", "so far\n")
    assert bench.bytes(run, "outputs/half.txt") == b"half"


def test_a_supervisor_that_is_killed_takes_the_program_with_it_and_reports_nothing(bench):
    ended = []

    def kill(supervisor: str, other: str) -> None:
        docker("kill", supervisor)
        ended.append(docker("wait", other, timeout_s=END_S))

    run = run_until(bench, bench.job(RUNS), kill)
    assert run.message == "the task reported nothing"
    assert ended == ["1\n"]
    assert "SendTaskSuccess" not in heard(bench)


@contextmanager
def defined(bench: Bench, **containers: Container | None) -> Iterator[None]:
    """Have the task defined otherwise."""
    made = executor(bench)
    before = made.definition
    made.definition = dataclasses.replace(before, **containers)
    yield
    made.definition = before


def test_a_program_killed_for_memory_gets_that_reason(bench):
    code = "open('outputs/half.txt', 'w').write('half')\nprint('so far', flush=True)\nx = b'x' * (512 << 20)"
    given = executor(bench).definition.executor
    small = Container((*given.arguments, "--memory=200m", "--memory-swap=200m"), given.command)
    with defined(bench, executor=small):
        run = bench.run(code, limits=replace(LIMITS, memory_bytes=2048 * MIB))
    assert (run.error, run.returncode) == ("memory_limit", -9)
    assert run.program_log == "so far\n"
    assert bench.bytes(run, "outputs/half.txt") == b"half"


def test_a_claimed_run_starts_no_program_and_reports_nothing(bench):
    made, job = executor(bench), bench.job("print('hello')")
    name = made.hand_over(job)
    made.cloud.put(f"{name}/started", b"somebody else")
    with task(made, name) as supervisor:
        made.wait(supervisor)
    assert made.exit_code == 0
    assert f"{name}/run" not in made.cloud.objects
    assert "SendTaskSuccess" not in heard(bench)


def test_a_task_without_a_waiting_state_stores_nothing(bench):
    made, job = executor(bench), bench.job(RUNS)
    name = made.hand_over(job)
    del made.cloud.waiting[name]
    with task(made, name) as supervisor:
        made.wait(supervisor)
    assert made.exit_code == 0
    assert f"{name}/run" not in made.cloud.objects


def test_a_task_with_a_deleted_handover_reports_nothing_and_fails(bench):
    made, job = executor(bench), bench.job("print('hello')")
    name = made.hand_over(job)
    made.cloud.secrets.clear()
    with task(made, name) as supervisor:
        made.wait(supervisor)
    assert made.exit_code == 1
    assert made.cloud.objects.keys() >= {f"{name}/parcel"}
    assert f"{name}/started" not in made.cloud.objects
    assert "not_found" in made.log


def test_a_refused_grant_is_reported_without_its_url(bench):
    made = executor(bench)
    job = bench.job("print('hello')", files=(bench.file("outputs/in.csv", b"1,2"),))
    name = made.hand_over(job)
    rights = dict(made.cloud.rights)
    refused = next(right for right, (_, key) in rights.items() if key == job.request.files[0].key)
    del made.cloud.rights[refused]
    with task(made, name) as supervisor:
        made.wait(supervisor)
    run = made.collect(name, job)
    assert (run.error, run.returncode) == ("restore_failed", None)
    assert "403" in run.message
    assert not [right for right in rights if right in f"{made.log}{run}"]


def test_a_task_of_one_container_runs_its_program_in_there(bench):
    alone = Container(
        ("--env=STEPLINE_EXEC_STRATEGY=combined",), executor(bench).definition.supervisor.command
    )
    with defined(bench, supervisor=alone, executor=None):
        run = bench.ran(
            """
            print(open("outputs/in.csv").read())
            print((await ctx_tools.fetch_ctx("ar:turn_0001.user.prompt"))["ret"]["text"])
            open("outputs/out.csv", "w").write("3")
        """,
            files=(bench.file("outputs/in.csv", b"1,2"),),
        )
        stopped = run_until(
            bench, bench.job(RUNS), lambda supervisor, _: docker("stop", "-t", "60", supervisor)
        )
    assert run.program_log == f"1,2\n{SAID}\n"
    assert run.isolation.backend == "fargate"
    assert (stopped.error, stopped.program_log) == ("task_stopped", "so far\n")
    assert bench.bytes(stopped, "outputs/half.txt") == b"half"
