"""A document as a PDF, or as a picture of one page.

The text becomes paragraphs in ReportLab's own markup, with all document text escaped. A picture is a PDF of one
page, as high as its content, drawn by PDFium.
Source: ReportLab user guide, chapters 5 (Platypus), 6 (Paragraphs), 7 (Tables); pypdfium2, `PdfPage.render`.
"""

from __future__ import annotations

import importlib.util
import io
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from math import inf
from pathlib import Path
from typing import Any, Final
from xml.sax.saxutils import escape, quoteattr

from reportlab.lib import colors
from reportlab.lib.enums import TA_LEFT, TA_RIGHT
from reportlab.lib.pagesizes import A4, landscape
from reportlab.lib.styles import ParagraphStyle
from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.ttfonts import TTFont
from reportlab.platypus import (
    BaseDocTemplate,
    Frame,
    HRFlowable,
    Image,
    Indenter,
    LongTable,
    PageTemplate,
    Paragraph,
    Preformatted,
    Spacer,
    TableStyle,
)
from reportlab.platypus.doctemplate import LayoutError

from .bidi_lines import ordered, shaped, unjoined
from .direction import has_right_to_left, runs_left
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
    texts,
)
from .refusal import DocumentError

PAGES_MAX: Final = 1_000
PIXELS_MAX: Final = 40_000_000
HEIGHT_MAX_PT: Final = 14_400
"""The highest page that a PDF can have."""

_FONT, _MONO = "DejaVuSans", "DejaVuSansMono"
_FACES: Final = ("", "-Bold", "-Oblique", "-BoldOblique")
_SIZE_PT, _CODE_PT, _MARGIN_PT, _INDENT_PT = 10.5, 8.5, 56, 18
_HEADINGS_PT: Final = (20, 16, 13.5, 12, 11, 10.5)
_LETTER: Final = 0.602
"""The width of a letter of the code font, as a fraction of its height."""
_PX_PT: Final = 0.75
_CELL_PT: Final = 3
_SHOWN: Final = 20


def write_pdf(document: Document, params: Mapping[str, Any], warnings: list[dict[str, str]]) -> bytes:
    """Return the PDF of a document. Raises DocumentError `document_too_large`."""
    size = landscape(A4) if params.get("landscape") else A4
    data, _ = _build(document, size, _MARGIN_PT, numbered=True)
    _warn_missing(document, warnings)
    return data


def write_png(document: Document, params: Mapping[str, Any], warnings: list[dict[str, str]]) -> bytes:
    """Return a document as a picture. Raises DocumentError `document_too_large`."""
    scale = params.get("device_scale_factor", 2) * params.get("zoom", 1)
    width, height = params.get("width", 3_000), params.get("height", 2_000)
    margin = params.get("padding_px", 32)
    high = height / scale
    if params.get("fit", "content") == "content":
        _, left = _build(document, (width / scale, HEIGHT_MAX_PT), margin, pages=1)
        high = HEIGHT_MAX_PT - left + margin + 2 * _SIZE_PT
    if width * high * scale > PIXELS_MAX:
        raise DocumentError("document_too_large", f"a picture has {PIXELS_MAX} pixels at most; write a PDF")
    data, _ = _build(document, (width / scale, high), margin)
    _warn_missing(document, warnings)
    image, pages = _draw(data, scale)
    if pages > 1:
        warnings.append({"code": "picture_cut", "message": "what does not fit into the height is left out"})
    content = params.get("fit", "content") == "content"
    box = _content_box(image, round(margin * scale)) if content else (0, 0, width, height)
    buffer = io.BytesIO()
    image.crop(box).save(buffer, "PNG")
    return buffer.getvalue()


def _draw(data: bytes, scale: float) -> tuple[Any, int]:
    """Return the first page of a PDF as a picture, and the number of its pages."""
    from pypdfium2 import PdfDocument  # noqa: PLC0415 - for pictures only

    with PdfDocument(data) as file:
        return file[0].render(scale=scale).to_pil().convert("RGB"), len(file)


