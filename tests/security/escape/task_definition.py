"""A task definition of a template, as arguments of `docker run`.

Both containers run on this machine with those fields: their users, rights and mounts. A field without an argument of Docker
is a line of `Definition.drift`; a field that this module does not know is an error, so that none is lost
silently.

The supervisor must reach a cloud on the loopback of this machine, so it has the host's network (`--network=host`), and
the executor shares it (`--network=container:SUPERVISOR`), as the containers of a task share theirs. Their starter
sets that, and names the volume that both mount; volumes of one container are anonymous and are removed with it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.stacks.task import synthesise

DOCKERFILE = Path(__file__).parents[3] / "exec_task/Dockerfile"
REFERENCES = {"AWS::Region": "us-east-1"}
FORGOTTEN = {
    "Family": "",
    "Cpu": "the task has no share of a machine: only its containers have limits, and the kernel is shared here",
    "Memory": "",
    "RequiresCompatibilities": "no Fargate: Docker's own seccomp profile, this machine's kernel, and no machine for the task alone",
    "NetworkMode": "the network is the host's for both containers, with no security group before it",
    "RuntimePlatform": "the processor is this machine's",
    "TaskRoleArn": "no role: the supervisor's credentials are variables",
    "ExecutionRoleArn": "",
    "Volumes": "",
}
"""Fields of a task that Docker has no argument for, and the difference without them, if any."""

FORGOTTEN_OF_CONTAINERS = {
    "Name": "",
    "Image": "",
    "Essential": "nothing stops a task whose essential container ended: its starter does",
    "DependsOn": "the containers are started one after the other, and stopped together",
    "LogConfiguration": "logs stay with the daemon",
}


@dataclass(frozen=True)
class Container:
    """One container: arguments of `docker run`, without network, name and shared volume, and its command."""

    arguments: tuple[str, ...]
    command: tuple[str, ...]


@dataclass(frozen=True)
class Definition:
    """Two containers that share one volume. `drift` is what is otherwise than where the definition is meant for."""

    supervisor: Container
    executor: Container
    shared: str
    drift: tuple[str, ...]


def read_definition(template: Mapping[str, Any]) -> Definition:
    """Read the one task definition of a template."""
    (task,) = (
        resource["Properties"]
        for resource in template["Resources"].values()
        if resource["Type"] == "AWS::ECS::TaskDefinition"
    )
    assert task.keys() <= FORGOTTEN.keys() | {"ContainerDefinitions"}, task.keys()
    supervisor, executor = task["ContainerDefinitions"]
    (shared,) = _volumes(supervisor).items() & _volumes(executor).items()
    drift = [FORGOTTEN[field] for field in task if FORGOTTEN.get(field)]
    drift += [
        line
        for field, line in FORGOTTEN_OF_CONTAINERS.items()
        if line and field in {**supervisor, **executor}
    ]
    drift.append(
        "the kernel counts the processes of an account on the whole machine, where others have the same"
    )
    return Definition(
        supervisor=_read(supervisor, shared[1]),
        executor=_read(executor, shared[1]),
        shared=shared[0],
        drift=tuple(drift),
    )


def declared_volumes() -> frozenset[str]:
    """The places at which the image has a volume: there alone a volume begins with the image's owner and mode."""
    (places,) = re.findall(r"^VOLUME \[(.*)\]$", DOCKERFILE.read_text(), re.MULTILINE)
    return frozenset(re.findall(r'"([^"]+)"', places))


def _read(container: Mapping[str, Any], shared: str) -> Container:
    fields = dict(container)
    arguments: list[str] = []
    for field, render in _ARGUMENTS.items():
        if field in fields:
            arguments += render(fields.pop(field))
    arguments += _render_mounts(fields.pop("MountPoints"), shared)
    command = tuple(fields.pop("Command"))
    assert fields.keys() <= FORGOTTEN_OF_CONTAINERS.keys(), fields.keys()
    return Container(arguments=tuple(arguments), command=command)


def _volumes(container: Mapping[str, Any]) -> dict[str, str]:
    """A container's volumes: where it has each, by name."""
    return {mount["ContainerPath"]: mount["SourceVolume"] for mount in container["MountPoints"]}


def _render_mounts(mounts: Sequence[Mapping[str, Any]], shared: str) -> list[str]:
    """Return the volumes that are one container's own. Without a place in the image, one is root's, mode 0755."""
    declared = declared_volumes()
    own = [mount for mount in mounts if mount["SourceVolume"] != shared]
    assert not [mount for mount in mounts if mount.get("ReadOnly")], "no argument is rendered for it"
    return [
        f"--mount=type=volume,dst={mount['ContainerPath']}"
        + ("" if mount["ContainerPath"] in declared else ",volume-nocopy")
        for mount in own
    ]


def _render_linux(parameters: Mapping[str, Any]) -> list[str]:
    assert parameters.keys() == {"Capabilities", "InitProcessEnabled"}, parameters
    assert parameters["Capabilities"].keys() == {"Drop"}, parameters
    flags = [f"--cap-drop={name}" for name in parameters["Capabilities"]["Drop"]]
    return [*flags, "--init"] if parameters["InitProcessEnabled"] else flags


def _render_variables(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    return [
        f"--env={row['Name']}="
        f"{REFERENCES[row['Value']['Ref']] if isinstance(row['Value'], Mapping) else row['Value']}"
        for row in rows
    ]


_ARGUMENTS = {
    "User": lambda user: [f"--user={user}"],
    "ReadonlyRootFilesystem": lambda sealed: ["--read-only"] if sealed else [],
    "LinuxParameters": _render_linux,
    "Environment": _render_variables,
    "Ulimits": lambda rows: [f"--ulimit={row['Name']}={row['SoftLimit']}:{row['HardLimit']}" for row in rows],
    # A task has no swap.
    "Memory": lambda mib: [f"--memory={mib}m", f"--memory-swap={mib}m"],
    "MemoryReservation": lambda mib: [f"--memory-reservation={mib}m"],
    "Cpu": lambda units: [f"--cpu-shares={units}"],
    "StopTimeout": lambda seconds: [f"--stop-timeout={seconds}"],
}


def task_definition() -> Definition:
    """Read the definition of a stage in AWS whose programs have as much memory as the tests of every backend use."""
    return read_definition(synthesise(memory_mib=4096))
