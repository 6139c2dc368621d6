"""Markdown as GitHub reads it, as far as links go: headings and the anchors they make, and links."""

from __future__ import annotations

import re
from pathlib import Path

_FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def prose(page: Path) -> str:
    """Return a page's text without its code blocks."""
    return _FENCE.sub("", page.read_text(encoding="utf-8"))


def headings(page: Path) -> list[str]:
    return _HEADING.findall(prose(page))


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings."""
    return {anchor(heading) for heading in headings(page)}


def anchor(heading: str) -> str:
    """Return the anchor GitHub makes of a heading: lower case, words by dashes, no other punctuation."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
    return re.sub(r"[^\w\- ]", "", text).strip().replace(" ", "-")


def links(page: Path) -> list[str]:
    """Return the targets of a page's links, those in code left out."""
    return _LINK.findall(re.sub(r"`[^`\n]*`", "", prose(page)))
