import json
from typing import get_args

import pytest

from docs.build.live_events import EXAMPLES, REASONS, UPLOAD, message
from stepline.ingress.message import receive
from stepline.model.file.attachment import Attachment
from stepline.model.file.upload_slot import Upload
from stepline.model.wire.event import AckFrame
from stepline.model.wire.live_event import DropReason
from tests.support.conversation import LANE, USER, Conversation, of


@pytest.mark.parametrize("title", EXAMPLES)
def test_every_example_of_an_event_is_accepted(title):
    sent = message(EXAMPLES[title][1])
    conversation = Conversation()
    file = Attachment(filename="offer.pdf", mime="application/pdf", size_bytes=48_213, sha256="0" * 64)
    conversation.ports.uploads.begin(
        LANE, Upload(upload_id=UPLOAD, user=USER, file=file, until_s=0, state="ready")
    )
    inbox = conversation.connect("k1")
    receive(conversation.ports, "k1", json.dumps({**sent, "conversation": LANE.conversation}))
    assert len(of(AckFrame, inbox)) == 1


def test_every_reason_for_handing_back_is_explained():
    assert set(REASONS) == set(get_args(DropReason))
