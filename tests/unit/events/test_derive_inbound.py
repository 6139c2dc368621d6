"""Client events of inbound events: their files, with the paths at which they are read."""

from __future__ import annotations

from stepline.events.derive import derive
from stepline.model.file.attachment import Attachment
from tests.support.log_builder import LogBuilder


def sent_paths(log: LogBuilder, n: int = 0) -> list[str]:
    (accepted,) = [
        event for event in derive(log.batches[n - 1]) if event.type == "chat.conversation.accepted"
    ]
    return [file.get("path", "") for file in accepted.data["attachments"]]


def test_a_file_is_sent_with_its_path_in_the_timeline():
    log = LogBuilder()
    files = tuple(
        Attachment(filename="a.png", mime="image/png", size_bytes=9, sha256=digit * 64) for digit in "56"
    )
    log.message("two of one name", attachments=files)
    log.message("one more", attachments=files[1:])
    timeline = log.timeline()
    found = [(path, timeline.resolve(path)[-1].body.sha256[0]) for path in sent_paths(log, 1)]
    assert found == [
        ("fi:turn_0001.user.attachments/a.png", "5"),
        ("fi:turn_0001.user.attachments/a-2.png", "6"),
    ]
    (later,) = sent_paths(log, 2)
    assert (later, timeline.resolve(later)[-1].body.sha256[0]) == (
        "fi:turn_0001.external.followup.attachments/m2/a.png",
        "6",
    )


def test_a_file_has_no_path_while_its_event_waits_for_a_turn():
    log = LogBuilder()
    file = Attachment(filename="a.png", mime="image/png", size_bytes=9, sha256="5" * 64)
    log.message("", event="alert", reactive=False, attachments=(file,))
    assert sent_paths(log) == [""]
