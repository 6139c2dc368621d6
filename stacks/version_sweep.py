"""The function that deletes former versions of the stage's functions once the live ones have served for a day.

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
    """Delete what no alias needs any more, unless a version that serves is younger than `before`, as after a release.

    A version that is younger itself may be one that a deployment has just published.
    """
    pages = client.get_paginator("list_versions_by_function").paginate(FunctionName=function)
    published = {
        # In UTC, with fractions of a second.
        one["Version"]: datetime.fromisoformat(one["LastModified"][:19]).replace(tzinfo=UTC)
        for page in pages
        for one in page["Versions"]
    }
    live = client.get_alias(FunctionName=function, Name="live")
    weights = live.get("RoutingConfig", {}).get("AdditionalVersionWeights", {})
    serving = {live["FunctionVersion"], *weights}
    former = [one for one in published if one not in {*serving, "$LATEST"}]
    if any(published[one] > before for one in serving) or not former:
        return
    client.delete_alias(FunctionName=function, Name="previous")
    for version in former:
        if published[version] <= before:
            client.delete_function(FunctionName=function, Qualifier=version)
