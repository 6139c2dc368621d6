"""Versions of functions that a deployment leaves: the previous one is kept for a rollback, older ones are deleted."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from stepline.local.cloud.account import Account
from stepline.local.stage.cdk import read_templates
from stepline.local.stage.emulator import Progress

ALIAS: Final = "live"
NEWEST: Final = "$LATEST"
_FUNCTION: Final = "AWS::Lambda::Function"


def find_functions(assembly: Path) -> list[str]:
    """Return the names of the functions that have versions, from the templates in `assembly`."""
    return [
        name
        for _, template in read_templates(assembly)
        for resource in template["Resources"].values()
        if resource["Type"] == _FUNCTION
        and isinstance(name := resource["Properties"].get("FunctionName"), str)
    ]


def delete_former_versions(account: Account, functions: Iterable[str], say: Progress) -> None:
    """Delete all versions but those that the alias names and the one before. A refusal of AWS is reported."""
    from botocore.exceptions import BotoCoreError, ClientError

    client = account.client("lambda")
    for function in functions:
        try:
            for version in plan_deletions(_versions(client, function), _named(client, function)):
                client.delete_function(FunctionName=function, Qualifier=str(version))
        except (BotoCoreError, ClientError) as error:
            say(f"warn: older versions of {function} were not deleted, each has a snapshot: {error}")


def plan_deletions(versions: Iterable[int], named: Iterable[int]) -> list[int]:
    """Return the versions to delete: those older than the one before the oldest that the alias names."""
    oldest = min(named)
    older = sorted(version for version in versions if version < oldest)
    return older[:-1]


def _versions(client: Any, function: str) -> list[int]:
    pages = client.get_paginator("list_versions_by_function").paginate(FunctionName=function)
    return [int(one["Version"]) for page in pages for one in page["Versions"] if one["Version"] != NEWEST]


def _named(client: Any, function: str) -> list[int]:
    """Return the versions behind the alias: two while it moves."""
    alias = client.get_alias(FunctionName=function, Name=ALIAS)
    weights = alias.get("RoutingConfig", {}).get("AdditionalVersionWeights", {})
    return [int(version) for version in (alias["FunctionVersion"], *weights)]
