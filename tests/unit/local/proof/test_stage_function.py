"""The functions of a stage: those of its table alone, and the settings of the version that serves."""

from pathlib import Path

import pytest

from stepline.local.caller import Caller
from stepline.local.proof.proved_stage import NotRunError, ProvedStage
from stepline.local.proof.row.approval_rows import check_rule
from stepline.local.proof.stage_function import functions_by_module, read_setting
from stepline.settings import TABLE


def function(name, module, table, **variables):
    variables = {TABLE["table"].variable: table, **variables}
    return {
        "FunctionName": name,
        "Handler": f"lambdas.{module}.handler",
        "Environment": {"Variables": variables},
    }


class Functions:
    """Lambda's client, of an account with two stages, each with one function, and another function."""

    def __init__(self, module="act", **live):
        self._module, self._live = module, live

    def get_paginator(self, _):
        return self

    def paginate(self):
        yield {
            "Functions": [
                function(f"{whose}-{self._module}", self._module, whose) for whose in ("ours", "theirs")
            ]
        }
        yield {"Functions": [{"FunctionName": "other", "Handler": "index.handler"}]}

    def get_function_configuration(self, **given):
        assert given == {"FunctionName": f"ours-{self._module}", "Qualifier": "live"}
        return function(given["FunctionName"], self._module, "ours", **self._live)


def stage(module="act", **live):
    return ProvedStage(
        name="trial", region="eu-central-1", table="ours", machine_arn="", api=None, mint=lambda *_: "",
        caller=Caller(url="", user="u", home=Path(), token=str), aws=lambda _: Functions(module, **live),
    )  # fmt: skip


def test_the_functions_of_another_stage_are_not_ours():
    assert functions_by_module(stage()) == {"act": "ours-act"}


def test_a_function_that_is_missing_proves_nothing():
    with pytest.raises(NotRunError):
        read_setting(stage(), "preflight", "av_scan")


def test_only_a_rule_that_always_asks_is_one():
    approvals = TABLE["approvals"].variable
    check_rule(stage(**{approvals: '{"react.plan": "always"}'}))
    for rules in ("", "{}", '{"react.plan": "never"}'):
        with pytest.raises(NotRunError):
            check_rule(stage(**{approvals: rules}))
