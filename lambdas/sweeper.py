"""Lanes whose execution ended: one lane for an execution's event, every old one for the schedule."""

from __future__ import annotations

import json

from lambdas._runtime import Event, app, edge, logger
from stepline.model.ids import make_lane


@edge
def handler(event: Event) -> Event:
    """In: an EventBridge event. Out: how many lanes came to which end."""
    if event.get("detail-type") == "Step Functions Execution Status Change":
        step = json.loads(event["detail"]["input"])
        lane = make_lane(step["tenant"], step["project"], step["conversation"])
        counts = {app().sweep_lane(lane): 1}
    else:
        counts = app().sweep()
    logger.info("swept", extra=dict(counts))
    return dict(counts)
