"""A document as one HTML page with embedded pictures; it loads and runs nothing."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, Final

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
    Table,
    Text,
    head_text,
    plain,
    texts,
)

_HEAD: Final = """\
<!doctype html>
<html>
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<title>{title}</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 48rem; margin: 2rem auto; padding: 0 1rem; color: #1a1a1a }}
table {{ border-collapse: collapse }}
th, td {{ border: 1px solid #bbb; padding: .3rem .6rem; text-align: start; vertical-align: top }}
th {{ background: #f0f0f0 }}
pre {{ background: #f5f5f5; padding: .8rem; overflow-x: auto }}
blockquote {{ border-inline-start: 3px solid #bbb; margin-inline-start: 0; padding-inline-start: 1rem; color: #555 }}
img {{ max-width: 100% }}
</style>
</head>
<body>
"""
_REL: Final = ' rel="noopener noreferrer"'


def write_html(document: Document, _params: Mapping[str, Any], _warnings: list[dict[str, str]]) -> bytes:
    """Return the page of a document."""
    parts = [_HEAD.format(title=escape(document.title or "Document"))]
    if document.title:
        parts.append(f"<h1{_dir(document.title)}>{escape(document.title)}</h1>\n")
    parts += [_block(block, document) for block in document.blocks]
    if document.listed:
        parts.append("<section>\n<h2>Sources</h2>\n<ol>\n")
        for source in document.sources:
            title = escape(source.title)
            link = f'<a href="{escape(source.url)}"{_REL}>{title}</a>' if source.url else title
            parts.append(f'<li id="source-{source.number}">{link}</li>\n')
        parts.append("</ol>\n</section>\n")
    return "".join([*parts, "</body>\n</html>\n"]).encode()


def _block(block: Block, document: Document) -> str:
    html = ""
    match block:
        case Heading():
            html = f"<h{block.level}{_dir(plain(block.spans))}>{_spans(block.spans, document)}</h{block.level}>\n"
        case Text():
            html = f"<p{_dir(plain(block.spans))}>{_spans(block.spans, document)}</p>\n"
        case Code():
            html = f"<pre><code>{escape(block.text)}</code></pre>\n"
        case Quote():
            html = (
                f"<blockquote{_dir(*texts(block.blocks))}>\n{_blocks(block.blocks, document)}</blockquote>\n"
            )
        case Items():
            tag, start = ("ol", f' start="{block.start}"') if block.ordered else ("ul", "")
            items = "".join(f"<li>{_blocks(item, document)}</li>\n" for item in block.items)
            html = f"<{tag}{start}{_dir(*texts([block]))}>\n{items}</{tag}>\n"
        case Table():
            html = f"<table{_dir(head_text(block))}>\n{_rows(block, document)}</table>\n"
        case Rule():
            html = "<hr>\n"
        case Picture():
            data = base64.b64encode(block.data).decode()
            html = f'<p><img alt="{escape(block.alt)}" src="data:{block.mime};base64,{data}"></p>\n'
    return html


def _dir(*parts: str) -> str:
    return ' dir="rtl"' if runs_left(" ".join(parts)) else ""


def _blocks(blocks: Sequence[Block], document: Document) -> str:
    return "".join(_block(block, document) for block in blocks)


def _rows(table: Table, document: Document) -> str:
    rows = []
    for number, row in enumerate(table.rows):
        tag = "td" if number else "th"
        cells = "".join(f"<{tag}{_dir(plain(cell))}>{_spans(cell, document)}</{tag}>" for cell in row)
        rows.append(f"<tr>{cells}</tr>\n")
    return "".join(rows)


def _spans(spans: Sequence[Span], document: Document) -> str:
    return "".join(_span(span, document) for span in spans)


def _span(span: Span, document: Document) -> str:
    if span.note:
        mark = f"[{span.note}]"
        target = f"#source-{span.note}" if document.listed else document.target(span.note)
        return f'<sup><a href="{escape(target)}">{mark}</a></sup>' if target else f"<sup>{mark}</sup>"
    text = escape(span.text).replace("\n", "<br>")
    for tag, wanted in (("code", span.code), ("b", span.bold), ("i", span.italic), ("s", span.struck)):
        text = f"<{tag}>{text}</{tag}>" if wanted else text
    return f'<a href="{escape(span.link)}"{_REL}>{text}</a>' if span.link else text