def _content_box(image: Any, margin: int) -> tuple[int, int, int, int]:
    """Return the part of a picture that is not white, plus a margin."""
    from PIL import ImageChops  # noqa: PLC0415 - for pictures only

    left, top, right, low = ImageChops.invert(image).getbbox() or (0, 0, *image.size)
    return (
        max(0, left - margin),
        max(0, top - margin),
        min(image.width, right + margin),
        min(image.height, low + margin),
    )


def _build(
    document: Document,
    size: tuple[float, float],
    margin: float,
    *,
    numbered: bool = False,
    pages: int = PAGES_MAX,
) -> tuple[bytes, float]:
    """Return the PDF of a document, and the height left on its last page."""
    _register_fonts()
    width, height = size[0] - 2 * margin, size[1] - 2 * margin
    if min(width, height) < 2 * _SIZE_PT:
        raise DocumentError("document_too_large", "no text fits into this width and height")
    frame = Frame(margin, margin, width, height, 0, 0, 0, 0)

    def end_page(canvas: Any, _template: Any) -> None:
        number = canvas.getPageNumber()
        if number > pages:
            # Our own exception would not survive: the library builds a new one from its type and text.
            raise LayoutError(f"more than {pages} pages")
        if numbered:
            canvas.setFont(_FONT, 8)
            canvas.drawCentredString(size[0] / 2, margin / 2, str(number))

    buffer = io.BytesIO()
    template = BaseDocTemplate(
        buffer,
        pagesize=size,
        title=document.title or "Document",
        author="",
        pageTemplates=[PageTemplate(frames=[frame], onPage=end_page)],
    )
    story = list(_Story(document, width, height).flowables()) or [Spacer(1, 1)]
    try:
        template.build(story)
    except LayoutError as error:
        message = f"it has more than {pages} pages of this size, or a part that is higher than a page"
        raise DocumentError("document_too_large", message) from error
    return buffer.getvalue(), frame._y  # noqa: SLF001 - the position of the next paragraph


@cache
def _register_fonts() -> None:
    """Register the fonts that Matplotlib ships: they cover most alphabets."""
    for family in (_FONT, _MONO):
        names = [f"{family}{face}" for face in _FACES]
        for name in names:
            pdfmetrics.registerFont(TTFont(name, str(_fonts() / f"{name}.ttf")))
        pdfmetrics.registerFontFamily(family, *names)


@cache
def _fonts() -> Path:
    found = importlib.util.find_spec("matplotlib")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent / "mpl-data/fonts/ttf"


def _warn_missing(document: Document, warnings: list[dict[str, str]]) -> None:
    """Warn about letters that the font does not have, and about letters that it has in only one form."""
    shown_texts = [
        document.title,
        *texts(document.blocks),
        *(map(source_line, document.sources) if document.listed else ()),
    ]
    letters = dict.fromkeys(letter for text in shown_texts for letter in shaped(text))
    missing = [letter for letter in letters if not letter.isspace() and not _has(_FONT, letter)]
    apart = [letter for letter in unjoined("".join(letters)) if letter not in missing]
    for code, found, what in (
        ("characters_not_in_font", missing, "are not in the font and are drawn as boxes"),
        ("letters_not_joined", apart, "have one form in the font and are drawn apart"),
    ):
        if found:
            shown = "".join(found[:_SHOWN])
            message = (
                f"{len(found)} characters ({_scripts(found)}) {what}: {shown}; write a DOCX or HTML instead"
            )
            warnings.append({"code": code, "message": message})


def _has(font: str, text: str) -> bool:
    drawn = pdfmetrics.getFont(font).face.charToGlyph
    return all(ord(letter) in drawn or letter.isspace() for letter in text)


