import re

import pytest

from docs.build.cost import DEPLOYMENTS, synthesise
from stacks.cost import FREE, HOURS, price_idle, price_run
from stepline.model.tenancy.aws_price import UNITS

from .conftest import ROOT

DEV, PROD, PLAIN, NO_PROGRAMS = DEPLOYMENTS


@pytest.fixture(scope="module")
def made():
    return synthesise()


@pytest.fixture(scope="module")
def bills(made):
    return {name: {line.what: line for line in price_idle(templates)} for name, templates in made.items()}


def total(bill):
    return sum(line.usd for line in bill.values())


def test_the_front_page_says_the_same(bills):
    (said,) = re.findall(
        r"idle about \$([\d.]+) a month \(([\d.]+) in stage", (ROOT / "README.md").read_text()
    )
    assert [float(figure) for figure in said] == [round(total(bills[name]), 1) for name in (DEV, PROD)]


def test_a_stage_at_rest_costs_a_few_dollars(bills):
    assert total(bills[DEV]) < 1
    assert total(bills[PLAIN]) < 8
    assert total(bills[NO_PROGRAMS]) < total(bills[PROD]) < 18


def test_snapshots_are_the_largest_cost_of_prod(bills):
    snapshots = bills[PROD]["SnapStart"]
    assert snapshots.much == "1.25 GB"
    assert snapshots.usd == pytest.approx(4.9, abs=0.05)
    before = bills[PROD]["SnapStart of the versions before, from the second deployment on"]
    assert before.usd == snapshots.usd
    assert total(bills[PROD]) - total(bills[PLAIN]) == pytest.approx(2 * snapshots.usd)


def test_an_alarm_is_billed_by_the_metric(bills, made):
    alarms = [
        one["Properties"]
        for template in made[PROD].values()
        for one in template["Resources"].values()
        if one["Type"] == "AWS::CloudWatch::Alarm"
    ]
    metrics = sum(str(alarm).count("'MetricName'") for alarm in alarms)
    assert len(alarms) < metrics
    assert bills[PROD]["alarms"].usd == pytest.approx(metrics * 0.10)


def test_the_clocks_tick_every_five_minutes(bills):
    assert bills[DEV]["the clocks of sweeper and eraser"].much == f"{2 * HOURS * 12:,} calls"


def test_a_vector_bucket_costs_nothing_at_rest(bedrock):
    assert bedrock.resources("AWS::S3Vectors::VectorBucket")
    assert all("ector" not in line.what for line in price_idle(bedrock.documents()))


def test_tasks_at_rest_cost_the_room_their_image_takes(bills):
    more = bills[PROD].keys() - bills[NO_PROGRAMS].keys()
    assert more == {"the image of programs"}
    assert bills[PROD]["the image of programs"].usd == pytest.approx(0.05)


def test_a_program_costs_a_sixth_of_a_cent_a_third_of_it_for_its_secret(made):
    assert price_run(made[PROD]) == (pytest.approx(0.00111, abs=0.00001), pytest.approx(0.00056, abs=0.00001))
    assert price_run(made[NO_PROGRAMS]) == (0, 0)


@pytest.mark.parametrize(
    "resource",
    [
        {"Type": "AWS::EC2::NatGateway"},
        {"Type": "AWS::EC2::EIP"},
        {"Type": "AWS::ECS::Service"},
        {"Type": "AWS::KMS::Key"},
        {"Type": "AWS::ElastiCache::ServerlessCache"},
        {"Type": "AWS::EC2::VPCEndpoint", "Properties": {"VpcEndpointType": "Interface"}},
    ],
)
def test_an_unpriced_resource_is_refused(resource):
    with pytest.raises(KeyError, match=resource["Type"]):
        price_idle({"stack": {"Resources": {"New": resource}}})


def test_every_price_and_every_free_type_is_used(made, bedrock, shifting):
    types = {
        one["Type"]
        for stacks in (*made.values(), bedrock.documents(), shifting.documents())
        for stack in stacks.values()
        for one in stack["Resources"].values()
    }
    assert {name for name in FREE if not any(kind.startswith(name) for kind in types)} == set()
    assert all(price.usd > 0 for price in UNITS.values())
