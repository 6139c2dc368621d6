"""Files of a message: each is uploaded to the conversation first; the message names it once it is accepted.

A text that is too long for a message is uploaded the same way: the message has its beginning, and names the file.
Source: docs/how-to/uploads.md.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from stepline.errors import DependencyError, InputError, LimitError
from stepline.ingress.upload import UploadRequest
from stepline.model.base import Value
from stepline.model.file.attachment import ATTACHMENT_MAX_BYTES, TEXT_MAX_CHARS

if TYPE_CHECKING:
    from stepline.local.client.http_api import HttpApi
    from stepline.ports.clock import Clock

WAIT_S: Final = 180.0
"""The longest wait for a verdict."""
POLLS_S: Final = (0.2, 0.3, 0.5, 1.0, 2.0)
"""Pauses between two polls; the last one repeats."""
LONG_TEXT: Final = "message.txt"
BEGINNING_CHARS: Final = 1_000
"""The number of characters of a long text that the message itself contains."""
REST: Final = "[This is only the beginning. The whole message is the attached file {}.]"


class Composed(Value):
    """A message that is ready to send: its text, and the ids of uploads."""

    text: str
    uploads: tuple[str, ...] = ()


class Uploader:
    """Uploads to one conversation, which may not have begun yet; `report` gets a line of progress."""

    def __init__(
        self, api: HttpApi, clock: Clock, conversation: str, *, report: Callable[[str], None]
    ) -> None:
        """Upload to `conversation` through the HTTP API."""
        self._api = api
        self._clock = clock
        self._conversation = conversation
        self._report = report

    def compose(self, text: str, uploads: tuple[str, ...] = ()) -> Composed:
        """Return the message for a text of any length with its files. Raises as `upload` does."""
        if len(text) <= TEXT_MAX_CHARS:
            return Composed(text=text, uploads=uploads)
        whole = self.upload(LONG_TEXT, text.encode(errors="replace"))
        beginning = f"{text[:BEGINNING_CHARS]}…\n\n{REST.format(LONG_TEXT)}"
        return Composed(text=beginning, uploads=(*uploads, whole))

    def upload_file(self, path: Path) -> str:
        """Upload a file of this machine; return the id by which a message names it.

        Raises InputError `file_unreadable`; LimitError `size_limit`; and as `upload` does.
        """
        try:
            if path.stat().st_size > ATTACHMENT_MAX_BYTES:
                raise LimitError(f"{path.name} has more than {ATTACHMENT_MAX_BYTES} bytes", code="size_limit")
            data = path.read_bytes()
        except OSError as error:
            raise InputError(
                f"{path} cannot be read: {error.strerror or error}", code="file_unreadable"
            ) from error
        return self.upload(path.name, data)

    def upload(self, name: str, data: bytes) -> str:
        """Upload bytes under a name, and wait for the verdict; return the id by which a message names them.

        Raises:
            InputError: the file is refused, with the verdict's code.
            ApiError: the API grants no upload, or the bucket rejects the file.
            DependencyError: `api_unreachable`; `upload_pending`, there is no verdict yet.
        """
        name = name.encode(errors="replace").decode()
        asked = UploadRequest(
            filename=name, size_bytes=len(data), sha256=hashlib.sha256(data).hexdigest()
        )  # without a type: the name implies it, and the server checks the bytes
        self._report(f"{name}: uploading {len(data):,} bytes")
        grant = self._api.begin_upload(self._conversation, asked)
        self._api.post_form(grant.url, grant.fields, data)
        self._await_verdict(name, grant.upload)
        self._report(f"{name}: accepted")
        return grant.upload

    def _await_verdict(self, name: str, upload: str) -> None:
        until_s = self._clock.monotonic_s() + WAIT_S
        pauses = iter(POLLS_S)
        while (status := self._api.get_upload(self._conversation, upload)).state != "ready":
            if status.state == "refused":
                rules = f" ({', '.join(status.reasons)})" if status.reasons else ""
                raise InputError(f"{name} is refused: {status.message}{rules}", code=status.reason)
            if self._clock.monotonic_s() >= until_s:
                raise DependencyError(
                    f"{name} has not been checked yet; try again later", code="upload_pending"
                )
            self._clock.pause(next(pauses, POLLS_S[-1]))
