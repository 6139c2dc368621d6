"""The shared parts of report pages: their beginning, and foreign text in them. Pure.

A page is one file without scripts or addresses, and its policy forbids both.
"""

from __future__ import annotations

from html import escape
from typing import Final

from stepline.local.safe_text import clean

_PAGE: Final = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; --line: #8886; --good: #1a7f37; --bad: #cf222e; --open: #9a6700 }}
table {{ border-collapse: collapse; width: 100% }}
td, th {{ border-bottom: 1px solid var(--line); padding: .3rem .5rem; text-align: left; vertical-align: top }}
.muted {{ opacity: .75 }}
{style}</style>
</head>
<body>
"""


def begin_page(title: str, style: str) -> str:
    """Return the beginning of a page of HTML whose policy forbids scripts and addresses; both parameters are our own."""
    return _PAGE.format(title=title, style=style)


def html_text(text: str) -> str:
    """Return foreign text for a page or an attribute; characters that XML forbids become signs."""
    return escape(clean(text).encode("utf-8", "replace").decode(), quote=True)
