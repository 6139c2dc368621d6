"""Pictures from outside: decoded like the model's, and ended where their format ends.

Bytes after the end of a picture belong to another file, except after a JPEG: cameras put previews and films there.
Source: www.w3.org/TR/png-3, "Datastream structure"; developers.google.com/speed/webp/docs/riff_container.
"""

from __future__ import annotations

import re
import struct
from typing import Final

from stepline.errors import ToolError
from stepline.model.file.file_verdict import TAKEN, FileVerdict, reject_file
from stepline.tools.read.picture import fit_picture

TRAILING: Final = "trailing_data"
POLYGLOT: Final = "polyglot"
_PAGE: Final = re.compile(
    rb"<(?:html|head|body|script|iframe|svg|\?php|!doctype\s+html|hta:application)[\s>/]", re.IGNORECASE
)
"""Code that a browser or a server runs if it treats the file as a page; in bytes of pixels it occurs once in a million pictures."""
_PNG_HEAD: Final = 8
_PNG_CHUNK: Final = 12
_GIF_HEAD: Final = 13
_GIF_IMAGE: Final = 10


def judge_picture(data: bytes, mime: str, *, max_bytes: int) -> FileVerdict:
    """Judge a picture of one of the four types. Pure."""
    try:
        fit_picture(data, mime, max_bytes=max_bytes)
    except ToolError as error:
        return reject_file(error.reason, str(error))
    end = _end_of(data, mime)
    if not 0 <= end <= len(data):
        return reject_file("image_unreadable", "it does not end like a picture of this type")
    if end < len(data):
        return reject_file(TRAILING, "something follows the end of the picture")
    if _PAGE.search(data):
        return reject_file(POLYGLOT, "it is a page as well: it has parts of HTML or a script")
    return TAKEN


def _end_of(data: bytes, mime: str) -> int:
    """Return the end of a picture; -1 if there is none. A JPEG ends with the file."""
    try:
        match mime:
            case "image/png":
                return _png_end(data)
            case "image/gif":
                return _gif_end(data)
            case "image/webp":
                (size_bytes,) = struct.unpack_from("<I", data, 4)
                return 8 + int(size_bytes) + int(size_bytes) % 2
            case _:
                return len(data)
    except (struct.error, IndexError):
        return -1


def _png_end(data: bytes) -> int:
    at, kind = _PNG_HEAD, b""
    while kind != b"IEND":
        length = int.from_bytes(data[at : at + 4])
        if not (kind := data[at + 4 : at + 8]):
            return -1
        at += length + _PNG_CHUNK
    return at


def _gif_end(data: bytes) -> int:
    at = _GIF_HEAD + _colours(data[10])
    while True:
        match data[at]:
            case 0x3B:
                return at + 1
            case 0x21:
                at = _gif_blocks(data, at + 2)
            case 0x2C:
                at = _gif_blocks(data, at + _GIF_IMAGE + _colours(data[at + 9]) + 1)
            case _:
                return -1


def _colours(flags: int) -> int:
    """Return the bytes of a table of colours; 0 if there is none."""
    return 3 << ((flags & 7) + 1) if flags & 0x80 else 0


def _gif_blocks(data: bytes, at: int) -> int:
    while length := data[at]:
        at += length + 1
    return at + 1
