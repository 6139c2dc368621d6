"""A document for Word.

Source: python-docx, "Working with Text", "Working with Styles". A link is a `w:hyperlink` (ECMA-376, part 1,
17.16.22), which the library has no method to add.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any, Final

import docx
from docx.enum.table import WD_TABLE_DIRECTION
from docx.opc.constants import RELATIONSHIP_TYPE
from docx.oxml import OxmlElement
from docx.oxml.ns import qn
from docx.shared import Emu, Pt, RGBColor
from docx.text.run import Run

from .direction import runs_left
from .markdown import (
    Block,
    Code,
    Document,
    Heading,
    Items,
    Picture,
    Quote,
    Rule,
    Span,
    Spans,
    Table,
    Text,
    head_text,
    led,
    plain,
    source_line,
)

_INDENT_PT: Final = 18
_MONO: Final = "Courier New"
_PX: Final = 9525  # EMU
_BEHIND_BIDI: Final = (
    *("w:adjustRightInd", "w:snapToGrid", "w:spacing", "w:ind", "w:contextualSpacing", "w:mirrorIndents"),
    *("w:suppressOverlap", "w:jc", "w:textDirection", "w:textAlignment", "w:textboxTightWrap"),
    *("w:outlineLvl", "w:divId", "w:cnfStyle", "w:rPr", "w:sectPr", "w:pPrChange"),
)
"""The elements that follow the direction among the properties of a paragraph: ECMA-376, part 1, 17.3.1.26."""
_LINK: Final = RGBColor(0x05, 0x63, 0xC1)


def write_docx(document: Document, _params: Mapping[str, Any], _warnings: list[dict[str, str]]) -> bytes:
    """Return the Word file of a document."""
    made = _Word(document)
    made.write()
    buffer = io.BytesIO()
    made.file.save(buffer)
    return buffer.getvalue()


class _Word:
    def __init__(self, document: Document) -> None:
        self._document = document
        self.file: Any = docx.Document()
        self.file.core_properties.title = document.title[:255]
        section = self.file.sections[0]
        self._width = int(section.page_width - section.left_margin - section.right_margin)
        self._bookmarks = 0

    def write(self) -> None:
        if self._document.title:
            self._spans(self.file.add_heading("", 0), (Span(self._document.title),))
        self._add(self._document.blocks, 0)
        if self._document.listed:
            self.file.add_heading("Sources", 1)
            for source in self._document.sources:
                paragraph = self.file.add_paragraph()
                self._bookmark(paragraph, f"source{source.number}")
                paragraph.add_run(f"[{source.number}] ")
                self._spans(paragraph, (Span(source_line(source), link=source.url),))

    def _add(self, blocks: Sequence[Block], depth: int, *, mark: str = "") -> None:
        """Add blocks at a depth of lists and quotes; `mark` precedes the first one."""
        for block, own in led(blocks, mark):
            self._block(block, depth, own)

    def _block(self, block: Block, depth: int, mark: str) -> None:
        match block:
            case Heading():
                self._spans(self.file.add_heading("", block.level), block.spans)
            case Text():
                self._spans(self._paragraph(depth, mark), block.spans)
            case Code():
                run = self._paragraph(depth).add_run(block.text)
                run.font.name, run.font.size = _MONO, Pt(9)
            case Quote():
                self._add(block.blocks, depth + 1)
            case Items():
                for index, item in enumerate(block.items):
                    self._add(item, depth + 1, mark=block.mark(index))
            case Table():
                self._table(block)
            case Rule():
                self._paragraph(depth).add_run("—" * 12)
            case Picture():
                width = min(block.width_px * _PX, self._width - depth * Pt(_INDENT_PT))
                picture = (
                    self._paragraph(depth).add_run().add_picture(io.BytesIO(block.data), width=Emu(width))
                )
                picture._inline.docPr.set("descr", block.alt)  # noqa: SLF001 - there is no public way to the text

    def _paragraph(self, depth: int, mark: str = "") -> Any:
        paragraph = self.file.add_paragraph()
        paragraph.paragraph_format.left_indent = Pt(_INDENT_PT * depth)
        if mark:
            paragraph.paragraph_format.first_line_indent = Pt(-_INDENT_PT)
            paragraph.paragraph_format.tab_stops.add_tab_stop(Pt(_INDENT_PT * depth))
            paragraph.add_run(f"{mark}\t")
        return paragraph

    def _table(self, block: Table) -> None:
        table = self.file.add_table(rows=0, cols=len(block.rows[0]), style="Table Grid")
        if runs_left(head_text(block)):
            table.table_direction = WD_TABLE_DIRECTION.RTL
        for number, row in enumerate(block.rows):
            for cell, spans in zip(table.add_row().cells, row, strict=True):
                self._spans(cell.paragraphs[0], spans, bold=not number)
        self.file.add_paragraph()

    def _spans(self, paragraph: Any, spans: Spans, *, bold: bool = False) -> None:
        if runs_left(plain(spans)):
            properties = paragraph._p.get_or_add_pPr()  # noqa: SLF001 - the direction has no public name
            properties.insert_element_before(OxmlElement("w:bidi"), *_BEHIND_BIDI)
        for span in spans:
            if span.note:
                anchor = f"source{span.note}" if self._document.listed else ""
                url = "" if anchor else self._document.target(span.note)
                run = self._run(paragraph, f"[{span.note}]", url=url, anchor=anchor)
                run.font.superscript = True
                continue
            run = self._run(paragraph, span.text, url=span.link)
            run.bold, run.italic = span.bold or bold or None, span.italic or None
            run.font.strike = span.struck or None
            if runs_left(span.text):
                run.font.rtl, run.font.cs_bold, run.font.cs_italic = True, run.bold, run.italic
            if span.code:
                run.font.name = _MONO

    def _run(self, paragraph: Any, text: str, *, url: str = "", anchor: str = "") -> Any:
        """Add a run, inside a link if a URL or a bookmark of the document is given."""
        if not (url or anchor):
            return paragraph.add_run(text)
        link = OxmlElement("w:hyperlink")
        if anchor:
            link.set(qn("w:anchor"), anchor)
        else:
            link.set(qn("r:id"), paragraph.part.relate_to(url, RELATIONSHIP_TYPE.HYPERLINK, is_external=True))
        element = OxmlElement("w:r")
        link.append(element)
        paragraph._p.append(link)  # noqa: SLF001 - there is no public way to add a link
        run = Run(element, paragraph)
        run.text = text
        run.font.color.rgb = _LINK
        return run

    def _bookmark(self, paragraph: Any, name: str) -> None:
        for tag in ("w:bookmarkStart", "w:bookmarkEnd"):
            mark = OxmlElement(tag)
            mark.set(qn("w:id"), str(self._bookmarks))
            if tag == "w:bookmarkStart":
                mark.set(qn("w:name"), name)
            paragraph._p.append(mark)  # noqa: SLF001 - as above
        self._bookmarks += 1
