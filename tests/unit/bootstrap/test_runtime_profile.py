import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from stepline.bootstrap.runtime_profile import PROFILE_KEYS, UNLIMITED_BYTES, resolve_runtime
from stepline.errors import InputError
from stepline.model.program.execution import MIB, RunLimits, RuntimeProfile, TaskConfig

DEPLOYMENT = RuntimeProfile(backend="process", image="ours:1", network_mode="host")
DOCKER = {
    "mode": "docker",
    "image": "py-code-exec:latest",
    "container_strategy": "split",
    "network_mode": "host",
    "cpus": "1.5",
    "memory": "2g",
    "extra_args": ["--pids-limit", "256"],
}
FARGATE = {
    "mode": "fargate",
    "cluster": "arn:aws:ecs:eu-central-1:123456789012:cluster/c",
    "task_definition": "exec-task",
    "container_name": "exec",
    "subnets": "subnet-1, subnet-2",
    "security_groups": ["sg-1"],
    "assign_public_ip": True,
    "launch_type": "FARGATE",
    "platform_version": "1.4.0",
    "region": "eu-central-1",
}
BIG = {"mode": "docker", "image": "big:1"}
SMALL = {"mode": "process", "image": "small:1"}
TWO = {"big": BIG, "small": SMALL}


def runtime(said):
    return {"execution": {"runtime": said}}


def resolve(props=None, assembly=None, **more):
    return resolve_runtime(props or {}, assembly or {}, DEPLOYMENT, **more)


def resolved(said, **more):
    return resolve(runtime(said), **more)[0]


def test_the_deployment_decides_if_no_source_sets_a_value():
    assert resolve() == (DEPLOYMENT, RunLimits())
    assert resolve(limits=RunLimits(timeout_s=60))[1].timeout_s == 60


def test_a_docker_profile_is_read_whole():
    profile, limits = resolve(runtime({"use": "docker", "profiles": {"docker": DOCKER}}))
    assert profile == RuntimeProfile(
        name="docker",
        backend="docker",
        image="py-code-exec:latest",
        container_strategy="split",
        network_mode="host",
        cpus="1.5",
        memory=str(2048 * MIB),
        extra_args=("--pids-limit", "256"),
        descriptor_payload_scope="active_bundle",
    )
    assert limits.memory_bytes == 2048 * MIB


@pytest.mark.parametrize(
    "said",
    [FARGATE, {"mode": "external", "fargate": {key: FARGATE[key] for key in FARGATE if key != "mode"}}],
)
def test_a_configuration_for_aws_is_understood_and_kept(said):
    profile = resolved(said, region="eu-central-1")
    assert (profile.placement, profile.backend) == ("remote", "fargate")
    assert profile.task == TaskConfig(
        cluster="arn:aws:ecs:eu-central-1:123456789012:cluster/c",
        task_definition="exec-task",
        container_name="exec",
        subnets=("subnet-1", "subnet-2"),
        security_groups=("sg-1",),
        assign_public_ip="ENABLED",
        platform_version="1.4.0",
    )


def test_the_deployment_sets_the_task_values_that_a_profile_omits():
    default = replace(DEPLOYMENT, task=TaskConfig(cluster="ours", subnets=("subnet-9",)))
    said = {"mode": "fargate", "fargate": {"subnets": ["subnet-1"]}}
    profile, _ = resolve_runtime(runtime(said), {}, default)
    assert profile.task == TaskConfig(cluster="ours", subnets=("subnet-1",))


@pytest.mark.parametrize(
    ("said", "place"),
    [
        ({"region": "us-east-1"}, "region"),
        ({"fargate": {"region": "us-east-1"}}, "region"),
        ({"mode": "process", "profiles": {"far": {"region": "us-east-1"}}}, "profiles.far.region"),
    ],
)
@pytest.mark.parametrize("ours", ["eu-central-1", ""])
def test_a_region_other_than_the_deployments_is_refused_with_its_path(said, place, ours):
    with pytest.raises(InputError) as caught:
        resolved(said, region=ours)
    assert caught.value.reason == "bad_setting"
    assert f"execution.runtime.{place}" in str(caught.value)


@pytest.mark.parametrize(
    ("word", "placed"),
    [
        ("none", ("inline", "")),
        ("process", ("inline", "process")),
        ("local", ("inline", "process")),
        ("docker", ("inline", "docker")),
        ("fargate", ("remote", "fargate")),
        ("external", ("remote", "fargate")),
    ],
)
def test_a_mode_has_two_names_and_decides_the_placement(word, placed):
    for said in (word, {"mode": word}):
        profile = resolved(said)
        assert (profile.placement, profile.backend) == placed


def test_a_single_word_is_read_as_a_profile_before_a_mode():
    """`docker` is the profile of that name if there is one, in any source."""
    assembly = runtime({"profiles": {"docker": {"mode": "docker", "image": "theirs:1"}}})
    assert resolve(runtime("docker"), assembly)[0].image == "theirs:1"
    assert resolve(runtime("docker"))[0] == msgspec.structs.replace(DEPLOYMENT, backend="docker")


