"""The choices of the network: the VPC of the functions, the domains of the APIs, and the addresses that may call them."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv6Network, ip_network
from typing import Annotated, Any, Final

from stepline_cdk.choice.declare import REFERENCE, Choices, Takes, choice, like

DEPLOY: Final = "../how-to/deploy.md"
VpcId = Annotated[str, like("vpc-[0-9a-f]{8,17}", "the id of a VPC like vpc-0a1b2c3d", empty=True)]
SubnetId = Annotated[str, like("subnet-[0-9a-f]{8,17}", "the id of a subnet like subnet-0a1b2c3d")]
GroupId = Annotated[str, like("sg-[0-9a-f]{8,17}", "the id of a security group like sg-0a1b2c3d")]


@dataclass(frozen=True)
class CidrRule(Takes):
    """The rule of a CIDR, IPv4 as such and not within IPv6."""

    def check(self, value: Any) -> Any:
        """Return the value. Raises ValueError for a text that is no network."""
        if REFERENCE.search(value):
            return value
        try:
            found = ip_network(value)
        except ValueError as error:
            raise ValueError(self.said) from error
        if isinstance(found, IPv6Network) and found.network_address.ipv4_mapped:
            raise ValueError(self.said)
        return value


Cidr = Annotated[str, CidrRule("a network like 203.0.113.0/24 or 2001:db8::/32, without bits of a host")]
Domain = Annotated[
    str,
    like(r"([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]{2,63}", "a domain like api.example.com", empty=True),
]


class NetworkChoices(Choices):
    """The network of the functions, the domains of the APIs, and the addresses that may call them."""

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
    api_domain: Domain = choice(
        "",
        f"[Domain]({DEPLOY}#domains-of-the-apis) of the HTTP API, together with `api_certificate_arn`",
        said="the API's own",
        guarded=True,
    )
    socket_domain: Domain = choice(
        "",
        "Domain of the websocket API, together with `api_certificate_arn`; the two APIs cannot share one",
        said="the API's own",
        guarded=True,
    )
    api_certificate_arn: Annotated[
        str,
        like(
            r"arn:aws[a-z-]*:acm:[a-z0-9-]+:\d{12}:certificate/[0-9a-f-]+",
            "the ARN of a certificate of ACM in the stage's region",
            empty=True,
        ),
    ] = choice("", "ARN of a certificate of these domains, in the stage's region", guarded=True)
    allowed_addresses: tuple[Cidr, ...] = choice(
        (),
        f"Networks that clients of both APIs may [come from]({DEPLOY}#addresses-that-may-call), as CIDRs",
        said="any",
        guarded=True,
    )
    page_web_acl_arn: Annotated[
        str,
        like(
            r"arn:aws[a-z-]*:wafv2:us-east-1:\d{12}:global/webacl/[\w-]+/[0-9a-f-]+",
            "the ARN of a web ACL of WAF in us-east-1 with scope CLOUDFRONT",
            empty=True,
        ),
    ] = choice(
        "",
        "ARN of a web ACL of WAF for the chat page's distribution",
        cost="of WAF: 5 USD a month and 1 for each rule",
        guarded=True,
    )
