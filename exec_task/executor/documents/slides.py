"""A document as slides: a heading of the first two levels, or a horizontal rule, begins a new slide.

The height of text is estimated; text that does not fit continues on the next slide, under the same heading.
Source: python-pptx, "Getting Started", "Working with tables"; the layouts 0 and 5 of its template are a title slide
and a slide with a title only.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from pptx import Presentation
from pptx.util import Emu, Inches, Pt

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
    led,
    plain,
    source_line,
)
from .refusal import DocumentError

SLIDES_MAX: Final = 300

_WIDE, _HIGH = Inches(13.333), Inches(7.5)
_LEFT, _TOP = Inches(0.6), Inches(1.5)
_ROOM_WIDE, _ROOM_HIGH = _WIDE - 2 * _LEFT, _HIGH - _TOP - Inches(0.4)
_TEXT_PT, _CODE_PT, _CELL_PT = 18, 12, 12
_LINE: Final = 1.35
"""The height of a line, as a multiple of the letter height."""
_LETTER: Final = 0.52
"""The width of a letter, as a fraction of its height."""
_STEP: Final = Inches(0.35)
_PX: Final = 9525  # EMU
_TITLE_SLIDE, _TITLE_ONLY = 0, 5


def write_pptx(document: Document, _params: Mapping[str, Any], _warnings: list[dict[str, str]]) -> bytes:
    """Return the slides of a document. Raises DocumentError `document_too_large`."""
    made = _Slides(document)
    made.write()
    buffer = io.BytesIO()
    made.file.save(buffer)
    return buffer.getvalue()


class _Slides:
    def __init__(self, document: Document) -> None:
        self._document = document
        self.file: Any = Presentation()
        self.file.slide_width, self.file.slide_height = _WIDE, _HIGH
        self.file.core_properties.title = document.title[:255]
        self._heading: Spans = ()
        self._slide: Any = None
        self._used = 0
        self._box: Any = None

    def write(self) -> None:
        if self._document.title:
            slide = self._new(_TITLE_SLIDE)
            self._place(slide.shapes.title, _TOP, Inches(2))
            slide.shapes.title.text = self._document.title
            _direct(slide.shapes.title.text_frame.paragraphs[0], self._document.title)
            _drop_empty(slide)
        self._add(self._document.blocks, 0)
        if self._document.listed:
            self._begin((Span("Sources"),))
            for source in self._document.sources:
                line = Span(source_line(source), link=source.url)
                self._text((Span(f"[{source.number}] "), line), 0)

    def _new(self, layout: int) -> Any:
        if len(self.file.slides) >= SLIDES_MAX:
            raise DocumentError("document_too_large", f"there are {SLIDES_MAX} slides at most")
        return self.file.slides.add_slide(self.file.slide_layouts[layout])

    def _begin(self, heading: Spans) -> None:
        self._heading = heading
        self._slide, self._used, self._box = None, 0, None

    def _room(self, height: int) -> Any:
        """Return a slide with room for a height, a new one if needed."""
        if self._slide is None or (self._used and self._used + height > _ROOM_HIGH):
            self._slide, self._used, self._box = self._new(_TITLE_ONLY), 0, None
            title = self._slide.shapes.title
            self._place(title, Inches(0.4), Inches(0.9))
            self._runs(title.text_frame.paragraphs[0], self._heading, 28)
        return self._slide

    def _place(self, shape: Any, top: int, height: int) -> None:
        shape.left, shape.top, shape.width, shape.height = _LEFT, top, _ROOM_WIDE, height

    def _add(self, blocks: Sequence[Block], depth: int, *, mark: str = "") -> None:
        for block, own in led(blocks, mark):
            self._block(block, depth, own)

    def _block(self, block: Block, depth: int, mark: str) -> None:
        match block:
            case Heading():
                self._head(block, depth)
            case Text():
                self._text((*([Span(f"{mark} ")] if mark else []), *block.spans), depth)
            case Code():
                self._code(block, depth)
            case Quote():
                self._add(block.blocks, depth + 1)
            case Items():
                for index, item in enumerate(block.items):
                    self._add(item, depth + 1, mark=block.mark(index))
            case Table():
                self._table(block)
            case Rule():
                self._begin(self._heading)
            case Picture():
                self._picture(block)

    def _head(self, block: Heading, depth: int) -> None:
        if block.level <= 2 and not depth:
            self._begin(block.spans)
            self._room(0)
        else:
            self._text(tuple(replace(span, bold=True) for span in block.spans), depth)

    def _code(self, block: Code, depth: int) -> None:
        for line in block.text.split("\n"):
            self._text((Span(line, code=True),), depth, size=_CODE_PT)

    def _text(self, spans: Spans, depth: int, *, size: int = _TEXT_PT) -> None:
        """Add a paragraph to the slide's box; a paragraph that is higher than a slide is split."""
        letters = max(10, int((_ROOM_WIDE - depth * _STEP) / (size * _LETTER * Pt(1))))
        most = letters * int(_ROOM_HIGH / (size * _LINE * Pt(1)))
        for part in _divided(spans, most):
            lines = sum(max(1, -(-len(line) // letters)) for line in plain(part).split("\n"))
            height = int(lines * size * _LINE * Pt(1))
            slide = self._room(height)
            fresh = self._box is None
            if fresh:
                self._box = slide.shapes.add_textbox(_LEFT, _TOP + self._used, _ROOM_WIDE, height)
                self._box.text_frame.word_wrap = True
            frame = self._box.text_frame
            paragraph = frame.paragraphs[0] if fresh else frame.add_paragraph()
            if depth:
                paragraph._p.get_or_add_pPr().set("marL", str(int(_STEP * depth)))  # noqa: SLF001 - no public name
            self._runs(paragraph, part, size)
            self._used += height
            self._box.height = _TOP + self._used - self._box.top

    def _runs(self, paragraph: Any, spans: Spans, size: int) -> None:
        _direct(paragraph, plain(spans))
        for span in spans:
            run = paragraph.add_run()
            run.text = f"[{span.note}]" if span.note else span.text.replace("\n", "\v")
            run.font.size = Pt(size)
            url = span.link
            if span.note:
                run.font._element.set("baseline", "30000")  # noqa: SLF001 - a raised letter has no public name
                url = self._document.target(span.note)
            else:
                run.font.bold, run.font.italic = span.bold or None, span.italic or None
                if span.code:
                    run.font.name = "Courier New"
            if url:
                run.hyperlink.address = url

    def _table(self, block: Table) -> None:
        """Add a table; its rows are split among slides, each with the head."""
        head, rows = block.rows[0], block.rows[1:]
        letters = max(1, int(_ROOM_WIDE / len(head) / (_CELL_PT * _LETTER * Pt(1))))
        heights = [_row_height(row, letters) for row in block.rows]
        part: list[list[Spans]] = []
        used = heights[0]
        for row, height in zip(rows, heights[1:], strict=True):
            if part and used + height > _ROOM_HIGH:
                self._grid([head, *part], used)
                part, used = [], heights[0]
            part.append(row)
            used += height
        self._grid([head, *part], used)

    def _grid(self, rows: Sequence[Sequence[Spans]], height: int) -> None:
        slide = self._room(height)
        shape = slide.shapes.add_table(len(rows), len(rows[0]), _LEFT, _TOP + self._used, _ROOM_WIDE, height)
        if runs_left(" ".join(map(plain, rows[0]))):
            shape.table._tbl.tblPr.set("rtl", "1")  # noqa: SLF001 - it has no public name
        for y, row in enumerate(rows):
            for x, spans in enumerate(row):
                self._runs(shape.table.cell(y, x).text_frame.paragraphs[0], spans, _CELL_PT)
        self._used += height + _STEP
        self._box = None

    def _picture(self, block: Picture) -> None:
        width, height = block.width_px * _PX, block.height_px * _PX
        scale = min(1.0, _ROOM_WIDE / width, _ROOM_HIGH / height)
        width, height = int(width * scale), int(height * scale)
        slide = self._room(height)
        shape = slide.shapes.add_picture(
            io.BytesIO(block.data), _LEFT, _TOP + self._used, Emu(width), Emu(height)
        )
        shape._element.nvPicPr.cNvPr.set("descr", block.alt)  # noqa: SLF001 - there is no public way to the text
        self._used += height + _STEP
        self._box = None


def _divided(spans: Spans, most: int) -> list[Spans]:
    """Return spans as parts of at most `most` letters each."""
    parts: list[list[Span]] = [[]]
    room = most
    for span in spans:
        rest = span
        while len(rest.text) > room:
            parts[-1].append(replace(rest, text=rest.text[:room]))
            rest = replace(rest, text=rest.text[room:])
            parts.append([])
            room = most
        parts[-1].append(rest)
        room -= len(rest.text)
    return [tuple(part) for part in parts if part]


def _row_height(row: Sequence[Spans], letters: int) -> int:
    lines = max(-(-len(plain(spans)) // letters) or 1 for spans in row)
    return int(min(lines * _CELL_PT * _LINE * Pt(1) + Inches(0.1), _ROOM_HIGH))


def _direct(paragraph: Any, text: str) -> None:
    """Align a paragraph with the direction of its text."""
    if runs_left(text):
        properties = paragraph._p.get_or_add_pPr()  # noqa: SLF001 - it has no public name
        properties.set("rtl", "1")
        properties.set("algn", "r")


def _drop_empty(slide: Any) -> None:
    """Remove the placeholders of the layout that hold no text."""
    for shape in list(slide.placeholders):
        if not shape.text_frame.text:
            shape._element.getparent().remove(shape._element)  # noqa: SLF001 - there is no public way
