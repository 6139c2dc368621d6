import json
from dataclasses import replace
from typing import get_args

import pytest

from docs.build.live_events import EXAMPLES, REASONS, message
from stepline.ingress.message import receive
from stepline.model.file.attachment import Attachment, attachment_key
from stepline.model.wire.event import AckFrame
from stepline.model.wire.live_event import DropReason
from tests.support.conversation import LANE, Conversation, of


class Full:
    """A store in which everything is that an example names."""

    def __init__(self, *files):
        self._sizes = {attachment_key(LANE, file.sha256): file.size_bytes for file in files}

    def size(self, key):
        return self._sizes.get(key)


@pytest.mark.parametrize("title", EXAMPLES)
def test_every_example_is_taken(title):
    sent = message(EXAMPLES[title][1])
    conversation = Conversation()
    conversation.ports = replace(
        conversation.ports, artifacts=Full(*(Attachment(**file) for file in sent.get("attachments", [])))
    )
    inbox = conversation.connect("k1")
    receive(conversation.ports, "k1", json.dumps({**sent, "conversation": LANE.conversation}))
    assert len(of(AckFrame, inbox)) == 1


def test_every_reason_for_handing_back_is_explained():
    assert set(REASONS) == set(get_args(DropReason))
