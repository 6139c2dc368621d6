"""Logs that services write: what failed in executions, and who knocked at the gateways; never content, never a token."""

import json

import pytest

from .conftest import synthesise


@pytest.fixture(scope="module")
def chatty(tmp_path_factory):
    return synthesise(
        tmp_path_factory,
        name="chatty",
        oidc_issuer="https://login.example",
        socket_access_log=True,
        log_retention_days=7,
    )


def groups(synthesis):
    """The delivered log groups by their last name."""
    return {
        one["LogGroupName"].rpartition("/")[2]: one
        for one in synthesis.resources("AWS::Logs::LogGroup").values()
        if one.get("LogGroupName", "").startswith("/aws/vendedlogs/stepline/")
    }


def access_logs(synthesis):
    """Name of a gateway's stage → the fields of its access log."""
    return {
        one["StageName"]: json.loads(one["AccessLogSettings"]["Format"])
        for one in synthesis.resources("AWS::ApiGatewayV2::Stage").values()
        if "AccessLogSettings" in one
    }


def test_failures_of_an_execution_are_logged_without_its_data(prod):
    (machine,) = prod.resources("AWS::StepFunctions::StateMachine").values()
    logging = machine["LoggingConfiguration"]
    assert (logging["Level"], logging["IncludeExecutionData"]) == ("ERROR", False)
    assert len(logging["Destinations"]) == 1


def test_the_machine_is_made_after_its_right_to_deliver_logs(prod):
    (entry,) = prod.entries("AWS::StepFunctions::StateMachine").values()
    assert any("MachineRoleDefaultPolicy" in other for other in entry["DependsOn"])


def test_services_deliver_logs_of_the_machine_and_of_the_gateways(prod, dev, chatty):
    assert set(groups(prod)) == set(groups(dev)) == {"machine", "http"}
    assert set(groups(chatty)) == {"machine", "http", "socket"}


def test_every_log_of_a_stage_is_kept_as_long_as_it_chooses(prod, chatty):
    for synthesis in (prod, chatty):
        kept = {group["RetentionInDays"] for group in synthesis.resources("AWS::Logs::LogGroup").values()}
        assert kept == {synthesis.stage.log_retention_days}


def test_each_request_to_the_http_api_is_a_line_of_json(prod):
    (fields,) = access_logs(prod).values()
    assert {"time", "request", "route", "status", "ms", "refused", "integration_error"} <= fields.keys()


def test_the_websocket_is_logged_only_where_that_is_chosen(prod, chatty):
    assert set(access_logs(prod)) == {"$default"}
    assert set(access_logs(chatty)) == {"$default", "live"}
    assert {"event", "connection", "route", "status"} <= access_logs(chatty)["live"].keys()


def test_no_access_log_has_a_path_a_query_a_header_or_the_caller(chatty):
    for fields in access_logs(chatty).values():
        said = " ".join(fields.values()).lower()
        for word in ("path", "query", "header", "identity", "protocol", "claims", "principal", "body"):
            assert word not in said, word


def test_on_this_machine_the_emulator_logs_nothing_of_this(local):
    assert not groups(local)
    assert "LoggingConfiguration" not in str(local.documents())
    assert not access_logs(local)
