"""The websocket's routes: connect, disconnect, and every message."""

from __future__ import annotations

from typing import Any

from lambdas._runtime import Event, app, count, logger, metrics
from stepline.metrics import EDGE_ERRORS
from stepline.ports.channel import Principal

OK = {"statusCode": 200}


@metrics.log_metrics
@logger.inject_lambda_context(clear_state=True)
def handler(event: Event, context: Any) -> Event:
    """In: a websocket proxy event. Out: 200; answers and errors go over the connection itself."""
    request = event["requestContext"]
    connection, route = request["connectionId"], request["routeKey"]
    match route:
        case "$connect":
            who = request["authorizer"]
            fields = {name: who[name] for name in ("tenant", "project", "user")}
            principal = Principal(**fields, expires_at=int(who["expires_at"]))
            app().ports.subscriptions.connect(connection, principal)
        case "$disconnect":
            app().ports.subscriptions.disconnect(connection)
        case _:
            try:
                app().receive(connection, event.get("body") or "")
            except Exception:
                count(EDGE_ERRORS)
                logger.exception("message failed")
                app().report_internal(connection)
    logger.info("socket route done", extra={"route": route})
    return OK
