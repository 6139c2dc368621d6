"""The owner's network, in which the functions run: a Redis or a database there becomes reachable.

Source: docs/how-to/deploy.md#functions-in-a-network-of-yours.
"""

from __future__ import annotations

from typing import NamedTuple

import aws_cdk as cdk
from aws_cdk import aws_ec2 as ec2
from constructs import Construct

from stepline_cdk.stage import Stage


class Network(NamedTuple):
    """The subnets of the functions, and their security groups."""

    subnet_ids: tuple[str, ...]
    security_group_ids: tuple[str, ...]

    def arns(self, stack: cdk.Stack) -> tuple[str, ...]:
        """Return the resources of which Lambda makes a network interface; the subnets of a shared VPC belong to another account."""
        ec2_arn = f"arn:{stack.partition}:ec2:{stack.region}"
        return (
            *(f"{ec2_arn}:*:subnet/{one}" for one in self.subnet_ids),
            *(f"{ec2_arn}:*:security-group/{one}" for one in self.security_group_ids),
            f"{ec2_arn}:{stack.account}:network-interface/*",
        )


def interfaces_arn(stack: cdk.Stack) -> str:
    """Return the resource of which Lambda deletes network interfaces: all resources, as its manual has it."""
    return f"arn:{stack.partition}:ec2:{stack.region}:{stack.account}:*/*"


def make_network(scope: Construct, stage: Stage) -> Network | None:
    """Return the functions' network, with a group of their own unless others are chosen; None without a VPC."""
    if not stage.vpc:
        return None
    groups = stage.vpc_security_groups or [
        add_group(scope, "FunctionGroup", known_vpc(scope, stage.vpc), "Functions")
    ]
    return Network(stage.vpc_subnets, tuple(groups))


def add_group(scope: Construct, name: str, vpc: ec2.IVpc, members: str) -> str:
    """Add a security group that lets nothing in and HTTPS out, and return its id."""
    group = ec2.SecurityGroup(
        scope,
        name,
        vpc=vpc,
        description=f"{members}: nothing in, HTTPS out.",
        allow_all_outbound=False,
    )
    group.add_egress_rule(ec2.Peer.any_ipv4(), ec2.Port.tcp(443), "AWS, and what tools call")
    return group.security_group_id


def known_vpc(scope: Construct, vpc_id: str) -> ec2.IVpc:
    """Return a VPC by its id, of which nothing else is used; the CDK asks for zones that it need not know."""
    return ec2.Vpc.from_vpc_attributes(scope, "OwnersNetwork", vpc_id=vpc_id, availability_zones=["unknown"])
