import json

import pytest
from aws_cdk.assertions import Template
from botocore.stub import Stubber

from stepline.adapters.aws.task import EcsTasks
from stepline.adapters.memory.clock import MemoryClock
from stepline.model.program.handover import (
    SECRET_VARIABLE,
    STOP_S,
    TOKEN_VARIABLE,
    TaskLaunch,
    run_ref,
    secret_name,
)
from stepline.model.program.image import KEEPER_COMMAND, STRATEGY_VARIABLE
from stepline_cdk.choice.operation import LOG_RETENTION_DAYS
from stepline_cdk.choice.programs import MEMORY_MIB
from stepline_cdk.container import COLLECTOR_CAPABILITIES, DEFAULT_CAPABILITIES
from stepline_cdk.execution import Execution
from stepline_cdk.stage import Stage
from tests.stacks.conftest import CONTEXT, cdk
from tests.support.aws import moto
from tests.support.log_builder import LANE

TOKEN_CHARS = 2048
OVERRIDES_CHARS = 8192


def synthesise(**fields):
    """The template of the stack alone."""
    stack = cdk.Stack(cdk.App(context=CONTEXT), "exec")
    Execution(stack, Stage(exec_mode="fargate", **fields))
    return Template.from_stack(stack)


@pytest.fixture(scope="module")
def template():
    return synthesise(name="prod", exec_image="public.ecr.aws/example/programs:1")


@pytest.fixture(scope="module")
def local():
    return synthesise(name="local", endpoint="http://127.0.0.1:4566", exec_image="stepline-exec:1")


def only(template, kind):
    (entry,) = template.find_resources(kind).values()
    return entry["Properties"]


def all_of(template, kind):
    return [entry["Properties"] for entry in template.find_resources(kind).values()]


def containers(template):
    found = only(template, "AWS::ECS::TaskDefinition")["ContainerDefinitions"]
    return {container["Name"]: container for container in found}


def mounts(container):
    return {mount["ContainerPath"]: mount["SourceVolume"] for mount in container["MountPoints"]}


def granted(template, role):
    """A role's actions, each with the resource it is allowed on."""
    return {
        action: statement["Resource"]
        for policy in all_of(template, "AWS::IAM::Policy")
        if any(reference["Ref"].startswith(role) for reference in policy["Roles"])
        for statement in policy["PolicyDocument"]["Statement"]
        for action in ([statement["Action"]] if isinstance(statement["Action"], str) else statement["Action"])
    }


def test_a_task_is_a_separate_machine_on_arm(template):
    task = only(template, "AWS::ECS::TaskDefinition")
    assert task["RequiresCompatibilities"] == ["FARGATE"]
    assert task["NetworkMode"] == "awsvpc"
    assert task["RuntimePlatform"] == {"CpuArchitecture": "ARM64", "OperatingSystemFamily": "LINUX"}
    assert (task["Cpu"], task["Memory"]) == ("1024", "2048")
    assert task["Family"] == "stepline-prod-exec"


def test_the_program_has_an_account_that_owns_nothing_and_no_capability(template):
    executor = containers(template)["executor"]
    assert executor["User"] == "1001:1001"
    assert executor["LinuxParameters"] == {"Capabilities": {"Drop": ["ALL"]}, "InitProcessEnabled": False}


def test_the_supervisor_keeps_only_the_capabilities_to_hand_files_over(template):
    supervisor = containers(template)["supervisor"]
    assert supervisor["User"] == "0:0"
    dropped = set(supervisor["LinuxParameters"]["Capabilities"]["Drop"])
    assert "Add" not in supervisor["LinuxParameters"]["Capabilities"]
    assert set(DEFAULT_CAPABILITIES) - dropped == set(COLLECTOR_CAPABILITIES)


def test_no_container_writes_to_the_image_or_is_privileged(template):
    for container in containers(template).values():
        assert container["ReadonlyRootFilesystem"] is True
        assert not {"Privileged", "Secrets", "PortMappings", "EntryPoint"} & set(container)


