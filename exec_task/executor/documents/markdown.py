"""Markdown as blocks, with its citations, links and pictures resolved.

HTML in the Markdown stays text. The tokens are walked without recursion, because emphasis can be nested as deeply
as the text is long. The supervisor knows the pool of sources and resolves citations: `tokens` are the citations of
the text, each with its known sources.
Source: markdown-it-py, "Using markdown_it", "The Token Stream".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from .parser import make_parser
from .refusal import DocumentError

if TYPE_CHECKING:
    from markdown_it.token import Token

    from .picture import Pictures

DEPTH_MAX: Final = 12
"""The maximum nesting of lists and quotes."""
CELLS_MAX: Final = 20_000
COLUMNS_MAX: Final = 50

_PARSED_DEPTH_MAX: Final = 100
"""The parser drops deeper nesting; a text that reaches this depth is refused."""
_LINK: Final = re.compile(r"(?:https?://|mailto:)\S", re.IGNORECASE)
_UNPRINTABLE: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")


@dataclass(frozen=True)
class Span:
    """A piece of text in one style. `note` is the number of a footnote, whose text is empty."""

    text: str
    bold: bool = False
    italic: bool = False
    code: bool = False
    struck: bool = False
    link: str = ""
    note: int = 0


Spans: TypeAlias = tuple[Span, ...]


@dataclass(frozen=True)
class Heading:
    level: int
    spans: Spans


@dataclass(frozen=True)
class Text:
    spans: Spans


@dataclass(frozen=True)
class Code:
    text: str


@dataclass(frozen=True)
class Quote:
    blocks: list[Block]


@dataclass(frozen=True)
class Items:
    """A list; the first item of an ordered one has the number `start`."""

    ordered: bool
    start: int
    items: list[list[Block]] = field(default_factory=list)

    def mark(self, index: int) -> str:
        """Return the mark before an item."""
        return f"{self.start + index}." if self.ordered else "•"


def led(blocks: Sequence[Block], mark: str) -> Iterator[tuple[Block, str]]:
    """Yield blocks, the first with the mark of their item; an empty text comes first if no text does."""
    if mark and not (blocks and isinstance(blocks[0], Text)):
        blocks = [Text(()), *blocks]
    for block in blocks:
        yield block, mark
        mark = ""


@dataclass(frozen=True)
class Table:
    """A table; every row has as many cells as the first one, the head."""

    rows: list[list[Spans]]


@dataclass(frozen=True)
class Rule:
    """A line between two parts; in a slide deck, a new slide."""


@dataclass(frozen=True)
class Picture:
    """A picture from the turn, as PNG or JPEG."""

    alt: str
    data: bytes
    mime: str
    width_px: int
    height_px: int


Block: TypeAlias = Heading | Text | Code | Quote | Items | Table | Rule | Picture


@dataclass(frozen=True)
class Source:
    """A cited source; `number` is the number of its footnote."""

    number: int
    title: str
    url: str


@dataclass(frozen=True)
class Document:
    title: str
    blocks: list[Block]
    sources: list[Source]
    listed: bool
    """True if the document ends with a list of its sources, which the footnotes link to."""

    def target(self, note: int) -> str:
        """Return the address that a footnote links to if there is no list of sources; "" for none."""
        return self.sources[note - 1].url


def clean(text: str) -> str:
    """Return a text without the characters that a document cannot contain."""
    return _UNPRINTABLE.sub("", text)


def plain(spans: Sequence[Span]) -> str:
    """Return the text of spans, with their footnotes as numbers."""
    return "".join(f"[{span.note}]" if span.note else span.text for span in spans)


def texts(blocks: Sequence[Block]) -> Iterator[str]:
    """Yield every text of blocks."""
    for block in blocks:
        match block:
            case Heading() | Text():
                yield plain(block.spans)
            case Code():
                yield block.text
            case Quote():
                yield from texts(block.blocks)
            case Items():
                for item in block.items:
                    yield from texts(item)
            case Table():
                yield from (plain(cell) for row in block.rows for cell in row)


def head_text(table: Table) -> str:
    """Return the head of a table, which decides the direction of its columns."""
    return " ".join(map(plain, table.rows[0]))


def source_line(source: Source) -> str:
    """Return a source as an entry of the list, without its number."""
    return f"{source.title} — {source.url}" if source.url and source.title != source.url else source.title


class Notes:
    """The footnotes of a document: one for each cited source, numbered in the order of the text."""

    def __init__(self, tokens: Mapping[str, list[int]], sources: Sequence[Mapping[str, Any]]) -> None:
        self._broken = {token: " ".join(token.split()) for token in tokens if "\n" in token}
        self._tokens = {self._broken.get(token, token): sids for token, sids in tokens.items()}
        self._known = {row["sid"]: row for row in sources}
        self._numbers: dict[int, int] = {}
        spelled = sorted(map(re.escape, self._tokens), key=len, reverse=True)
        self._pattern = re.compile(f"({'|'.join(spelled)})") if spelled else None

    @property
    def sids(self) -> list[int]:
        """The cited sources, in the order of their footnotes."""
        return list(self._numbers)

    def join(self, text: str) -> str:
        """Return a text without line breaks inside citations; a line break would end the text piece."""
        for token, joined in self._broken.items():
            text = text.replace(token, joined)
        return text

    def split(self, text: str) -> list[tuple[str, int]]:
        """Return a text as pieces, each with 0 or, for a footnote, the footnote's number."""
        if self._pattern is None:
            return [(text, 0)]
        pieces: list[tuple[str, int]] = []
        for piece in self._pattern.split(text):
            if piece in self._tokens:
                pieces += [
                    ("", self._numbers.setdefault(sid, len(self._numbers) + 1)) for sid in self._tokens[piece]
                ]
            elif piece:
                pieces.append((piece, 0))
        return pieces

    def sources(self) -> list[Source]:
        """Return the cited sources, in the order of their footnotes."""
        rows = [self._known[sid] for sid in self._numbers]
        return [Source(n, clean(row["title"]), clean(row["url"])) for n, row in enumerate(rows, 1)]


