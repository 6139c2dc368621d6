"""A program that reads a page from standard input, and writes its readable text as JSON.

Every extractor and every decoder takes minutes on some pages, so a page of any type is read in a separate process that
can be ended, with limits on time and memory, and without the parent's environment. Arguments: the folders of modules,
joined by colons, and the answer's facts about the page, as JSON.
"""

from __future__ import annotations

import json
import re
import resource
import sys
from typing import Any, Final

CPU_S: Final = 5
MEMORY_BYTES: Final = 320 * 1024 * 1024
"""Memory limit next to the function that fetches, within its 512 MB; two mebibytes of elements need 240 MB."""
PAGE_TEXT_CHARS: Final = 200_000
FACT_CHARS: Final = 400
HEAD_CHARS: Final = 1_024
SPOILT: Final = 10
"""One in this number of non-ASCII characters may be invalid; if more are, the text has another encoding."""

NO_TEXT: Final = "type_refused"
UNTOLD: Final = "encoding_unknown"
TOO_DEEP: Final = "page_unreadable"

_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f]")
_JSON: Final = re.compile(r"application/json|.*\+json")
_PUBLISHED: Final = (
    'meta[property="article:published_time"]',
    'meta[itemprop="datePublished"]',
    'meta[name="dcterms.date"]',
    'meta[name="date"]',
)
_STATED: Final = re.compile(r'"datePublished"\s{0,9}:\s{0,9}"([^"]{4,40})"')


class PageRefused(Exception):  # noqa: N818 - not our error: a page has no text
    """A page has no readable text; its argument is the code."""


def main() -> None:
    """Read one page."""
    for limit, value in (
        (resource.RLIMIT_CPU, CPU_S),
        (resource.RLIMIT_AS, MEMORY_BYTES),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(limit, (value, value))
    sys.path.extend(sys.argv[1].split(":"))
    about = json.loads(sys.argv[2])
    try:
        found = read(sys.stdin.buffer.read(), **about)
    except PageRefused as refused:
        found = {"refused": str(refused)}
    # Half a surrogate pair would make the page unreadable for its next reader.
    json.dump({name: text.encode(errors="replace").decode() for name, text in found.items()}, sys.stdout)


def read(data: bytes, *, html: bool, mime: str, charset: str) -> dict[str, str]:
    """Return the text of a page and its other facts. Raises Refused."""
    text = _decode(data, charset)
    if _CONTROL.search(text, 0, HEAD_CHARS):
        raise PageRefused(NO_TEXT)
    if html:
        return read_html(text)
    if _JSON.fullmatch(mime) and text.strip():
        check_json(text)
    return {"text": text[:PAGE_TEXT_CHARS]}


def _decode(data: bytes, charset: str) -> str:
    """Return the text, decoded by its mark, by the stated encoding, or by the detected one. Raises Refused."""
    from stepline.model.file.charset import CODECS, marked_codec, read_as  # noqa: PLC0415 - its location is an argument
    from stepline.preflight.detect_charset import (  # noqa: PLC0415 - as above
        detect_charset,
        find_declarations,
        find_label,
    )

    if codec := marked_codec(data):
        return data.decode(codec, "replace")
    found = detect_charset(data, declared=charset)
    if found is not None:
        return data.decode(read_as(found) if found else "utf-8-sig")
    # A page that was cut, or has an invalid character, loses no more than that.
    labels = (find_label(charset), *map(find_label, find_declarations(data)), "utf-8")
    for label in filter(None, labels):
        text = data.decode(CODECS[label], "replace")
        foreign = sum(not char.isascii() for char in text)
        if text.count("\ufffd") * SPOILT <= foreign + SPOILT - 1:
            return text
    raise PageRefused(NO_TEXT if b"\0" in data else UNTOLD)


def check_json(text: str) -> None:
    """Refuse a text that is neither one JSON value nor one per line. Raises Refused."""
    try:
        try:
            json.loads(text)
        except json.JSONDecodeError:
            for line in filter(str.strip, text.splitlines()):
                json.loads(line)
    except (RecursionError, MemoryError):
        raise PageRefused(TOO_DEEP) from None
    except ValueError:
        raise PageRefused(NO_TEXT) from None


def read_html(html: str) -> dict[str, str]:
    """Return title, text, author and the stated time of publication; the main content, or all text without one."""
    from resiliparse.extract.html2text import extract_plain_text  # noqa: PLC0415 - its location is an argument
    from resiliparse.parse.html import HTMLTree  # noqa: PLC0415 - as above

    tree = HTMLTree.parse(html)
    text = extract_plain_text(tree, main_content=True) or extract_plain_text(tree)
    published = next(filter(None, (_meta(tree, selector) for selector in _PUBLISHED)), "")
    if not published and (found := _STATED.search(html)):
        published = found[1]
    return {
        "title": (_meta(tree, 'meta[property="og:title"]') or tree.title or "")[:FACT_CHARS],
        "text": text[:PAGE_TEXT_CHARS],
        "author": _meta(tree, 'meta[name="author"]'),
        "published": published,
    }


def _meta(tree: Any, selector: str) -> str:
    found = tree.head.query_selector(selector) if tree.head else None
    return ((found.getattr("content") or "") if found else "")[:FACT_CHARS].strip()


if __name__ == "__main__":
    main()
