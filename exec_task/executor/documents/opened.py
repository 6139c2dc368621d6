"""The check of a finished document: a reader opens it and counts its parts before it is offered."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from html.parser import HTMLParser
from typing import Final

from .refusal import DocumentError

Facts = dict[str, int]


def check(kind: str, data: bytes) -> Facts:
    """Return the facts of a document, at least one of which is not 0. Raises DocumentError `artifact_invalid`."""
    try:
        facts = _READERS[kind](data)
    except Exception as error:
        message = f"the finished file does not open: {type(error).__name__}: {error}"
        raise DocumentError("artifact_invalid", message[:300]) from error
    if not any(facts.values()):
        raise DocumentError("artifact_invalid", "the finished file opens, and holds nothing")
    return facts


def _pdf(data: bytes) -> Facts:
    from pypdf import PdfReader  # noqa: PLC0415 - one reader a call

    return {"pages": len(PdfReader(io.BytesIO(data), strict=True).pages)}


def _docx(data: bytes) -> Facts:
    from docx import Document  # noqa: PLC0415 - one reader a call

    found = Document(io.BytesIO(data))
    return {"paragraphs": len(found.paragraphs), "tables": len(found.tables)}


def _pptx(data: bytes) -> Facts:
    from pptx import Presentation  # noqa: PLC0415 - one reader a call

    return {"slides": len(Presentation(io.BytesIO(data)).slides)}


def _xlsx(data: bytes) -> Facts:
    from openpyxl import load_workbook  # noqa: PLC0415 - one reader a call

    found = load_workbook(io.BytesIO(data), read_only=True)
    return {"sheets": len(found.worksheets), "rows": sum(sheet.max_row for sheet in found.worksheets)}


def _png(data: bytes) -> Facts:
    from PIL import Image  # noqa: PLC0415 - one reader a call

    with Image.open(io.BytesIO(data), formats=("PNG",)) as image:
        image.load()
        return {"width_px": image.width, "height_px": image.height}


class _Page(HTMLParser):
    """Counts the elements of a page, and refuses an element that loads or runs anything."""

    def __init__(self) -> None:
        super().__init__()
        self.elements = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements += 1
        loads = any(name == "src" and not (value or "").startswith("data:image/") for name, value in attrs)
        runs = any(name.startswith("on") for name, _ in attrs)
        if loads or runs or tag in ("script", "iframe", "object", "embed", "link", "base", "form"):
            raise ValueError(f"<{tag}> loads or runs something")


def _html(data: bytes) -> Facts:
    found = _Page()
    found.feed(data.decode())
    found.close()
    return {"elements": found.elements}


_READERS: Final[Mapping[str, Callable[[bytes], Facts]]] = {
    "pdf": _pdf,
    "docx": _docx,
    "pptx": _pptx,
    "xlsx": _xlsx,
    "png": _png,
    "html": _html,
}
