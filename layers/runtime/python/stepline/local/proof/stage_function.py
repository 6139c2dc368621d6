"""The functions of a stage, found by their handler and the stage's table: those of an app of the user's have no fixed names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from stepline.local.cloud.former_versions import LIVE
from stepline.local.proof.proved_stage import NotRunError, ProvedStage
from stepline.settings import TABLE

FUNCTION_RIGHTS: Final = "lambda:ListFunctions and GetFunctionConfiguration"
_TABLE: Final = TABLE["table"].variable


def functions_by_module(stage: ProvedStage) -> dict[str, str]:
    """Return the functions' names by the module of their handler, such as `decide`. Raises botocore's errors."""
    pages = stage.aws("lambda").get_paginator("list_functions").paginate()
    found = (function for page in pages for function in page["Functions"] if _is_of(stage, function))
    return {function["Handler"].split(".")[-2]: function["FunctionName"] for function in found}


def _is_of(stage: ProvedStage, function: Mapping[str, Any]) -> bool:
    return _variables(function).get(_TABLE) == stage.table and function.get("Handler", "").count(".") > 0


def read_live(stage: ProvedStage, name: str) -> Mapping[str, Any]:
    """Return the configuration of the version that serves, by the name of the function. Raises botocore's errors."""
    found: Mapping[str, Any] = stage.aws("lambda").get_function_configuration(
        FunctionName=name, Qualifier=LIVE
    )
    return found


def read_setting(stage: ProvedStage, module: str, setting: str) -> str:
    """Return the value of a setting for a function that serves, "" by default.

    Raises NotRunError if the stage does not have the function, and botocore's errors.
    """
    name = functions_by_module(stage).get(module)
    if name is None:
        raise NotRunError(f"the account has no function `{module}` of the stage")
    return _variables(read_live(stage, name)).get(TABLE[setting].variable, "")


def _variables(function: Mapping[str, Any]) -> Mapping[str, str]:
    found: Mapping[str, str] = function.get("Environment", {}).get("Variables", {})
    return found
