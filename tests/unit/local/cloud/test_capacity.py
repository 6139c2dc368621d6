"""The executions that an account has for a stage. AWS is a stub: moto has no account settings."""

from contextlib import contextmanager
from dataclasses import replace

import pytest
from botocore.stub import Stubber

from stepline.adapters.aws.table import QUEUE
from stepline.local.cloud.checks.capacity import (
    RESERVING,
    check_concurrency,
    check_readers,
    check_turns,
    read_capacity,
)
from stepline.local.cloud.deploy import deploy_stage
from stepline.local.cloud.stage_choices import choices_file
from tests.unit.local.cloud.recorded_programs import order, refused

REQUEST = "aws service-quotas request-service-quota-increase --service-code lambda --quota-code L-B99A9384 --desired-value"
OWN = {"decide": 700, "authorizer": 20, "socket": 40, "api": 40}


@contextmanager
def having(account, executions, unreserved, *, own=None, stage="dev", bound=None):
    """Give the account this many executions; `own` are reserved for the stage's functions, if given."""
    with Stubber(account.client("lambda")) as stub:
        if bound is not None:
            stub.add_response(
                "get_function_configuration",
                {"Environment": {"Variables": bound}},
                {"FunctionName": f"stepline-{stage}-socket:live"},
            )
        limit = {"ConcurrentExecutions": executions, "UnreservedConcurrentExecutions": unreserved}
        stub.add_response("get_account_settings", {"AccountLimit": limit}, {})
        for name in RESERVING if stage else ():
            asked = {"FunctionName": f"stepline-{stage}-{name}"}
            if own is None:
                stub.add_client_error(
                    "get_function_concurrency", "ResourceNotFoundException", expected_params=asked
                )
            else:
                kept = {"ReservedConcurrentExecutions": own[name]} if name in own else {}
                stub.add_response("get_function_concurrency", kept, asked)
        yield
        stub.assert_no_pending_responses()


@pytest.fixture
def here(context, account):
    return replace(context, open_account=lambda _profile, _region: account)


def test_a_stage_counts_on_unreserved_executions_and_its_own(account):
    with having(account, 1000, 150, own=OWN):
        found = read_capacity(account, "dev")
    assert (found.concurrency, found.turns) == (950, 665)
    with having(account, 1000, 150, own={}):
        assert read_capacity(account, "dev").concurrency == 150


@pytest.mark.parametrize(
    ("executions", "unreserved", "turns", "desired"),
    [(10, 10, "6 turns", "1000"), (100, 100, "96 turns", "1000"), (1000, 200, "96 turns", "2000")],
)
def test_an_account_without_reservations_gets_its_turns_and_a_request_command(
    account, executions, unreserved, turns, desired
):
    with having(account, executions, unreserved):
        check = check_concurrency(account, "dev", {})
    assert check.mark == "warn"
    assert f"{executions:,} concurrent executions" in check.detail
    assert f"{unreserved} unreserved" in check.detail
    assert turns in check.detail
    assert check.remedy == f"{REQUEST} {desired}"


def test_an_account_that_can_reserve_is_well_and_says_how_many_turns_run(account):
    with having(account, 1000, 1000, stage=""):
        check = check_concurrency(account, "", {})
    assert check.mark == "ok"
    assert "700 turns at once, up to 1,000 more are queued" in check.detail


def test_more_than_the_account_has_is_refused_before_aws_refuses_it(account):
    with having(account, 1000, 600):
        check = check_concurrency(account, "dev", {"concurrency": "1000"})
    assert not check.ok
    assert "-c concurrency=" in check.remedy
    assert f"{REQUEST} 2000" in check.remedy


def test_an_account_with_unreadable_settings_stops_no_deployment(account):
    with Stubber(account.client("lambda")) as stub:
        stub.add_client_error("get_account_settings", "AccessDeniedException")
        check = check_concurrency(account, "dev", {})
    assert (check.ok, check.mark) == (True, "unknown")
    assert "lambda:GetAccountSettings" in check.remedy


