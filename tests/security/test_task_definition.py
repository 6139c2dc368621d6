"""What is tested in Docker is what is deployed on Fargate: the containers are read from the template."""

import copy

import pytest

from tests.security.escape.task_definition import declared_volumes, read_definition
from tests.stacks.task import synthesise


@pytest.fixture(scope="module")
def template():
    return synthesise()


@pytest.fixture(scope="module")
def definition(template):
    return read_definition(template)


def test_every_wall_of_the_definition_is_an_argument(definition):
    executor, supervisor = definition.executor.arguments, definition.supervisor.arguments
    assert {"--user=1001:1001", "--read-only", "--cap-drop=ALL", "--memory=1536m"} <= set(executor)
    assert {"--user=0:0", "--read-only", "--cap-drop=KILL", "--cap-drop=SETUID"} <= set(supervisor)
    assert not {"--cap-drop=CHOWN", "--privileged"} & set(supervisor)
    assert not [
        flag for flag in (*executor, *supervisor) if flag.startswith(("--cap-add", "--init", "--security"))
    ]
    assert definition.executor.command[-1] == "--serve"


def test_volumes_begin_as_they_do_on_fargate(definition):
    assert definition.shared == "/workspace"
    assert declared_volumes() == {"/workspace", "/tmp"}
    assert "--mount=type=volume,dst=/private,volume-nocopy" in definition.supervisor.arguments
    assert "--mount=type=volume,dst=/tmp" in definition.executor.arguments
    assert not [flag for flag in definition.executor.arguments if "/private" in flag]


def test_an_unrendered_field_is_reported_as_drift(template):
    for spoil in (
        lambda task: task.update(PidMode="task"),
        lambda task: task["ContainerDefinitions"][1].update(Privileged=True),
        lambda task: task["ContainerDefinitions"][1]["LinuxParameters"]["Capabilities"].update(
            Add=["SYS_PTRACE"]
        ),
        lambda task: task["ContainerDefinitions"][1]["MountPoints"][0].update(ReadOnly=True),
    ):
        spoiled = copy.deepcopy(template)
        spoil(
            next(
                resource["Properties"]
                for resource in spoiled["Resources"].values()
                if resource["Type"] == "AWS::ECS::TaskDefinition"
            )
        )
        with pytest.raises(AssertionError):
            read_definition(spoiled)


def test_fields_that_docker_cannot_express_are_listed(definition, capsys):
    with capsys.disabled():
        print("\ntask definition on this machine:", *definition.drift, sep="\n  ")  # noqa: T201 - the list is for people
    assert len(definition.drift) == len(set(definition.drift)) >= 8
