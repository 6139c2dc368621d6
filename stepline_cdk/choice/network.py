"""The choices of the network: the VPC of the functions."""

from __future__ import annotations

from typing import Annotated, Final

from stepline_cdk.choice.declare import Choices, choice, like

DEPLOY: Final = "../how-to/deploy.md"
VpcId = Annotated[str, like("vpc-[0-9a-f]{8,17}", "the id of a VPC like vpc-0a1b2c3d", empty=True)]
SubnetId = Annotated[str, like("subnet-[0-9a-f]{8,17}", "the id of a subnet like subnet-0a1b2c3d")]
GroupId = Annotated[str, like("sg-[0-9a-f]{8,17}", "the id of a security group like sg-0a1b2c3d")]


class NetworkChoices(Choices):
    """The network of the functions."""

    vpc: VpcId = choice(
        "",
        f"VPC of [yours]({DEPLOY}#functions-in-a-network-of-yours) in which functions and tasks run, together with `vpc_subnets`",
        said="none: functions reach the internet",
        cost="a NAT gateway of yours, about 33 USD a month in each zone",
        guarded=True,
    )
    vpc_subnets: tuple[SubnetId, ...] = choice(
        (), "Private subnets of that VPC, in which functions have addresses", guarded=True
    )
    vpc_security_groups: tuple[GroupId, ...] = choice(
        (),
        "Security groups of the functions in `vpc`",
        said="a group that allows outbound HTTPS",
        guarded=True,
    )
