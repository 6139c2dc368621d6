"""The view of a picture or a PDF: the file itself, or a smaller picture, for the end of the next requests."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Final

from stepline.context.media import NEWEST, SHARE, choose_media
from stepline.errors import ToolError
from stepline.model.block import Body
from stepline.model.file.magic_bytes import MISMATCH, find_mismatch
from stepline.model.file.mime import PICTURES
from stepline.model.path import out_key
from stepline.rendering.piece import Attached
from stepline.rendering.pieces_of_entry import DIGEST_CHARS
from stepline.tools.content import WHOLE_MAX_BYTES, Content
from stepline.tools.context import ToolContext
from stepline.tools.read.pdf import PAGE_TOKENS, PAGES_MAX, count_pages
from stepline.tools.read.picture import Picture, fit_picture
from stepline.tools.read.shown_content import METADATA_ONLY, TOO_LARGE, View, mark_large, not_shown

DOWNSCALED: Final = "image_downscaled_for_visible_context"
TOO_MANY_TOKENS: Final = "file_too_many_tokens"
TOO_MANY_FILES: Final = "read_too_many_files"


def show_media(content: Content, context: ToolContext, taken: Sequence[Attached]) -> View:
    """Return the view of a picture or a PDF; `taken` is what the same call has attached already.

    Raises ToolError `body_missing`, and DependencyError.
    """
    view = view_media(content, context)
    return view if view.body is None else _checked(view, content, context, taken)


def view_media(content: Content, context: ToolContext) -> View:
    """Return the view of a picture or a PDF, whatever else a request has.

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


def attached_already(content: Content, context: ToolContext) -> bool:
    """Return True if the next request has this picture or PDF anyway."""
    chosen = choose_media(context.timeline.media, context.rules)
    return any(one.path == content.path and one.source == content.sha256[:DIGEST_CHARS] for one in chosen)


def attached_by(view: View, content: Content) -> Attached:
    """Return the picture or document of a view, for the next requests."""
    assert view.body is not None
    return Attached(path=content.path, body=view.body, tokens=view.meta["media"]["tokens"])


def _show_picture(data: bytes, content: Content, context: ToolContext) -> View:
    # A provider's limit counts base64, which takes four bytes for three.
    picture = fit_picture(data, content.mime, max_bytes=context.caps.max_image_bytes * 3 // 4)
    extent, scaled = f"{picture.width}x{picture.height}", picture.scaled
    about: dict[str, Any] = {"tokens": picture.tokens, "extent": extent}
    row: dict[str, Any] = {"visible_tokens": picture.tokens, "image_view": _image_view(picture, len(data))}
    if scaled:
        about |= {"original": "{}x{}".format(*picture.original), "animated": picture.animated}
        row["status"] = DOWNSCALED
    own = picture.data is data and not content.conversation
    body = _body(picture.data, picture.mime, content, None if own else context)
    return View(row=row, body=body, whole=not scaled, meta={"media": about})


def _image_view(picture: Picture, size_bytes: int) -> dict[str, Any]:
    sizes = {
        "original": (size_bytes, *picture.original),
        "visible": (len(picture.data), picture.width, picture.height),
    }
    view: dict[str, Any] = {
        name: dict(zip(("bytes", "width", "height"), size, strict=True)) for name, size in sizes.items()
    }
    return view | ({"animated": True, "visible_frame": 1} if picture.animated else {})


def _show_pdf(data: bytes, content: Content, context: ToolContext) -> View:
    pages = count_pages(data)
    if pages > PAGES_MAX:
        raise ToolError(f"it has {pages} pages, and a request has {PAGES_MAX}", code="pdf_too_many_pages")
    about = {"tokens": pages * PAGE_TOKENS, "extent": f"{pages} {'page' if pages == 1 else 'pages'}"}
    body = _body(data, content.mime, content, context if content.conversation else None)
    row = {"visible_tokens": about["tokens"], "pages": pages}
    return View(row=row, body=body, whole=True, meta={"media": about})


def _body(data: bytes, mime: str, content: Content, context: ToolContext | None) -> Body:
    """Return the place of bytes: the content's own, or with a `context` one of this turn, where they are put."""
    digest = hashlib.sha256(data).hexdigest()
    assert content.body is not None
    key = content.body.key
    if context is not None:
        key = out_key(context.lane, context.turn, digest)
        context.artifacts.put(key, data, mime=mime)
    return Body(key=key, sha256=digest, size_bytes=len(data), mime=mime)


def _checked(view: View, content: Content, context: ToolContext, taken: Sequence[Attached]) -> View:
    """Return the view, or the refusal of one that the next request has no room for beside those `taken`."""
    one = attached_by(view, content)
    chosen = choose_media([*taken, one], context.rules)
    if len(chosen) == len({file.body.sha256 for file in (*taken, one)}):
        return view
    if not choose_media([one], context.rules):
        limit = int(context.rules.budget * SHARE)
        flaw = f"{TOO_MANY_TOKENS}: about {one.tokens}, and {limit} are left for files; a program can take a part of it"
        return not_shown(content, flaw, TOO_LARGE)
    return not_shown(
        content, f"{TOO_MANY_FILES}: a request has {NEWEST}, and as many as fit; read it in another round"
    )
