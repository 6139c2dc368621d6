"""Posts the output of a running program, after its supervisor has stored a copy of the log."""

from __future__ import annotations

from lambdas.edge.runtime import Event, edge, logger, wired
from stepline.bootstrap.app import App
from stepline.delivery.program_log import post_log
from stepline.errors import DependencyError
from stepline.model.program.running_log import read_log_key

app = wired(App)


@edge
def handler(event: Event) -> Event:
    """In: EventBridge's event for a new object. Out: the number of frames."""
    found = read_log_key(event["detail"]["object"]["key"])
    try:
        if found:
            app().ports.ledger.works_for(*found[:2])
        posted = post_log(app().ports, *found) if found else 0
    except DependencyError as error:  # the next copy, or a resume, delivers the text
        logger.warning("log not posted", extra={"code": error.reason})
        posted = 0
    logger.info("log posted", extra={"frames": posted})
    return {"frames": posted}
