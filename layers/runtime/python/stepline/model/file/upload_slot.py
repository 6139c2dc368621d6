"""An upload: a slot for one file, which a client posts to quarantine, and the verdict about it."""

from __future__ import annotations

import re
from typing import Final, Literal, TypeAlias

from stepline.errors import InputError
from stepline.model.base import Value
from stepline.model.file.attachment import UPLOAD_ID, Attachment
from stepline.model.ids import SEGMENT, Lane

UploadState: TypeAlias = Literal["waiting", "checking", "ready", "refused"]

QUARANTINE: Final = "quarantine"
LATE_S: Final = 60
"""How late the bucket may report a file that was posted at the last moment."""
CHECK_S: Final = 900
"""How long a check may take, including all its retries."""
_NAME: Final = SEGMENT.pattern
_KEY: Final = re.compile(rf"{QUARANTINE}/({_NAME})/({_NAME})/({_NAME})/({UPLOAD_ID.pattern})")


class Upload(Value):
    """One slot. `until_s` is when posting ends, in epoch seconds. `code` and `reasons` say why a file was refused.

    `holds` says that its bytes are held in the storage of its user.
    """

    upload_id: str
    user: str
    file: Attachment
    until_s: int
    holds: bool = False
    state: UploadState = "waiting"
    code: str = ""
    reasons: tuple[str, ...] = ()
    message: str = ""

    @property
    def is_final(self) -> bool:
        """True if the verdict is final."""
        return self.state in ("ready", "refused")

    def has_expired(self, now_s: float) -> bool:
        """Return True if there is no verdict, and none is expected any more."""
        waits_s = LATE_S if self.state == "waiting" else CHECK_S
        return not self.is_final and now_s > self.until_s + waits_s


def check_upload_id(text: str) -> str:
    """Return `text` if it is an id of an upload. Raises InputError `bad_upload`."""
    if not UPLOAD_ID.fullmatch(text):
        raise InputError("an upload is named as its grant names it", code="bad_upload")
    return text


def quarantine_key(lane: Lane, upload_id: str) -> str:
    """Return the object key of a slot. Raises InputError `bad_upload`."""
    return f"{QUARANTINE}/{lane.prefix()}/{check_upload_id(upload_id)}"


def read_quarantine_key(key: str) -> tuple[Lane, str] | None:
    """Return the conversation and the id of a slot's key; None for another key."""
    found = _KEY.fullmatch(key)
    if found is None:
        return None
    tenant, project, conversation, upload_id = found.groups()
    return Lane(tenant=tenant, project=project, conversation=conversation), upload_id