def _scripts(letters: Sequence[str]) -> str:
    """Return the scripts of letters, by the first word of each letter's name: `CJK, Devanagari`."""
    words = [
        unicodedata.name(letter, "unnamed").partition(" ")[0]
        if unicodedata.category(letter)[0] in "LM"
        else "symbols"
        for letter in letters
    ]
    found = list(dict.fromkeys(word if word == "CJK" else word.capitalize() for word in words))
    return ", ".join(found[:_SHOWN])


class _Story:
    """The flowables of a document within a width and a height."""

    def __init__(self, document: Document, width: float, height: float) -> None:
        self._document = document
        self._width = width
        self._height = height

    def flowables(self) -> Iterator[Any]:
        if self._document.title:
            yield self._paragraph(
                (Span(self._document.title),), _style(_HEADINGS_PT[0] + 4, after=14, bold=True), self._width
            )
        yield from self._blocks(self._document.blocks, 0)
        if self._document.listed:
            yield Paragraph("Sources", _style(_HEADINGS_PT[1], before=14, bold=True))
            for source in self._document.sources:
                line = (Span(f"[{source.number}] "), Span(source_line(source), link=source.url))
                anchor = f'<a name="source{source.number}"/>'
                yield self._paragraph(line, _style(9), self._width, before=anchor)

    def _blocks(self, blocks: Sequence[Block], depth: int, *, mark: str = "") -> Iterator[Any]:
        for block, own in led(blocks, mark):
            yield from self._block(block, depth, own)

    def _block(self, block: Block, depth: int, mark: str) -> Iterator[Any]:
        match block:
            case Heading():
                size = _HEADINGS_PT[block.level - 1]
                width = self._width - depth * _INDENT_PT
                yield self._paragraph(block.spans, _style(size, before=10, bold=True), width)
            case Text():
                yield self._paragraph(
                    block.spans, _style(_SIZE_PT), self._width - depth * _INDENT_PT, mark=mark
                )
            case Code():
                yield self._code(block, depth)
            case Quote():
                yield from self._indented(self._blocks(block.blocks, depth + 1))
            case Items():
                for index, item in enumerate(block.items):
                    yield from self._indented(self._blocks(item, depth + 1, mark=block.mark(index)))
            case Table():
                yield self._table(block, depth)
                yield Spacer(1, 8)
            case Rule():
                yield HRFlowable(width="100%", color=colors.lightgrey, spaceBefore=8, spaceAfter=8)
            case Picture():
                yield self._picture(block, depth)

    def _indented(self, flowables: Iterator[Any]) -> Iterator[Any]:
        yield Indenter(left=_INDENT_PT)
        yield from flowables
        yield Indenter(left=-_INDENT_PT)

    def _paragraph(
        self, spans: Spans, style: ParagraphStyle, width: float, *, mark: str = "", before: str = ""
    ) -> Any:
        """Return a paragraph; one with right-to-left letters is broken into lines here."""
        text = plain(spans)
        if not has_right_to_left(text):
            return Paragraph(before + self._spans(spans), style, bulletText=mark or None)
        left = runs_left(text)
        if left and mark:
            spans, mark = (Span(f"{mark} "), *spans), ""
        style = style.clone(style.name, alignment=TA_RIGHT if left else TA_LEFT)

        def measure(span: Span) -> float:
            return float(pdfmetrics.stringWidth(span.text, _face(_drawable(span), style), style.fontSize))

        lines = ordered(spans, width - 1, measure, left=left)
        markup = "<br/>".join(self._spans(tuple(line)) for line in lines)
        return Paragraph(before + markup, style, bulletText=mark or None)

    def _code(self, block: Code, depth: int) -> Any:
        letters = max(1, int((self._width - depth * _INDENT_PT - 12) / (_CODE_PT * _LETTER)))
        lines = [
            line[at : at + letters]
            for line in block.text.expandtabs(4).split("\n")
            for at in range(0, max(1, len(line)), letters)
        ]
        if has_right_to_left(block.text):
            lines = [
                plain(part)
                for line in lines
                for part in ordered([Span(line)], inf, _no_width, left=False) or [[]]
            ]
        style = ParagraphStyle(
            "code",
            fontName=_MONO if _has(_MONO, "".join(lines)) else _FONT,
            fontSize=_CODE_PT,
            leading=_CODE_PT * 1.3,
            backColor=colors.whitesmoke,
            borderPadding=4,
            spaceBefore=8,
            spaceAfter=10,
        )
        return Preformatted("\n".join(lines), style)

    def _table(self, block: Table, depth: int) -> Any:
        width = self._width - depth * _INDENT_PT
        left = runs_left(head_text(block))
        rows = [row[::-1] for row in block.rows] if left else block.rows
        columns = list(zip(*rows, strict=True))
        weights = [min(60, max(4, *(len(plain(cell)) for cell in column), 4)) for column in columns]
        widths = [width * weight / sum(weights) for weight in weights]
        head, body = _style(9, bold=True, after=0), _style(9, after=0)
        cells = [
            [
                self._paragraph(cell, body if number else head, wide - 2 * _CELL_PT)
                for cell, wide in zip(row, widths, strict=True)
            ]
            for number, row in enumerate(rows)
        ]
        style = TableStyle(
            [
                ("GRID", (0, 0), (-1, -1), 0.5, colors.lightgrey),
                ("BACKGROUND", (0, 0), (-1, 0), colors.whitesmoke),
                ("VALIGN", (0, 0), (-1, -1), "TOP"),
                ("LEFTPADDING", (0, 0), (-1, -1), _CELL_PT),
                ("RIGHTPADDING", (0, 0), (-1, -1), _CELL_PT),
            ]
        )
        align = "RIGHT" if left else "LEFT"
        return LongTable(cells, colWidths=widths, repeatRows=1, splitInRow=1, style=style, hAlign=align)

    def _picture(self, block: Picture, depth: int) -> Any:
        width, height = block.width_px * _PX_PT, block.height_px * _PX_PT
        scale = min(1.0, (self._width - depth * _INDENT_PT) / width, (self._height - 12) / height)
        return Image(io.BytesIO(block.data), width * scale, height * scale, hAlign="LEFT")

    def _spans(self, spans: Spans) -> str:
        return "".join(map(self._span, spans))

    def _span(self, span: Span) -> str:
        if span.note:
            target = f"#source{span.note}" if self._document.listed else self._document.target(span.note)
            mark = f"[{span.note}]"
            return f"<super>{_link(mark, target)}</super>"
        span = _drawable(span)
        text = escape(span.text).replace("\n", "<br/>")
        if span.code:
            text = f'<font face="{_MONO}">{text}</font>'
        for tag, wanted in (("b", span.bold), ("i", span.italic), ("strike", span.struck)):
            text = f"<{tag}>{text}</{tag}>" if wanted else text
        return _link(text, span.link)


def _drawable(span: Span) -> Span:
    """Return a span in the first of its styles that has its letters: no slanted Arabic, no Hebrew in a code font."""
    for one in (span, replace(span, italic=False), replace(span, italic=False, code=False)):
        if _has(_face(one), one.text):
            return one
    return span


def _face(span: Span, style: ParagraphStyle | None = None) -> str:
    bold = span.bold or (style is not None and style.fontName.endswith("-Bold"))
    return (_MONO if span.code else _FONT) + _FACES[bold + 2 * span.italic]


def _no_width(_span: Span) -> float:
    return 0.0


def _link(text: str, target: str) -> str:
    return f'<a href={quoteattr(target)} color="#0563c1">{text}</a>' if target else text


def _style(size: float, *, before: float = 0, after: float = 6, bold: bool = False) -> ParagraphStyle:
    return ParagraphStyle(
        "text",
        fontName=f"{_FONT}-Bold" if bold else _FONT,
        fontSize=size,
        leading=size * 1.35,
        spaceBefore=before,
        spaceAfter=after,
        bulletFontName=_FONT,
        bulletFontSize=size,
        bulletIndent=-_INDENT_PT + 4,
        splitLongWords=True,
    )
