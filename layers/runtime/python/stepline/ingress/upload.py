"""Uploads: a client requests a slot, posts one file to it, and receives the verdict.

    waiting   → checking   the bucket reports that the file has arrived
    checking  → ready      it is stored under its content's hash, and may be attached
    checking  → refused    with a code, and the codes of the rules; nothing else changes
    waiting   → refused    `upload_expired`, nothing was posted in time

The row is authoritative: its first final state is permanent. The file is stored before the row says so, and leaves
quarantine after that. Every step is idempotent. Source: docs/how-to/uploads.md.
"""

from __future__ import annotations

import hashlib
import secrets
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from stepline.delivery.allowance import read_allowance
from stepline.delivery.settle_account import charge_upload, settle_storage
from stepline.errors import InputError, LimitError, NotFoundError
from stepline.events.types import UploadedFile, UploadRefused, UploadTaken
from stepline.ingress.allow import check_rate, check_stopped, claim_storage
from stepline.ingress.file_checks import FileChecks, living_tail
from stepline.log.bindings import Ports
from stepline.log.fence import DELETED, check_owner
from stepline.log.owned_tail import refuse_absent
from stepline.model.base import Value
from stepline.model.batch import Batch
from stepline.model.file.attachment import Attachment, attachment_key
from stepline.model.file.charset import with_charset
from stepline.model.file.file_verdict import FileVerdict, reject_file
from stepline.model.file.upload_slot import (
    CHECK_S,
    LATE_S,
    Upload,
    UploadState,
    check_upload_id,
    quarantine_key,
)
from stepline.model.ids import Lane, make_lane, utc
from stepline.model.tenancy.storage_hold import WantedHold
from stepline.model.wire.event import EventData, NoticeFrame, encode_frame, make_event
from stepline.ports.artifacts import Uploads
from stepline.ports.channel import Principal
from stepline.ports.upload.quarantine import Quarantine
from stepline.preflight.judge_file import agreed_mime

SLOT_S: Final = 600
"""How long a slot can be posted to; no longer than credentials of a function last."""
HASH: Final = "hash_mismatch"


@dataclass(frozen=True, kw_only=True)
class UploadPorts(FileChecks):
    """The ports of uploads in addition to the loop's."""

    ports: Ports
    quarantine: Quarantine

    @property
    def uploads(self) -> Uploads:
        """The rows of uploads."""
        return self.ports.uploads


class UploadRequest(Value, forbid_unknown_fields=True):
    """One file, as the client describes it; without a type, its name determines the type."""

    filename: str
    size_bytes: int
    sha256: str
    mime: str = ""


class UploadGrant(Value):
    """A slot: the address of a form, its fields, and its lifetime. The file is the form's last field. Secret."""

    upload: str
    url: str
    fields: Mapping[str, str]
    expires_in_s: int


class UploadStatus(Value):
    """The state of an upload, which a message may name once it is `ready`. `file` is then the attachment."""

    state: UploadState
    file: Attachment | None = None
    reason: str = ""
    reasons: tuple[str, ...] = ()
    message: str = ""


