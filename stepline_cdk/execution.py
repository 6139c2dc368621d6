"""Execution of programs in AWS: tasks in a network of their own, or their owner's, unreachable from outside.

A task is two containers of one image. The supervisor has the network, the task's role and the run's data; the
executor runs the program as an account that owns nothing, and shares one volume with it. They share the
network too, as all containers of a task do: the executor's own filter closes it.

Cluster and task definition are the resources themselves, not the CDK's constructs of them: `ecs.Cluster` creates a network
where it gets none, and a construct of a definition adds rights and roles of its own, which the table of access does not have.

Source: docs/concepts/execution.md#fargate.
"""

from __future__ import annotations

from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_ecs as ecs
from aws_cdk import aws_iam as iam
from constructs import Construct

from stepline_cdk.container import SUPERVISOR, VOLUMES, Containers
from stepline_cdk.image import PULL_ACTIONS, Image, make_image
from stepline_cdk.key import DECRYPT, key_statement
from stepline_cdk.log_group import add_log_group
from stepline_cdk.network import add_group, known_vpc
from stepline_cdk.stage import Stage

REPORT_ACTIONS: Final = ("states:SendTaskFailure", "states:SendTaskHeartbeat", "states:SendTaskSuccess")
SERVE_ACTIONS: Final = ("lambda:InvokeFunction",)
TAKE_ACTIONS: Final = ("secretsmanager:DeleteSecret", "secretsmanager:GetSecretValue")

ZONE_ADDRESSES: Final = "10.1.0.0/16"
"""The addresses of subnets in zones of the stage's choice, a /24 each, by the zone's number."""


