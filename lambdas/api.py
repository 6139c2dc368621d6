"""The HTTP API: every endpoint of its table, for requests that passed the authorizer."""

from __future__ import annotations

from lambdas.edge.http import answer_event
from lambdas.edge.runtime import Event, edge, once, wired
from stepline.api.endpoint import Services
from stepline.api.endpoint_table import ENDPOINTS
from stepline.api.router import Router
from stepline.bootstrap.app import App
from stepline.bootstrap.erasure_wiring import erasure_on_aws
from stepline.bootstrap.replays.replay_wiring import replays_on_aws
from stepline.bootstrap.upload_wiring import uploads_on_aws
from stepline.log.timeline_cache import History

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
        replaying=replays_on_aws(settings, app().ports),
    )


@edge
def handler(event: Event) -> Event:
    """In: an HTTP API event, payload 2.0. Out: the response; a refusal is problem details."""
    return answer_event(event, ROUTER, services, app)
