"""The owner's network: where functions and tasks run, and the rights by which Lambda attaches them."""

import pytest
from aws_cdk import aws_ec2 as ec2

from stepline.errors import InputError
from stepline_cdk.access import ATTACHES, UNSCOPED
from stepline_cdk.stage import Stage
from tests.stacks.conftest import Synthesis, cdk
from tests.stacks.role import listed
from tests.stacks.test_agent import Shop, of_kind

IMAGE = "111122223333.dkr.ecr.eu-west-1.amazonaws.com/programs:1"
SUBNETS = ("subnet-0a1b2c3d", "subnet-1a1b2c3d")
VPC = {"vpc": "vpc-0a1b2c3d", "vpc_subnets": SUBNETS}
GROUPS = {"vpc_security_groups": ("sg-0a1b2c3d",)}
FUNCTION, GROUP = "AWS::Lambda::Function", "AWS::EC2::SecurityGroup"


@pytest.fixture(scope="module")
def inside(tmp_path_factory):
    """A stage whose functions and tasks run in a VPC, in groups of their own."""
    return Synthesis(Stage(name="dev", exec_image=IMAGE, **VPC), tmp_path_factory.mktemp("inside"))


@pytest.fixture
def shop(tmp_path):
    return Shop(tmp_path)


def networks(resources):
    """The network of each function of ours, by its handler."""
    return {
        one["Handler"]: one.get("VpcConfig")
        for one in of_kind(resources, FUNCTION).values()
        if one["Handler"].startswith("lambdas.")
    }


def rules(group):
    return [(one["CidrIp"], one["FromPort"]) for one in group["SecurityGroupEgress"]]


def test_each_function_runs_in_the_subnets_with_a_group_that_lets_https_out_alone(inside):
    found = [one["VpcConfig"] for one in inside.resources(FUNCTION).values()]
    assert len(found) == len(inside.functions)
    assert {tuple(one["SubnetIds"]) for one in found} == {SUBNETS}
    assert {len(one["SecurityGroupIds"]) for one in found} == {1}
    groups = inside.resources(GROUP)
    assert len(groups) == 2
    for group in groups.values():
        assert group["VpcId"] == VPC["vpc"]
        assert rules(group) == [("0.0.0.0/0", 443)]
        assert "SecurityGroupIngress" not in group


def test_tasks_run_in_the_network_of_the_functions_unless_they_have_one_of_their_own():
    both = Stage(**VPC, **GROUPS)
    assert (both.exec_vpc, both.exec_subnets) == (VPC["vpc"], SUBNETS)
    assert both.exec_security_groups == GROUPS["vpc_security_groups"]
    assert not both.exec_public_ip
    zones = Stage(**VPC, **GROUPS, exec_zones="usw1-az1,usw1-az3")
    assert (zones.exec_vpc, zones.exec_subnets, zones.exec_security_groups) == ("", (), ())
    other = Stage(**VPC, **GROUPS, exec_vpc="vpc-1a1b2c3d", exec_subnets="subnet-2a1b2c3d")
    assert (other.exec_subnets, other.exec_security_groups) == (("subnet-2a1b2c3d",), ())
    own = Stage(**VPC, **GROUPS, exec_security_groups="sg-1a1b2c3d")
    assert own.exec_security_groups == ("sg-1a1b2c3d",)


def test_lambda_attaches_a_function_by_its_role_and_the_code_of_the_function_cannot(inside):
    actions = {action for right in ATTACHES for action in right.actions}
    policies = [one["PolicyDocument"]["Statement"] for one in inside.resources("AWS::IAM::Policy").values()]
    attached = [policy for policy in policies if "ec2:" in str(policy)]
    assert len(attached) == len(inside.functions)
    for policy in attached:
        of_network = [one for one in policy if listed(one["Action"])[0].startswith("ec2:")]
        allowed = [one for one in of_network if one["Effect"] == "Allow"]
        assert {action for one in allowed for action in listed(one["Action"])} == actions
        assert {action for one in allowed if one["Resource"] == "*" for action in listed(one["Action"])} == {
            action for action in UNSCOPED if action.startswith("ec2:")
        }
        (denied,) = (one for one in of_network if one["Effect"] == "Deny")
        assert (set(denied["Action"]), denied["Resource"]) == (actions, "*")
        assert "function:stepline-dev-" in str(denied["Condition"]["ArnEquals"]["lambda:SourceFunctionArn"])


