"""Pictures for a model: decoded before they are attached, and scaled down if they are too large.

A picture is sent with every request that has it, so it is no larger than most models see it. The library that
decodes pictures is loaded by the first one.
Source: docs/adr/0010-pictures.md.
"""

from __future__ import annotations

import io
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
SMALLEST_PX: Final = 64

_FORMATS: Final = {"image/png": "PNG", "image/jpeg": "JPEG", "image/webp": "WEBP", "image/gif": "GIF"}
SCALED_MIME: Final = "image/webp"


class Picture(Value):
    """A picture that a model can be sent. `original` is its size before it was scaled down, in pixels.

    `animated`: it is the first frame of several.
    """

    data: bytes
    mime: str
    width: int
    height: int
    original: tuple[int, int]
    animated: bool = False

    @property
    def tokens(self) -> int:
        """Its estimated tokens."""
        return -(-self.width // PATCH_PX) * -(-self.height // PATCH_PX)


def fit_picture(data: bytes, mime: str, *, max_bytes: int) -> Picture:
    """Return the picture, or a smaller one of at most `max_bytes`. Raises ToolError.

    The codes are `image_unreadable`, for bytes that are no whole picture of this type, and `image_too_large`, for
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
    except Exception as error:  # a decoder raises anything on bytes that somebody made up
        raise ToolError(
            f"no picture of this type can be decoded from it ({type(error).__name__})",
            code="image_unreadable",
        ) from error


def _fitted(image: Image.Image, data: bytes, mime: str, max_bytes: int) -> Picture:
    original = image.size
    animated = mime != "image/jpeg" and bool(getattr(image, "is_animated", False))
    image.draft(None, (EDGE_PX, EDGE_PX))  # a JPEG is decoded at a fraction of its size
    if image.width * image.height > PIXELS_MAX:
        raise _too_large()
    image.load()
    if max(original) <= EDGE_PX and len(data) <= max_bytes and not animated:
        return Picture(data=data, mime=mime, width=original[0], height=original[1], original=original)
    shown, edge = _upright(image), EDGE_PX
    while edge >= SMALLEST_PX:
        shown.thumbnail((edge, edge))
        scaled = io.BytesIO()
        shown.save(scaled, "WEBP", quality=QUALITY, method=2, icc_profile=b"", exif=b"", xmp=b"")
        if scaled.tell() <= max_bytes:
            return Picture(
                data=scaled.getvalue(),
                mime=SCALED_MIME,
                width=shown.width,
                height=shown.height,
                original=original,
                animated=animated,
            )
        edge = edge * 2 // 3
    raise _too_large()


def _upright(image: Image.Image) -> Image.Image:
    """Return the picture as a viewer shows it, in colours that can be encoded."""
    from PIL import ImageOps  # noqa: PLC0415 - see above

    ImageOps.exif_transpose(image, in_place=True)  # a copy would take the memory of a second picture
    mode = "RGBA" if image.has_transparency_data else "RGB"
    return image if image.mode == mode else image.convert(mode)


def _too_large() -> ToolError:
    return ToolError(
        f"it has more than the {PIXELS_MAX} pixels that are decoded; a program can cut it",
        code="image_too_large",
    )
