"""Check that a file's first bytes match the type stated by its name or sender.

A type with a fixed beginning must have it; a text is refused only if it begins like a well-known binary
format. Types without a fixed beginning, and unknown ones, are accepted.
"""

from __future__ import annotations

import re
from typing import Final

from stepline.model.file.mime import is_text

HEAD_BYTES: Final = 1024
"""The number of first bytes that are checked."""

MISMATCH: Final = "content_type_mismatch"

_ZIP: Final = rb"PK\x03\x04"
_OLE: Final = rb"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_FONT: Final = rb"\x00\x01\x00\x00|true|ttcf|OTTO"
_PATTERNS: Final = {
    "image/png": rb"\x89PNG\r\n\x1a\n",
    "image/jpeg": rb"\xff\xd8\xff",
    "image/gif": rb"GIF8[79]a",
    "image/webp": rb"RIFF.{4}WEBP",
    "image/bmp": rb"BM",
    "image/tiff": rb"II[*+]\x00|MM\x00[*+]",
    "image/vnd.microsoft.icon": rb"\x00\x00[\x01\x02]\x00",
    "application/pdf": rb".{0,1019}%PDF-",  # readers search up to this offset
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": _ZIP,
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": _ZIP,
    "application/vnd.openxmlformats-officedocument.presentationml.presentation": _ZIP,
    "application/vnd.ms-excel.sheet.macroenabled.12": _ZIP,
    "application/vnd.oasis.opendocument.spreadsheet": _ZIP,
    "application/vnd.oasis.opendocument.text": _ZIP,
    "application/vnd.oasis.opendocument.presentation": _ZIP,
    "application/epub+zip": _ZIP,
    "application/vnd.ms-excel": _OLE,
    "application/msword": _OLE,
    "application/vnd.ms-powerpoint": _OLE,
    "application/rtf": rb"\{\\rtf",
    "audio/mpeg": rb"ID3|\xff[\xe0-\xff]",
    "audio/wav": rb"(?:RIFF|RF64).{4}WAVE",
    "audio/ogg": rb"OggS",
    "audio/flac": rb"fLaC|ID3",
    "video/mp4": rb".{4}(?:ftyp|moov|mdat|free|skip|wide)",
    "video/webm": rb"\x1aE\xdf\xa3",
    "application/x-bzip2": rb"BZh",
    "application/x-xz": rb"\xfd7zXZ\x00",
    "application/x-7z-compressed": rb"7z\xbc\xaf'\x1c",
    "application/vnd.apache.parquet": rb"PAR[1E]",
    "application/vnd.apache.arrow.file": rb"ARROW1|FEA1",
    "font/woff2": rb"wOF2",
    "font/woff": rb"wOFF",
    "font/ttf": _FONT,
    "font/otf": _FONT,
}
_SIGNATURES: Final = {mime: re.compile(pattern, re.DOTALL) for mime, pattern in _PATTERNS.items()}
_BINARY: Final = re.compile(
    rb"\x7fELF|\xca\xfe\xba\xbe|\xfe\xed\xfa[\xce\xcf]|[\xce\xcf]\xfa\xed\xfe|\x00asm|MZ[^\n]{0,62}\x00"
    rb"|\x89PNG\r\n\x1a\n|\xff\xd8\xff|GIF8[79]a[^\n]{0,20}\x00|RIFF.{4}(?:WEBP|WAVE)|%PDF-[0-9]\.[0-9]"
    rb"|PK\x03\x04|\x1f\x8b\x08|\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1|SQLite format 3\x00",
    re.DOTALL,
)
"""Programs, pictures, documents and archives, none of which can be plain text."""


def find_mismatch(head: bytes, mime: str) -> str:
    """Return why a file that begins with `head` is not of a type, "" if it may be.

    An empty file always passes.
    """
    kind = mime.partition(";")[0].strip().lower()
    if not head:
        return ""
    if is_text(kind):
        return f"its type is {kind}, and its bytes are those of a binary file" if _BINARY.match(head) else ""
    signature = _SIGNATURES.get(kind)
    if signature is None or signature.match(head):
        return ""
    return f"its type is {kind}, and its bytes do not begin like it"
