"""Least privilege, read from the templates: what a role says is what a function may do."""

import pytest

from stacks.access import ACCESS


def statements(synthesis):
    for name, policy in synthesis.resources("AWS::IAM::Policy").items():
        for statement in policy["PolicyDocument"]["Statement"]:
            yield name, statement


def listed(value):
    return value if isinstance(value, list) else [value]


def rights(synthesis, function):
    return [
        statement for name, statement in statements(synthesis) if name.startswith(f"{function.title()}Role")
    ]


def actions(synthesis, function):
    return {action for statement in rights(synthesis, function) for action in listed(statement["Action"])}


def test_nobody_may_do_everything(any_stage):
    for name, statement in statements(any_stage):
        assert not any("*" in action for action in listed(statement["Action"])), name


def test_nobody_may_do_anything_to_everything(any_stage):
    for name, statement in statements(any_stage):
        assert "*" not in listed(statement["Resource"]), name


def test_no_role_has_a_managed_policy(any_stage):
    for name, role in any_stage.resources("AWS::IAM::Role").items():
        assert not role.get("ManagedPolicyArns"), name


def test_rows_are_scoped_by_the_first_word_of_their_key(any_stage):
    for function in sorted(set(any_stage.functions) - {"authorizer"}):
        found = [
            s
            for s in rights(any_stage, function)
            if "dynamodb:" in str(s["Action"]) and "/index/" not in str(s)
        ]
        assert found
        for statement in found:
            keys = statement["Condition"]["ForAllValues:StringLike"]["dynamodb:LeadingKeys"]
            assert tuple(listed(keys)) in (ACCESS[function].rows, ACCESS[function].seen_rows)


def test_where_programs_run_nobody_writes_the_log_posts_or_starts_anything(local):
    assert {action for action in actions(local, "execute") if not action.startswith("logs:")} == {
        "dynamodb:GetItem",
        "dynamodb:Query",
        "s3:GetObject",
        "s3:PutObject",
    }


def test_only_act_and_execute_touch_what_belongs_to_runs(local):
    touching = {f for f in ACCESS if "/exec/*" in str(rights(local, f))}
    assert touching == {"act", "execute"}


@pytest.mark.parametrize("function", ACCESS)
def test_nobody_scans_the_table(any_stage, function):
    assert not {"dynamodb:Scan", "dynamodb:BatchGetItem"} & actions(any_stage, function)


def test_the_authorizer_may_do_nothing_but_judge(any_stage):
    assert {a for a in actions(any_stage, "authorizer") if not a.startswith("logs:")} == set()


def test_only_decide_reads_the_model_key(prod):
    readers = {f for f in ACCESS if "secretsmanager:GetSecretValue" in actions(prod, f)}
    assert readers == {"decide"}


def test_only_decide_calls_the_model_on_bedrock(bedrock):
    callers = {f for f in ACCESS if "bedrock:InvokeModelWithResponseStream" in actions(bedrock, f)}
    assert callers == {"decide"}


def test_only_those_who_start_turns_may(any_stage):
    starters = {f for f in ACCESS if "states:StartExecution" in actions(any_stage, f)}
    assert starters == {"socket", "close", "sweeper"}
    stoppers = {f for f in ACCESS if "states:StopExecution" in actions(any_stage, f)}
    assert stoppers == {"sweeper"}


def test_posting_is_all_one_may_do_to_a_connection(any_stage):
    for _, statement in statements(any_stage):
        if "execute-api:ManageConnections" in listed(statement["Action"]):
            assert "/POST/@connections/*" in str(statement["Resource"])


def test_only_the_sweeper_looks_for_open_lanes(any_stage):
    lookers = {f for f in ACCESS if any("/index/GSI3" in str(s["Resource"]) for s in rights(any_stage, f))}
    assert lookers == {"sweeper"}


def test_each_function_writes_its_own_log_and_no_other(any_stage):
    for function in any_stage.functions:
        (statement,) = [s for s in rights(any_stage, function) if "logs:PutLogEvents" in listed(s["Action"])]
        assert f"{function.title()}Logs" in str(statement["Resource"])


def test_objects_are_scoped_by_class(any_stage):
    for function in any_stage.functions:
        access = ACCESS[function]
        for action, classes in (("s3:GetObject", access.reads), ("s3:PutObject", access.writes)):
            granted = [s for s in rights(any_stage, function) if action in listed(s["Action"])]
            text = str([s["Resource"] for s in granted])
            assert {
                name for name in ("att", "out", "seg", "exec", "quarantine") if f"/{name}/*" in text
            } >= set(classes)
            assert "quarantine" not in text
            assert bool(granted) == bool(classes)


def test_the_machine_calls_the_aliases_and_nothing_else(any_stage):
    ((_, statement),) = [(n, s) for n, s in statements(any_stage) if n.startswith("LoopRole")]
    assert listed(statement["Action"]) == ["lambda:InvokeFunction"]
    assert len(statement["Resource"]) == 3 + any_stage.stage.executes
    assert all("Live" in str(resource) for resource in statement["Resource"])
