"""Import a conversation: upload its files, then send its documents until all of them are written.

An interrupted import continues when it is started again: files go to a conversation that has not begun yet, and a
conversation that has begun knows its initial files. Source: docs/how-to/move-conversations-in.md.
"""

from __future__ import annotations

import gzip
from base64 import b64encode
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from stepline.api.imports import BODY_BYTES, ImportRequest
from stepline.errors import DependencyError, InputError, LimitError
from stepline.local.client.api_transport import ApiError
from stepline.local.client.uploader import Uploader
from stepline.log.fence import UNFINISHED
from stepline.log.importing.import_document import Document, ReferencedFile

if TYPE_CHECKING:
    from stepline.ingress.import_conversation import ImportStatus
    from stepline.local.client.http_api import HttpApi
    from stepline.local.imported_documents import ImportedDocuments
    from stepline.ports.clock import Clock

T = TypeVar("T")

TRIES: Final = 8
"""How often a request is repeated after a temporary failure, or a limit per minute."""
PAUSE_S: Final = 2.0
FRAME_BYTES: Final = 64 * 1024
"""The size of a body without the packed documents."""
REFUSALS: Final = frozenset(
    {"type_not_allowed", "content_type_mismatch", "empty", "size_limit", "bad_attachment"}
)
"""Codes of files that no upload accepts: they are imported without their bytes."""


class Importer:
    """Imports into one conversation, which is new or was begun by the same import; `report` gets lines of progress."""

    def __init__(
        self, api: HttpApi, clock: Clock, conversation: str, *, report: Callable[[str], None]
    ) -> None:
        """Import into `conversation` through the HTTP API."""
        self._api = api
        self._clock = clock
        self._conversation = conversation
        self._report = report

    def import_documents(self, imported: ImportedDocuments, *, bundle: str = "") -> ImportStatus:
        """Import documents and the available files that they name; return the final status.

        Raises:
            InputError: `file_unreadable`.
            LimitError: `import_too_large`.
            ApiError: the import is refused, or the API failed too often.
            DependencyError: `api_unreachable`, `upload_pending`.
        """
        from stepline.log.importing.plan_import import named_files

        packed = _pack_documents(imported.documents)
        uploads: list[str] = []
        if not self._has_begun():
            for file in named_files(imported.documents):
                uploads += self._upload(file, imported)
        remembered = 0
        while True:
            body = ImportRequest(packed=packed, uploads=tuple(uploads), bundle=bundle, remembered=remembered)
            status = self._retrying(partial(self._api.move_in, self._conversation, body))
            if status.state == "whole":
                return status
            remembered = status.remembered
            self._report(
                f"{status.written} of {status.batches} batches, {remembered} of {status.turns} turns remembered"
            )

    def _has_begun(self) -> bool:
        try:
            self._retrying(lambda: self._api.read_conversation(self._conversation))
        except ApiError as error:
            if error.reason == "not_found":
                return False
            if error.reason != UNFINISHED:
                raise
        return True

    def _upload(self, file: ReferencedFile, imported: ImportedDocuments) -> list[str]:
        """Return the id of a file's upload; none for a file whose bytes are missing or not accepted."""
        if file.sha256 not in imported.files:
            self._report(f"{file.path}: without its bytes, which are missing")
            return []
        data = imported.files[file.sha256]()
        uploader = Uploader(self._api, self._clock, self._conversation, report=self._report)
        try:
            return [self._retrying(lambda: uploader.upload(file.path.rpartition("/")[2], data))]
        except ApiError as error:
            if error.reason not in REFUSALS:
                raise
            refused = str(error)
        except InputError as error:
            refused = str(error)
        self._report(f"{file.path}: without its bytes, {refused}")
        return []

    def _retrying(self, ask: Callable[[], T]) -> T:
        """Repeat a request after a temporary failure; every request is safe to repeat."""
        for left in reversed(range(TRIES)):
            try:
                return ask()
            except ApiError as error:
                if not (left and (error.problem.retryable or error.reason == "rate_limited")):
                    raise
                pause_s = error.retry_after_s or PAUSE_S
            except DependencyError:
                if not left:
                    raise
                pause_s = PAUSE_S
            self._clock.pause(pause_s)
        raise AssertionError("unreachable")


def _pack_documents(documents: Sequence[Document]) -> str:
    """Return documents in the format of a request body. Raises LimitError `import_too_large`."""
    rows = [{"kind": one.kind, "payload": one.payload} for one in documents]
    packed = b64encode(gzip.compress(msgspec.json.encode(rows), mtime=0)).decode()
    if len(packed) > BODY_BYTES - FRAME_BYTES:
        raise LimitError(
            f"the packed documents have more than {BODY_BYTES - FRAME_BYTES} bytes",
            code="import_too_large",
            limit=BODY_BYTES - FRAME_BYTES,
        )
    return packed
