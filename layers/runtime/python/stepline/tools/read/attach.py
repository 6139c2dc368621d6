"""The view of a picture or a PDF: the file itself, or a smaller picture, at the end of the next requests.

A PDF can be crafted so that parsing it takes far more work than its size suggests. One pass reads only enough to know
that the file is complete and not encrypted, and how many pages it has; object streams are unpacked up to a limit.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, Final

from stepline.context.media import NEWEST, SHARE, choose_media
from stepline.errors import ToolError
from stepline.model.file.magic_bytes import MISMATCH, find_mismatch
from stepline.model.file.mime import PICTURES
from stepline.rendering.piece import Attached
from stepline.rendering.pieces_of_entry import DIGEST_CHARS
from stepline.tools.content import WHOLE_MAX_BYTES, PathContent
from stepline.tools.context import ToolContext, store_bytes
from stepline.tools.read.picture import Picture, fit_picture
from stepline.tools.read.shown_content import METADATA_ONLY, TOO_LARGE, ContentView, mark_large, not_shown

PAGE_TOKENS: Final = 4_100
"""Estimated tokens of a page: its text, and a picture of it. Source: platform.claude.com, "PDF support"."""
PAGES_MAX: Final = 100
"""Maximum pages of a request to a model with less than a million tokens. Source: the same page."""
UNPACKED_BYTES: Final = 32 * 1024 * 1024
"""Maximum bytes that are unpacked of one file."""
HEAD_BYTES: Final = 1_024
"""The bytes before a stream that are searched for its dictionary."""

_PAGE: Final = re.compile(rb"/Type\s{0,8}/Page(?![A-Za-z])")
_ENCRYPTED: Final = re.compile(rb"/Encrypt(?![A-Za-z])")
_STREAM: Final = re.compile(rb"endstream|stream\r?\n")


def count_pages(data: bytes) -> int:
    """Return the pages of a PDF. Raises ToolError `pdf_unreadable`, `pdf_encrypted`."""
    if b"startxref" not in data:
        raise ToolError("it ends before its table of contents: it is not whole", code="pdf_unreadable")
    if _ENCRYPTED.search(data):
        raise ToolError("it is encrypted, and a model takes no password", code="pdf_encrypted")
    pages = sum(1 for _ in _PAGE.finditer(data))
    pages += sum(1 for text in object_streams(data) for _ in _PAGE.finditer(text))
    if not pages:
        raise ToolError("no page is found in it", code="pdf_unreadable")
    return pages


def object_streams(data: bytes) -> Iterator[bytes]:
    """Yield the object streams, unpacked, up to the limit; a damaged one as far as it goes."""
    start, room = -1, UNPACKED_BYTES
    for found in _STREAM.finditer(data):
        if found[0] != b"endstream":
            head = data[max(0, found.start() - HEAD_BYTES) : found.start()].rpartition(b" obj")[2]
            start = found.end() if b"/ObjStm" in head else -1
        elif start >= 0 and room > 0:
            try:
                text = zlib.decompressobj().decompress(data[start : found.start()], room)
            except zlib.error:
                text = b""
            room, start = room - len(text), -1
            yield text


DOWNSCALED: Final = "image_downscaled_for_visible_context"
TOO_MANY_TOKENS: Final = "file_too_many_tokens"
TOO_MANY_FILES: Final = "read_too_many_files"


def show_media(content: PathContent, context: ToolContext, attached: Sequence[Attached]) -> ContentView:
    """Return the view of a picture or a PDF; `attached` is what the same call has attached already.

    Raises ToolError `body_missing`, and DependencyError.
    """
    view = view_media(content, context)
    return view if view.body is None else _checked(view, content, context, attached)


def view_media(content: PathContent, context: ToolContext) -> ContentView:
    """Return the view of a picture or a PDF, regardless of the rest of a request.

    Raises ToolError `body_missing`, and DependencyError.
    """
    caps = context.caps
    picture = content.mime in PICTURES
    if not (caps.max_image_bytes if picture else caps.max_doc_bytes):
        return not_shown(content)
    most = min(caps.max_bytes, WHOLE_MAX_BYTES, WHOLE_MAX_BYTES if picture else caps.max_doc_bytes)
    if content.size_bytes > most:
        return mark_large(content, most)
    data = content.data()
    if mismatch := find_mismatch(data, content.mime):
        return not_shown(content, f"{MISMATCH}: {mismatch}")
    try:
        return _show_picture(data, content, context) if picture else _show_pdf(data, content, context)
    except ToolError as refused:
        status = TOO_LARGE if refused.reason == "image_too_large" else METADATA_ONLY
        return not_shown(content, f"{refused.reason}: {refused}", status)


def attached_already(content: PathContent, context: ToolContext) -> bool:
    """Return True if the next request has this picture or PDF anyway."""
    chosen = choose_media(context.timeline.media, context.rules)
    return any(one.path == content.path and one.source == content.sha256[:DIGEST_CHARS] for one in chosen)


def attached_by(view: ContentView, content: PathContent) -> Attached:
    """Return the picture or document of a view, for the next requests."""
    assert view.body is not None
    return Attached(path=content.path, body=view.body, tokens=view.meta["media"]["tokens"])


def _show_picture(data: bytes, content: PathContent, context: ToolContext) -> ContentView:
    # A provider's limit counts base64, which takes four bytes for three.
    picture = fit_picture(data, content.mime, max_bytes=context.caps.max_image_bytes * 3 // 4)
    extent, scaled = f"{picture.width}x{picture.height}", picture.scaled
    about: dict[str, Any] = {"tokens": picture.tokens, "extent": extent}
    row: dict[str, Any] = {"visible_tokens": picture.tokens, "image_view": _image_view(picture, len(data))}
    if scaled:
        about |= {"original": "{}x{}".format(*picture.original), "animated": picture.animated}
        row["status"] = DOWNSCALED
    own = picture.data is data and not content.conversation
    body = content.body if own else store_bytes(picture.data, picture.mime, context)
    return ContentView(row=row, body=body, whole=not scaled, meta={"media": about})


def _image_view(picture: Picture, size_bytes: int) -> dict[str, Any]:
    sizes = {
        "original": (size_bytes, *picture.original),
        "visible": (len(picture.data), picture.width, picture.height),
    }
    view: dict[str, Any] = {
        name: dict(zip(("bytes", "width", "height"), size, strict=True)) for name, size in sizes.items()
    }
    return view | ({"animated": True, "visible_frame": 1} if picture.animated else {})


def _show_pdf(data: bytes, content: PathContent, context: ToolContext) -> ContentView:
    pages = count_pages(data)
    if pages > PAGES_MAX:
        raise ToolError(f"it has {pages} pages, and a request has {PAGES_MAX}", code="pdf_too_many_pages")
    about = {"tokens": pages * PAGE_TOKENS, "extent": f"{pages} {'page' if pages == 1 else 'pages'}"}
    body = store_bytes(data, content.mime, context) if content.conversation else content.body
    row = {"visible_tokens": about["tokens"], "pages": pages}
    return ContentView(row=row, body=body, whole=True, meta={"media": about})


def _checked(
    view: ContentView, content: PathContent, context: ToolContext, attached: Sequence[Attached]
) -> ContentView:
    """Return the view, or the refusal of one that does not fit into the next request together with those `attached`."""
    one = attached_by(view, content)
    chosen = choose_media([*attached, one], context.rules)
    if len(chosen) == len({file.body.sha256 for file in (*attached, one)}):
        return view
    if not choose_media([one], context.rules):
        limit = int(context.rules.budget * SHARE)
        flaw = f"{TOO_MANY_TOKENS}: about {one.tokens}, and {limit} are left for files; a program can take a part of it"
        return not_shown(content, flaw, TOO_LARGE)
    return not_shown(
        content, f"{TOO_MANY_FILES}: a request has {NEWEST}, and as many as fit; read it in another round"
    )
