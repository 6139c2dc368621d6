"""The form in which a file is served to a client: its type and its disposition, fixed before its bytes are requested.

A browser shows the types on the list and saves all others. Active content (HTML, SVG, XML, scripts) is always served
as an untyped download. Texts that are shown are plain text. A PDF is shown by the browser's own
viewer, which isolates it from the page.
Source: RFC 6266 and RFC 8187 for the names; mimesniff.spec.whatwg.org for the types that a browser detects.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from typing import Final, Literal, TypeAlias
from urllib.parse import quote

from stepline.model.base import Value
from stepline.model.file.charset import charset_of, with_charset
from stepline.model.file.mime import DOCX, OCTET_STREAM, PDF, PICTURES, PPTX, XLSX

Disposition: TypeAlias = Literal["preview", "download"]

NAME_MAX_BYTES: Final = 255
UNNAMED: Final = "file"
PLAIN: Final = "text/plain; charset=utf-8"
"""With exactly this parameter no browser sniffs the bytes for another type."""
SHOWN: Final[Mapping[str, str]] = {
    **{kind: kind for kind in sorted({*PICTURES, PDF})},
    **dict.fromkeys(("text/plain", "text/markdown", "text/csv", "application/json"), PLAIN),
}
"""The types that are shown in a browser, each with the one that it is sent as."""
SAVED: Final = frozenset({DOCX, PPTX, XLSX})
"""The further types that are sent unchanged, as downloads."""

_FALLBACK: Final = re.compile(r"[^A-Za-z0-9 ()\[\]+,._=@-]")
"""Characters that are replaced in the name for old clients, such as quotes, percent signs and all beyond ASCII."""
_UNSEEN: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


class ServedForm(Value):
    """The headers `Content-Type` and `Content-Disposition` of a file."""

    mime: str
    disposition: str


def serve_as(mime: str, filename: str, wanted: Disposition) -> ServedForm:
    """Return the form of a file of this type and name; it is shown if that is `wanted` and its type is harmless."""
    kind = mime.partition(";")[0].strip().lower()
    how = "inline" if wanted == "preview" and kind in SHOWN else "attachment"
    sent = SHOWN.get(kind, kind if kind in SAVED else OCTET_STREAM)
    if sent == PLAIN and (charset := charset_of(mime)):
        sent = with_charset("text/plain", charset)
    return ServedForm(mime=sent, disposition=f"{how}; {_names(filename)}")


def _names(filename: str) -> str:
    name = "".join(
        "_" if char in '/\\"' or unicodedata.category(char) in _UNSEEN else char for char in filename
    )
    name = name.encode()[:NAME_MAX_BYTES].decode(errors="ignore").strip() or UNNAMED
    return f"filename=\"{_FALLBACK.sub('_', name)}\"; filename*=UTF-8''{quote(name, safe='')}"
