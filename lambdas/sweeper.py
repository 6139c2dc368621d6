"""What lost its owner: one lane for an execution's event, one task for a task's, every old one for the schedule."""

from __future__ import annotations

import json
from typing import Any

from lambdas._runtime import Event, app, edge, logger
from stepline.loop.programs.remote import StoppedTask
from stepline.model.ids import make_lane


@edge
def handler(event: Event) -> Event:
    """In: an EventBridge event. Out: how many lanes and tasks came to which end."""
    match event.get("detail-type"):
        case "Step Functions Execution Status Change":
            step = json.loads(event["detail"]["input"])
            lane = make_lane(step["tenant"], step["project"], step["conversation"])
            counts = {app().sweep_lane(lane): 1}
        case "ECS Task State Change":
            counts = {"waits_ended": int(app().end_wait(_read_task(event["detail"])))}
        case _:
            counts = app().sweep()
    logger.info("swept", extra=dict(counts))
    return dict(counts)


def _read_task(detail: dict[str, Any]) -> StoppedTask:
    """Return what an event says of a stopped task; how its containers ended is part of the reason."""
    overrides = detail.get("overrides", {}).get("containerOverrides", [])
    ended = [
        f"{one['name']} ended with {one.get('exitCode', 'no exit code')}"
        + (f" ({one['reason']})" if one.get("reason") else "")
        for one in detail.get("containers", [])
    ]
    return StoppedTask(
        task=detail["taskArn"],
        cluster=detail["clusterArn"],
        reason="; ".join([detail.get("stoppedReason") or "no reason given", *ended]),
        variables={pair["name"]: pair["value"] for one in overrides for pair in one.get("environment", [])},
    )
