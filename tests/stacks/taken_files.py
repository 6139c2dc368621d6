"""Files from outside in the story of tests/stacks/test_calls.py: posted, judged, and sent along with a message."""

import hashlib

from stepline.adapters.memory.upload.preflight import MemoryPreflight
from stepline.adapters.upload.guard_duty import TAG, GuardDutyScanner
from stepline.ingress.admit import Arrival
from stepline.ingress.event_validation import take_event
from stepline.ingress.upload import (
    SLOT_S,
    UploadPorts,
    UploadRequest,
    judge_upload,
    read_upload,
    start_upload,
)
from stepline.model.file.upload_slot import LATE_S, quarantine_key
from stepline.ports.channel import Principal
from tests.stacks.recorder import NAME, Slots
from tests.support.conversation import FAR, LANE, USER

CLEAN = {"Key": TAG, "Value": "NO_THREATS_FOUND"}
ME = Principal(tenant=LANE.tenant, project=LANE.project, user=USER, expires_at=FAR)


def lose_a_listener(conversation):
    """A listener has gone without unsubscribing."""
    with conversation.calls.by(""):
        conversation.ports.subscriptions.subscribe(LANE, "gone", FAR, USER)


def take_files(conversation):
    """A file is posted and judged, and its event comes again; another slot stays empty."""
    name = f"{NAME}-{conversation.ingress}"
    quarantine = Slots(name, conversation.calls)
    desk = UploadPorts(
        ports=conversation.ports,
        quarantine=quarantine,
        preflight=MemoryPreflight(),
        scanner=GuardDutyScanner(name, conversation.clock, timeout_s=1),
    )
    for sent, data in (("one", b"a,b"), ("two", b""), ("late", b"")):
        stated = hashlib.sha256(b"a,b").hexdigest()
        file = UploadRequest(filename="a.csv", size_bytes=3, sha256=stated)
        with conversation.acting("api"):
            upload = start_upload(desk, ME, LANE.conversation, file, key=sent).upload
            start_upload(desk, ME, LANE.conversation, file, key=sent)
            if sent == "late":
                conversation.clock.pause(SLOT_S + LATE_S + 1)
                assert read_upload(desk, ME, LANE.conversation, upload).reason == "upload_expired"
                break
        with conversation.calls.by(""):
            key = quarantine_key(LANE, upload)
            if data:
                conversation.ports.artifacts.put(key, data, mime="text/csv")
                quarantine.client.put_object_tagging(Bucket=name, Key=key, Tagging={"TagSet": [CLEAN]})
        with conversation.acting("preflight"):
            lose_a_listener(conversation)
            judge_upload(desk, LANE, upload)
            judge_upload(desk, LANE, upload)
        if data:
            with conversation.acting("socket"):
                take_event(conversation.ports, LANE, Arrival(message_id="f1", user=USER, uploads=(upload,)))
