import json

import pytest
from msgspec.structs import replace

from stepline.adapters.docker.command_line import (
    ALLOWED,
    EXPIRES,
    SLACK_BYTES,
    SUPERVISOR_TASKS,
    plan_arguments,
    plan_run,
)
from stepline.adapters.docker.payload import INIT_TASKS, render_container_payload
from stepline.adapters.sandbox.payload import plan_aliases
from stepline.errors import SandboxError
from stepline.model.ids import Lane
from stepline.model.program.execution import MIB, ExecRequest, RunLimits, RuntimeProfile, WorkFile
from stepline.model.program.image import INIT_COMMAND
from stepline.programs.bundle_files import BUNDLE_MAX_BYTES

NOW_S = 1_795_000_000.25
REQUEST = ExecRequest(
    exec_id="tc_0123456789ab",
    lane=Lane(tenant="acme", project="north", conversation="c1"),
    turn="turn_0001",
    iteration=1,
    at="",
    n=7,
    code="pass",
    contract=(),
    tools=("react.read", "ctx_tools.fetch_ctx", "ctx_tools.other"),
    limits=RunLimits(timeout_s=30, max_delta_bytes=10 * MIB, processes=77, open_files=99),
    profile=RuntimeProfile(backend="docker", image="image:1"),
)


def profiled(**fields):
    return replace(REQUEST, profile=replace(REQUEST.profile, **fields))


def value_of(arguments, flag):
    return [arguments[at + 1] for at, argument in enumerate(arguments) if argument == flag]


def test_the_executor_has_no_network_no_capability_and_no_writable_root():
    executor = plan_run(REQUEST, now_s=NOW_S, salt="5a17").executor
    assert value_of(executor, "--network") == ["none"]
    assert value_of(executor, "--cap-drop") == ["ALL"]
    assert value_of(executor, "--cap-add") == []
    assert value_of(executor, "--security-opt") == ["no-new-privileges"]
    assert value_of(executor, "--user") == ["1001:1001"]
    assert "--read-only" in executor


def test_the_limits_are_on_the_side_that_is_not_trusted():
    plan = plan_run(profiled(cpus="1.5", memory="2147483648"), now_s=NOW_S, salt="5a17")
    assert value_of(plan.executor, "--memory") == value_of(plan.executor, "--memory-swap") == ["2147483648"]
    assert value_of(plan.executor, "--cpus") == ["1.5"]
    assert value_of(plan.executor, "--pids-limit") == [str(77 + INIT_TASKS)]
    assert value_of(plan.executor, "--ulimit") == ["nofile=99:99", "core=1:1"]
    assert not {"--memory", "--cpus", "--pids-limit"} & set(plan.supervisor)


def test_the_network_of_the_profile_is_the_supervisors():
    plan = plan_run(profiled(network_mode="bridge"), now_s=NOW_S, salt="5a17")
    assert value_of(plan.supervisor, "--network") == ["bridge"]
    assert value_of(plan.supervisor, "--cap-add") == ["CHOWN", "DAC_OVERRIDE", "FOWNER"]


def test_both_share_one_volume_which_is_as_large_as_the_run_may_need():
    file = WorkFile(path="turn_0001/outputs/a", key="k", sha256="s", size_bytes=5 * MIB, mime="text/plain")
    plan = plan_run(replace(REQUEST, files=(file,)), now_s=NOW_S, salt="5a17")
    (volume,) = {*value_of(plan.supervisor, "--mount"), *value_of(plan.executor, "--mount")}
    assert f"src={plan.volume},dst=/workspace" in volume
    assert f"size={15 * MIB + SLACK_BYTES}," in volume
    assert "nosuid,nodev,noexec" in volume


def test_the_volume_has_room_for_the_bundle():
    plan = plan_run(replace(REQUEST, bundle="bundles.shop"), now_s=NOW_S, salt="5a17")
    (volume,) = {*value_of(plan.supervisor, "--mount"), *value_of(plan.executor, "--mount")}
    assert f"size={10 * MIB + BUNDLE_MAX_BYTES + SLACK_BYTES}," in volume


@pytest.mark.parametrize("strategy", ["split", "combined"])
def test_a_workspace_without_a_limit_has_half_of_the_machines_memory(strategy):
    request = replace(profiled(container_strategy=strategy), limits=RunLimits(max_delta_bytes=2**62))
    plan = plan_run(request, now_s=NOW_S, salt="5a17")
    mounts = [value for value in (*plan.supervisor, *plan.executor) if "size=" in value]
    assert len([value for value in mounts if "size=50%," in value]) == len(mounts) - len(
        [value for value in mounts if value.startswith("/tmp:")]
    )
    assert str(2**62)[:6] not in " ".join(mounts)