def test_the_containers_share_the_workspace_and_nothing_else(template):
    supervisor, executor = containers(template)["supervisor"], containers(template)["executor"]
    assert set(mounts(supervisor)) == {"/workspace", "/private", "/tmp"}
    assert set(mounts(executor)) == {"/workspace", "/tmp"}
    shared = set(mounts(supervisor).values()) & set(mounts(executor).values())
    assert shared == {mounts(executor)["/workspace"]} == {mounts(supervisor)["/workspace"]}
    task = only(template, "AWS::ECS::TaskDefinition")
    assert {volume["Name"] for volume in task["Volumes"]} == {
        *mounts(supervisor).values(),
        *mounts(executor).values(),
    }
    assert all(set(volume) == {"Name"} for volume in task["Volumes"]), "no file system that outlives the task"
    assert not {"PidMode", "IpcMode"} & set(task)


def test_the_supervisor_decides_when_a_task_ends_and_has_time_for_it(template):
    supervisor, executor = containers(template)["supervisor"], containers(template)["executor"]
    assert (supervisor["Essential"], executor["Essential"]) == (True, False)
    assert executor["DependsOn"] == [{"ContainerName": "supervisor", "Condition": "START"}]
    assert supervisor["StopTimeout"] == STOP_S
    assert executor["StopTimeout"] < supervisor["StopTimeout"]


def test_a_program_cannot_take_the_supervisors_memory_or_all_of_its_time(template):
    task, found = only(template, "AWS::ECS::TaskDefinition"), containers(template)
    supervisor, executor = found["supervisor"], found["executor"]
    assert executor["Memory"] + supervisor["MemoryReservation"] == int(task["Memory"])
    assert executor["Cpu"] + supervisor["Cpu"] == int(task["Cpu"])
    limits = {limit["Name"]: limit["HardLimit"] for limit in executor["Ulimits"]}
    assert limits["core"] == 1, "no file, and no program of the machine that is handed a dump"
    assert {"nofile", "nproc"} <= set(limits)


def test_the_commands_are_those_of_the_image(template, local):
    assert containers(template)["executor"]["Command"] == list(KEEPER_COMMAND)
    for found in (containers(template), containers(local)):
        assert found["supervisor"]["Command"][-2:] == ["-m", "exec_task.task"]


def test_the_supervisor_gets_a_setting_for_the_second_container(template, local):
    for found, strategy in ((containers(template), "split"), (containers(local), "combined")):
        variables = {row["Name"]: row["Value"] for row in found["supervisor"]["Environment"]}
        assert variables == {STRATEGY_VARIABLE: strategy, "AWS_DEFAULT_REGION": {"Ref": "AWS::Region"}}


def test_no_token_and_no_secret_is_in_the_definition(template):
    text = json.dumps(only(template, "AWS::ECS::TaskDefinition"))
    assert TOKEN_VARIABLE not in text
    assert SECRET_VARIABLE not in text
    assert "Environment" not in containers(template)["executor"]
    assert not all_of(template, "AWS::SecretsManager::Secret")


def test_both_containers_log_and_logs_never_block_them(template):
    for name, container in containers(template).items():
        logging = container["LogConfiguration"]
        assert logging["LogDriver"] == "awslogs"
        assert logging["Options"]["awslogs-stream-prefix"] == name
        assert logging["Options"]["mode"] == "non-blocking"
    assert only(template, "AWS::Logs::LogGroup")["RetentionInDays"] == LOG_RETENTION_DAYS


def test_the_supervisor_may_only_report_read_its_handover_and_have_calls_made(template):
    rights = granted(template, "TaskRole")
    assert set(rights) == {
        "states:SendTaskSuccess",
        "states:SendTaskFailure",
        "states:SendTaskHeartbeat",
        "secretsmanager:GetSecretValue",
        "secretsmanager:DeleteSecret",
        "lambda:InvokeFunction",
    }
    names = {"states": "stateMachine:stepline-prod-loop", "lambda": "function:stepline-prod-serve:live"}
    for action, resource in rights.items():
        *_, name = resource["Fn::Join"][1]
        wanted = names.get(action.partition(":")[0], "secret:stepline/prod/exec/*")
        assert name.endswith(f":{wanted}")