def start_upload(
    desk: UploadPorts, principal: Principal, conversation: str, request: UploadRequest, *, key: str = ""
) -> UploadGrant:
    """Return a slot for one file of the user's conversation, or of one that has not begun.

    The same file under the same idempotency `key` gets the same slot, as long as it can be posted to.

    Raises:
        InputError: `bad_attachment`, `empty`, `type_not_allowed`, `content_type_mismatch`, `bad_conversation`;
            `idempotency_key_reused`, the key belongs to another file; `upload_expired`, to a slot that has ended.
        LimitError: `size_limit`, `rate_limited`, `limit_storage`, `stopped`.
        NotFoundError: the conversation belongs to another user.
        DependencyError: a service does not answer.
    """
    ports, lane = desk.ports, make_lane(principal.tenant, principal.project, conversation)
    allowance = check_rate(ports, principal)
    file = Attachment(
        filename=request.filename,
        mime=agreed_mime(request.filename, request.mime),
        size_bytes=request.size_bytes,
        sha256=request.sha256,
    )
    desk.check_claim(file)
    check_owner(living_tail(ports, lane), principal.user)
    check_stopped(allowance)
    upload_id, now_s = _name_upload(lane, principal.user, key), int(ports.clock.now().timestamp())
    upload = desk.uploads.get(lane, upload_id) if key else None
    if upload is None:
        upload = Upload(upload_id=upload_id, user=principal.user, file=file, until_s=now_s + SLOT_S)
        wanted = _wanted(upload, upload.until_s + LATE_S)
        upload = replace(upload, holds=claim_storage(ports, lane, allowance, wanted))
        desk.uploads.begin(lane, upload)
    elif replace(upload.file, mime=upload.file.mime.partition(";")[0]) != file:
        raise InputError("this key was used for another file", code="idempotency_key_reused")
    left_s = upload.until_s - now_s
    if left_s <= 0:
        raise InputError("the slot of this key has expired", code="upload_expired")
    grant = desk.quarantine.allow(
        quarantine_key(lane, upload_id), mime=file.mime, size_bytes=file.size_bytes, ttl_s=left_s
    )
    return UploadGrant(upload=upload_id, url=grant.url, fields=grant.fields, expires_in_s=left_s)


def _name_upload(lane: Lane, user: str, key: str) -> str:
    if not key:
        return f"up_{secrets.token_hex(16)}"
    return f"up_{hashlib.sha256(chr(0).join((lane.key(), user, key)).encode()).hexdigest()[:32]}"


def read_upload(desk: UploadPorts, principal: Principal, conversation: str, upload_id: str) -> UploadStatus:
    """Return the state of the user's upload.

    Raises:
        InputError: `bad_upload`, `bad_conversation`.
        NotFoundError: the conversation has no such upload, it is another user's, or deleted (`conversation_deleted`).
        DependencyError: the table does not answer.
    """
    lane = make_lane(principal.tenant, principal.project, conversation)
    upload = desk.uploads.get(lane, check_upload_id(upload_id))
    if upload is None or upload.user != principal.user:
        gone = refuse_absent(desk.ports, lane, principal.user)
        raise gone if gone.reason == DELETED else NotFoundError("no such upload")
    check_owner(living_tail(desk.ports, lane), principal.user)
    if upload.has_expired(desk.ports.clock.now().timestamp()):
        verdict = FileVerdict(
            code="upload_expired", message="no file was posted in time, or it was never checked"
        )
        upload = desk.uploads.settle(lane, _settled(upload, verdict))
    return UploadStatus(
        state=upload.state,
        file=upload.file if upload.state == "ready" else None,
        reason=upload.code,
        reasons=upload.reasons,
        message=upload.message,
    )


def judge_upload(desk: UploadPorts, lane: Lane, upload_id: str) -> Upload | None:
    """Judge the file of a slot, store it if it is accepted, and notify the listeners.

    Return None for an unknown slot, or if the conversation was deleted meanwhile.

    An accepted file counts towards the storage of its user, attached or not; the verdict releases the hold of its slot.
    A repeated call keeps the first verdict. Raises DependencyError.
    """
    key = quarantine_key(lane, upload_id)
    upload = desk.uploads.get(lane, upload_id)
    if upload is None:
        desk.quarantine.remove(key)
        return None
    if not upload.is_final:
        upload = desk.uploads.settle(lane, replace(upload, state="checking"))
    try:
        tail = living_tail(desk.ports, lane)
    except NotFoundError:
        desk.quarantine.remove(key)
        return None
    if not upload.is_final:
        upload = desk.uploads.settle(lane, _settled(upload, _judge(desk, lane, upload, tail)))
        if upload.state == "ready" and not upload.holds:
            charge_upload(desk.ports, lane, upload.user, upload.file.size_bytes)
    if upload.holds:
        settle_storage(desk.ports, lane, upload.user, upload_id, taken=upload.state == "ready")
    desk.quarantine.remove(key)
    _publish_verdict(desk.ports, lane, upload, tail)
    return upload


