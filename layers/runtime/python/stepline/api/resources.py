"""Resources: files by their resource names, and by addresses that lead to a link.

Another user's file is not found, whichever part of a name or an address says so.
Source: docs/concepts/http-api.md#files.
"""

from __future__ import annotations

from dataclasses import replace
from http import HTTPStatus
from typing import Annotated, Any, Final, Literal
from urllib.parse import quote

from msgspec import Meta

from stepline.api.endpoint import OWNED, Call, Endpoint, Nothing, Redirect, StrictInput
from stepline.api.files import find_file, link_to
from stepline.errors import NotFoundError, PathError
from stepline.log.spill import fetch_body
from stepline.model.base import Value
from stepline.model.file.charset import decode_whole
from stepline.model.file.mime import is_text
from stepline.model.file.resource_name import NAME_MAX_CHARS, ResourceName, parse_resource_name
from stepline.model.path import FilePath, from_physical
from stepline.timeline.hosted_file import LINK_S, HostedFile

TEXT_MAX_BYTES: Final = 512 * 1024
"""The longest text that an answer contains."""


class NamedResource(StrictInput):
    """A resource name."""

    rn: Annotated[str, Meta(max_length=NAME_MAX_CHARS)]


class ResourceFacts(Value, omit_defaults=False):
    """Facts of a file. `uri` is its address here, which leads to a new link each time, valid `expires_in_s`. Secret."""

    uri: str
    filename: str
    mime: str
    size_bytes: int
    sha256: str
    is_binary: bool
    preview_url: str
    download_url: str
    expires_in_s: int


class Resource(Value, omit_defaults=False):
    """A file. `content` is its text, "" for one that is binary or longer than 512 KiB."""

    rn: str
    content_type: Literal["file"]
    content: str
    metadata: ResourceFacts


def read_resource(call: Call[Nothing, NamedResource]) -> Resource:
    """Read a file by its resource name: its text, and links to its bytes."""
    name, here = parse_resource_name(call.body.rn), call.principal
    lane = name.lane
    if (lane.tenant, lane.project, name.user) != (here.tenant, here.project, here.user):
        raise NotFoundError("no such conversation")
    at = replace(call, path={"conversation": lane.conversation})
    file = find_file(at, name.path)
    text = is_text(file.body.mime)
    shown = text and file.body.size_bytes <= TEXT_MAX_BYTES
    body = fetch_body(call.ports.artifacts, file.body.key, file.body.sha256) if shown else b""
    return Resource(
        rn=call.body.rn,
        content_type="file",
        content=decode_whole(body, file.body.mime),
        metadata=ResourceFacts(
            uri=f"{address_of(name)}/download",
            filename=file.filename,
            mime=file.body.mime,
            size_bytes=file.body.size_bytes,
            sha256=file.body.sha256,
            is_binary=not text,
            preview_url=link_to(call, file, "preview"),
            download_url=link_to(call, file, "download"),
            expires_in_s=LINK_S,
        ),
    )


def open_attachment(call: Call[Nothing, None]) -> Redirect:
    """Redirect to a received file: `path` is its name, or `external/<kind>/attachments/<message>/<name>`."""
    path = call.path["path"]
    return _lead(call, path if path.startswith("external/") else f"attachments/{path}")


def open_produced(call: Call[Nothing, None]) -> Redirect:
    """Redirect to a file that the agent offered: `kind` is `files` or `outputs`, `path` is below it."""
    return _lead(call, f"{call.path['kind']}/{call.path['path']}")


def address_of(name: ResourceName) -> str:
    """Return the address of a file on the HTTP API, without its last part, `preview` or `download`."""
    lane, (kind, _, rest) = name.lane, name.tail.partition("/")
    is_produced = isinstance(name.path, FilePath)
    tail = (
        f"exec/{name.tail}" if is_produced else f"attachment/{rest if kind == 'attachments' else name.tail}"
    )
    owner = quote(name.user, safe="")
    place = f"/resources/{lane.tenant}/{lane.project}/conv/{owner}/{lane.conversation}"
    return f"{place}/turn/{name.path.turn}/{quote(tail)}"


def _lead(call: Call[Nothing, None], tail: str) -> Redirect:
    match call.path["disposition"]:
        case "preview" | "download" as wanted:
            return Redirect(url=link_to(call, _find(call, tail), wanted))
        case _:
            raise NotFoundError("there is nothing here")


def _find(call: Call[Any, Any], tail: str) -> HostedFile:
    """Return the file at a path below the turn of an address. Raises NotFoundError."""
    if call.path["owner"] != call.principal.user:
        raise NotFoundError("no such conversation")
    try:
        path = from_physical(f"{call.path['turn']}/{tail}")
    except PathError as error:
        raise NotFoundError("no such file") from error
    return find_file(call, path)


_TURN: Final = "/resources/{tenant}/{project}/conv/{owner}/{conversation}/turn/{turn}"
_ADDRESS: Final = {**OWNED, HTTPStatus.BAD_REQUEST: ("bad_conversation",)}

ENDPOINTS: Final = (
    Endpoint(
        "POST",
        "/resources/by-rn",
        read_resource,
        codes={
            **OWNED,
            HTTPStatus.BAD_REQUEST: ("bad_rn",),
            HTTPStatus.SERVICE_UNAVAILABLE: ("body_missing", "body_mismatch"),
        },
    ),
    Endpoint("GET", f"{_TURN}/attachment/{{path+}}/{{disposition}}", open_attachment, codes=_ADDRESS),
    Endpoint("GET", f"{_TURN}/exec/{{kind}}/{{path+}}/{{disposition}}", open_produced, codes=_ADDRESS),
)
