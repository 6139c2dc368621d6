"""The sentences about failures of a new account. CloudFormation is a stub."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from botocore.stub import Stubber

from stepline.local.cloud.deploy import deploy_stage
from stepline.local.cloud.deploy_failure import explain_failure
from tests.unit.local.cloud.recorded_programs import order, refused
from tests.unit.local.cloud.test_health import describe

BEGAN = datetime(2026, 11, 28, 10, 0, tzinfo=UTC)
LOOP = "stepline-dev-loop"
VERIFY = (
    "Access denied for operation 'AWS::CloudFront::Distribution: Your account must be verified before you can add new"
    " CloudFront resources. To verify your account, please contact AWS Support"
)


def event(reason, kind="AWS::CloudFront::Distribution", status="CREATE_FAILED", at=BEGAN):
    return {
        "StackId": "s",
        "EventId": f"{kind}{reason[:9]}{at}",
        "StackName": LOOP,
        "ResourceType": kind,
        "ResourceStatus": status,
        "ResourceStatusReason": reason,
        "Timestamp": at + timedelta(seconds=1),
    }


def explained(account, *events):
    """The events are the newest first, as CloudFormation lists them."""
    stack = {"StackName": LOOP, "CreationTime": BEGAN, "StackStatus": "ROLLBACK_COMPLETE"}
    with Stubber(account.client("cloudformation")) as stub:
        describe(stub, "dev", {LOOP: stack})
        stub.add_response("describe_stack_events", {"StackEvents": list(events)}, {"StackName": LOOP})
        return explain_failure(account, "dev", BEGAN)


NO_BUILDS = (
    "Received response status [FAILED] from custom resource. Message returned: the build was not started: An error occurred"
    " (AccountLimitExceededException) when calling the StartBuild operation: Cannot have more than 0 builds in queue for"
    " the account"
)
RESERVED = (
    "Specified ReservedConcurrentExecutions for function decreases account's UnreservedConcurrentExecution below its minimum"
    " value of [100]."
)


@pytest.mark.parametrize(
    ("reason", "kind", "says"),
    [
        (VERIFY, "AWS::CloudFront::Distribution", "-c page=false"),
        (NO_BUILDS, "Custom::SteplineImage", "-c exec_image=none"),
        (RESERVED, "AWS::Lambda::Function", "-c concurrency=N"),
        (
            "Unable to assume the service linked role. Please verify that the ECS service linked role exists.",
            "AWS::ECS::Cluster",
            "create-service-linked-role",
        ),
        (
            "The AWS Access Key Id needs a subscription for the service (Service: Ecs)",
            "AWS::ECS::Cluster",
            "not active yet",
        ),
        ("Invalid request", "AWS::GuardDuty::MalwareProtectionPlan", "-c av=none"),
        ("Property validation failure", "AWS::Lambda::Function", ""),
    ],
)
def test_a_reason_that_an_account_of_its_own_causes_has_its_sentence(account, reason, kind, says):
    found = explained(account, event(reason, kind))
    assert says in found
    assert bool(found) is bool(says)


def test_the_first_failure_is_the_reason_and_what_it_cancelled_is_not(account):
    cancelled = event("Resource creation cancelled", "AWS::GuardDuty::MalwareProtectionPlan")
    assert "-c page=false" in explained(account, cancelled, event(VERIFY))


def test_failures_of_earlier_deployments_are_no_reason(account):
    assert not explained(account, event(VERIFY, at=BEGAN - timedelta(hours=1)))


def test_events_that_may_not_be_read_leave_the_deployments_own_error(account):
    with Stubber(account.client("cloudformation")) as stub:
        stub.add_client_error("describe_stacks", "AccessDenied")
        assert not explain_failure(account, "dev", BEGAN)


@pytest.mark.usefixtures("bootstrapped")
def test_a_failed_deployment_ends_with_the_sentence(context, account, programs):
    programs.failing.add("deploy")
    here = replace(context, open_account=lambda _profile, _region: account, explain=explain_failure)
    stack = {"StackName": LOOP, "CreationTime": BEGAN, "StackStatus": "ROLLBACK_COMPLETE"}
    with Stubber(account.client("cloudformation")) as stub:
        describe(stub, "dev", {LOOP: stack})
        failure = event(VERIFY, at=datetime.now(UTC))
        stub.add_response("describe_stack_events", {"StackEvents": [failure]})
        error = refused(deploy_stage, order(smoke=False), here)
    assert "stepline deploy --stage dev" in str(error)
    assert str(error).endswith("-c page=false deploys without the chat page")
