"""What leaves the house: frames to clients, and lines of the log."""

import json
import logging
import re

import pytest

from stepline.adapters.memory.model import Fail
from stepline.errors import ModelRefused
from stepline.ingress.message import receive, report_internal
from stepline.model.batch import BATCH_MAX_BYTES
from stepline.model.wire.event import ErrorFrame
from tests.support.conversation import LANE, Conversation, event_types, of
from tests.support.generation import BROKEN, answered, called

KEY = re.compile(rb"(att|out|seg|exec)/acme/|s3://|(?<!\"sha256\":\")[0-9a-f]{64}")
"""Where a body lies. A digest alone does not say it: `chat.files` has one, by which a client knows its bytes."""
EXCEPTION = re.compile(rb"Traceback|botocore|Exception|File \\?\"")
TRACE = "Traceback: botocore.exceptions.ClientError at s3://bucket/out/acme/x"


def write(text: str) -> dict[str, str]:
    return {"path": "a.md", "channel": "canvas", "content": text, "kind": "file"}


@pytest.fixture(scope="module")
def sent_frames() -> tuple[Conversation, list[bytes]]:
    """All frames of turns with files, large texts, a broken decision and an error, sent twice."""
    conversation = Conversation(
        called("react.write", write("# " + "x" * BATCH_MAX_BYTES)),
        called("react.read", {"paths": ["fi:turn_x.outputs/absent.md", "nonsense"]}),
        BROKEN,
        answered("y" * BATCH_MAX_BYTES),
        Fail(error=ModelRefused(TRACE)),
    )
    inbox = conversation.listen()
    conversation.send("z" * 2 * BATCH_MAX_BYTES)
    conversation.run()
    conversation.send(id="m2")
    conversation.run()
    receive(conversation.ports, "k1", json.dumps({"action": "resume", "conversation": LANE.conversation}))
    report_internal(conversation.ports, "k1", "")
    conversation.model.assert_read()
    return conversation, inbox


def test_these_tests_look_at_turns_that_had_something_to_hide(
    sent_frames: tuple[Conversation, list[bytes]],
) -> None:
    conversation, inbox = sent_frames
    assert len(conversation.app.ports.artifacts.objects) >= 3  # type: ignore[attr-defined]  # the memory twin's own
    assert {"react.tool.rejected", "chat.files", "chat.complete", "chat.error"} <= set(event_types(inbox))


def test_no_frame_names_where_a_body_lies(sent_frames: tuple[Conversation, list[bytes]]) -> None:
    assert [frame for frame in sent_frames[1] if KEY.search(frame)] == []


def test_no_frame_has_the_text_of_an_exception(sent_frames: tuple[Conversation, list[bytes]]) -> None:
    _, inbox = sent_frames
    assert [frame for frame in inbox if EXCEPTION.search(frame)] == []
    assert [frame.code for frame in of(ErrorFrame, inbox)] == ["internal"]


def test_no_frame_shows_model_text_outside_the_protocol(
    sent_frames: tuple[Conversation, list[bytes]],
) -> None:
    assert [frame for frame in sent_frames[1] if b"<channel:" in frame] == []


def test_the_log_lines_of_a_whole_turn_hold_no_text_of_users_or_the_model(
    caplog: pytest.LogCaptureFixture,
) -> None:
    conversation = Conversation(
        called("react.write", write("secret file"), notes="secret note"),
        BROKEN.replace("{not", "secret {not"),
        answered("secret answer"),
    )
    conversation.connect("k1")
    with caplog.at_level(logging.INFO):
        message = {"action": "send", "conversation": "c-1", "message_id": "m1", "text": "secret question"}
        receive(conversation.ports, "k1", json.dumps(message))
        conversation.run()
        receive(conversation.ports, "k1", "secret {")
        receive(conversation.ports, "k1", json.dumps({"action": "secret", "conversation": "c-1"}))
    everything = [str(vars(record)) for record in caplog.records]
    assert len(everything) > 5
    assert [line for line in everything if "secret" in line] == []
    assert conversation.state.status == "idle"