@pytest.mark.parametrize(
    ("bound", "has", "mark", "says"),
    [
        ("700", (1000, 200, OWN), "ok", "700 turns at once"),
        ("6", (1000, 1000, {}), "ok", "enough for 700 turns; use them with stepline deploy --stage dev"),
        ("700", (400, 100, {}), "warn", "enough for 96 turns"),
        ("0", (1000, 1000, {}), "warn", "without a limit on open turns"),
        ("", (1000, 1000, {}), "warn", "without a limit on open turns"),
    ],
)
def test_a_stage_is_compared_with_what_the_account_has_now(account, bound, has, mark, says):
    variables = {"STEPLINE_OPEN_TURNS": bound} if bound else {}
    executions, unreserved, own = has
    with having(account, executions, unreserved, own=own, bound=variables):
        check = check_turns(account, "dev", "")
    assert check.mark == mark
    assert says in check.detail
    assert bool(check.remedy) is (mark == "warn")


@pytest.mark.parametrize(
    ("has", "says"),
    [
        ((1000, 180, {**OWN, "stream": 20}), "20 readers of streams wait at once"),
        ((1000, 200, OWN), "up to 900 executions could be reserved for readers that wait"),
        ((10, 10, {}), "AWS keeps 100 executions unreserved: 10 concurrent executions"),
    ],
)
def test_the_readers_that_may_wait_are_reported(account, has, says):
    executions, unreserved, own = has
    with having(account, executions, unreserved, own=own):
        check = check_readers(account, "dev")
    assert check.mark == "ok"
    assert says in check.detail


def test_the_executions_of_waiting_readers_are_none_of_the_turns(account):
    with having(account, 1000, 180, own={**OWN, "stream": 20}):
        assert read_capacity(account, "dev").turns == 686


def test_the_check_counts_the_queued_turns(account):
    table = account.client("dynamodb")
    keys = {"pk": "HASH", "sk": "RANGE"}
    table.create_table(
        TableName="log",
        KeySchema=[{"AttributeName": name, "KeyType": kind} for name, kind in keys.items()],
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in keys],
        BillingMode="PAY_PER_REQUEST",
    )
    for sk in ("2026-11-26T08:00:00Z#a", "2026-11-26T08:00:01Z#b"):
        table.put_item(TableName="log", Item={"pk": {"S": QUEUE}, "sk": {"S": sk}})
    with having(account, 10, 10, own={}, bound={"STEPLINE_OPEN_TURNS": "6"}):
        check = check_turns(account, "dev", "log")
    assert "6 turns at once, up to 1,000 more are queued, 2 are queued now" in check.detail


@pytest.mark.usefixtures("bootstrapped")
def test_a_deployment_takes_what_the_account_has_and_does_not_remember_it(here, account, programs, prompts):
    with having(account, 1000, 1000):
        deploy_stage(order(smoke=False), here)
    assert "--context concurrency=1000 " in programs.said("synth")
    assert "700 turns at once" in prompts.text
    assert "--context derived=concurrency " in programs.said("synth")
    assert not choices_file(here.project, "dev").exists()


@pytest.mark.usefixtures("bootstrapped")
def test_the_chosen_number_is_used_and_remembered(here, account, programs):
    with having(account, 1000, 1000):
        deploy_stage(order(choices={"concurrency": "500"}, smoke=False), here)
    assert "--context concurrency=500 " in programs.said("synth")


@pytest.mark.usefixtures("bootstrapped")
def test_a_number_that_the_account_has_not_stops_the_deployment(here, account, programs):
    with having(account, 400, 400):
        error = refused(deploy_stage, order(choices={"concurrency": "500"}), here)
    assert error.reason == "cloud_deploy"
    assert "deploy" not in programs.verbs


@pytest.mark.usefixtures("bootstrapped")
def test_a_deployment_that_cannot_read_the_number_warns_and_continues(context, programs, prompts):
    deploy_stage(order(smoke=False), context)
    assert "allow lambda:GetAccountSettings" in prompts.text
    assert "concurrency=" not in programs.said("synth")
    assert programs.verbs[-1] == "deploy"
