"""The choices of programs: the image and the size of their tasks, and the network of those."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

from stepline_cdk.choice.declare import Choices, choice, like, one_of
from stepline_cdk.choice.network import GroupId, SubnetId, VpcId

NO_PROGRAMS: Final = "none"
HOST_MODES: Final = ("process", "docker")
"""Modes that run programs beside the functions, possible on a developer's machine only."""
DEPLOY: Final = "../how-to/deploy.md"
MEMORY_MIB: Final = {
    512: range(1024, 4096 + 1, 1024),
    1024: range(2048, 8192 + 1, 1024),
    2048: range(4096, 16384 + 1, 1024),
    4096: range(8192, 30720 + 1, 1024),
    8192: range(16384, 61440 + 1, 4096),
    16384: range(32768, 122880 + 1, 8192),
}
"""The Fargate sizes that are enough for both containers: CPU units, and the memory for each."""


def _mode(before: Mapping[str, Any]) -> str:
    return "none" if before["exec_image"] in ("", NO_PROGRAMS) else "fargate"


def _of_vpc(before: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """Return a choice of the functions' network for tasks that run in the same one."""
    found: tuple[str, ...] = before[name] if before["exec_vpc"] == before["vpc"] else ()
    return found


class ProgramChoices(Choices):
    """Programs and their tasks."""

    exec_image: str = choice(
        "codebuild",
        f"Image of the tasks that run [programs]({DEPLOY}#programs): `codebuild` to have AWS build it, `asset` to build it here with"
        " Docker, a URI, or `none` for a stage without programs and without the stack `exec`",
        local="",
        cost="0.05 USD a month, and 0.0011 for a program",
        guarded=True,
    )
    exec_mode: Annotated[str, one_of(("none", "fargate", *HOST_MODES))] = choice(
        _mode,
        "Where programs run: follows from `exec_image` in AWS; stage `local` also knows `process` and `docker`, which `stepline up`"
        " chooses",
        local="none",
        said="`fargate`, without an image `none`",
    )
    exec_python: str = choice("", "Interpreter of mode `process`, which `stepline up` names")
    exec_home: str = choice("", "Launcher of mode `process`, which `stepline up` names")
    exec_tasks: bool = choice(
        False,
        "Deploy the resources of tasks in addition to `exec_mode`, on stage `local` only; `stepline up` sets it if Docker responds",
    )
    exec_cpu: int = choice(1024, "CPU units of a task, in the sizes that Fargate offers")
    exec_memory_mib: int = choice(2048, "Memory of a task in MiB, in the sizes that Fargate offers")
    exec_zones: tuple[Annotated[str, like(r"[a-z]+\d*-az\d+", "the id of a zone like usw1-az1")], ...] = (
        choice(
            (),
            "Ids of the two availability zones of the tasks' own network, such as `usw1-az1,usw1-az3`; they name the same zones in"
            " every account",
            said="two of the region",
        )
    )
    exec_vpc: VpcId = choice(
        lambda before: "" if before["exec_zones"] else before["vpc"],
        f"VPC of [yours]({DEPLOY}#tasks-in-a-network-of-yours) in which tasks run, together with `exec_subnets`",
        said="`vpc`, without it or with `exec_zones` a separate network",
        guarded=True,
    )
    exec_subnets: tuple[SubnetId, ...] = choice(
        lambda before: _of_vpc(before, "vpc_subnets"),
        "Subnets of that VPC",
        said="with the VPC of the functions theirs",
        guarded=True,
    )
    exec_security_groups: tuple[GroupId, ...] = choice(
        lambda before: _of_vpc(before, "vpc_security_groups"),
        "The tasks' security groups in `exec_vpc`",
        said="those of the functions, if chosen, else a group that allows outbound HTTPS",
        guarded=True,
    )
    exec_public_ip: bool = choice(
        lambda before: not before["exec_vpc"],
        "Whether tasks get a public address",
        said="`true`, with `exec_vpc` `false`",
    )