def test_a_program_is_started_with_none_of_the_variables_that_the_docker_command_adds():
    executor = plan_run(REQUEST, now_s=NOW_S, salt="5a17").executor
    assert value_of(executor, "--entrypoint") == ["/usr/bin/env"]
    assert executor[-len(INIT_COMMAND) + 1] == "-i"


def test_every_object_is_named_after_its_run_and_has_an_expiry_time():
    plan = plan_run(REQUEST, now_s=NOW_S, salt="5a17")
    assert plan.supervisor_name == "stepline-supervisor-tc_0123456789ab-5a17"
    assert plan.executor_name == "stepline-executor-tc_0123456789ab-5a17"
    (label,) = {*value_of(plan.supervisor, "--label"), *value_of(plan.executor, "--label")}
    assert label == f"{EXPIRES}=1795000630"
    assert f"volume-label={label}" in value_of(plan.executor, "--mount")[0]


def test_a_combined_run_is_one_container_with_the_limits_of_both():
    plan = plan_run(
        profiled(container_strategy="combined", extra_args=("--cpu-shares", "512")), now_s=NOW_S, salt="5a17"
    )
    assert (plan.executor, plan.executor_name, plan.volume) == ((), "", "")
    assert value_of(plan.supervisor, "--pids-limit") == [str(77 + SUPERVISOR_TASKS)]
    assert {"KILL", "SETUID", "SETGID"} <= set(value_of(plan.supervisor, "--cap-add"))
    assert "SYS_ADMIN" not in plan.supervisor
    assert "--cpu-shares=512" in plan.supervisor


def test_arguments_of_the_profile_are_the_executors_and_come_last():
    executor = plan_run(profiled(extra_args=("--pids-limit", "256")), now_s=NOW_S, salt="5a17").executor
    assert executor.index("--pids-limit=256") > executor.index("--pids-limit")
    assert executor.index("--pids-limit=256") < executor.index("--entrypoint")


@pytest.mark.parametrize(
    "arguments",
    [
        ("--privileged",),
        ("--privileged=true",),
        ("--cap-add", "SYS_ADMIN"),
        ("--network", "host"),
        ("--net=host",),
        ("-v", "/:/host"),
        ("--volume=/:/host",),
        ("--mount", "type=bind,src=/,dst=/host"),
        ("--pid", "host"),
        ("--ipc=host",),
        ("--uts=host",),
        ("--userns", "host"),
        ("--cgroupns=host",),
        ("--cgroup-parent", "/"),
        ("--security-opt", "seccomp=unconfined"),
        ("--device", "/dev/kvm"),
        ("--user", "0"),
        ("--env", "TOKEN=1"),
        ("--entrypoint", "sh"),
        ("--read-only=false",),
        ("--add-host", "a:1.2.3.4"),
        ("--volumes-from", "other"),
        ("--pids-limit", "-1"),
        ("--pids-limit=0",),
        ("--memory", "0"),
        ("-m=0b",),
        ("--cpus", "0.0"),
        ("--pids-limit=+0",),
        ("--pids-limit=0x0",),
        ("--pids-limit=0o0",),
        ("--pids-limit=0_0",),
        ("--pids-limit= 0",),
        ("--pids-limit=7\n",),
        ("--pids-limit=\u0667",),
        ("--cpus=+0",),
        ("--cpus", "0/1"),
        ("--cpus=0e1",),
        ("--cpus=.0",),
        ("-m", "+0"),
        ("--memory=00_0",),
        ("--memory=.0e0",),
        ("--memory=0.0000001k",),
        ("--memory-swap=0",),
        ("--memory-swap", "-1"),
        ("--shm-size=0",),
        ("--cpu-quota=0",),
        ("--ulimit", "nofile=-1:-1"),
        ("--ulimit", "nofile=unlimited"),
        ("--runtime=/usr/bin/own",),
        ("--device-read-bps=/dev/../sda:1",),
        ("--label", "STEPLINE.expires=1"),
        ("--label", "a=b\nc"),
        ("--pids-limit",),
        ("--label", "stepline.expires=1"),
        ("image:2",),
        ("--cpu-shares", "512", "sh", "-c", "id"),
    ],
)
def test_an_argument_that_opens_the_container_or_lifts_a_limit_is_refused(arguments):
    with pytest.raises(SandboxError) as refused:
        plan_arguments(arguments)
    assert refused.value.reason == "docker_args_refused"


