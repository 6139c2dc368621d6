"""The eraser: removes deleted content, in passes. It runs after each deletion and every five minutes."""

from __future__ import annotations

from typing import Final

from lambdas.edge.runtime import Event, edge, logger, once, wired
from stepline.bootstrap.app import App
from stepline.bootstrap.erasure_wiring import erasure_on_aws
from stepline.ingress.erase_user import erase_all

WORK_S: Final = 180
"""How long one invocation starts new requests; its timeout is longer by the maximum time of a request."""

app = wired(App)
desk = once(lambda: erasure_on_aws(app().settings, app().ports))


@edge
def handler(event: Event) -> Event:  # noqa: ARG001 - any event makes it look for pending erasures
    """In: any event. Out: the number of conversations and users by outcome."""
    counts = erase_all(desk(), until_s=app().ports.clock.monotonic_s() + WORK_S)
    logger.info("erased", extra=dict(counts))
    return dict(counts)