def _judge(desk: UploadPorts, lane: Lane, upload: Upload, tail: Batch) -> FileVerdict:
    """Return the verdict on the posted file, and store the file if it is accepted."""
    try:
        check_owner(tail, upload.user)
        if upload.holds:
            _keep_hold(desk.ports, lane, upload)
    except (NotFoundError, InputError, LimitError) as error:
        # Another user or an import began the conversation meanwhile; or the hold expired, and the storage is full now.
        return FileVerdict(code=error.reason, message=str(error))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        verdict = _judge_bytes(desk, quarantine_key(lane, upload.upload_id), upload.file, path)
        if verdict.accepted:
            body = path.read_bytes()
            desk.ports.artifacts.put(attachment_key(lane, upload.file.sha256), body, mime=upload.file.mime)
        return verdict


def _keep_hold(ports: Ports, lane: Lane, upload: Upload) -> None:
    """Hold the storage of a file while it is checked. Raises LimitError `limit_storage`, DependencyError."""
    allowance = read_allowance(ports, lane.tenant, lane.project, upload.user)
    claim_storage(ports, lane, allowance, _wanted(upload, int(ports.clock.now().timestamp()) + CHECK_S))


def _wanted(upload: Upload, until_s: int) -> WantedHold:
    return WantedHold(upload_id=upload.upload_id, size_bytes=upload.file.size_bytes, until_s=until_s)


def _judge_bytes(desk: UploadPorts, key: str, file: Attachment, path: Path) -> FileVerdict:
    found_bytes = desk.quarantine.fetch(key, path, max_bytes=file.size_bytes)
    if found_bytes is None:
        return FileVerdict(code="upload_missing", message="no posted file was found")
    with path.open("rb") as opened:
        found = hashlib.file_digest(opened, "sha256").hexdigest()
    if (found_bytes, found) != (file.size_bytes, file.sha256):
        return reject_file(HASH, "its size or its hash differs from the stated one")
    return desk.judge(path, key, file)


def _settled(upload: Upload, verdict: FileVerdict) -> Upload:
    state: UploadState = "ready" if verdict.accepted else "refused"
    file = replace(upload.file, mime=with_charset(upload.file.mime, verdict.charset))
    return replace(
        upload, state=state, file=file, code=verdict.code, reasons=verdict.reasons, message=verdict.message
    )


def _publish_verdict(ports: Ports, lane: Lane, upload: Upload, tail: Batch) -> None:
    """Send the verdict to the listeners of the conversation, if its owner uploaded the file."""
    if tail.n and tail.state.owner != upload.user:
        return
    event = make_event(
        verdict_event(upload), utc(ports.clock.now()), "", "completed" if upload.state == "ready" else "error"
    )
    sifted = ports.of(tail.state.bundle).outward.sift([event])
    frames = [encode_frame(NoticeFrame(conversation=lane.conversation, event=one)) for one in sifted.events]
    if frames:
        ports.broadcast.send(lane, frames)


def verdict_event(upload: Upload) -> EventData:
    """Return the client event of a verdict."""
    file = upload.file
    if upload.state == "ready":
        item = UploadedFile(
            filename=file.filename, mime=file.mime, size_bytes=file.size_bytes, sha256=file.sha256
        )
        return UploadTaken(upload=upload.upload_id, count=1, items=[item])
    return UploadRefused(
        upload=upload.upload_id,
        reason=upload.code,
        message=upload.message,
        filename=file.filename,
        mime=file.mime,
        size_bytes=file.size_bytes,
        show_in_timeline=True,
        reasons=list(upload.reasons),
    )
