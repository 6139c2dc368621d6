"""An attachment: a file of an event, named by its content and stored outside of the log."""

from __future__ import annotations

import re
from typing import Final

from msgspec.structs import replace

from stepline.errors import InputError
from stepline.model.base import Value
from stepline.model.file.charset import charset_of, with_charset
from stepline.model.ids import Lane

ATTACHMENTS_MAX: Final = 20
"""The maximum number per event."""
UPLOAD_ID: Final = re.compile(r"up_[0-9a-f]{32}")
ATTACHMENT_MAX_BYTES: Final = 25 * 1024 * 1024
EVENT_MAX_BYTES: Final = 25 * 1024 * 1024
"""The maximum size of an event's text and attachments together: they must fit into a program's workspace."""
TEXT_MAX_CHARS: Final = 32_000
"""Characters of an event's text by default: in UTF-8 they fit into one websocket message."""
FILENAME_MAX_BYTES: Final = 255
"""In UTF-8 bytes, as file systems count."""

SHA256: Final = re.compile(r"[0-9a-f]{64}")
MIME: Final = re.compile(r"[a-z0-9][a-z0-9.+-]{0,62}/[a-z0-9][a-z0-9.+-]{0,126}")
FILENAME: Final = re.compile(r"[^\x00-\x1f\x7f-\x9f\ud800-\udfff]+")
"""Any text on one line; it is made a valid name where it becomes part of a path."""


class Attachment(Value):
    """A reference to bytes stored before the event was sent; `sha256` is 64 hex digits in lower case.

    The type of a text that is not UTF-8 has the parameter `charset`, as detected. `home` is the origin of a fork which has
    the bytes; "" for the conversation of the event.
    """

    filename: str
    mime: str
    size_bytes: int
    sha256: str
    home: str = ""

    def key(self, lane: Lane) -> str:
        """Return the object key of its bytes; `lane` is that of the event."""
        home = replace(lane, conversation=self.home) if self.home else lane
        return attachment_key(home, self.sha256)


def check_attachment(attachment: Attachment) -> None:
    """Refuse an invalid reference. Raises InputError `bad_attachment`."""
    if not FILENAME.fullmatch(attachment.filename):
        raise _bad("its name is empty, or has invisible characters")
    if len(attachment.filename.encode()) > FILENAME_MAX_BYTES:
        raise _bad(f"its name has more than {FILENAME_MAX_BYTES} bytes")
    kind, _, parameters = attachment.mime.partition(";")
    if not MIME.fullmatch(kind) or attachment.mime != with_charset(kind, charset_of(f";{parameters}")):
        raise _bad(
            "its type is not like text/plain, in lower case, with no parameter but a charset that is read"
        )
    if not 0 <= attachment.size_bytes <= ATTACHMENT_MAX_BYTES:
        raise _bad(f"it has at most {ATTACHMENT_MAX_BYTES} bytes")
    if not SHA256.fullmatch(attachment.sha256):
        raise _bad("it is named by the 64 hex digits of its SHA-256, in lower case")


def attachment_key(lane: Lane, sha256: str) -> str:
    """Return the object key of a conversation's attachment; it cannot name one of another conversation.

    Raises InputError `bad_attachment`.
    """
    if not SHA256.fullmatch(sha256):
        raise _bad("it is named by the 64 hex digits of its SHA-256, in lower case")
    return f"att/{lane.prefix()}/sent/{sha256}"


def _bad(why: str) -> InputError:
    return InputError(f"an attachment cannot be taken: {why}", code="bad_attachment")
