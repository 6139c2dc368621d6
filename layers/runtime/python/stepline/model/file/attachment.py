"""An attachment: a file that came with an event, named by its content and kept apart from the log."""

from __future__ import annotations

import re
from typing import Final

from stepline.errors import InputError
from stepline.model.base import Value
from stepline.model.ids import Lane

ATTACHMENTS_MAX: Final = 20
"""Of one event."""
ATTACHMENT_MAX_BYTES: Final = 25 * 1024 * 1024
EVENT_MAX_BYTES: Final = 25 * 1024 * 1024
"""Of an event's text and all of its attachments together: they have to fit into the workspace of a program."""
FILENAME_MAX_BYTES: Final = 255
"""In UTF-8, as file systems count."""

SHA256: Final = re.compile(r"[0-9a-f]{64}")
MIME: Final = re.compile(r"[a-z0-9][a-z0-9.+-]{0,62}/[a-z0-9][a-z0-9.+-]{0,126}")
FILENAME: Final = re.compile(r"[^\x00-\x1f\x7f-\x9f\ud800-\udfff]+")
"""Any text on one line; where it becomes a part of a path, it is made one."""


class Attachment(Value):
    """A reference to bytes that were stored before the event was sent; `sha256` is 64 hex digits in lower case."""

    filename: str
    mime: str
    size_bytes: int
    sha256: str


def check_attachment(attachment: Attachment) -> None:
    """Refuse a reference that cannot be one. Raises InputError `bad_attachment`."""
    if not FILENAME.fullmatch(attachment.filename):
        raise _bad("its name has no characters, or some that nobody could see")
    if len(attachment.filename.encode()) > FILENAME_MAX_BYTES:
        raise _bad(f"its name has more than {FILENAME_MAX_BYTES} bytes")
    if not MIME.fullmatch(attachment.mime):
        raise _bad("its type is not like text/plain, in lower case and without parameters")
    if not 0 <= attachment.size_bytes <= ATTACHMENT_MAX_BYTES:
        raise _bad(f"it has at most {ATTACHMENT_MAX_BYTES} bytes")
    if not SHA256.fullmatch(attachment.sha256):
        raise _bad("it is named by the 64 hex digits of its SHA-256, in lower case")


def attachment_key(lane: Lane, sha256: str) -> str:
    """Return where the bytes of a conversation's attachment are: nobody can name those of another conversation.

    Raises InputError `bad_attachment`.
    """
    if not SHA256.fullmatch(sha256):
        raise _bad("it is named by the 64 hex digits of its SHA-256, in lower case")
    return f"att/{lane.prefix()}/sent/{sha256}"


def _bad(why: str) -> InputError:
    return InputError(f"an attachment cannot be taken: {why}", code="bad_attachment")
