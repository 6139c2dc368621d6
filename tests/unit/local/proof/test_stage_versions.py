"""The versions of a stage: of what serves, or the reason why they are unknown."""

from dataclasses import replace

from botocore.exceptions import ClientError

from stepline.local.proof.proof_report import StageVersions
from stepline.local.proof.stage_versions import read_versions
from tests.unit.local.proof.test_stage_function import Functions, stage


class Services(Functions):
    """Lambda's client and that of Step Functions."""

    def describe_state_machine(self, **_):
        return {"name": "trial-loop", "revisionId": "r-1"}

    def get_function_configuration(self, **given):
        return {**super().get_function_configuration(**given), "Version": "7", "Runtime": "python3.13"}


def test_the_versions_are_those_that_serve():
    assert read_versions(replace(stage(), aws=lambda _: Services())) == StageVersions(
        machine="trial-loop", revision="r-1", functions={"act": "7 (python3.13)"}
    )


def test_a_refusal_is_named():
    def refuse(_):
        raise ClientError({"Error": {"Code": "AccessDeniedException"}}, "DescribeStateMachine")

    assert "DescribeStateMachine" in read_versions(replace(stage(), aws=refuse)).unknown
