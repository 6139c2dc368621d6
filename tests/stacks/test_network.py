"""The owner's network: where functions and tasks run, the rights by which Lambda attaches them, and the domains of the APIs."""

import pytest
from aws_cdk import aws_certificatemanager as acm
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_secretsmanager as secretsmanager
from aws_cdk import aws_wafv2 as wafv2

from stepline.errors import InputError
from stepline_cdk.access import ATTACHES, UNSCOPED
from stepline_cdk.stage import Stage
from tests.stacks.conftest import PAGE, Synthesis, cdk, deployed_function, deployed_variables
from tests.stacks.role import listed
from tests.stacks.test_agent import Shop, of_kind

IMAGE = "111122223333.dkr.ecr.eu-west-1.amazonaws.com/programs:1"
SUBNETS = ("subnet-0a1b2c3d", "subnet-1a1b2c3d")
VPC = {"vpc": "vpc-0a1b2c3d", "vpc_subnets": SUBNETS}
GROUPS = {"vpc_security_groups": ("sg-0a1b2c3d",)}
CERTIFICATE = {"api_certificate_arn": "arn:aws:acm:eu-west-1:111122223333:certificate/0a1b2c3d"}
DOMAINS = {"api_domain": "api.example.com", "socket_domain": "socket.example.com", **CERTIFICATE}
WEB_ACL = "arn:aws:wafv2:us-east-1:111122223333:global/webacl/page/0a1b2c3d"
FUNCTION, GROUP = "AWS::Lambda::Function", "AWS::EC2::SecurityGroup"


@pytest.fixture(scope="module")
def inside(tmp_path_factory):
    """A stage whose functions and tasks run in a VPC, in groups of their own."""
    return Synthesis(Stage(name="dev", exec_image=IMAGE, **VPC), tmp_path_factory.mktemp("inside"))


@pytest.fixture(scope="module")
def named(tmp_path_factory):
    """A stage whose APIs have domains, and addresses that may call them."""
    chosen = {**DOMAINS, "allowed_addresses": "203.0.113.0/24,2001:db8::/32", "page_web_acl_arn": WEB_ACL}
    return Synthesis(Stage(name="dev", exec_image="none", **chosen), tmp_path_factory.mktemp("named"))


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


def test_each_api_has_its_domain_with_tls_and_the_name_for_its_record(named):
    found = {one["DomainName"]: one for one in named.resources("AWS::ApiGatewayV2::DomainName").values()}
    assert set(found) == {"api.example.com", "socket.example.com"}
    for one in found.values():
        (setting,) = one["DomainNameConfigurations"]
        assert setting["SecurityPolicy"] == "TLS_1_2"
        assert setting["EndpointType"] == "REGIONAL"
        assert setting["CertificateArn"] == CERTIFICATE["api_certificate_arn"]
    mappings = named.resources("AWS::ApiGatewayV2::ApiMapping").values()
    assert {one["Stage"] for one in mappings} == {"live", "$default"}
    assert all("ApiMappingKey" not in one for one in mappings)
    for name, domain in (("ApiHost", "ApiDomain"), ("SocketHost", "SocketDomain")):
        output = named.documents()["ingress"]["Outputs"][name]["Value"]
        assert named.roles.text("ingress", output) == f"<{domain}.RegionalDomainName>"


def test_clients_the_page_and_tickets_get_the_domains(named):
    outputs = named.documents()["ingress"]["Outputs"]
    assert outputs["WebSocketUrl"]["Value"] == "wss://socket.example.com/"
    assert outputs["HttpUrl"]["Value"] == "https://api.example.com/"
    config = named.roles.text("ingress", outputs["PageConfig"]["Value"])
    assert '"http_url":"https://api.example.com/","socket_url":"wss://socket.example.com/"' in config
    assert deployed_variables(named, "api")["STEPLINE_SOCKET_URL"] == "wss://socket.example.com/"
    (upload,) = named.resources("Custom::SteplinePage", of_page=True).values()
    connect = named.roles.text("page", upload["Connect"])
    assert connect.startswith("https://api.example.com wss://socket.example.com https://")
    assert "Endpoint" not in connect


def test_functions_post_to_connections_at_the_address_of_aws(named):
    apis = named.resources("AWS::ApiGatewayV2::Api").values()
    assert not any("DisableExecuteApiEndpoint" in one for one in apis)
    for name in ("decide", "socket", "sweeper"):
        callback = deployed_function(named, name)["Environment"]["Variables"]["STEPLINE_CALLBACK_URL"]
        assert ".execute-api." in str(callback)
        assert "example.com" not in str(callback)


def test_the_authorizer_compares_with_the_allowed_networks_and_the_page_has_its_web_acl(named):
    assert (
        deployed_variables(named, "authorizer")["STEPLINE_ALLOWED_ADDRESSES"]
        == "203.0.113.0/24,2001:db8::/32"
    )
    assert "STEPLINE_ALLOWED_ADDRESSES" not in deployed_variables(named, "api")
    (distribution,) = named.resources("AWS::CloudFront::Distribution", of_page=True).values()
    assert distribution["DistributionConfig"]["WebACLId"] == WEB_ACL


