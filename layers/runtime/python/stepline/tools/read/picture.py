"""Pictures for a model: decoded before they are attached, and re-encoded if they are large or hold more than pixels.

The result has the pixels that a viewer shows, upright and in sRGB of 8 bits, and nothing else of the file: no location,
no camera, no comment. A picture is sent with every request that has it, so it is no larger than the size at which most
models see it. The library that decodes pictures is loaded by the first one.
Source: docs/adr/0010-pictures.md.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from stepline.errors import ToolError
from stepline.model.base import Value

if TYPE_CHECKING:
    from PIL import Image

EDGE_PX: Final = 1_568
"""The longer edge that most models see. Source: platform.claude.com, "Vision"."""
PIXELS_MAX: Final = 25_000_000
"""Maximum pixels that are decoded: four bytes each, in a function of 512 MiB."""
PATCH_PX: Final = 28
"""The edge of the square that is one token. Source: platform.claude.com, "Vision"."""
QUALITY: Final = 85
PROFILE_MAX_BYTES: Final = 4 * 1024 * 1024
SMALLEST_PX: Final = 64

_FORMATS: Final = {"image/png": "PNG", "image/jpeg": "JPEG", "image/webp": "WEBP", "image/gif": "GIF"}
_LOSSLESS: Final = frozenset({"image/png", "image/gif"})
"""Charts and screens: unless they are scaled, each pixel keeps its value, in fewer bytes than with lossy encoding."""
SENT_MIME: Final = "image/webp"


_PLAIN_CHUNKS: Final = frozenset({b"IHDR", b"IDAT", b"IEND", b"sRGB", b"pHYs"})
_PALETTE: Final = 3
_FRAMES: Final = frozenset({0xC0, 0xC1, 0xC2})
_TABLES: Final = frozenset({0xC4, 0xDB, 0xDD})
_SCAN: Final = 0xDA
_END: Final = 0xD9
_HEADS: Final = {0xE0: b"\0\x10JFIF\0", 0xEE: b"\0\x0eAdobe"}
"""The segments that describe how the pixels of a JPEG are stored, without a preview."""
_MARK: Final = re.compile(rb"\xff[^\x00\xd0-\xd7\xff]")


class Picture(Value):
    """A picture for a model. `original` is its size in the file, upright, before it was scaled down, in pixels.

    `animated`: it is the first frame of several.
    """

    data: bytes
    mime: str
    width: int
    height: int
    original: tuple[int, int]
    animated: bool = False

    @property
    def scaled(self) -> bool:
        """True if it shows less than the file."""
        return self.animated or (self.width, self.height) != self.original

    @property
    def tokens(self) -> int:
        """Its estimated tokens."""
        return -(-self.width // PATCH_PX) * -(-self.height // PATCH_PX)


def fit_picture(data: bytes, mime: str, *, max_bytes: int) -> Picture:
    """Return the picture unchanged if it is plain and small, otherwise re-encoded with at most `max_bytes`. Raises ToolError.

    The codes are `image_unreadable`, for bytes that are not a complete picture of this type, and `image_too_large`, for
    one with more pixels than are decoded.
    """
    from PIL import Image  # noqa: PLC0415 - few calls read a picture

    try:
        with Image.open(io.BytesIO(data), formats=(_FORMATS[mime],)) as image:
            return _fitted(image, data, mime, max_bytes)
    except ToolError:
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise _too_large() from error
    except Exception as error:  # a decoder may raise any error on crafted bytes
        raise ToolError(
            f"no picture of this type can be decoded from it ({type(error).__name__})",
            code="image_unreadable",
        ) from error


def _fitted(image: Image.Image, data: bytes, mime: str, max_bytes: int) -> Picture:
    stored = image.size
    animated = mime != "image/jpeg" and bool(getattr(image, "is_animated", False))
    image.draft(None, (EDGE_PX, EDGE_PX))  # a JPEG is decoded at a fraction of its size
    if image.width * image.height > PIXELS_MAX:
        raise _too_large()
    image.load()
    if max(stored) <= EDGE_PX and len(data) <= max_bytes and is_plain(data, mime):
        return Picture(data=data, mime=mime, width=stored[0], height=stored[1], original=stored)
    profile = image.info.get("icc_profile", b"")
    shown = _upright(image)
    original = stored if (shown.width > shown.height) == (stored[0] > stored[1]) else stored[::-1]
    shown, edge = _in_8_bits(shown), EDGE_PX
    shown.thumbnail((edge, edge))
    shown = _in_srgb(shown, profile)
    while edge >= SMALLEST_PX:
        shown.thumbnail((edge, edge))
        lossless = mime in _LOSSLESS and shown.size == original
        for loss in (False, True) if lossless else (True,):
            if len(sent := _encoded(shown, lossless=not loss)) <= max_bytes:
                return Picture(
                    data=sent,
                    mime=SENT_MIME,
                    width=shown.width,
                    height=shown.height,
                    original=original,
                    animated=animated,
                )
        edge = edge * 2 // 3
    raise _too_large()


def is_plain(data: bytes, mime: str) -> bool:
    """Return True for a picture that holds its pixels and nothing more, in grey or RGB of 8 bits, without a profile. Pure."""
    match mime:
        case "image/png":
            kinds = set(_png_chunks(data))
            return kinds <= _PLAIN_CHUNKS and data[24] == 8 and data[25] != _PALETTE
        case "image/jpeg":
            return _is_plain_jpeg(data)
        case "image/webp":
            size = int.from_bytes(data[16:20], "little")
            return data[12:16] in (b"VP8 ", b"VP8L") and 20 + size + size % 2 == len(data)
        case _:
            return False


def _png_chunks(data: bytes) -> Iterator[bytes]:
    at = 8
    while kind := data[at + 4 : at + 8]:
        yield kind
        at += int.from_bytes(data[at : at + 4]) + 12


def _is_plain_jpeg(data: bytes) -> bool:
    at = 2
    while mark := _MARK.match(data, at):
        kind = mark[0][1]
        if kind == _END:
            return at + 2 == len(data)
        head = _HEADS.get(kind, b"" if kind in _FRAMES | _TABLES | {_SCAN} else None)
        if head is None or not data.startswith(head, at + 2):
            return False
        if kind in _FRAMES and data[at + 9 : at + 10] not in (b"\1", b"\3"):
            return False
        at += 2 + int.from_bytes(data[at + 2 : at + 4])
        if kind == _SCAN:
            found = _MARK.search(data, at)
            at = found.start() if found else len(data)
    return False


def _encoded(image: Image.Image, *, lossless: bool) -> bytes:
    sent = io.BytesIO()
    how = {"lossless": True, "quality": 50, "method": 1} if lossless else {"quality": QUALITY, "method": 2}
    image.save(sent, "WEBP", icc_profile=b"", exif=b"", xmp=b"", **how)
    return sent.getvalue()


def _upright(image: Image.Image) -> Image.Image:
    """Return the picture upright, as a viewer shows it; unreadable orientation data is ignored."""
    from PIL import ImageOps  # noqa: PLC0415 - see above

    try:
        ImageOps.exif_transpose(image, in_place=True)  # a copy would take the memory of a second picture
    except Exception:  # noqa: BLE001 - a camera's metadata may raise any error, and must not cost the picture
        image.info.pop("exif", None)
    return image


def _in_8_bits(image: Image.Image) -> Image.Image:
    """Return the picture in grey, RGB, RGBA or CMYK of 8 bits."""
    if image.mode.startswith("I"):
        return image.convert("I").point([value >> 8 for value in range(1 << 16)], "L")
    if image.mode in ("L", "RGB", "CMYK") and not image.has_transparency_data:
        return image
    mode = "RGBA" if image.has_transparency_data else "L" if image.mode == "1" else "RGB"
    return image if image.mode == mode else image.convert(mode)


def _in_srgb(image: Image.Image, profile: bytes) -> Image.Image:
    """Return the picture in sRGB; a profile that cannot be applied is ignored."""
    mode = "RGBA" if image.mode == "RGBA" else "RGB"
    if 0 < len(profile) <= PROFILE_MAX_BYTES:
        from PIL import ImageCms  # noqa: PLC0415 - few pictures have one

        try:
            found = ImageCms.profileToProfile(
                image,
                ImageCms.ImageCmsProfile(io.BytesIO(profile)),
                ImageCms.createProfile("sRGB"),
                outputMode=mode,
            )
        except (ImageCms.PyCMSError, ValueError, TypeError, OSError):
            found = None
        if found is not None:
            return found
    return image if image.mode == mode else image.convert(mode)


def _too_large() -> ToolError:
    return ToolError(
        f"it has more than the {PIXELS_MAX} pixels that are decoded; a program can cut it",
        code="image_too_large",
    )
