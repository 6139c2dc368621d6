"""The tables of a document as the sheets of a workbook, each named by the heading before it.

A cell holds a number if its text is one, and text otherwise: no text becomes a formula.
Source: openpyxl, "Simple usage"; its `Cell.data_type` is `s` for a text.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from openpyxl import Workbook
from openpyxl.styles import Font
from openpyxl.utils import get_column_letter

from .direction import runs_left
from .markdown import Block, Document, Heading, Items, Quote, Span, Spans, Table, plain
from .refusal import DocumentError

NAME_CHARS: Final = 31
CELL_CHARS: Final = 32_767
WIDTH_MAX: Final = 60

_FORBIDDEN: Final = re.compile(r"[\[\]:*?/\\\n]")
_NUMBER: Final = re.compile(r"[-+]?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,15})?")
_GROUPED: Final = re.compile(r"[-+]?[1-9][0-9]{0,2}(?:,[0-9]{3}){1,4}(?:\.[0-9]{1,10})?")


def write_xlsx(document: Document, _params: Mapping[str, Any], warnings: list[dict[str, str]]) -> bytes:
    """Return the workbook of a document's tables. Raises DocumentError `no_tables`."""
    book = Workbook()
    book.remove(book.active)
    book.properties.title = document.title or None
    left_out = False
    name = document.title
    for block in _flat(document.blocks):
        match block:
            case Table():
                _fill(book.create_sheet(_sheet_name(name, book.sheetnames)), block.rows)
            case Heading():
                name = plain(block.spans)
            case _:
                left_out = True
    if not book.sheetnames:
        raise DocumentError(
            "no_tables", "a workbook is made of the tables of its Markdown, and there is none"
        )
    if left_out:
        message = "only tables become sheets, with the heading before them; the rest of the text is left out"
        warnings.append({"code": "text_left_out", "message": message})
    if document.listed:
        sheet = book.create_sheet(_sheet_name("Sources", book.sheetnames))
        head = [_text("Number"), _text("Title"), _text("Address")]
        rows = [[_text(str(one.number)), _text(one.title), _text(one.url)] for one in document.sources]
        _fill(sheet, [head, *rows])
    buffer = io.BytesIO()
    book.save(buffer)
    return buffer.getvalue()


def _text(text: str) -> Spans:
    return (Span(text),)


def _flat(blocks: Sequence[Block]) -> Iterator[Block]:
    """Yield the blocks in order, with the blocks of lists and quotes inlined."""
    for block in blocks:
        match block:
            case Quote():
                yield from _flat(block.blocks)
            case Items():
                for item in block.items:
                    yield from _flat(item)
            case _:
                yield block


def _sheet_name(wanted: str, taken: Sequence[str]) -> str:
    stem = _FORBIDDEN.sub(" ", wanted).strip(" '")[:NAME_CHARS] or f"Table {len(taken) + 1}"
    name, number = stem, 1
    while name.casefold() in {other.casefold() for other in taken}:
        number += 1
        tail = f" {number}"
        name = stem[: NAME_CHARS - len(tail)] + tail
    return name


def _fill(sheet: Any, rows: Sequence[Sequence[Spans]]) -> None:
    widths: dict[int, int] = {}
    sheet.sheet_view.rightToLeft = runs_left(" ".join(map(plain, rows[0])))
    for y, row in enumerate(rows, 1):
        for x, spans in enumerate(row, 1):
            text = plain(spans)[:CELL_CHARS]
            cell = sheet.cell(y, x)
            number = None if y == 1 else _number(text.strip())
            if number is None:
                cell.value = text
                cell.data_type = "s"
                cell.quotePrefix = text.startswith(("=", "+", "-", "@"))
            else:
                cell.value = number
                if "," in text:
                    cell.number_format = "#,##0.##" if "." in text else "#,##0"
            if y == 1:
                cell.font = Font(bold=True)
            widths[x] = min(WIDTH_MAX, max(widths.get(x, 8), max(map(len, text.split("\n"))) + 2))
    for x, width in widths.items():
        sheet.column_dimensions[get_column_letter(x)].width = width
    sheet.freeze_panes = "A2"


def _number(text: str) -> int | float | None:
    if not (_NUMBER.fullmatch(text) or _GROUPED.fullmatch(text)):
        return None
    digits = text.replace(",", "")
    return float(digits) if "." in digits else int(digits)