@pytest.mark.parametrize(
    ("selectors", "name"),
    [
        ({"use": "big"}, "big"),
        ({"use": "big", "default_profile": "small"}, "small"),
        ({"default_profile": "small", "selected_profile": "big"}, "big"),
        ({"selected_profile": "big", "profile": "small"}, "small"),
        ({"profile": "big", "selected_profile": "small", "default_profile": "small", "use": "small"}, "big"),
        ({"profile": None, "use": "big"}, "big"),
        ({}, ""),
    ],
)
def test_the_selector_with_the_highest_precedence_chooses(selectors, name):
    assert resolved({**selectors, "profiles": TWO}).name == name


@pytest.mark.parametrize("selectors", [{}, {"use": "small"}, {"profile": "small"}])
def test_the_call_chooses_before_all_selectors(selectors):
    assert resolved({**selectors, "profiles": TWO}, profile="big").image == "big:1"


def test_keys_next_to_the_profiles_override_the_chosen_profile():
    profile = resolved({"use": "big", "image": "fixed:1", "profiles": TWO})
    assert (profile.backend, profile.image) == ("docker", "fixed:1")


@pytest.mark.parametrize(
    ("places", "image"),
    [
        (["props", "descriptor", "code", "assembly"], "props:1"),
        (["descriptor", "code", "assembly"], "descriptor:1"),
        (["code", "assembly"], "code:1"),
        (["assembly"], "assembly:1"),
        ([], "ours:1"),
    ],
)
def test_the_source_with_the_highest_precedence_decides(places, image):
    said = {place: runtime({"image": f"{place}:1"}) for place in places}
    assert resolve(**said)[0].image == image


@pytest.mark.parametrize(
    ("props", "assembly", "image"),
    [
        ({"use": "big"}, {"use": "small", "profiles": TWO}, "big:1"),
        ({}, {"use": "small", "profiles": TWO}, "small:1"),
        ({"use": "big", "profiles": {"big": {"image": "mine:1"}}}, {"profiles": TWO}, "mine:1"),
        (
            {"use": "big", "profiles": {"big": {"image": "mine:1"}}},
            {"image": "theirs:1", "profiles": TWO},
            "mine:1",
        ),
        ({"use": "big"}, {"image": "theirs:1", "profiles": TWO}, "theirs:1"),
    ],
)
def test_profiles_of_two_sources_are_merged(props, assembly, image):
    """A bundle may choose a profile of the assembly and change it; the assembly cannot change the bundle's."""
    profile, _ = resolve(runtime(props), runtime(assembly))
    assert (profile.image, profile.backend) == (image, "process" if image == "small:1" else "docker")


def test_each_key_comes_from_the_highest_source_that_has_it():
    profile, _ = resolve(runtime({"cpus": 2}), runtime({"mode": "docker", "cpus": 1}))
    assert (profile.backend, profile.cpus, profile.image) == ("docker", "2", "ours:1")


def test_older_names_are_accepted_with_lower_precedence():
    old = {"exec_runtime": {"mode": "docker"}, "py_code_exec_container_strategy": "combined"}
    assert resolve(old)[0].backend == "docker"
    assert resolve(old)[0].container_strategy == "combined"
    assert resolve({**old, **runtime("none")})[0].backend == ""
    both = {"py_code_exec_container_strategy": "combined", "container_strategy": "split"}
    assert resolved(both).container_strategy == "split"
    assert resolve({"py_code_exec_container_strategy": "combined"})[0].container_strategy == "combined"


def test_a_profile_that_is_not_enabled_runs_no_programs():
    assert resolved({**DOCKER, "enabled": False}).backend == ""
    assert resolved({**DOCKER, "enabled": True}).backend == "docker"
    assert resolved({"use": "big", "profiles": {"big": {**BIG, "enabled": False}}}).backend == ""
    assert (
        resolved({"enabled": True, "use": "big", "profiles": {"big": {**BIG, "enabled": False}}}).backend
        == "docker"
    )


def test_fargate_has_its_own_switch():
    assert resolved({"mode": "fargate", "fargate": {"enabled": False}}).backend == ""
    assert resolved({"mode": "docker", "fargate": {"enabled": False}}).backend == "docker"


def test_limits_of_the_bundle_override_those_of_the_platform_key_by_key():
    assembly = {
        "platform": {"services": {"proc": {"exec": {"max_file_bytes": "10m", "max_workspace_bytes": "1g"}}}}
    }
    _, limits = resolve(
        runtime({"max_file_bytes": "20m", "timeout_s": 30, "workspace_monitor_interval_s": 0.01}), assembly
    )
    assert limits == RunLimits(
        timeout_s=30, max_file_bytes=20 * MIB, max_workspace_bytes=1024 * MIB, monitor_interval_s=0.1
    )
    _, limits = resolve({}, {**assembly, **runtime({"max_exec_workspace_delta_bytes": 5})})
    assert (limits.max_file_bytes, limits.max_delta_bytes) == (10 * MIB, 5)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        (7, 7),
        ("7", 7),
        ("7b", 7),
        ("2k", 2048),
        ("2KiB", 2048),
        ("100m", 100 * MIB),
        ("1.5 MB", MIB * 3 // 2),
        ("1g", 1024 * MIB),
        *((word, UNLIMITED_BYTES) for word in (0, "0", "off", "none", "Disabled", "unlimited")),
    ],
)
def test_a_size_is_bytes_or_has_a_unit_or_is_off(text, size):
    assert resolve(runtime({"max_file_bytes": text}))[1].max_file_bytes == size
    assert resolve(runtime({"max_exec_workspace_delta_bytes": text}))[1].max_delta_bytes == size


