"""Import: a conversation from another deployment, as the documents of an export.

Source: docs/how-to/move-conversations-in.md.
"""

from __future__ import annotations

import binascii
import zlib
from base64 import b64decode
from http import HTTPStatus
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from stepline.api.conversations import N_MAX
from stepline.api.endpoint import Call, Endpoint, Nothing, StrictInput
from stepline.errors import InputError, LimitError
from stepline.ingress.import_conversation import PASS_S, ImportInput, ImportStatus, import_conversation
from stepline.log.importing.import_document import Document, read_document

BODY_BYTES: Final = 5_500_000
"""An invocation has at most 6 MB; `packed` needs no escapes, while plain documents may take twice their size."""
UNPACKED_BYTES: Final = 24 * 1024 * 1024
"""The bytes that the function has memory for."""
VALUES_MAX: Final = 3_000_000
"""The most commas and brackets in the documents: the smallest values take 30 times the memory of their text."""
REFUSED: Final = (
    *(
        "bad_conversation",
        "bad_upload",
        "unknown_bundle",
        "import_not_packed",
        "import_not_json",
        "import_empty",
    ),
    *(
        "import_unknown_document",
        "import_document_twice",
        "import_bad_turn",
        "import_bad_block",
        "import_bad_value",
    ),
    *("import_bad_rows", "import_bad_hash", "import_bad_base64", "import_too_deep", "import_inconsistent"),
)
_GZIP: Final = 16 + zlib.MAX_WBITS


class ImportRequest(StrictInput):
    """Documents of one conversation: plain, or `packed`, which is their JSON array in gzip and Base64.

    `uploads` are ids of uploads to this conversation, which hold the bytes of its files. `bundle` is the one that
    continues it. If the same import is sent again, `remembered` is that of the last answer.
    """

    documents: tuple[dict[str, Any], ...] = ()
    packed: str = ""
    uploads: tuple[str, ...] = ()
    bundle: Annotated[str, Meta(max_length=64)] = ""
    remembered: Annotated[int, Meta(ge=0, le=N_MAX)] = 0


def move_in(call: Call[Nothing, ImportRequest]) -> ImportStatus:
    """Import a conversation: its documents become its log. While the answer is `unfinished`, send the same again."""
    body = call.body
    until_s = call.ports.clock.monotonic_s() + PASS_S
    request = ImportInput(
        documents=_read_documents(body), uploads=body.uploads, bundle=body.bundle, remembered=body.remembered
    )
    return import_conversation(
        call.ports, call.principal, call.path["conversation"], request, until_s=until_s
    )


def _read_documents(body: ImportRequest) -> tuple[Document, ...]:
    """Return the documents of a body. Raises InputError, LimitError `import_too_large`."""
    if body.packed and body.documents:
        raise InputError("send the documents either plain or packed", code="import_not_packed")
    texts = _unpack(body.packed) if body.packed else [msgspec.json.encode(one) for one in body.documents]
    return tuple(read_document(text, f"documents[{at}]") for at, text in enumerate(texts))


def _unpack(packed: str) -> list[bytes]:
    """Return the JSON of each packed document. Raises InputError `import_not_packed`; LimitError `import_too_large`."""
    refused = InputError("`packed` is not a JSON array in gzip and Base64", code="import_not_packed")
    try:
        reader = zlib.decompressobj(_GZIP)
        text = reader.decompress(b64decode(packed, validate=True), UNPACKED_BYTES)
        if reader.unconsumed_tail:
            raise LimitError(
                f"the documents have more than {UNPACKED_BYTES} bytes",
                code="import_too_large",
                limit=UNPACKED_BYTES,
            )
        if sum(map(text.count, (b",", b"[", b"{"))) > VALUES_MAX:
            raise LimitError(
                f"the documents have more than {VALUES_MAX} values", code="import_too_large", limit=VALUES_MAX
            )
        return [bytes(one) for one in msgspec.json.decode(text, type=list[msgspec.Raw])]
    except (binascii.Error, zlib.error, msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise refused from error


ENDPOINTS: Final = (
    Endpoint(
        "POST",
        "/v1/conversations/{conversation}/import",
        move_in,
        body_bytes=BODY_BYTES,
        founds=True,
        codes={
            HTTPStatus.BAD_REQUEST: REFUSED,
            HTTPStatus.NOT_FOUND: ("not_found", "conversation_deleted"),
            HTTPStatus.CONFLICT: ("conversation_exists", "another_import"),
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE: ("import_too_large", "import_too_many_files"),
            HTTPStatus.TOO_MANY_REQUESTS: ("rate_limited",),
            HTTPStatus.FORBIDDEN: ("stopped",),
        },
    ),
)
