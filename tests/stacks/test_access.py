"""Least privilege, read from the templates: what a role says is what its holder may do."""

import json

import pytest

from stepline_cdk.access import ACCESS, ATTACHES, TARGETS, UNSCOPED
from tests.stacks.conftest import BILLING
from tests.stacks.role import listed

POLICY_MAX_CHARS = 10_240


def role_of(function):
    return f"{function.title()}Role"


def holders(synthesis, action):
    """The functions that may do this."""
    return {name for name in synthesis.functions if action in synthesis.roles.actions(role_of(name))}


def statements(synthesis):
    for document in synthesis.documents().values():
        for name, resource in document["Resources"].items():
            for key in ("PolicyDocument", "AssumeRolePolicyDocument"):
                for statement in resource.get("Properties", {}).get(key, {}).get("Statement", []):
                    yield name, resource["Type"], statement


def test_no_role_has_every_action(every_stage):
    for name, _, statement in statements(every_stage):
        if statement["Effect"] == "Allow":
            assert not any("*" in action for action in listed(statement["Action"])), name


def test_rights_on_every_resource_are_on_the_list(every_stage):
    for name, kind, statement in statements(every_stage):
        if kind == "AWS::IAM::Policy" and "*" in listed(statement["Resource"]):
            assert set(listed(statement["Action"])) <= UNSCOPED.keys(), name


def test_the_list_holds_no_unused_right(prod):
    everything = {
        action
        for _, kind, statement in statements(prod)
        if kind == "AWS::IAM::Policy" and "*" in listed(statement["Resource"])
        for action in listed(statement["Action"])
    }
    in_a_network = {action for action in UNSCOPED if action.startswith("ec2:")}  # test_network.py has those
    assert everything == UNSCOPED.keys() - in_a_network


def test_every_function_has_a_role_that_no_other_has(any_stage):
    roles = [str(properties["Role"]) for properties in any_stage.resources("AWS::Lambda::Function").values()]
    assert len(set(roles)) == len(roles) == len(any_stage.functions)


def test_every_policy_fits_into_a_role(every_stage):
    for document in every_stage.documents().values():
        for name, resource in document["Resources"].items():
            if resource["Type"] == "AWS::IAM::Policy":
                text = json.dumps(resource["Properties"]["PolicyDocument"], separators=(",", ":"))
                assert len(text) < POLICY_MAX_CHARS, name


def test_rows_are_scoped_by_the_first_word_of_their_key(any_stage):
    for function in any_stage.functions:
        for line in any_stage.roles.lines(role_of(function)):
            if line.startswith("dynamodb:") and "/index/" not in line:
                keys = line.partition("[keys: ")[2].removesuffix("]").split()
                assert keys, line
                assert all(key.endswith("#*") and key != "#*" for key in keys), line


def test_roles_of_programs_neither_write_the_log_nor_post_nor_start_anything(local):
    assert {one for one in local.roles.actions("ExecuteRole") if not one.startswith("logs:")} == {
        "dynamodb:GetItem",
        "dynamodb:PutItem",
        "dynamodb:Query",
        "s3:GetObject",
        "s3:ListBucket",
        "s3:PutObject",
        "secretsmanager:GetSecretValue",
        "lambda:InvokeFunction",
    }
    assert "dynamodb:PutItem → <Table> [keys: COST#*]" in local.roles.lines("ExecuteRole")


def test_a_task_touches_no_row_and_no_object(prod):
    services = {action.partition(":")[0] for action in prod.roles.actions("TaskRole")}
    assert services == {"states", "secretsmanager", "lambda"}


def test_the_function_that_makes_calls_of_programs_changes_no_log_and_starts_nothing(any_stage):
    assert not {
        key for name, key in of_rows(any_stage, "PutItem", "UpdateItem", "DeleteItem") if name == "serve"
    } - {
        "DELTA#*",
        "COST#*",
    }
    actions = any_stage.roles.actions("ServeRole") if "serve" in any_stage.functions else set()
    assert not {
        action for action in actions if action.partition(":")[0] in {"states", "ecs", "iam", "lambda"}
    }


def test_only_functions_of_programs_touch_objects_of_runs(local):
    def touchers(key):
        return {
            name
            for name in local.functions
            for action in ("s3:GetObject", "s3:PutObject")
            if f"<Artifacts>/{key}" in local.roles.resources(role_of(name), action)
        }

    assert touchers("exec/*") == {"act", "execute", "serve"}
    assert touchers("exec/*/log.json") == {"api", "socket", "stream", "output"}


