"""The sweeper of turns and tasks without an owner: one lane or task per event, and all old ones on a schedule."""

from __future__ import annotations

import json
from typing import Any

from lambdas.edge.runtime import Event, edge, logger, wired
from stepline.adapters.parallel import at_once
from stepline.bootstrap.app import App
from stepline.loop.programs.remote import StoppedTask, end_wait, sweep_tasks
from stepline.loop.sweep import sweep, sweep_lane
from stepline.model.ids import make_lane

app = wired(App)


@edge
def handler(event: Event) -> Event:
    """In: an EventBridge event. Out: the number of lanes and tasks by outcome."""
    counts: dict[str, int]
    match event.get("detail-type"):
        case "Step Functions Execution Status Change":
            step = json.loads(event["detail"]["input"])
            lane = make_lane(step["tenant"], step["project"], step["conversation"])
            counts = {sweep_lane(app().ports, lane, ended=event["detail"].get("name", "")): 1}
            app().ports.ledger.works_for(lane, step["turn"])
        case "ECS Task State Change":
            counts = {"waits_ended": int(end_wait(app().ports, _read_task(event["detail"])))}
        case _:
            counts = sweep(app().ports, each=at_once) | sweep_tasks(app().ports)
    logger.info("swept", extra=dict(counts))
    return dict(counts)


def _read_task(detail: dict[str, Any]) -> StoppedTask:
    """Return the stopped task of an event; the reason includes how its containers exited."""
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
