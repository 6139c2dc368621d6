"""The docker backend with a real daemon: the objects that exist while a program runs and afterwards."""

import dataclasses
import json
import subprocess
import sys
import threading
import time
import uuid

import pytest
from msgspec.structs import replace

from stepline.adapters.docker.command_line import EXPIRES, INIT_TASKS, SUPERVISOR_TASKS
from stepline.adapters.docker.executor import Cleaner, DockerExecutor
from stepline.model.program.execution import MIB, RunLimits, RuntimeProfile
from tests.contract.executor_jobs import (
    DOCKER_ENVIRONMENT,
    IMAGE,
    ROOT,
    bench_of,
    docker_bench,
    docker_missing,
)

ENDLESS = "open('outputs/begun', 'w')\nimport time\nwhile True: time.sleep(1)"
SEEN_S = 120
LOOKS = """
import ctypes, pathlib
ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)
print(pathlib.Path("/proc/self/environ").read_bytes())
"""
FORKS = """
import os, signal
made = 0
try:
    while True:
        if not os.fork():
            signal.pause()
        made += 1
except OSError:
    print(made)
"""
CALLER = """
import sys
from tests.contract.executor_jobs import docker_bench
from tests.unit.adapters.docker.test_docker_containers import ENDLESS, changed
with docker_bench("split") as bench:
    bench.executor.run(changed(bench.job(ENDLESS), exec_id=sys.argv[1]))
"""


def docker(*arguments):
    return subprocess.run(["docker", *arguments], capture_output=True, text=True, check=False).stdout


def until(found):
    """Call `ask` until it returns an answer, and return it."""
    give_up_s = time.monotonic() + SEEN_S
    while time.monotonic() < give_up_s:
        if answer := found():
            return answer
    raise AssertionError("it never came to be")


def existing(name):
    """Return the containers and volumes whose names contain this one."""
    containers = docker("ps", "--all", "--format", "{{.Names}}", "--filter", f"name={name}").split()
    return containers + docker("volume", "ls", "--quiet", "--filter", f"name={name}").split()


def changed(job, **fields):
    return dataclasses.replace(job, request=replace(job.request, **fields))


def unique(job):
    """Give a job a unique name, to find its containers among those of other tests."""
    return changed(job, exec_id=f"tc_{uuid.uuid4().hex[:12]}")


@pytest.fixture
def bench():
    if reason := docker_missing():
        pytest.skip(reason)
    executor = DockerExecutor(
        descriptors={"assembly": "a: 1\n", "secrets": "key: planted\n"}, environment=DOCKER_ENVIRONMENT
    )
    profile = RuntimeProfile(
        backend="docker", image=IMAGE, network_mode="none", cpus="1", memory="1073741824"
    )
    with bench_of(executor, profile) as made:
        yield made


@pytest.fixture(params=["split", "combined"])
def each(request):
    with docker_bench(request.param) as made:
        yield made


class Running:
    """A program that does not end, in a thread, and its two containers."""

    def __init__(self, bench):
        self.job = unique(bench.job(ENDLESS))
        self.run = None
        self._thread = threading.Thread(target=self._run, args=(bench.executor,))
        self._thread.start()
        self.executor = self.find(f"stepline-executor-{self.job.request.exec_id}")
        self.supervisor = self.executor.replace("executor", "supervisor")

    def end(self, container):
        docker("kill", container)
        self._thread.join()
        return self.run

    def _run(self, executor):
        self.run = executor.run(self.job)

    @staticmethod
    def find(name):
        """Return the executor's container as soon as its program has begun."""

        def begun():
            found = docker("ps", "--format", "{{.Names}}", "--filter", f"name={name}").split()
            if not found:
                return None
            listed = docker("exec", found[0], "ls", "/workspace/out/turn_0001/outputs")
            return found[0] if "begun" in listed else None

        return until(begun)


def test_the_program_is_confined_and_cannot_see_the_secrets(bench):
    running = Running(bench)
    try:
        (executor,) = json.loads(docker("inspect", running.executor))
        (supervisor,) = json.loads(docker("inspect", running.supervisor))
    finally:
        running.end(running.executor)
    host = executor["HostConfig"]
    assert host["NetworkMode"] == "none"
    assert host["CapDrop"] == ["ALL"]
    assert not host["CapAdd"]
    assert host["ReadonlyRootfs"]
    assert host["Memory"] == host["MemorySwap"] == 1 << 30
    assert host["PidsLimit"] == 256 + INIT_TASKS
    assert host["NanoCpus"] == 10**9
    assert not host["Binds"]
    assert [mount["Destination"] for mount in executor["Mounts"]] == ["/workspace"]
    for container in (executor, supervisor):
        assert "planted" not in json.dumps(container)
        assert not [name for name in container["Config"]["Env"] if name.startswith(("AWS", "STEPLINE"))]