def test_the_execution_role_of_a_task_only_logs_and_pulls_its_image(template):
    assert set(granted(template, "ExecutionRole")) == {"logs:CreateLogStream", "logs:PutLogEvents"}
    private = synthesise(name="dev", exec_image="111122223333.dkr.ecr.eu-west-1.amazonaws.com/a/programs:1")
    rights = granted(private, "ExecutionRole")
    assert {action for action, resource in rights.items() if resource == "*"} == {"ecr:GetAuthorizationToken"}
    repository = rights["ecr:BatchGetImage"]["Fn::Join"][1][-1]
    assert repository == ":ecr:eu-west-1:111122223333:repository/a/programs"


def test_only_tasks_of_this_account_have_the_roles(template):
    for role in all_of(template, "AWS::IAM::Role"):
        (trust,) = role["AssumeRolePolicyDocument"]["Statement"]
        assert trust["Principal"] == {"Service": "ecs-tasks.amazonaws.com"}
        assert trust["Condition"] == {"StringEquals": {"aws:SourceAccount": {"Ref": "AWS::AccountId"}}}
        assert "ManagedPolicyArns" not in role


def test_a_task_accepts_no_connection_and_opens_only_https(template):
    group = only(template, "AWS::EC2::SecurityGroup")
    assert not group.get("SecurityGroupIngress")
    (way_out,) = group["SecurityGroupEgress"]
    assert (way_out["IpProtocol"], way_out["FromPort"], way_out["ToPort"]) == ("tcp", 443, 443)
    for kind in ("SecurityGroupIngress", "SecurityGroupEgress"):
        assert not all_of(template, f"AWS::EC2::{kind}")


def test_an_unused_network_costs_nothing(template):
    assert len(all_of(template, "AWS::EC2::Subnet")) == 2
    for kind in ("NatGateway", "EIP"):
        assert not all_of(template, f"AWS::EC2::{kind}")
    endpoint = only(template, "AWS::EC2::VPCEndpoint")
    assert endpoint["VpcEndpointType"] == "Gateway"
    assert json.dumps(endpoint["ServiceName"]).endswith('".s3"]]}')
    assert len(endpoint["RouteTableIds"]) == 2
    routes = all_of(template, "AWS::EC2::Route")
    assert [route["DestinationCidrBlock"] for route in routes] == ["0.0.0.0/0"] * 2
    assert all("GatewayId" in route for route in routes)
    assert only(template, "AWS::ECS::Cluster")["ClusterSettings"] == [
        {"Name": "containerInsights", "Value": "disabled"}
    ]


def test_zones_are_chosen_by_ids_that_mean_the_same_in_every_account(template):
    assert all("AvailabilityZoneId" not in subnet for subnet in all_of(template, "AWS::EC2::Subnet"))
    chosen = synthesise(name="dev", exec_image="a:1", exec_zones=("usw1-az1", "usw1-az3"))
    subnets = [one for one in all_of(chosen, "AWS::EC2::Subnet") if "AvailabilityZoneId" in one]
    assert {one["AvailabilityZoneId"]: one["CidrBlock"] for one in subnets} == {
        "usw1-az1": "10.1.1.0/24",
        "usw1-az3": "10.1.3.0/24",
    }
    assert all("AvailabilityZone" not in one for one in subnets)
    used = json.dumps(chosen.to_json()["Outputs"]["TaskSubnets"])
    assert used.count("Zone") == 2
    routes = [one for one in all_of(chosen, "AWS::EC2::Route") if "Zone" in json.dumps(one["RouteTableId"])]
    assert len(routes) == 2
    endpoints = json.dumps(all_of(chosen, "AWS::EC2::VPCEndpoint"))
    assert endpoints.count("Zone") == 2


OWNERS = {
    "exec_vpc": "vpc-0a1b2c3d",
    "exec_subnets": ("subnet-0a1b2c3d", "subnet-1a1b2c3d"),
    "exec_public_ip": False,
}


