"""Documents of Office as archives: valid, and with any content that a test adds."""

from __future__ import annotations

import io
import zipfile

from stepline.model.file.mime import DOCX, PPTX, XLSX

_MAIN = {
    DOCX: ("word/document.xml", "wordprocessingml.document"),
    PPTX: ("ppt/presentation.xml", "presentationml.presentation"),
    XLSX: ("xl/workbook.xml", "spreadsheetml.sheet"),
}
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_RELATION = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"


def types(mime: str, *more: str) -> str:
    """Return the part that lists the types of a document's parts; `more` are elements."""
    name, kind = _MAIN[mime]
    main = f'<Override PartName="/{name}" ContentType="application/vnd.openxmlformats-officedocument.{kind}.main+xml"/>'
    return f'<?xml version="1.0"?><Types xmlns="{_PACKAGE}/content-types">{main}{"".join(more)}</Types>'


def relations(*of: tuple[str, str, bool]) -> str:
    """Return a part of relations: the kind of each, its target, and whether that is outside."""
    mode = {True: ' TargetMode="External"', False: ""}
    rows = "".join(
        f'<Relationship Id="r{n}" Type="{_RELATION}/{kind}" Target="{target}"{mode[outside]}/>'
        for n, (kind, target, outside) in enumerate(of)
    )
    return f'<?xml version="1.0"?><Relationships xmlns="{_PACKAGE}/relationships">{rows}</Relationships>'


def document(
    mime: str = DOCX,
    parts: dict[str, str | bytes] | None = None,
    *,
    comment: bytes = b"",
    stored: bool = False,
) -> bytes:
    """Return a document with these parts in addition to its own, or replacing them."""
    name, _ = _MAIN[mime]
    own = {
        "[Content_Types].xml": types(mime),
        "_rels/.rels": relations(("officeDocument", name, False)),
        name: "<w/>",
    }
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED if stored else zipfile.ZIP_DEFLATED) as book:
        for part, content in {**own, **(parts or {})}.items():
            book.writestr(part, content)
        book.comment = comment
    return out.getvalue()


def archive(parts: dict[str, str | bytes]) -> bytes:
    """Return a zip archive of these members."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as book:
        for part, content in parts.items():
            book.writestr(part, content)
    return out.getvalue()
