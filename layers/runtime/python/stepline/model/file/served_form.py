"""The form in which a file leaves for a client: its type and its disposition, fixed before its bytes are asked for.

A browser shows what is on the list and saves everything else. What can run something (HTML, SVG, XML, scripts) leaves
without a type of its own, whatever it is asked for. Texts that are shown are plain text. A PDF is shown by the browser's own
viewer, which lets nothing of it reach a page.
Source: RFC 6266 and RFC 8187 for the names; mimesniff.spec.whatwg.org for what a browser makes of a type.
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
"""With exactly this parameter no browser looks into the bytes for another type."""
SHOWN: Final[Mapping[str, str]] = {
    **{kind: kind for kind in sorted({*PICTURES, PDF})},
    **dict.fromkeys(("text/plain", "text/markdown", "text/csv", "application/json"), PLAIN),
}
"""The types that are shown in a browser, each with the one that it is sent as."""
SAVED: Final = frozenset({DOCX, PPTX, XLSX})
"""The further types that are sent as they are, to be saved."""

_FALLBACK: Final = re.compile(r"[^A-Za-z0-9 ()\[\]+,._=@-]")
"""What is replaced in the name for old clients: quotes, percent signs and everything beyond ASCII among it."""
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
