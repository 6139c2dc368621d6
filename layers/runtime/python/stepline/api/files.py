"""Files of a conversation: those that its user may read, and links to their bytes.

Source: docs/concepts/http-api.md#files.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any, Final, Literal

from msgspec import Meta

from stepline.api.endpoint import OWNED, Call, Endpoint, Nothing, StrictInput
from stepline.errors import InputError, PathError
from stepline.model.base import Value
from stepline.model.file.resource_name import ResourceName
from stepline.model.file.served_form import Disposition
from stepline.model.path import AttachmentPath, FilePath, parse_path
from stepline.model.traversal import PATH_TEXT_MAX_CHARS
from stepline.timeline.hosted_file import LINK_S, HostedFile, find_hosted, hosted_files

TURNS_AT_ONCE: Final = 50
"""The most turns that one page reads."""


class FileQuery(StrictInput):
    """The files of one turn, or a page: at least `limit` of them, after the cursor `after`."""

    turn: Annotated[str, Meta(max_length=80)] = ""
    after: Annotated[str, Meta(max_length=80)] = ""
    limit: Annotated[int, Meta(ge=1, le=200)] = 50


class FileRow(Value, omit_defaults=False):
    """A file at its newest version, from `at` (ISO-8601, UTC). `versions` of this path were written in its turn.

    `rn` is its resource name; `call_id` is "" for a file from a user or a bundle.
    """

    logical_path: str
    filename: str
    mime: str
    size_bytes: int
    sha256: str
    turn_id: str
    at: str
    versions: int
    origin: Literal["user", "agent"]
    call_id: str
    rn: str


class FileList(Value, omit_defaults=False):
    """Files, newest turn first; `next` is the cursor of the next page, "" on the last one."""

    items: tuple[FileRow, ...]
    next: str


class LinkRequest(StrictInput):
    """The logical path of a file, `fi:…`; a file that a browser must not show is always downloaded."""

    path: Annotated[str, Meta(min_length=1, max_length=PATH_TEXT_MAX_CHARS)]
    disposition: Disposition = "download"


class FileLink(Value, omit_defaults=False):
    """An address on another host that gives the file to any client that has it. Secret."""

    url: str
    expires_in_s: int
    mime: str
    size_bytes: int
    sha256: str


def list_files(call: Call[FileQuery, None]) -> FileList:
    """List the files of the conversation that its user may read, newest turn first."""
    query, timeline = call.query, call.timeline()
    turns = [turn for turn in timeline.turns if query.turn in ("", turn)]
    if query.after:
        if query.after not in turns:
            raise InputError("this cursor does not belong to this list", code="bad_cursor")
        turns = turns[: turns.index(query.after)]
    rows: list[FileRow] = []
    looked_at = 0
    while looked_at < min(len(turns), TURNS_AT_ONCE) and len(rows) < query.limit:
        looked_at += 1
        found = hosted_files(timeline.lane, timeline.turn_blocks(turns[-looked_at]))
        rows += [make_file_row(call, file) for file in reversed(found)]
    more = looked_at < len(turns)
    return FileList(items=tuple(rows), next=turns[-looked_at] if more else "")


def create_link(call: Call[Nothing, LinkRequest]) -> FileLink:
    """Create a short-lived link to the bytes of a file."""
    try:
        path = parse_path(call.body.path)
    except PathError as error:
        raise InputError(f"this is not a path: {error}", code="bad_path") from error
    if not isinstance(path, FilePath | AttachmentPath):
        raise InputError("this is not the path of a file", code="bad_path")
    file = find_file(call, path)
    return FileLink(
        url=link_to(call, file, call.body.disposition),
        expires_in_s=LINK_S,
        mime=file.body.mime,
        size_bytes=file.body.size_bytes,
        sha256=file.body.sha256,
    )


def find_file(call: Call[Any, Any], path: FilePath | AttachmentPath) -> HostedFile:
    """Return a file of the caller's conversation. Raises NotFoundError."""
    timeline = call.timeline()
    return find_hosted(timeline.lane, timeline, path)


def link_to(call: Call[Any, Any], file: HostedFile, wanted: Disposition) -> str:
    """Return a short-lived address of a file's bytes. Secret."""
    return call.ports.grants.serve(file.body.key, file.form(wanted), ttl_s=LINK_S).url


def make_file_row(call: Call[Any, Any], file: HostedFile) -> FileRow:
    """Return the row of a file of the conversation in the path."""
    body = file.body
    return FileRow(
        logical_path=str(file.path),
        filename=file.filename,
        mime=body.mime,
        size_bytes=body.size_bytes,
        sha256=body.sha256,
        turn_id=file.path.turn,
        at=file.at,
        versions=file.versions,
        origin=file.origin,
        call_id=file.call_id,
        rn=str(ResourceName(lane=call.lane(), user=call.principal.user, path=file.path)),
    )


_CONVERSATION: Final = "/v1/conversations/{conversation}"

ENDPOINTS: Final = (
    Endpoint(
        "GET",
        f"{_CONVERSATION}/files",
        list_files,
        codes={**OWNED, HTTPStatus.BAD_REQUEST: ("bad_conversation", "bad_cursor")},
    ),
    Endpoint(
        "POST",
        f"{_CONVERSATION}/file-links",
        create_link,
        codes={**OWNED, HTTPStatus.BAD_REQUEST: ("bad_conversation", "bad_path")},
    ),
)
