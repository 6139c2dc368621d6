"""The function that deletes versions of the stage's functions a day after their successors were published.

Its source is inlined in the template, so it is small and imports nothing but the runtime.
"""

import os
from datetime import UTC, datetime, timedelta
from typing import Any

import boto3

KEPT = timedelta(days=1)


def handler(event: dict, context: object) -> None:  # type: ignore[type-arg]  # noqa: ARG001 - the runtime's signature
    """Sweep each function. A version that cannot be deleted does not keep the others."""
    client = boto3.client("lambda")
    errors = []
    for function in os.environ["FUNCTIONS"].split(","):  # noqa: TID251 - the template's own list, no setting
        try:
            sweep(client, function, datetime.now(UTC) - KEPT)
        except Exception as error:  # noqa: BLE001 - raised below, with those of the other functions
            errors.append(error)
    if errors:
        raise ExceptionGroup("former versions remain", errors)


def sweep(client: Any, function: str, before: datetime) -> None:
    """Delete the versions that no alias needs and whose successor is older than `before`.

    The newest version has none: it counts itself, since a deployment may just have published it. The alias `previous` ends once
    the live version is as old.
    """
    pages = client.get_paginator("list_versions_by_function").paginate(FunctionName=function)
    published = {
        # In UTC, with fractions of a second.
        int(one["Version"]): datetime.fromisoformat(one["LastModified"][:19]).replace(tzinfo=UTC)
        for page in pages
        for one in page["Versions"]
        if one["Version"] != "$LATEST"
    }
    aliases = client.list_aliases(FunctionName=function)["Aliases"]
    named = {one["Name"]: versions_of(one) for one in aliases}
    if "previous" in named and all(published[one] <= before for one in named["live"]):
        client.delete_alias(FunctionName=function, Name="previous")
        del named["previous"]
    order = sorted(published)
    for version, successor in zip(order, [*order[1:], order[-1]], strict=True):
        if published[successor] <= before and not any(version in one for one in named.values()):
            client.delete_function(FunctionName=function, Qualifier=str(version))


def versions_of(alias: dict[str, Any]) -> set[int]:
    """Return the versions that an alias names: two while it moves."""
    weights = alias.get("RoutingConfig", {}).get("AdditionalVersionWeights", {})
    return {int(one) for one in (alias["FunctionVersion"], *weights)}
