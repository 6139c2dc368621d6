"""The eraser: what was deleted goes, in passes. The API invokes it after each deletion, and a clock every five minutes."""

from __future__ import annotations

from typing import Final

from lambdas._runtime import Event, edge, logger, once, wired
from stepline.bootstrap.app import App
from stepline.bootstrap.erasure_wiring import erasure_on_aws
from stepline.ingress.erase_user import erase_all

WORK_S: Final = 180
"""How long one invocation begins new requests; its time-out is longer by what a request may take."""

app = wired(App)
desk = once(lambda: erasure_on_aws(app().settings, app().ports))


@edge
def handler(event: Event) -> Event:  # noqa: ARG001 - whoever calls, it looks at what is pending
    """In: any event. Out: how many conversations and users came to which end."""
    counts = erase_all(desk(), until_s=app().ports.clock.monotonic_s() + WORK_S)
    logger.info("erased", extra=dict(counts))
    return dict(counts)
