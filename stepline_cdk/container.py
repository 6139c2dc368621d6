"""The containers of a task, field by field: their accounts, and their isolation from each other.

Source: docs/concepts/execution.md#fargate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_logs as logs

from stepline.model.program.execution import ContainerStrategy
from stepline.model.program.handover import STOP_S
from stepline.model.program.image import (
    GID,
    KEEPER_COMMAND,
    PRIVATE,
    STRATEGY_VARIABLE,
    TASK_COMMAND,
    UID,
    WORKSPACE,
)

SUPERVISOR: Final = "supervisor"
EXECUTOR: Final = "executor"

DEFAULT_CAPABILITIES: Final = (
    *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE"),
    *("NET_RAW", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
)
"""Default capabilities; Fargate adds none of them to a container that dropped all."""

COLLECTOR_CAPABILITIES: Final = ("CHOWN", "DAC_OVERRIDE", "FOWNER")
"""To lay out the workspace for another account, and to read what that account made private."""

SUPERVISOR_MIB: Final = 512
"""Memory reserved for the supervisor, so that it can report a program that took all the rest."""

OPEN_FILES: Final = 4096
EXECUTOR_TASKS: Final = 1024
"""The maximum of processes and threads of the program's account.

A run's own limit, set by its jail, is lower.
"""

EXECUTOR_STOP_S: Final = 10
"""Stopping a task ends the executor before the supervisor, which needs the remaining time."""

SPACE: Final = "workspace"
VOLUMES: Final = (SPACE, "private", "supervisor-tmp", "executor-tmp")

Container = ecs.CfnTaskDefinition.ContainerDefinitionProperty


@dataclass(frozen=True, kw_only=True)
class Containers:
    """The common values of a deployment's task containers, with a method for each container."""

    image: str
    region: str
    log_group: logs.ILogGroup
    cpu: int
    memory_mib: int

    def supervisor(self) -> Container:
        """Return the supervisor, which is root, since the workspace is another account's.

        It only has root's capabilities to hand the workspace over.
        """
        return Container(
            name=SUPERVISOR,
            image=self.image,
            command=list(TASK_COMMAND),
            environment=self._variables("split"),
            essential=True,
            cpu=self.cpu // 4,
            memory_reservation=SUPERVISOR_MIB,
            user="0:0",
            readonly_root_filesystem=True,
            linux_parameters=_without(set(DEFAULT_CAPABILITIES) - set(COLLECTOR_CAPABILITIES)),
            mount_points=_mounts({SPACE: str(WORKSPACE), "private": str(PRIVATE), "supervisor-tmp": "/tmp"}),  # noqa: S108 - the container's own
            ulimits=_ulimits({"core": 1, "nofile": OPEN_FILES}),
            stop_timeout=STOP_S,
            log_configuration=self._logging(SUPERVISOR),
        )

    def executor(self) -> Container:
        """Return the executor: the program's account only.

        Its end is reported by the supervisor, and ends no task.
        """
        return Container(
            name=EXECUTOR,
            image=self.image,
            command=list(KEEPER_COMMAND),
            essential=False,
            depends_on=[
                ecs.CfnTaskDefinition.ContainerDependencyProperty(
                    container_name=SUPERVISOR, condition="START"
                )
            ],
            cpu=self.cpu - self.cpu // 4,
            memory=self.memory_mib - SUPERVISOR_MIB,
            user=f"{UID}:{GID}",
            readonly_root_filesystem=True,
            linux_parameters=_without({"ALL"}),
            mount_points=_mounts({SPACE: str(WORKSPACE), "executor-tmp": "/tmp"}),  # noqa: S108 - as above
            ulimits=_ulimits({"core": 1, "nofile": OPEN_FILES, "nproc": EXECUTOR_TASKS}),
            stop_timeout=EXECUTOR_STOP_S,
            log_configuration=self._logging(EXECUTOR),
        )

    def combined(self) -> Container:
        """Return both in one, for the emulator: only fields that it reads, and no isolation that it ignores."""
        return Container(
            name=SUPERVISOR,
            image=self.image,
            command=list(TASK_COMMAND),
            environment=self._variables("combined"),
            essential=True,
            memory=self.memory_mib,
            log_configuration=self._logging(SUPERVISOR),
        )

    def _variables(self, strategy: ContainerStrategy) -> list[ecs.CfnTaskDefinition.KeyValuePairProperty]:
        """Return a container's constant variables; a run's own values come with the run, by names only."""
        values = {STRATEGY_VARIABLE: strategy, "AWS_DEFAULT_REGION": self.region}
        return [
            ecs.CfnTaskDefinition.KeyValuePairProperty(name=name, value=value)
            for name, value in values.items()
        ]

    def _logging(self, prefix: str) -> ecs.CfnTaskDefinition.LogConfigurationProperty:
        return ecs.CfnTaskDefinition.LogConfigurationProperty(
            log_driver="awslogs",
            options={
                "awslogs-group": self.log_group.log_group_name,
                "awslogs-region": self.region,
                "awslogs-stream-prefix": prefix,
                # An outage of the log service must not stop a run.
                "mode": "non-blocking",
            },
        )


def _without(capabilities: set[str]) -> ecs.CfnTaskDefinition.LinuxParametersProperty:
    return ecs.CfnTaskDefinition.LinuxParametersProperty(
        capabilities=ecs.CfnTaskDefinition.KernelCapabilitiesProperty(drop=sorted(capabilities)),
        init_process_enabled=False,  # process 1 is ours
    )


def _mounts(paths: dict[str, str]) -> list[ecs.CfnTaskDefinition.MountPointProperty]:
    return [
        ecs.CfnTaskDefinition.MountPointProperty(source_volume=volume, container_path=path, read_only=False)
        for volume, path in paths.items()
    ]


def _ulimits(limits: dict[str, int]) -> list[ecs.CfnTaskDefinition.UlimitProperty]:
    return [
        ecs.CfnTaskDefinition.UlimitProperty(name=name, soft_limit=limit, hard_limit=limit)
        for name, limit in limits.items()
    ]
