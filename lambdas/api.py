"""The HTTP API: every endpoint of its table, for requests that passed the authorizer."""

from __future__ import annotations

import base64

from lambdas._handshake import read_principal
from lambdas._runtime import Event, edge, logger, once, wired
from stepline.api.endpoint import Services
from stepline.api.endpoint_table import ENDPOINTS
from stepline.api.router import Request, Router, make_error_response
from stepline.bootstrap.app import App
from stepline.bootstrap.erasure_wiring import erasure_on_aws
from stepline.bootstrap.upload_wiring import uploads_on_aws
from stepline.errors import SteplineError
from stepline.log.timeline_cache import History
from stepline.metrics import EDGE_ERRORS

ROUTER = Router(ENDPOINTS)

app = wired(App)


@once
def services() -> Services:
    """Return the services that the endpoints use, with the conversations that this environment has folded."""
    settings = app().settings
    return Services(
        ports=app().ports,
        history=History(),
        socket_url=settings.socket_url,
        inspect=settings.inspect,
        uploads=uploads_on_aws(settings, app().ports),
        erasing=erasure_on_aws(settings, app().ports),
    )


@edge
def handler(event: Event) -> Event:
    """In: an HTTP API event, payload 2.0. Out: the response; a refusal is problem details."""
    principal = read_principal(event["requestContext"]["authorizer"]["lambda"])
    request = _read_request(event)
    try:
        answer = ROUTER.answer(services(), principal, request)
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
