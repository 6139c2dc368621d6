"""A file of the knowledge space as a document: its title, its description, and its sections.

Markdown has front matter and headings; any other text is one section, described by its first lines.
"""

from __future__ import annotations

import mimetypes
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any, Final

import yaml

from stepline.model.base import Value
from stepline.model.visible_text import shorten_line

MARKDOWN: Final = (".md", ".markdown")
PROSE: Final = (*MARKDOWN, ".rst", ".adoc", ".txt")
"""Extensions of documents; a root of documentation has no other ones."""
TITLE_CHARS, SUMMARY_CHARS = 120, 300
FIRST_LINES: Final = 3
WORDS_MAX: Final = 50


class Section(Value):
    """A section: its heading with those above it, its first line counted from 1, and its range in the text."""

    heading: str
    line: int
    start: int
    end: int


class KnowledgeDocument(Value):
    """A file with its description. `path` is its logical path, `kind` that of its root."""

    path: str
    kind: str
    mime: str
    title: str
    summary: str
    text: str
    sections: tuple[Section, ...]
    id: str = ""
    tags: tuple[str, ...] = ()
    keywords: tuple[str, ...] = ()
    see_also: tuple[str, ...] = ()

    @property
    def is_markdown(self) -> bool:
        return self.mime == "text/markdown"


def scan_document(path: str, kind: str, data: bytes) -> KnowledgeDocument | None:
    """Return a file as a document; None if it is not text, or not documentation in a documentation root."""
    name = PurePosixPath(path.removeprefix("ks:"))
    if kind == "docs" and name.suffix.lower() not in PROSE:
        return None
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    if "\0" in text:
        return None
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    if name.suffix.lower() in MARKDOWN:
        return _markdown(path, kind, text, name.stem)
    lines = [line.strip() for line in text.split("\n") if line.strip()][:FIRST_LINES]
    return KnowledgeDocument(
        path=path,
        kind=kind,
        mime=mimetypes.guess_type(name.name)[0] or "text/plain",
        title=name.name,
        summary=shorten_line(" ".join(lines)[:1_000], SUMMARY_CHARS),
        text=text,
        sections=(Section(heading=name.name, line=1, start=0, end=len(text)),),
    )


def _markdown(path: str, kind: str, text: str, stem: str) -> KnowledgeDocument:
    facts, begin = _front_matter(text)
    heads = list(_headings(text, begin))
    title = _text(facts.get("title")) or next((head for _, level, head, _ in heads if level == 1), "") or stem
    return KnowledgeDocument(
        path=path,
        kind=kind,
        mime="text/markdown",
        title=shorten_line(title, TITLE_CHARS),
        summary=shorten_line(_text(facts.get("summary")) or _first_paragraph(text[begin:]), SUMMARY_CHARS),
        text=text,
        sections=tuple(_sections(text, begin, heads)),
        id=_text(facts.get("id")),
        tags=_words(facts.get("tags")),
        keywords=_words(facts.get("keywords")),
        see_also=_words(facts.get("see_also")),
    )


def _front_matter(text: str) -> tuple[dict[str, Any], int]:
    """Return the fields between two lines `---` at the beginning, and the offset of the text after them."""
    if not text.startswith("---\n"):
        return {}, 0
    end = text.find("\n---\n", 3)
    if end < 0:
        return {}, 0
    try:
        facts = yaml.safe_load(text[4 : end + 1])
    except (yaml.YAMLError, ValueError, RecursionError):  # ValueError: an invalid date or number
        return {}, 0  # a text between two rules
    return (facts, end + 5) if isinstance(facts, dict) else ({}, 0)


def _text(value: Any) -> str:
    try:
        return str(value).strip() if isinstance(value, str | int | float) else ""
    except ValueError:  # a number with more digits than Python prints
        return ""


def _words(value: Any) -> tuple[str, ...]:
    """Return the words of a list, or of a text separated by commas."""
    listed = value.split(",") if isinstance(value, str) else value if isinstance(value, list) else []
    return tuple(filter(None, map(_text, listed)))[:WORDS_MAX]


def _lines(text: str, begin: int) -> Iterator[tuple[int, int, str]]:
    """Yield the lines outside fences: each line's offset, its number from 1, and its text."""
    at, fence = 0, ""
    for number, line in enumerate(text.split("\n"), 1):
        start, at = at, at + len(line) + 1
        if start < begin:
            continue
        bare = line.lstrip(" ")
        mark = bare[:1] if bare.startswith(("```", "~~~")) and len(line) - len(bare) < 4 else ""
        run = bare[: len(bare) - len(bare.lstrip(mark))] if mark else ""
        if fence:
            if run.startswith(fence) and bare.strip() == run:
                fence = ""
        elif run:
            fence = run
        else:
            yield start, number, line


def _headings(text: str, begin: int) -> Iterator[tuple[int, int, str, int]]:
    """Yield the headings: each one's offset, its level, its text, and its line number."""
    for start, number, line in _lines(text, begin):
        bare = line.lstrip(" ")
        level = len(bare) - len(bare.lstrip("#"))
        if 0 < level < 7 and len(line) - len(bare) < 4 and bare[level : level + 1] in (" ", "\t", ""):
            yield start, level, bare[level:].strip().rstrip("#").strip(), number


def _sections(text: str, begin: int, heads: list[tuple[int, int, str, int]]) -> Iterator[Section]:
    """Yield the text before the first heading, and that of every heading to the next one."""
    first = heads[0][0] if heads else len(text)
    if not heads or text[begin:first].strip():
        yield Section(heading="", line=text.count("\n", 0, begin) + 1, start=begin, end=first)
    above: list[tuple[int, str]] = []
    ends = [*(start for start, *_ in heads), len(text)][1:]
    for (start, level, head, number), end in zip(heads, ends, strict=True):
        above = [*((one, name) for one, name in above if one < level), (level, head)]
        yield Section(heading=" / ".join(name for _, name in above[-3:]), line=number, start=start, end=end)


def _first_paragraph(text: str) -> str:
    """Return the first lines of running text: no heading, table, list, quote, picture, or code."""
    found: list[str] = []
    for _, _, line in _lines(text, 0):
        bare = line.strip()
        if bare and not bare.startswith(("#", "|", "-", "*", ">", "!", "<", "[", "+")):
            found.append(bare)
        elif found:
            break
    return " ".join(found)