def test_every_route_that_opens_or_asks_passes_the_authorizer(named):
    unguarded = {
        one["RouteKey"]
        for one in named.resources("AWS::ApiGatewayV2::Route").values()
        if one.get("AuthorizationType", "NONE") == "NONE"
    }
    # Of a connection that the authorizer accepted, whose address cannot change.
    assert unguarded == {"$default", "$disconnect"}
    for gate in named.resources("AWS::ApiGatewayV2::Authorizer").values():
        assert gate.get("AuthorizerResultTtlInSeconds", 0) == 0


def test_one_api_may_have_a_domain_alone(shop):
    agent = shop.add(socket_domain="socket.example.com", **CERTIFICATE)
    assert agent.socket_url == "wss://socket.example.com/"
    assert "example.com" not in agent.api_url
    assert len(of_kind(shop.resources(), "AWS::ApiGatewayV2::DomainName")) == 1


def test_programs_need_a_way_to_their_image(shop):
    def isolated(name):
        kind = ec2.SubnetType.PRIVATE_ISOLATED
        return ec2.Vpc(
            shop.stack, name, subnet_configuration=[ec2.SubnetConfiguration(name="in", subnet_type=kind)]
        )

    place = {
        "vpc_subnets": ec2.SubnetSelection(subnet_type=ec2.SubnetType.PRIVATE_ISOLATED),
        "programs": True,
    }
    with pytest.raises(
        InputError, match=r"^Shop/Agent: programs and vpc_subnets: got programs and subnets without"
    ):
        shop.add(vpc=isolated("Closed"), **place)
    open_ = isolated("Open")
    open_.add_interface_endpoint("Images", service=ec2.InterfaceVpcEndpointAwsService.ECR_DOCKER)
    shop.add("Other", vpc=open_, **place)


def test_an_agent_takes_certificates_secrets_and_web_acls_of_its_app(shop):
    certificate = acm.Certificate(shop.stack, "Names", domain_name="*.example.com")
    secret = secretsmanager.Secret(shop.stack, "Client")
    acl = wafv2.CfnWebACL(
        shop.stack,
        "Office",
        scope="CLOUDFRONT",
        default_action=wafv2.CfnWebACL.DefaultActionProperty(block={}),
        visibility_config=wafv2.CfnWebACL.VisibilityConfigProperty(
            cloud_watch_metrics_enabled=True, metric_name="office", sampled_requests_enabled=True
        ),
    )
    shop.add(
        page=PAGE,
        api_domain="api.example.com",
        api_certificate_arn=certificate.certificate_arn,
        page_web_acl_arn=acl.attr_arn,
        federation_issuer="https://company.example",
        federation_client_id="stepline",
        federation_secret_arn=secret.secret_arn,
    )
    resources = shop.resources()
    (domain,) = of_kind(resources, "AWS::ApiGatewayV2::DomainName").values()
    assert "Names" in str(domain["DomainNameConfigurations"])
    (distribution,) = of_kind(resources, "AWS::CloudFront::Distribution").values()
    assert distribution["DistributionConfig"]["WebACLId"] == {"Fn::GetAtt": ["Office", "Arn"]}
    (provider,) = of_kind(resources, "AWS::Cognito::UserPoolIdentityProvider").values()
    said = provider["ProviderDetails"]["client_secret"]["Fn::Join"][1]
    assert (said[0], said[-1]) == ("{{resolve:secretsmanager:", ":SecretString:::}}")
    assert "Client" in said[1]["Ref"]


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
        ({"allowed_addresses": "203.0.113.7/24"}, "allowed_addresses: got '203.0.113.7/24', takes a list"),
        ({"allowed_addresses": ["office"]}, "allowed_addresses: got 'office', takes a list"),
        ({"allowed_addresses": "::ffff:203.0.113.0/120"}, "allowed_addresses: got '::ffff:203"),
        (
            {"page_web_acl_arn": WEB_ACL.replace("us-east-1", "eu-west-1")},
            "page_web_acl_arn: got 'arn:aws:wafv2:eu-west-1",
        ),
        ({"page_web_acl_arn": WEB_ACL, "page": False}, "page and page_web_acl_arn: got false and a web ACL"),
        (
            {"api_domain": "api.example.com"},
            "api_domain, socket_domain and api_certificate_arn: got a domain alone",
        ),
        (CERTIFICATE, "api_domain, socket_domain and api_certificate_arn: got the last alone"),
        (
            {"api_certificate_arn": "arn:aws:iam::111122223333:server-certificate/x"},
            "api_certificate_arn: got 'arn:aws:iam::111122223333:server-certificate/x', takes the ARN of a",
        ),
        ({"socket_domain": "wss://socket.example.com", **CERTIFICATE}, "socket_domain: got 'wss:"),
        (
            {"api_domain": "x.example.com", "socket_domain": "x.example.com", **CERTIFICATE},
            "api_domain, socket_domain and page_domain: got x.example.com, x.example.com, takes another",
        ),
        (
            {"name": "local", "endpoint": "http://127.0.0.1:4566", "api_domain": "x.example.com"},
            "api_domain and socket_domain: got 'x.example.com' on stage local",
        ),
    ],
)
def test_a_network_that_cannot_be_is_one_sentence(choices, sentence):
    with pytest.raises(InputError) as refused:
        Stage(**choices)
    assert str(refused.value).startswith(sentence)
    assert refused.value.reason == "bad_choice"
