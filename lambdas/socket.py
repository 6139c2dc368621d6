"""The websocket's routes: connect, disconnect, and every message."""

from __future__ import annotations

from lambdas.edge.handshake import read_principal
from lambdas.edge.runtime import Event, edge, logger, wired
from stepline.bootstrap.app import App
from stepline.ingress.message import receive, report_internal
from stepline.metrics import EDGE_ERRORS

OK = {"statusCode": 200}

app = wired(App)


@edge
def handler(event: Event) -> Event:
    """In: a websocket proxy event. Out: 200; answers and errors go over the connection itself."""
    request = event["requestContext"]
    connection, route = request["connectionId"], request["routeKey"]
    match route:
        case "$connect":
            app().ports.subscriptions.connect(connection, read_principal(request["authorizer"]))
        case "$disconnect":
            app().ports.subscriptions.disconnect(connection)
        case _:
            _receive(connection, event.get("body") or "")
    logger.info("socket route done", extra={"route": route})
    return OK


def _receive(connection: str, body: str) -> None:
    try:
        receive(app().ports, connection, body)
    except Exception:  # noqa: BLE001 - the edge: logged, counted, and reported to the client without details
        app().ports.meter.count(EDGE_ERRORS)
        logger.exception("message failed")
        report_internal(app().ports, connection, body)
