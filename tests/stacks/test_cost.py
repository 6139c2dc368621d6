import re

import pytest

from docs.build.cost import DEPLOYMENTS, synthesise
from stepline.model.tenancy.aws_price import UNITS
from stepline_cdk.cost import FREE, HOURS, price_idle, price_run

from .conftest import RETIREMENT, ROOT

DEV, PROD, PLAIN, NO_PROGRAMS, DRAWN = DEPLOYMENTS
MOST_USD = {DEV: 0.6, PROD: 8.0, PLAIN: 4.1, NO_PROGRAMS: 8.0, DRAWN: 11.0}
"""The budget of each deployment at rest, a month. A change that needs more raises it in a commit that says why."""


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


@pytest.mark.parametrize("name", DEPLOYMENTS)
def test_a_stage_at_rest_stays_within_its_budget(bills, name):
    assert total(bills[name]) <= MOST_USD[name]


def test_snapshots_are_the_largest_cost_of_prod_and_those_of_versions_before_are_none_of_it(bills):
    snapshots = bills[PROD]["SnapStart"]
    assert snapshots.much == "1 GB"
    assert snapshots.usd == pytest.approx(3.95, abs=0.01)
    assert snapshots.usd == max(line.usd for line in bills[PROD].values())
    assert total(bills[PROD]) - total(bills[PLAIN]) == pytest.approx(snapshots.usd)


def test_without_an_end_of_versions_each_kept_one_costs_as_much_as_the_live_one(made):
    left = {
        stack: {
            "Resources": {
                name: one for name, one in template["Resources"].items() if not name.startswith(RETIREMENT)
            }
        }
        for stack, template in made[PROD].items()
    }
    bill = {line.what: line for line in price_idle(left)}
    before = bill["SnapStart of the versions before, from the second deployment on"]
    assert before.usd == bill["SnapStart"].usd


def test_a_dashboard_is_a_choice_and_the_only_difference_it_makes(bills):
    assert "the dashboard" not in bills[PROD]
    assert total(bills[DRAWN]) - total(bills[PROD]) == pytest.approx(bills[DRAWN]["the dashboard"].usd)


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
