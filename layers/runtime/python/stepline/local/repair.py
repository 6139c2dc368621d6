"""What the emulator's CloudFormation leaves out, done by hand before and after a deployment."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from stepline.errors import DependencyError
from stepline.local.stage import NAME, LocalStage, client, read_json

PREFIX: Final = f"stepline-{NAME}-"
STANDING: Final = ("CREATE_COMPLETE", "UPDATE_COMPLETE", "ROLLBACK_COMPLETE", "UPDATE_ROLLBACK_COMPLETE")
_IMPORTED: Final = "is imported by stack"
_STACK_TYPE: Final = "aws:cloudformation:stack"


def drop_stale(formation: Any, assembly: Path) -> list[str]:
    """Delete the emulator's stacks of ours that the app has no more; return their names.

    Before the others are deployed, for a function that moved to another stack keeps its name; and again after that,
    for what the others still asked for until then. `formation` is a client of CloudFormation.
    """
    found = formation.list_stacks(StackStatusFilter=list(STANDING))["StackSummaries"]
    names = plan_stale(found, {name for name, _ in read_templates(assembly)})
    return [name for name in names if _drop(formation, name)]


def _drop(formation: Any, name: str) -> bool:
    """Delete a stack, unless another one imports something of it; tell whether it is gone."""
    from botocore.exceptions import ClientError  # with boto3, which `stepline status` need not load

    try:
        formation.delete_stack(StackName=name)
    except ClientError as error:
        if _IMPORTED not in str(error):
            raise
        return False
    formation.get_waiter("stack_delete_complete").wait(
        StackName=name, WaiterConfig={"Delay": 1, "MaxAttempts": 60}
    )
    return True


def plan_stale(found: Iterable[Mapping[str, Any]], wanted: Collection[str]) -> list[str]:
    """Return the names of the stacks to delete, newest first, since what came later may need what was there before."""
    stale = [one for one in found if one["StackName"].startswith(PREFIX) and one["StackName"] not in wanted]
    return [one["StackName"] for one in sorted(stale, key=lambda one: one["CreationTime"], reverse=True)]


def repair(stage: LocalStage, assembly: Path) -> None:
    """Turn on the table's time to live and the HTTP API's answers to browsers, and end old workers."""
    _expire_rows(stage)
    for _, template in read_templates(assembly):
        _allow_origins(stage, read_origins(template))
    functions = client("lambda", stage)
    for page in functions.get_paginator("list_functions").paginate():
        for function in page["Functions"]:
            if function["FunctionName"].startswith(PREFIX):
                _delete_old_versions(functions, function["FunctionName"])


def _expire_rows(stage: LocalStage) -> None:
    dynamodb = client("dynamodb", stage)
    found = dynamodb.describe_time_to_live(TableName=stage.table)["TimeToLiveDescription"]
    if found["TimeToLiveStatus"] != "ENABLED":
        dynamodb.update_time_to_live(
            TableName=stage.table, TimeToLiveSpecification={"Enabled": True, "AttributeName": "expires_at"}
        )


def _allow_origins(stage: LocalStage, origins: Mapping[str, Any]) -> None:
    gateway = client("apigatewayv2", stage)
    for api in gateway.get_apis()["Items"]:
        if api["Name"] in origins:
            gateway.update_api(ApiId=api["ApiId"], CorsConfiguration=origins[api["Name"]])


def read_origins(template: Mapping[str, Any]) -> dict[str, Any]:
    """Return what each API of a template answers to pages of other origins, by the API's name."""
    return {
        resource["Properties"]["Name"]: resource["Properties"]["CorsConfiguration"]
        for resource in template["Resources"].values()
        if "CorsConfiguration" in resource.get("Properties", {})
    }


def _delete_old_versions(functions: Any, name: str) -> None:
    """Delete what the alias does not name; each version's worker would otherwise live as long as the emulator."""
    live = functions.get_alias(FunctionName=name, Name="live")["FunctionVersion"]
    for version in functions.list_versions_by_function(FunctionName=name)["Versions"]:
        if version["Version"] not in ("$LATEST", live):
            functions.delete_function(FunctionName=name, Qualifier=version["Version"])


def read_templates(assembly: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name and the template of each stack in a cloud assembly. Raises DependencyError."""
    artifacts = read_json(assembly / "manifest.json").get("artifacts", {})
    stacks = {name: one for name, one in artifacts.items() if one["type"] == _STACK_TYPE}
    if not stacks:
        raise DependencyError(f"there is no stack in {assembly}", code="local_deploy")
    for name, one in stacks.items():
        properties = one["properties"]
        template = json.loads((assembly / properties["templateFile"]).read_bytes())
        yield properties.get("stackName", name), template