TAKEN = {
    "--blkio-weight": ["10", "1000"],
    "--cpus": ["1", "0.5", "01.50"],
    "--cpuset-cpus": ["0", "0-3,5"],
    "--cpuset-mems": ["0,1"],
    "--device-read-bps": ["/dev/sda:1mb"],
    "--device-read-iops": ["/dev/mapper/a-b:1000"],
    "--device-write-bps": ["/dev/sda:1024"],
    "--device-write-iops": ["/dev/sda:7"],
    "--hostname": ["box-1.example"],
    "--label": ["team=data", "example.com/a=b c", "alone"],
    "--memory": ["512m", "2g", "2147483648", "1GiB", "64mb"],
    "--memory-reservation": ["64m"],
    "--memory-swap": ["2g"],
    "--memory-swappiness": ["0", "60"],
    "--platform": ["linux/arm64/v8", "linux"],
    "--runtime": ["runsc", "io.containerd.kata.v2"],
    "--shm-size": ["64m"],
    "--ulimit": ["nofile=1024:2048", "core=0"],
    "-m": ["64m"],
}


def test_every_allowed_argument_is_accepted_in_both_spellings():
    assert TAKEN.keys() <= ALLOWED.keys()
    for name in ALLOWED:
        for value in TAKEN.get(name, ["7"]):
            expected = (f"{'--memory' if name == '-m' else name}={value}",)
            assert plan_arguments((name, value)) == plan_arguments((f"{name}={value}",)) == expected


def test_the_payload_contains_only_data_that_the_program_may_know():
    payload = json.loads(render_container_payload(REQUEST, "token", "split"))
    assert payload["aliases"] == {"react": ["read"], "ctx_tools": ["fetch_ctx", "other"]}
    assert payload["token"] == "token"
    assert (payload["own_pid_ns"], payload["protected_pids"]) == (True, [])
    assert "net" in payload["namespaces"]
    assert not {"code", "lane", "batches", "descriptors", "environment"} & payload.keys()


def test_in_a_combined_container_the_supervisor_is_protected_and_no_network_is_claimed():
    payload = json.loads(render_container_payload(REQUEST, "token", "combined"))
    assert (payload["own_pid_ns"], payload["protected_pids"]) == (False, [1])
    assert "net" not in payload["namespaces"]


@pytest.mark.parametrize(
    ("strategy", "network_mode", "shared"),
    [
        ("split", "host", False),
        ("combined", "none", False),
        ("combined", "host", True),
        ("combined", "bridge", True),
    ],
)
def test_the_payload_says_whether_the_program_shares_its_supervisors_network(strategy, network_mode, shared):
    request = profiled(container_strategy=strategy, network_mode=network_mode)
    assert json.loads(render_container_payload(request, "token", strategy))["shared_network"] is shared


@pytest.mark.parametrize("strategy", ["split", "combined"])
def test_processes_are_counted_by_the_container_and_not_by_account(strategy):
    limits = json.loads(render_container_payload(REQUEST, "token", strategy))["limits"]
    assert "processes" not in limits
    assert limits["open_files"] == 99


def test_a_task_has_its_own_network_and_no_container_counts_its_processes():
    payload = json.loads(render_container_payload(REQUEST, "token", "split", backend="fargate"))
    assert payload["backend"] == "fargate"
    assert payload["shared_network"] == "task"
    assert "net" not in payload["namespaces"]
    assert payload["limits"]["processes"] == 77 + INIT_TASKS
    combined = json.loads(render_container_payload(REQUEST, "token", "combined", backend="fargate"))
    assert (combined["shared_network"], combined["own_pid_ns"]) == (True, False)


def test_a_program_cannot_read_files_of_the_supervisor():
    payload = json.loads(render_container_payload(REQUEST, "token", "split"))
    for place in ("/opt", "/opt/stepline", "/opt/supervisor", "/private", "/"):
        assert place not in payload["read"] + payload["write"]


def test_aliases_keep_the_order_of_the_tools():
    assert plan_aliases(()) == {}
    assert plan_aliases(("b.y", "a.x", "b.x")) == {"b": ["y", "x"], "a": ["x"]}
