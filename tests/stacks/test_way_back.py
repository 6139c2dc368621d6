"""What a stage keeps for a way back: versions of objects and of functions, a restored table, and aliases that move by parts."""

import json

import pytest

from stepline.local.cloud.former_versions import ROLLBACK_S
from stepline_cdk.shift import ROLLBACK
from stepline_cdk.stage import Stage
from stepline_cdk.version_sweep import KEPT

from .conftest import RETIREMENT, synthesise

TABLE = "stepline-dev-20261126120000"


@pytest.fixture(scope="module")
def restored(tmp_path_factory):
    return synthesise(tmp_path_factory, name="dev", oidc_issuer="https://login.example", table_name=TABLE)


def test_deleted_versions_are_kept_as_long_as_the_table_can_be_restored(prod):
    (bucket,) = prod.resources("AWS::S3::Bucket").values()
    assert bucket["VersioningConfiguration"] == {"Status": "Enabled"}
    former = {
        rule.get("Prefix", ""): rule["NoncurrentVersionExpiration"]["NoncurrentDays"]
        for rule in bucket["LifecycleConfiguration"]["Rules"]
        if "NoncurrentVersionExpiration" in rule
    }
    assert former == {"": 35, "quarantine/": 1, "exec/": 1, "seg/": 1, "mem/": 1}


def test_the_emulator_which_expires_nothing_keeps_no_versions(local):
    (bucket,) = local.resources("AWS::S3::Bucket").values()
    assert "VersioningConfiguration" not in bucket


def test_a_restored_table_is_named_to_every_function_that_reads_a_table(restored, dev):
    def tables(synthesis):
        return {
            properties["FunctionName"]: properties["Environment"]["Variables"]["STEPLINE_TABLE"]
            for properties in synthesis.resources("AWS::Lambda::Function").values()
            if "STEPLINE_TABLE" in properties.get("Environment", {}).get("Variables", {})
        }

    assert tables(restored) == dict.fromkeys(tables(dev), TABLE)
    state = restored.documents()["state"]["Outputs"]
    assert state["TableName"]["Value"] == TABLE


def test_rights_to_a_restored_table_and_its_indexes_are_those_to_the_stages_own(restored, dev):
    roles = [name for name in dev.roles.trusts if name != "MachineRole"]
    found = {name: restored.roles.lines(name) for name in roles}
    own = {name: dev.roles.lines(name) for name in roles}
    said = json.dumps(found)
    machine = restored.stage.machine_name
    assert f"dynamodb:table/{TABLE}/index/GSI1" in said
    assert (
        json.loads(said.replace(f"dynamodb:table/{TABLE}", "<Table>").replace(machine, "stepline-dev-loop"))
        == own
    )


def test_the_stages_own_table_stays_as_it_is_and_so_do_the_exports_that_others_still_import(restored, dev):
    own, before = (one.documents()["state"] for one in (restored, dev))
    kind = "AWS::DynamoDB::GlobalTable"
    assert restored.entries(kind) == dev.entries(kind)
    of_table = {name for name in before["Outputs"] if name.startswith("ExportsOutput") and "Table" in name}
    assert of_table
    assert of_table <= set(own["Outputs"])


def test_a_restored_table_has_a_machine_with_free_execution_names(restored, dev):
    def name(synthesis):
        (machine,) = synthesis.resources("AWS::StepFunctions::StateMachine").values()
        return machine["StateMachineName"]

    assert name(dev) == "stepline-dev-loop"
    assert name(restored).startswith("stepline-dev-loop-")
    other = restored.stage.model_copy(update={"table_name": "another"})
    assert len({name(restored), name(dev), other.machine_name}) == 3
    assert name(restored) in json.dumps(restored.documents()["ingress"])


def test_the_previous_version_remains_when_live_moves_and_that_of_a_failed_update_does_not(any_stage):
    versions = any_stage.entries("AWS::Lambda::Version").values()
    assert len(versions) == len(any_stage.functions)
    assert {version["DeletionPolicy"] for version in versions} == {"RetainExceptOnCreate"}
    assert {version["UpdateReplacePolicy"] for version in versions} == {"Retain"}