class Reader:
    """Builds the blocks of one Markdown text."""

    def __init__(self, notes: Notes, pictures: Pictures) -> None:
        self._notes = notes
        self._pictures = pictures
        self._open: list[list[Block]] = [[]]
        self._lists: list[Items] = []
        self._table: list[list[Spans]] = []
        self._cells = 0
        self._heading = 0
        self._in_table = False

    def read(self, content: str) -> list[Block]:
        """Return the blocks of a text. Raises DocumentError `nested_too_deep`, `document_too_large`."""
        options = {"html": False, "maxNesting": _PARSED_DEPTH_MAX}
        for token in make_parser(options, enable=("table", "strikethrough")).parse(
            clean(self._notes.join(content))
        ):
            if token.level > 3 * DEPTH_MAX or len(self._open) > DEPTH_MAX:
                message = f"lists and quotes are nested {DEPTH_MAX} levels deep at most"
                raise DocumentError("nested_too_deep", message)
            self._take(token)
        return self._open[0]

    def _take(self, token: Token) -> None:
        match token.type:
            case "heading_open":
                self._heading = int(token.tag[1:])
            case "heading_close":
                self._heading = 0
            case "inline":
                self._take_inline(token.children or [])
            case "fence" | "code_block":
                self._open[-1].append(Code(token.content.rstrip("\n")))
            case "hr":
                self._open[-1].append(Rule())
            case _:
                self._take_container(token)

    def _take_container(self, token: Token) -> None:
        here = self._open[-1]
        match token.type:
            case "bullet_list_open" | "ordered_list_open":
                start = token.attrGet("start")
                self._lists.append(
                    Items(token.type == "ordered_list_open", int(1 if start is None else start))
                )
            case "bullet_list_close" | "ordered_list_close":
                here.append(self._lists.pop())
            case "list_item_open" | "blockquote_open":
                self._open.append([])
            case "list_item_close":
                self._lists[-1].items.append(self._open.pop())
            case "blockquote_close":
                self._open[-2].append(Quote(self._open.pop()))
            case "table_open":
                self._table, self._in_table = [], True
            case "tr_open":
                self._table.append([])
            case "table_close":
                self._in_table = False
                here.append(Table(self._table))

    def _take_inline(self, children: Sequence[Token]) -> None:
        spans: list[Span] = []
        parts: list[Block] = []
        for one in self._inline(children):
            if isinstance(one, Span):
                spans.append(one)
            elif self._heading or self._in_table:
                spans.append(Span(one.alt))
            else:
                parts += [Text(tuple(spans))] if plain(spans).strip() else []
                parts.append(one)
                spans = []
        if self._in_table:
            self._take_cell(tuple(spans))
        elif self._heading:
            self._open[-1].append(Heading(self._heading, tuple(spans)))
        else:
            self._open[-1].extend([*parts, *([Text(tuple(spans))] if plain(spans).strip() else [])])

    def _take_cell(self, spans: Spans) -> None:
        self._table[-1].append(spans)
        self._cells += 1
        if self._cells > CELLS_MAX or len(self._table[-1]) > COLUMNS_MAX:
            message = f"the tables of a document have {CELLS_MAX} cells and {COLUMNS_MAX} columns at most"
            raise DocumentError("document_too_large", message)

    def _inline(self, children: Sequence[Token]) -> list[Span | Picture]:
        found: list[Span | Picture] = []
        depth = dict.fromkeys(("strong", "em", "s"), 0)
        link = ""
        for token in children:
            name = token.type.removesuffix("_open").removesuffix("_close")
            style: dict[str, Any] = {
                "bold": depth["strong"] > 0,
                "italic": depth["em"] > 0,
                "struck": depth["s"] > 0,
                "link": link,
            }
            if name in depth:
                depth[name] += token.nesting
            elif token.type == "link_open":
                href = str(token.attrGet("href") or "")
                link = href if _LINK.match(href) else ""
            elif token.type == "link_close":
                link = ""
            elif token.type == "image":
                picture = self._pictures.load(str(token.attrGet("src") or ""), token.content)
                found += [picture] if picture else []
            elif token.type == "code_inline":
                found.append(Span(token.content, code=True, **style))
            elif token.type in ("softbreak", "hardbreak"):
                found.append(Span("\n" if token.type == "hardbreak" else " ", **style))
            else:
                split = self._notes.split(token.content)
                found += [Span(text, note=note, **({} if note else style)) for text, note in split]
        return found
