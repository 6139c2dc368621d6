"""Checks files that clients have posted to quarantine."""

from __future__ import annotations

from lambdas.edge.runtime import Event, edge, logger, once, wired
from stepline.bootstrap.app import App
from stepline.bootstrap.upload_wiring import uploads_on_aws
from stepline.ingress.upload import judge_upload
from stepline.metrics import UPLOADS_READY, UPLOADS_REFUSED
from stepline.model.file.upload_slot import read_quarantine_key

app = wired(App)
desk = once(lambda: uploads_on_aws(app().settings, app().ports))


@edge
def handler(event: Event) -> Event:
    """In: EventBridge's event for a new object or a finished scan. Out: the state of its upload, "" for none."""
    detail = event["detail"]
    key = detail["object"]["key"] if "object" in detail else detail["s3ObjectDetails"]["objectKey"]
    found = read_quarantine_key(key)
    upload = judge_upload(desk(), *found) if found else None
    if upload is None or found is None:
        logger.info("no upload")
        return {"state": ""}
    app().ports.ledger.works_for(found[0])
    ready = upload.state == "ready"
    app().ports.meter.count(UPLOADS_READY if ready else UPLOADS_REFUSED, reason="" if ready else upload.code)
    logger.info(
        "upload judged", extra={"state": upload.state, "code": upload.code, "reasons": upload.reasons}
    )
    return {"state": upload.state}