def test_a_whole_workspace_without_a_limit_is_zero():
    assert (
        resolve(runtime({"max_workspace_bytes": "off"}), limits=RunLimits(max_workspace_bytes=9))[1]
        == RunLimits()
    )


@given(st.integers(0, 10**15), st.sampled_from(["k", "m", "g"]), st.sampled_from(["", "b", "ib"]))
def test_units_are_powers_of_1024(number, unit, tail):
    _, limits = resolve(runtime({"max_file_bytes": f"{number}{unit}{tail}"}))
    assert limits.max_file_bytes == (number * 1024 ** ("kmg".index(unit) + 1) or UNLIMITED_BYTES)


ODD_VALUES = [
    ("mode", "cloud"),
    ("mode", 1),
    ("enabled", "yes"),
    ("image", ""),
    ("image", "--privileged"),
    ("container_strategy", "one"),
    ("network_mode", "host --privileged"),
    ("cpus", "many"),
    ("cpus", 0),
    ("cpus", "inf"),
    ("cpus", True),
    ("memory", "2 gallons"),
    ("memory", 1.5),
    ("memory", "off"),
    ("extra_args", "--pids-limit 256"),
    ("extra_args", [256]),
    ("descriptor_payload_scope", "some"),
    ("timeout_s", 0),
    ("timeout_s", "long"),
    ("timeout_s", 1.5),
    ("max_file_bytes", "-1"),
    ("max_file_bytes", True),
    ("max_exec_workspace_delta_bytes", []),
    ("max_workspace_bytes", "big"),
    ("workspace_monitor_interval_s", 0),
    ("cluster", 5),
    ("task_definition", ""),
    ("container_name", []),
    ("subnets", 7),
    ("security_groups", [7]),
    ("assign_public_ip", "maybe"),
    ("launch_type", "EC2"),
    ("platform_version", 1.4),
    ("region", None.__class__),
    ("colour", "blue"),
    ("fargate", "on"),
    ("fargate.colour", "blue"),
    ("fargate.subnets", 7),
]


@pytest.mark.parametrize(("key", "value"), ODD_VALUES)
@pytest.mark.parametrize("in_profile", [False, True])
def test_an_unknown_key_or_a_wrong_type_is_refused_with_its_path(key, value, in_profile):
    """A profile that is not chosen is checked like the others."""
    outer, _, inner = key.partition(".")
    said = {outer: {inner: value}} if inner else {outer: value}
    place = f"execution.runtime.{'profiles.idle.' if in_profile else ''}{key}"
    with pytest.raises(InputError) as caught:
        resolved({"profiles": {"idle": said}} if in_profile else said)
    assert caught.value.reason == "bad_setting"
    assert f"bundle properties: {place}" in str(caught.value)


def test_every_key_has_a_wrong_value_that_is_refused():
    assert PROFILE_KEYS.keys() <= {key for key, _ in ODD_VALUES}


@pytest.mark.parametrize(
    ("said", "place"),
    [
        ("cloud", "execution.runtime"),
        (["docker"], "execution.runtime"),
        (True, "execution.runtime"),
        ({"use": "gone", "profiles": TWO}, "execution.runtime.use"),
        ({"profile": "big", "use": "gone", "profiles": TWO}, "execution.runtime.use"),
        ({"use": "docker"}, "execution.runtime.use"),
        ({"use": ["big"], "profiles": TWO}, "execution.runtime.use"),
        ({"profiles": ["big"]}, "execution.runtime.profiles"),
        ({"profiles": {"big": "docker"}}, "execution.runtime.profiles.big"),
        ({"profiles": {"big": {"profiles": {}}}}, "execution.runtime.profiles.big.profiles"),
        ({"profiles": {"big": {"use": "small"}}}, "execution.runtime.profiles.big.use"),
    ],
)
def test_a_missing_profile_is_refused_with_its_path(said, place):
    with pytest.raises(InputError) as caught:
        resolved(said)
    assert caught.value.reason == "bad_setting"
    assert f"bundle properties: {place} " in str(caught.value)


def test_a_call_cannot_name_a_missing_profile():
    with pytest.raises(InputError) as caught:
        resolved({"profiles": TWO}, profile="docker")
    assert caught.value.reason == "bad_setting"


@pytest.mark.parametrize("said", [7, {"timeout": 7}, {"max_file_bytes": "big"}])
def test_a_platform_limit_that_is_odd_is_refused(said):
    with pytest.raises(InputError, match=r"platform\.services\.proc\.exec"):
        resolve({}, {"platform": {"services": {"proc": {"exec": said}}}})
