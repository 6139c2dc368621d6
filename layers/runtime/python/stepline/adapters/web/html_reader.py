"""A program: read HTML from standard input, write its readable text as JSON.

Every extractor has pages on which it takes minutes, so it runs in a process of its own, with limits on time and
memory, without the parent's environment, and can be ended. Arguments: where the extractor is installed, the
character set or "".
"""

from __future__ import annotations

import json
import re
import resource
import sys
from typing import Any, Final

CPU_S: Final = 5
MEMORY_BYTES: Final = 320 * 1024 * 1024
"""Beside the function that fetches, within its 512 MB; two mebibytes of elements take 240."""
TEXT_CHARS: Final = 200_000
FACT_CHARS: Final = 400

_PUBLISHED: Final = (
    'meta[property="article:published_time"]',
    'meta[itemprop="datePublished"]',
    'meta[name="dcterms.date"]',
    'meta[name="date"]',
)
_STATED: Final = re.compile(r'"datePublished"\s{0,9}:\s{0,9}"([^"]{4,40})"')


def main() -> None:
    """Read one page."""
    for limit, value in (
        (resource.RLIMIT_CPU, CPU_S),
        (resource.RLIMIT_AS, MEMORY_BYTES),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(limit, (value, value))
    sys.path.append(sys.argv[1])
    json.dump(read_html(sys.stdin.buffer.read(), sys.argv[2]), sys.stdout)


def read_html(data: bytes, charset: str) -> dict[str, str]:
    """Return title, text, author and the stated time of publication; the main content, or all text without one."""
    from resiliparse.extract.html2text import extract_plain_text  # noqa: PLC0415 - its place is an argument
    from resiliparse.parse.encoding import bytes_to_str, detect_encoding  # noqa: PLC0415 - as above
    from resiliparse.parse.html import HTMLTree  # noqa: PLC0415 - as above

    html = bytes_to_str(data, charset or detect_encoding(data, from_html_meta=True) or "utf-8")
    tree = HTMLTree.parse(html)
    text = extract_plain_text(tree, main_content=True) or extract_plain_text(tree)
    published = next(filter(None, (_meta(tree, selector) for selector in _PUBLISHED)), "")
    if not published and (found := _STATED.search(html)):
        published = found[1]
    return {
        "title": (_meta(tree, 'meta[property="og:title"]') or tree.title or "")[:FACT_CHARS],
        "text": text[:TEXT_CHARS],
        "author": _meta(tree, 'meta[name="author"]'),
        "published": published,
    }


def _meta(tree: Any, selector: str) -> str:
    found = tree.head.query_selector(selector) if tree.head else None
    return ((found.getattr("content") or "") if found else "")[:FACT_CHARS].strip()


if __name__ == "__main__":
    main()