def of_rows(synthesis, *actions):
    """Pairs of a function and a key of rows to which it may do one of these."""
    return {
        (name, key)
        for name in synthesis.functions
        for line in synthesis.roles.lines(role_of(name))
        if "/index/" not in line and {f"dynamodb:{action}" for action in actions} & set(line.split())
        for key in line.partition("[keys: ")[2].removesuffix("]").split()
    }


def test_no_role_scans_the_table_and_batch_reads_are_of_limits_and_usage(any_stage):
    assert not holders(any_stage, "dynamodb:Scan")
    assert {key for _, key in of_rows(any_stage, "BatchGetItem")} == {"ACCOUNT#*", "LIMITS#*"}


def test_only_the_api_sets_limits_and_only_the_eraser_removes_them(any_stage):
    changers = of_rows(any_stage, "PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem")
    assert {name for name, key in changers if key == "LIMITS#*"} == {"api", "eraser"}
    assert ("eraser", "LIMITS#*") not in of_rows(any_stage, "PutItem", "UpdateItem")


def test_only_the_eraser_deletes_logs_spending_and_objects(any_stage):
    deleters = of_rows(any_stage, "DeleteItem", "BatchWriteItem")
    kept = {"LOG#*", "DELTA#*", "UPLOAD#*", "COST#*", "CHARGE#*", "ACCOUNT#*", "LIMITS#*"}
    assert {name for name, key in deleters if key in kept} == {"eraser"}
    assert holders(any_stage, "dynamodb:BatchWriteItem") == {"eraser"}
    assert holders(any_stage, "s3:DeleteObjectVersion") == {"eraser"}
    assert holders(any_stage, "s3:ListBucketVersions") == {"eraser"}
    assert holders(any_stage, "s3:DeleteObject") == {"eraser", "preflight"}


def test_no_role_deletes_a_tombstone_outside_the_table(any_stage):
    touchers = {
        (name, action)
        for name in any_stage.functions
        for action in any_stage.roles.actions(role_of(name))
        if "<Artifacts>/tomb/*" in any_stage.roles.resources(role_of(name), action)
    }
    assert touchers == {("eraser", "s3:PutObject")}


def test_the_authorizer_may_redeem_a_ticket_and_nothing_else(any_stage):
    assert [line for line in any_stage.roles.lines(role_of("authorizer")) if "logs:" not in line] == [
        "dynamodb:DeleteItem → <Table> [keys: TICKET#*]"
    ]


def test_the_api_writes_quarantine_texts_of_imports_and_segments_of_forks_alone(any_stage):
    lines = any_stage.roles.lines(role_of("api"))
    assert [line for line in lines if "s3:PutObject" in line] == [
        "s3:PutObject → <Artifacts>/att/* <Artifacts>/quarantine/* <Artifacts>/seg/*"
    ]


def readers(synthesis, secret):
    """The functions that may read this secret."""
    return {
        name
        for name in synthesis.functions
        for line in synthesis.roles.lines(role_of(name))
        if "secretsmanager:GetSecretValue" in line and f":secret:{secret}" in line
    }


def test_only_roles_that_call_the_model_read_its_key(prod):
    assert readers(prod, "model-AbCdEf") == {"decide", "act", "serve", "close"}


def test_only_act_which_searches_reads_the_key_of_the_search_engine(prod):
    assert readers(prod, "search-AbCdEf") == {"act"}


def test_only_functions_with_the_bundles_code_read_the_secrets_of_its_tools(prod, local):
    assert readers(prod, "stepline/prod/secret/*") == {"decide", "act", "serve", "close"}
    assert readers(local, "stepline/local/secret/*") == {"decide", "act", "serve", "close", "execute"}


def test_only_roles_that_notify_read_the_url_of_redis(prod, dev):
    assert readers(prod, "redis-AbCdEf") == {
        *("api", "socket", "decide", "act", "output", "preflight", "close", "sweeper", "eraser"),
    }
    assert "redis" not in str(dev.roles.lines("SocketRole"))


def test_only_roles_that_may_read_the_url_of_redis_get_its_setting(prod):
    configured = {
        properties["Handler"].split(".")[1]
        for properties in prod.resources("AWS::Lambda::Function").values()
        if "STEPLINE_REDIS_SECRET_ARN" in properties.get("Environment", {}).get("Variables", {})
    }
    assert configured == readers(prod, "redis-AbCdEf")


def test_only_a_round_its_tools_and_its_later_hook_call_the_model_on_bedrock(bedrock):
    assert holders(bedrock, "bedrock:InvokeModelWithResponseStream") == {"decide", "act", "close"}