def test_a_function_has_its_rights_before_it_is_attached(inside):
    for name, entry in inside.entries(FUNCTION).items():
        assert any("DefaultPolicy" in needed for needed in entry["DependsOn"]), name


def test_an_agent_runs_in_a_network_of_its_app_and_may_connect_to_a_database(shop):
    vpc = ec2.Vpc(shop.stack, "Net", max_azs=2)
    agent = shop.add(vpc=vpc, programs=True)
    group = ec2.SecurityGroup(shop.stack, "Database", vpc=vpc)
    ec2.Connections(security_groups=[group], default_port=ec2.Port.tcp(5432)).allow_default_port_from(agent)
    assert {place for _, place in shop.findings()} == {"Shop/Net/Resource"}
    resources = shop.resources()
    assert len(networks(resources)) > 10
    for network in networks(resources).values():
        assert all("NetPrivateSubnet" in subnet["Ref"] for subnet in network["SubnetIds"])
    entered = of_kind(resources, "AWS::EC2::SecurityGroupIngress").values()
    assert len(entered) == 2
    left = of_kind(resources, "AWS::EC2::SecurityGroupEgress").values()
    assert {one["ToPort"] for one in (*entered, *left)} == {5432}
    assert len(left) == 2


def test_an_agent_has_the_groups_and_the_subnets_of_its_owner(shop):
    vpc = ec2.Vpc(shop.stack, "Net", max_azs=2)
    group = ec2.SecurityGroup(shop.stack, "Mine", vpc=vpc)
    isolated = ec2.SubnetSelection(one_per_az=True, subnets=vpc.private_subnets[:1])
    agent = shop.add(vpc=vpc, vpc_subnets=isolated, security_groups=[group])
    assert agent.connections.security_groups == [group]
    resources = shop.resources()
    assert len(of_kind(resources, GROUP)) == 1
    for network in networks(resources).values():
        assert len(network["SubnetIds"]) == 1
        assert "Mine" in network["SecurityGroupIds"][0]["Fn::GetAtt"][0]


def test_a_network_that_is_not_looked_up_yet_is_no_mistake(shop):
    shop.stack = cdk.Stack(shop.app, "Found", env=cdk.Environment(account="111122223333", region="eu-west-1"))
    shop.add(vpc=ec2.Vpc.from_lookup(shop.stack, "Net", vpc_name="main"))
    (network, *_) = networks(shop.resources()).values()
    assert network["SubnetIds"] == ["p-12345", "p-67890"]


def test_an_agent_without_a_network_has_no_connections(shop):
    agent = shop.add()
    with pytest.raises(InputError, match=r"^Shop/Agent: connections: got an agent without a VPC"):
        _ = agent.connections


def test_public_subnets_and_groups_without_a_network_are_refused(shop):
    vpc = ec2.Vpc(shop.stack, "Net", max_azs=2)
    public = ec2.SubnetSelection(subnet_type=ec2.SubnetType.PUBLIC)
    with pytest.raises(
        InputError, match=r"^Shop/Agent: vpc_subnets: got public subnets, takes private"
    ) as no:
        shop.add(vpc=vpc, vpc_subnets=public)
    assert no.value.reason == "bad_choice"
    with pytest.raises(InputError, match=r"^Shop/Other: vpc_subnets, security_groups and vpc: got no VPC"):
        shop.add("Other", vpc_subnets=public)


@pytest.mark.parametrize(
    ("choices", "sentence"),
    [
        ({"vpc": "vpc-0a1b2c3d"}, "vpc and vpc_subnets: got the first alone"),
        ({"vpc_subnets": SUBNETS}, "vpc and vpc_subnets: got the second alone"),
        ({"vpc": "main", "vpc_subnets": SUBNETS}, "vpc: got 'main', takes the id of a VPC"),
        ({"vpc": "vpc-0a1b2c3d", "vpc_subnets": "eu-west-1a"}, "vpc_subnets: got 'eu-west-1a', takes a list"),
        (GROUPS, "vpc_security_groups and vpc: got the first alone"),
        (
            {"name": "local", "endpoint": "http://127.0.0.1:4566", **VPC},
            "vpc: got a VPC on stage local, takes none there",
        ),
    ],
)
def test_a_network_that_cannot_be_is_one_sentence(choices, sentence):
    with pytest.raises(InputError) as refused:
        Stage(**choices)
    assert str(refused.value).startswith(sentence)
    assert refused.value.reason == "bad_choice"
