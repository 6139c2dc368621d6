"""The verdict on an uploaded file: it is accepted, or refused with a code and its reasons."""

from __future__ import annotations

from typing import Final

from stepline.model.base import Value
from stepline.model.file.attachment import ATTACHMENT_MAX_BYTES

REJECTED: Final = "preflight_rejected"
SIZE: Final = "size_limit"
EMPTY_FILE: Final = "empty"
MALWARE: Final = "malware"

PICTURE_MAX_BYTES: Final = 5 * 1024 * 1024
DOCUMENT_MAX_BYTES: Final = 10 * 1024 * 1024


class FileLimits(Value):
    """The largest picture, PDF and other file that is accepted, in bytes."""

    picture_max_bytes: int = PICTURE_MAX_BYTES
    document_max_bytes: int = DOCUMENT_MAX_BYTES
    file_max_bytes: int = ATTACHMENT_MAX_BYTES


class FileVerdict(Value):
    """The verdict on a file, accepted if `code` is empty. `reasons` are stable codes of the rules that refuse it, in order.

    `message` is a sentence for people about the first reason. `charset` is the encoding of an accepted text; "" for
    UTF-8, and for a text that begins with a mark of its encoding.
    """

    code: str = ""
    reasons: tuple[str, ...] = ()
    message: str = ""
    charset: str = ""

    @property
    def accepted(self) -> bool:
        """True for an accepted file."""
        return not self.code


TAKEN: Final = FileVerdict()


def reject_file(reason: str, message: str) -> FileVerdict:
    """Return the verdict of a single rule that refuses a file."""
    return FileVerdict(code=REJECTED, reasons=(reason,), message=message)
