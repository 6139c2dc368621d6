"""Uploads: a slot for a file of a conversation, and the verdict on the posted file.

Source: docs/how-to/uploads.md.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

from stepline.api.endpoint import OWNED, Call, Endpoint, Nothing
from stepline.ingress.upload import UploadGrant, UploadRequest, UploadStatus, read_upload, start_upload


def begin_upload(call: Call[Nothing, UploadRequest]) -> UploadGrant:
    """Begin an upload: the grant is the address and the fields of a form for one file."""
    return start_upload(
        call.uploads(), call.principal, call.path["conversation"], call.body, key=call.idempotency_key
    )


def get_upload(call: Call[Nothing, None]) -> UploadStatus:
    """Get the state of an upload, with the reasons of a refusal."""
    return read_upload(call.uploads(), call.principal, call.path["conversation"], call.path["upload"])


_PATH: Final = "/v1/conversations/{conversation}/uploads"
ENDPOINTS: Final = (
    Endpoint(
        "POST",
        _PATH,
        begin_upload,
        status=HTTPStatus.CREATED,
        gives={"upload": "/upload"},
        codes={
            **OWNED,
            HTTPStatus.BAD_REQUEST: (
                "bad_conversation",
                "bad_attachment",
                "empty",
                "type_not_allowed",
                "content_type_mismatch",
                "upload_expired",
            ),
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE: ("size_limit", "limit_storage"),
            HTTPStatus.UNPROCESSABLE_ENTITY: ("idempotency_key_reused",),
            HTTPStatus.TOO_MANY_REQUESTS: ("rate_limited",),
            HTTPStatus.FORBIDDEN: ("stopped",),
        },
    ),
    Endpoint(
        "GET",
        f"{_PATH}/{{upload}}",
        get_upload,
        codes={**OWNED, HTTPStatus.BAD_REQUEST: ("bad_conversation", "bad_upload")},
    ),
)