def test_the_stack_ends_former_versions_of_its_functions_and_never_a_function(prod):
    (sweep,) = [
        one["Properties"]
        for name, one in prod.templates["loop"].find_resources("AWS::Lambda::Function").items()
        if name.startswith(RETIREMENT)
    ]
    assert sweep["Environment"]["Variables"]["FUNCTIONS"].split(",") == [
        f"stepline-prod-{name}" for name in prod.functions
    ]
    assert len(sweep["Code"]["ZipFile"]) <= 4096
    assert prod.roles.actions("RetirementRole") == {
        "lambda:DeleteAlias",
        "lambda:DeleteFunction",
        "lambda:ListAliases",
        "lambda:ListVersionsByFunction",
        "logs:CreateLogStream",
        "logs:PutLogEvents",
    }
    (resource,) = prod.roles.resources("RetirementRole", "lambda:DeleteFunction")
    assert resource.endswith(":function:stepline-prod-*:*")
    assert KEPT.total_seconds() == ROLLBACK_S


def test_the_emulators_versions_end_with_the_next_deployment(local):
    assert "RetirementRole" not in local.roles.trusts


def test_each_alias_moves_by_parts_and_back_when_an_alarm_rings(shifting):
    aliases = shifting.entries("AWS::Lambda::Alias")
    groups = shifting.resources("AWS::CodeDeploy::DeploymentGroup")
    moved = [
        alias["UpdatePolicy"]["CodeDeployLambdaAliasUpdate"]["DeploymentGroupName"]["Ref"]
        for alias in aliases.values()
    ]
    for group in shifting.entries("AWS::CodeDeploy::DeploymentGroup").values():
        policies = shifting.entries("AWS::IAM::Policy")
        assert any(name in policies and "ShiftRole" in name for name in group["DependsOn"])
    assert len(aliases) == len(shifting.functions)
    assert sorted(moved) == sorted(groups)
    for group in groups.values():
        assert group["DeploymentConfigName"] == "CodeDeployDefault.LambdaCanary10Percent5Minutes"
        assert set(group["AutoRollbackConfiguration"]["Events"]) == {
            "DEPLOYMENT_FAILURE",
            "DEPLOYMENT_STOP_ON_ALARM",
            "DEPLOYMENT_STOP_ON_REQUEST",
        }
        assert group["AlarmConfiguration"] == {
            "Enabled": True,
            "Alarms": [{"Name": f"stepline-dev-{name}"} for name in ROLLBACK],
        }


def test_the_alarms_that_move_a_release_back_are_of_the_stage(shifting):
    alarms = {one["AlarmName"] for one in shifting.resources("AWS::CloudWatch::Alarm").values()}
    assert {f"stepline-dev-{name}" for name in ROLLBACK} <= alarms


def test_a_shift_may_move_only_the_aliases_of_its_stage(shifting):
    roles = [
        name
        for name, role in shifting.entries("AWS::IAM::Role").items()
        if "codedeploy" in json.dumps(role["Properties"]["AssumeRolePolicyDocument"])
    ]
    policies = [
        policy["PolicyDocument"]["Statement"]
        for policy in shifting.resources("AWS::IAM::Policy").values()
        if policy["Roles"][0]["Ref"] in roles
    ]
    assert len(roles) == len(policies) == 2
    for statements in policies:
        aliases, alarms = statements
        assert set(aliases["Action"]) == {
            "lambda:GetAlias",
            "lambda:GetProvisionedConcurrencyConfig",
            "lambda:UpdateAlias",
        }
        assert ":function:stepline-dev-*" in json.dumps(aliases["Resource"])
        assert alarms["Action"] == "cloudwatch:DescribeAlarms"
    for role in roles:
        assert "ManagedPolicyArns" not in shifting.entries("AWS::IAM::Role")[role]["Properties"]


def test_by_default_a_release_takes_over_at_once_and_nothing_is_made_for_it(any_stage):
    assert not any_stage.entries("AWS::CodeDeploy::DeploymentGroup")
    assert not [one for one in any_stage.entries("AWS::Lambda::Alias").values() if "UpdatePolicy" in one]


@pytest.mark.parametrize(
    ("choices", "said"),
    [
        ({"shift": "slow"}, "shift: got 'slow', takes all, canary, linear"),
        ({"shift": "canary"}, "takes alarms=true"),
        ({"table_name": "a/b"}, "takes the name of a table"),
        ({"name": "local", "endpoint": "http://x", "shift": "linear", "alarms": True}, "no CodeDeploy"),
    ],
)
def test_a_rollback_that_would_fail_later_is_refused(choices, said):
    with pytest.raises(ValueError, match=said):
        Stage(**choices)