def test_only_roles_that_open_turns_start_executions(any_stage):
    """Act parks a turn, and the API ends one by a deletion: both free a slot, and the next queued turn begins."""
    assert holders(any_stage, "states:StartExecution") == {"socket", "close", "sweeper", "act", "api"}
    assert holders(any_stage, "states:StopExecution") == {"sweeper"}


def test_only_named_principals_may_act_for_users(prod, dev):
    assert prod.roles.trusts["EventSourceRole"] == BILLING
    assert "EventSourceRole" not in dev.roles.trusts


def test_a_service_that_submits_events_reads_no_ticket_no_segment_and_no_model_key(prod):
    lines = str(prod.roles.lines("EventSourceRole"))
    assert not any(
        word in lines
        for word in ("TICKET#", "RATE#", "COST#", "secret:model", "<Artifacts>/seg", "<Artifacts>/exec")
    )
    assert "states:StopExecution" not in lines


def test_the_memory_of_users_is_for_the_tools_for_searches_and_for_the_eraser_alone(any_stage):
    readers = {
        name for name in any_stage.roles.trusts if "<Artifacts>/mem" in str(any_stage.roles.lines(name))
    }
    serving = {role_of("serve")} if "serve" in any_stage.functions else set()
    assert readers == {role_of("act"), role_of("search"), role_of("eraser"), *serving}


def test_posting_is_all_one_may_do_to_a_connection_but_for_the_eraser_which_closes_it(any_stage):
    for function in holders(any_stage, "execute-api:ManageConnections"):
        resources = any_stage.roles.resources(role_of(function), "execute-api:ManageConnections")
        methods = {resource.removesuffix("/@connections/*").rpartition("/live/")[2] for resource in resources}
        assert methods == ({"POST", "DELETE"} if function == "eraser" else {"POST"})


def test_the_sweeper_lists_open_lanes_and_the_eraser_pending_deletions(any_stage):
    lookers = {
        name: line.partition("[keys: ")[2].removesuffix("]")
        for name in any_stage.functions
        for line in any_stage.roles.lines(role_of(name))
        if line.startswith("dynamodb:Query → <Table>/index/GSI3 ")
    }
    assert lookers == {"sweeper": "0 1 2 3 4 5 6 7 8 9 a b c d e f exec", "eraser": "erase erase_user"}


def test_only_the_api_calls_the_eraser_and_decide_and_only_supervisors_the_function_that_serves_them(
    any_stage,
):
    supervisors = {"execute"} & set(any_stage.functions)
    assert holders(any_stage, "lambda:InvokeFunction") == {"api", *supervisors}
    served = {f"lambda:function:stepline-{any_stage.stage.name}-serve:live"}
    for name in supervisors:
        assert set(any_stage.roles.resources(role_of(name), "lambda:InvokeFunction")) == served
    called = set(any_stage.roles.resources(role_of("api"), "lambda:InvokeFunction"))
    names = {"decide", "eraser"}
    assert called == {f"lambda:function:stepline-{any_stage.stage.name}-{name}:live" for name in names}
    assert names <= set(any_stage.functions)


def test_each_function_writes_its_own_log_and_no_other(any_stage):
    for function in any_stage.functions:
        written = any_stage.roles.resources(role_of(function), "logs:PutLogEvents")
        assert written == {f"<{function.title()}Logs>"}


def test_no_role_touches_tasks_without_tasks(dev):
    assert not any(
        action.startswith("ecs:") or action == "iam:PassRole"
        for role in dev.roles.trusts
        for action in dev.roles.actions(role)
    )
    # But what was handed over before there were none is still taken back.
    takers = {
        role
        for role in dev.roles.trusts
        for line in dev.roles.lines(role)
        if line.startswith("dynamodb:DeleteItem") and "EXEC#" in line
    }
    assert takers == {role_of("sweeper")}


def test_act_alone_passes_two_roles_to_tasks_and_the_machine_calls_the_aliases(prod, local):
    passing = {role for role in prod.roles.trusts if "iam:PassRole" in prod.roles.actions(role)}
    assert passing == {role_of("act")}
    assert prod.roles.resources(role_of("act"), "iam:PassRole") == {"<TaskRole>", "<ExecutionRole>"}
    called = local.roles.resources("MachineRole", "lambda:InvokeFunction")
    assert called == {"<ActLive>", "<CloseLive>", "<DecideLive>", "<ExecuteLive>"}
    assert local.roles.actions("MachineRole") == {"lambda:InvokeFunction"}


@pytest.mark.parametrize("principal", ACCESS)
def test_every_right_is_on_something_the_page_explains(principal):
    assert {right.on for right in (*ACCESS[principal], *ATTACHES)} <= TARGETS.keys()