def test_an_executor_killed_from_outside_is_a_failed_run_with_a_report(bench):
    running = Running(bench)
    run = running.end(running.executor)
    assert (run.error, run.returncode) == ("nonzero_exit", -9)
    assert run.isolation.seccomp


def test_a_supervisor_killed_from_outside_ends_the_program_too(bench):
    running = Running(bench)
    run = running.end(running.supervisor)
    assert run.error == "sandbox_execution_failed"
    assert run.message.endswith("was killed by SIGKILL early: it said nothing")
    bench.executor.close()
    assert existing(running.job.request.exec_id) == []


def test_killing_the_caller_ends_its_program(bench):
    """The caller is a separate process here, which is killed while its program runs."""
    name = f"tc_{uuid.uuid4().hex[:12]}"
    caller = subprocess.Popen([sys.executable, "-c", CALLER, name], cwd=ROOT)
    try:
        Running.find(f"stepline-executor-{name}")
    finally:
        caller.kill()
        caller.wait()
    assert until(lambda: existing(name) == [])


def test_a_run_leaves_no_container_and_no_volume(bench):
    job = unique(bench.job("open('outputs/a.txt', 'w').write('a')"))
    assert bench.executor.run(job).error == ""
    bench.executor.close()
    assert existing(job.request.exec_id) == []


def test_only_overdue_objects_are_removed(bench):
    marks = {"overdue": "1000", "current": str(round(time.time()) + 3600)}
    names = {mark: f"stepline-test-{mark}-{time.time_ns()}" for mark in marks}
    try:
        for mark, expires in marks.items():
            docker("create", "--name", names[mark], "--label", f"{EXPIRES}={expires}", IMAGE, "true")
            docker("volume", "create", "--label", f"{EXPIRES}={expires}", names[mark])
        cleaner = Cleaner("docker")
        cleaner.sweep()
        cleaner.wait()
        assert existing(names["overdue"]) == []
        assert existing(names["current"]) == [names["current"]] * 2
    finally:
        for name in names.values():
            docker("rm", "--force", "--volumes", name)
            docker("volume", "rm", "--force", name)


def test_tools_are_created_in_the_container_with_their_descriptors(bench):
    run = bench.ran('print((await ctx_tools.fetch_ctx("ar:turn_0001.user.prompt"))["ret"]["text"])')
    assert run.calls[0].status == "ok"
    assert "planted" not in run.runtime_log + run.program_log


def test_a_missing_image_is_not_pulled(bench):
    profile = replace(bench.profile, image="stepline-exec:there-is-none")
    run = bench.executor.run(changed(bench.job("pass"), profile=profile))
    assert run.error == "docker_image_missing"


def test_a_program_never_sees_the_proxies_of_the_docker_command(each, tmp_path, monkeypatch):
    proxies = {"httpProxy": "http://user:planted@proxy.example:3128", "noProxy": "localhost"}
    (tmp_path / "config.json").write_text(json.dumps({"proxies": {"default": proxies}}))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    run = each.ran(LOOKS)
    assert "PATH=" in run.program_log
    assert not [word for word in ("planted", "PROXY", "proxy", "localhost") if word in run.program_log]


def test_a_container_that_is_out_of_memory_is_reported(each):
    profile = replace(each.profile, memory=str(128 * MIB))
    run = each.executor.run(changed(each.job(f"b'x' * {256 * MIB}"), profile=profile))
    assert (run.error, run.returncode) == ("memory_limit", -9)
    assert "memory" in run.message


def test_the_output_of_a_program_keeps_its_order(each):
    run = each.ran("import os\nfor n in range(200): os.write(1 + n % 2, f'{n}\\n'.encode())")
    assert run.program_log.split() == [str(n) for n in range(200)]


def test_processes_are_counted_for_each_container(each):
    run = each.ran(FORKS, limits=RunLimits(processes=20, timeout_s=180))
    tasks = {"split": INIT_TASKS, "combined": SUPERVISOR_TASKS}[each.profile.container_strategy]
    # The program itself is one of them, and gets those that our processes do not need.
    assert 19 <= int(run.program_log) < 20 + tasks