def test_tasks_in_the_network_of_their_owner_bring_none_of_their_own():
    placed = synthesise(
        name="dev", exec_image="a:1", exec_security_groups=("sg-0a1b2c3d", "sg-1a1b2c3d"), **OWNERS
    )
    kinds = {resource["Type"] for resource in placed.to_json()["Resources"].values()}
    assert not [kind for kind in kinds if kind.startswith("AWS::EC2::")]
    outputs = {name: output["Value"] for name, output in placed.to_json()["Outputs"].items()}
    assert (outputs["TaskSubnets"], outputs["TaskSecurityGroups"]) == (
        "subnet-0a1b2c3d,subnet-1a1b2c3d",
        "sg-0a1b2c3d,sg-1a1b2c3d",
    )
    assert outputs["TaskPublicIp"] == "DISABLED"


def test_without_groups_of_their_owner_tasks_get_one_in_that_network_that_lets_https_out():
    placed = synthesise(name="dev", exec_image="a:1", **OWNERS)
    group = only(placed, "AWS::EC2::SecurityGroup")
    assert group["VpcId"] == "vpc-0a1b2c3d"
    assert [rule["FromPort"] for rule in group["SecurityGroupEgress"]] == [443]
    assert not group.get("SecurityGroupIngress")


def test_the_executor_has_the_same_walls_in_the_network_of_an_owner(template):
    placed = synthesise(name="prod", exec_image="public.ecr.aws/example/programs:1", **OWNERS)
    assert containers(placed)["executor"] == containers(template)["executor"]


def test_the_template_has_no_custom_resource(template):
    assert not [name for name in template.to_json()["Resources"] if "Custom" in name]
    assert not all_of(template, "AWS::Lambda::Function")


def test_the_overrides_that_start_a_task_stay_within_their_limit(aws_calls):
    launch = TaskLaunch(
        ref=run_ref(LANE, "turn_1", "tc_1"),
        client_token=f"{run_ref(LANE, 'turn_1', 'tc_1')}-999999",
        secret=secret_name("s" * 16, run_ref(LANE, "turn_1", "tc_1")),
        cluster="c",
        task_definition="t",
        container_name="supervisor",
        subnets=("subnet-0a1b2c3d",),
        security_groups=("sg-0a1b2c3d",),
        assign_public_ip="ENABLED",
        platform_version="LATEST",
    )
    asked = aws_calls(launch, "T" * TOKEN_CHARS, 99)
    assert len(json.dumps(asked["overrides"])) < OVERRIDES_CHARS / 2
    assert len(asked["clientToken"]) <= 64


@pytest.fixture
def aws_calls():
    """Return a function that returns what ECS would be asked to start a task."""
    tasks = EcsTasks(None, "stage", MemoryClock())

    def asked(*start):
        with Stubber(tasks.ecs) as stub:
            stub.add_response("run_task", {"tasks": [{"taskArn": "t"}], "failures": []})
            heard = {}
            tasks.ecs.meta.events.register(
                "provide-client-params.ecs.RunTask", lambda params, **_: heard.update(params)
            )
            tasks.start(*start)
        return heard

    with moto():
        yield asked


def test_sizes_that_fargate_does_not_have_are_refused():
    with pytest.raises(
        ValueError, match="exec_memory_mib: got 1000, takes 2048 to 8192 in steps of 1024 with exec_cpu=1024"
    ):
        synthesise(name="dev", exec_image="a:1", exec_memory_mib=1000)
    for cpu, sizes in MEMORY_MIB.items():
        assert all(2 * cpu <= size <= 8 * cpu for size in sizes)
    synthesise(name="dev", exec_image="a:1", exec_cpu=512, exec_memory_mib=1024)


def test_on_the_emulator_a_task_is_one_container_in_the_machines_network(local):
    task = only(local, "AWS::ECS::TaskDefinition")
    assert task["NetworkMode"] == "host"
    assert set(containers(local)) == {"supervisor"}
    assert containers(local)["supervisor"]["Image"] == "stepline-exec:1"
    assert (
        granted(local, "TaskRole").keys()
        == granted(synthesise(name="dev", exec_image="a:1"), "TaskRole").keys()
    )
