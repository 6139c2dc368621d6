"""Conversations as streams, by the protocol of Durable Streams, in a function whose executions may wait.

A waiting reader occupies an execution, so this function has its own; the gateway routes only these endpoints here.
"""

from __future__ import annotations

from lambdas.edge.http import answer_event
from lambdas.edge.runtime import Event, edge, once, wired
from stepline.api.doors.durable_stream import ENDPOINTS
from stepline.api.endpoint import Services
from stepline.api.router import Router
from stepline.bootstrap.app import App
from stepline.delivery.stream_page import WAIT_MOST_S
from stepline.log.timeline_cache import History

ROUTER = Router(ENDPOINTS)

app = wired(App)


@once
def services() -> Services:
    """Return the services that the endpoints use."""
    return Services(ports=app().ports, history=History(), wait_s=WAIT_MOST_S)


@edge
def handler(event: Event) -> Event:
    """In: an HTTP API event, payload 2.0. Out: the response."""
    return answer_event(event, ROUTER, services, app)
