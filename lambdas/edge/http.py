"""An answer to a request of the HTTP API, by a router."""

from __future__ import annotations

import base64
from collections.abc import Callable

from lambdas.edge.handshake import read_principal
from lambdas.edge.runtime import Event, logger
from stepline.api.endpoint import Services
from stepline.api.router import Request, Router, make_error_response
from stepline.bootstrap.app import App
from stepline.errors import SteplineError
from stepline.metrics import EDGE_ERRORS


def answer_event(
    event: Event, router: Router, services: Callable[[], Services], app: Callable[[], App]
) -> Event:
    """In: an HTTP API event, payload 2.0. Out: the response; a refusal is problem details."""
    principal = read_principal(event["requestContext"]["authorizer"]["lambda"])
    request = _read_request(event)
    try:
        answer = router.answer(services(), principal, request)
    except Exception:  # noqa: BLE001 - the edge: logged, counted, and reported to the client without details
        app().ports.meter.count(EDGE_ERRORS)
        logger.exception("request failed")
        answer = make_error_response(SteplineError("failed"))
    logger.info("answered", extra={"status": int(answer.status), "code": answer.code})
    return {"statusCode": int(answer.status), "headers": answer.headers, "body": answer.body.decode()}


def _read_request(event: Event) -> Request:
    body = event.get("body") or ""
    encoded = event.get("isBase64Encoded", False)
    return Request(
        method=event["requestContext"]["http"]["method"],
        path=event["rawPath"],
        query=event.get("queryStringParameters") or {},
        headers={name.lower(): value for name, value in event["headers"].items()},
        body=base64.b64decode(body) if encoded else body.encode(),
    )
