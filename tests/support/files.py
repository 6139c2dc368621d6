"""Pictures and PDFs, valid and damaged."""

from __future__ import annotations

import hashlib
import io
import zlib
from typing import Any

from msgspec.structs import replace
from PIL import Image

from stepline.model.block import Body, Produced
from stepline.ports.model import Media
from tests.support.pdf_forms import HEAD, packed, plain

PNG, JPEG, WEBP, GIF, PDF = "image/png", "image/jpeg", "image/webp", "image/gif", "application/pdf"
FORMATS = {PNG: "PNG", JPEG: "JPEG", WEBP: "WEBP", GIF: "GIF"}


def picture(
    mime: str = PNG,
    size: tuple[int, int] = (64, 48),
    *,
    mode: str = "RGB",
    color: tuple[int, ...] = (10, 200, 30),
    **saved: Any,
) -> bytes:
    """Return a picture of one colour."""
    out = io.BytesIO()
    Image.new(mode, size, color).save(out, FORMATS[mime], **saved)
    return out.getvalue()


def media(path: str, data: bytes, mime: str) -> Media:
    """Return a file as a part of a request."""
    body = Body(key="out/k", sha256=hashlib.sha256(data).hexdigest(), size_bytes=len(data), mime=mime)
    return Media(path=path, body=body, tokens=100, data=data)


def read_of(view: Produced, *, width: int = 0) -> tuple[Produced, ...]:
    """Return the result of a read; with a width its view is a picture, and another width is another one."""
    status = Produced(text='{"paths":[]}')
    if not width:
        return status, view
    body = Body(key=f"out/{width}", sha256=f"{width:064}", size_bytes=width * 10, mime=PNG)
    about = {"tokens": width, "extent": f"{width}x480"}
    return status, replace(view, text="", body=body, mime=PNG, meta={**view.meta, "media": about})


def noise(mime: str, size: tuple[int, int]) -> bytes:
    """Return a picture that no format makes much smaller than its pixels."""
    out = io.BytesIO()
    Image.effect_noise(size, 90).convert("RGB").save(out, FORMATS[mime])
    return out.getvalue()


def film(mime: str, frames: int = 3) -> bytes:
    """Return a picture of several frames."""
    first, *rest = [Image.new("RGB", (32, 32), (80 * n, 0, 0)) for n in range(frames)]
    out = io.BytesIO()
    first.save(out, FORMATS[mime], save_all=True, append_images=rest)
    return out.getvalue()


def bomb(width: int = 40_000, height: int = 40_000) -> bytes:
    """Return a small PNG that claims to have very many pixels."""
    whole = picture(PNG)
    header = width.to_bytes(4) + height.to_bytes(4) + whole[24:29]
    return whole[:16] + header + zlib.crc32(b"IHDR" + header).to_bytes(4) + whole[33:]


def pdf(pages: int = 1, *, is_packed: bool = False, encrypted: bool = False) -> bytes:
    """Return a PDF of empty pages; `is_packed`: its objects are in an object stream."""
    kids = " ".join(f"{n + 30} 0 R" for n in range(pages))
    leaves = {n + 30: "<< /Type /Page /Parent 2 0 R /MediaBox [ 0 0 72 72 ] >>" for n in range(pages)}
    objects = {
        1: "<< /Type /Catalog /Pages 2 0 R >>",
        2: f"<< /Type /Pages /Kids [ {kids} ] /Count {pages} >>",
        **leaves,
    }
    start = HEAD + b"%" + b"-" * 500 + b"\n"  # a program's PDF that is shorter counts as broken
    if is_packed:
        return packed(objects, start=start)
    if encrypted:
        keys = f"/O <{'00' * 32}> /U <{'00' * 32}>"
        objects[5] = f"<< /Filter /Standard /V 1 /R 2 /P -4 {keys} >>"
    return plain(objects, start=start, trailer="/Encrypt 5 0 R /ID [ <00> <00> ]" if encrypted else "")


FILES = (media("fi:turn_1.outputs/a.png", picture(), PNG), media("fi:turn_1.outputs/a.pdf", pdf(), PDF))