class Execution:
    """Network, cluster, task definition, and the two roles of a task."""

    def __init__(self, scope: Construct, stage: Stage, *, requirements: tuple[str, ...] = ()) -> None:
        """Add all of it to a scope; the image has the packages of these files too.

        On the emulator the task is one container, since two could not communicate there.
        """
        self.scope = scope
        self._stack = cdk.Stack.of(scope)
        self.family = stage.exec_name
        self.container_name = SUPERVISOR
        self._stage = stage
        self._place_tasks()
        cluster = ecs.CfnCluster(
            scope,
            "Cluster",
            cluster_name=self.family,
            cluster_settings=[
                ecs.CfnCluster.ClusterSettingsProperty(name="containerInsights", value="disabled")
            ],
            configuration=_encrypted(stage.kms_key_arn) if stage.kms_key_arn else None,
        )
        self.cluster_arn, self.cluster_name = cluster.attr_arn, self.family
        self._log_group = add_log_group(scope, "Logs", stage, "exec")
        image = Image(uri=stage.exec_image) if stage.is_local else make_image(scope, stage, requirements)
        self.task_role_arn = self._make_task_role().role_arn
        self.execution_role_arn = self._make_execution_role(image).role_arn
        self._make_definition(image)
        cdk.CfnOutput(scope, "ClusterName", value=self.cluster_name)
        cdk.CfnOutput(scope, "TaskFamily", value=self.family)
        cdk.CfnOutput(scope, "TaskSubnets", value=cdk.Fn.join(",", self.subnet_ids))
        cdk.CfnOutput(scope, "TaskSecurityGroups", value=cdk.Fn.join(",", self.security_group_ids))
        cdk.CfnOutput(scope, "TaskPublicIp", value=self.public_ip)

    def _place_tasks(self) -> None:
        """Name the subnets and groups of tasks: the owner's, or those of a network made for them."""
        stage = self._stage
        self.public_ip = "ENABLED" if stage.exec_public_ip else "DISABLED"
        self.security_group_ids = list(stage.exec_security_groups)
        if stage.exec_vpc:
            vpc = known_vpc(self.scope, stage.exec_vpc)
            self.subnet_ids = list(stage.exec_subnets)
        else:
            vpc, subnets = self._make_network()
            self.subnet_ids = [subnet.subnet_id for subnet in subnets]
        if not self.security_group_ids:
            self.security_group_ids = [add_group(self.scope, "TaskGroup", vpc, "Tasks")]

    def _make_network(self) -> tuple[ec2.Vpc, list[ec2.ISubnet]]:
        """Return a network, and its public subnets for tasks: in two zones of the region, or in those of the stage's choice.

        Access is to the outside only, and a task's own public address is its only route. The two subnets of the region's
        zones remain, unused and free, when others are chosen.
        """
        vpc = ec2.Vpc(
            self.scope,
            "Network",
            ip_addresses=ec2.IpAddresses.cidr("10.0.0.0/22"),
            max_azs=2,
            nat_gateways=0,
            subnet_configuration=[
                ec2.SubnetConfiguration(
                    name="Task",
                    subnet_type=ec2.SubnetType.PUBLIC,
                    cidr_mask=24,
                    map_public_ip_on_launch=False,
                )
            ],
            gateway_endpoints={
                "Objects": ec2.GatewayVpcEndpointOptions(service=ec2.GatewayVpcEndpointAwsService.S3)
            },
            # Emptying the default group would need a function, and nothing here is a member of it.
            restrict_default_security_group=False,
        )
        if not self._stage.exec_zones:
            return vpc, vpc.public_subnets
        more = ec2.CfnVPCCidrBlock(self.scope, "ZoneAddresses", vpc_id=vpc.vpc_id, cidr_block=ZONE_ADDRESSES)
        chosen = [self._make_subnet(vpc, zone, more) for zone in self._stage.exec_zones]
        vpc.add_gateway_endpoint(
            "ZoneObjects",
            service=ec2.GatewayVpcEndpointAwsService.S3,
            subnets=[ec2.SubnetSelection(subnets=chosen)],
        )
        return vpc, chosen

    def _make_subnet(self, vpc: ec2.Vpc, zone: str, addresses: ec2.CfnVPCCidrBlock) -> ec2.ISubnet:
        """Return a public subnet in a zone, with an id and addresses of the zone's number.

        Another zone replaces a subnet, whose addresses stay taken until its successor exists, and whose readers notice a new id
        alone. Source: docs.aws.amazon.com/AWSCloudFormation, "AWS::EC2::Subnet".
        """
        number = int(zone.rpartition("az")[2])
        subnet = ec2.PublicSubnet(
            self.scope,
            f"Zone{number}",
            vpc_id=vpc.vpc_id,
            availability_zone=zone,
            cidr_block=ZONE_ADDRESSES.replace("0.0/16", f"{number}.0/24"),
            map_public_ip_on_launch=False,
        )
        subnet.node.add_dependency(addresses)
        made = subnet.node.default_child
        assert isinstance(made, ec2.CfnSubnet)
        made.availability_zone_id = zone
        made.add_property_deletion_override("AvailabilityZone")
        subnet.add_default_internet_route(str(vpc.internet_gateway_id), vpc.internet_connectivity_established)
        return subnet

    def _make_task_role(self) -> iam.Role:
        """Return the supervisor's role: it reports to the machine, reads its handover, and has calls made, nothing else."""
        role = self._make_role("TaskRole")
        stage = self._stage
        for actions, resource in (
            (REPORT_ACTIONS, stage.machine_arn(self._stack)),
            (TAKE_ACTIONS, stage.handovers_arn(self._stack)),
            (SERVE_ACTIONS, stage.serve_arn(self._stack)),
        ):
            role.add_to_policy(iam.PolicyStatement(actions=list(actions), resources=[resource]))
        if stage.kms_key_arn:
            role.add_to_policy(key_statement(stage.kms_key_arn, DECRYPT, ["secretsmanager"]))
        return role

    def _make_execution_role(self, image: Image) -> iam.Role:
        """Return the role for Fargate's own actions before the containers run."""
        role = self._make_role("ExecutionRole")
        role.add_to_policy(
            iam.PolicyStatement(
                actions=["logs:CreateLogStream", "logs:PutLogEvents"],
                resources=[self._log_group.log_group_arn],
            )
        )
        if image.repository_arn:
            # The one action without a resource.
            role.add_to_policy(iam.PolicyStatement(actions=["ecr:GetAuthorizationToken"], resources=["*"]))
            role.add_to_policy(
                iam.PolicyStatement(actions=list(PULL_ACTIONS), resources=[image.repository_arn])
            )
        return role

    def _make_role(self, name: str) -> iam.Role:
        """Return a role that tasks of this account alone may take."""
        principal = iam.ServicePrincipal(
            "ecs-tasks.amazonaws.com", conditions={"StringEquals": {"aws:SourceAccount": self._stack.account}}
        )
        return iam.Role(self.scope, name, assumed_by=principal)

    def _make_definition(self, image: Image) -> None:
        stage = self._stage
        containers = Containers(
            image=image.uri,
            region=self._stack.region,
            log_group=self._log_group,
            cpu=stage.exec_cpu,
            memory_mib=stage.exec_memory_mib,
        )
        definition = ecs.CfnTaskDefinition(
            self.scope,
            "Task",
            family=self.family,
            cpu=str(stage.exec_cpu),
            memory=str(stage.exec_memory_mib),
            # The emulator is reachable for a container in the machine's own network only.
            network_mode="host" if stage.is_local else "awsvpc",
            requires_compatibilities=["EC2" if stage.is_local else "FARGATE"],
            runtime_platform=None
            if stage.is_local
            else ecs.CfnTaskDefinition.RuntimePlatformProperty(
                cpu_architecture="ARM64", operating_system_family="LINUX"
            ),
            task_role_arn=self.task_role_arn,
            execution_role_arn=self.execution_role_arn,
            container_definitions=[containers.combined()]
            if stage.is_local
            else [containers.supervisor(), containers.executor()],
            volumes=None
            if stage.is_local
            else [ecs.CfnTaskDefinition.VolumeProperty(name=name) for name in VOLUMES],
        )
        if image.build:
            # The previous definition, whose image exists, remains until the build has ended.
            definition.node.add_dependency(image.build)


def _encrypted(key_arn: str) -> ecs.CfnCluster.ClusterConfigurationProperty:
    """Return the configuration of a cluster whose tasks have their files on disks with this key."""
    return ecs.CfnCluster.ClusterConfigurationProperty(
        managed_storage_configuration=ecs.CfnCluster.ManagedStorageConfigurationProperty(
            fargate_ephemeral_storage_kms_key_id=key_arn
        )
    )
