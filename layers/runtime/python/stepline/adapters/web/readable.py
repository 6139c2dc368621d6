"""The readable text of an answer, decoded, and extracted from HTML, in a process of its own.

Source: resiliparse.chatnoir.eu, "HTML2Text".
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from stepline.adapters.web.page_reader import TEXT_CHARS
from stepline.adapters.web.stated_time import read_time
from stepline.errors import ToolError
from stepline.model.base import Value
from stepline.ports.search import Page

TYPE_REFUSED: Final = "type_refused"
NO_TEXT: Final = "insufficient_content"
UNREADABLE: Final = "page_unreadable"
UNKNOWN_ENCODING: Final = "encoding_unknown"

HTML: Final = frozenset({"text/html", "application/xhtml+xml"})
READ_S: Final = 10.0
"""For the process that reads a page; of CPU time it has half as much."""

_PROGRAM: Final = Path(__file__).with_name("page_reader.py")
WORD_CHARS: Final = 80
_PACKAGES: Final = ("stepline", "resiliparse")
_UNREADABLE: Final = "the page cannot be read within its limits"
_REFUSALS: Final = {
    TYPE_REFUSED: "the page says that it is {}, and is not",
    UNKNOWN_ENCODING: "the page's encoding cannot be determined: it names none of the web, and its bytes are not UTF-8",
}
_KEPT: Final = ("LD_LIBRARY_PATH",)
"""The part of the environment that an interpreter needs to start."""


class Body(NamedTuple):
    """The content of an answer: at most as many bytes as the limit, `cut` if there were more."""

    data: bytes
    mime: str
    charset: str
    cut: bool


class _Read(Value):
    """The findings of the process, or the code why there are none."""

    title: str = ""
    text: str = ""
    author: str = ""
    published: str = ""
    refused: str = ""


def read_page(body: Body, *, url: str, final_url: str) -> Page:
    """Return a page. Raises ToolError `type_refused`, `insufficient_content`, `page_unreadable`, `encoding_unknown`."""
    found = _read(body)
    if found.refused:
        raise ToolError(_REFUSALS.get(found.refused, _UNREADABLE).format(body.mime), code=found.refused)
    if not found.text.strip():
        raise ToolError("the page has no text", code=NO_TEXT)
    return Page(
        url=url,
        final_url=final_url,
        title=" ".join(found.title.split()),
        text=found.text[:TEXT_CHARS],
        mime=body.mime,
        published_time_iso=read_time(found.published),
        author=found.author,
        truncated=body.cut or len(found.text) >= TEXT_CHARS,
    )


def _read(body: Body) -> _Read:
    """Return the text that the reader's process finds in a page. Raises ToolError `page_unreadable`."""
    about = {"html": body.mime in HTML, "mime": body.mime[:WORD_CHARS], "charset": body.charset[:WORD_CHARS]}
    command = [sys.executable, "-I", "-S", "-B", str(_PROGRAM), _folders(), json.dumps(about)]
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}  # noqa: TID251 - no setting: see _KEPT
    try:
        done = subprocess.run(  # noqa: S603 - our own program; of the page it is given the bytes and two words
            command,
            input=body.data,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=kept,
            timeout=READ_S,
            check=True,
        )
        return msgspec.json.decode(done.stdout, type=_Read)
    except (subprocess.SubprocessError, msgspec.DecodeError) as error:
        raise ToolError(_UNREADABLE, code=UNREADABLE) from error


def _folders() -> str:
    """Return the folders from which the program imports. Raises ToolError `page_unreadable`."""
    found = [importlib.util.find_spec(name) for name in _PACKAGES]
    places = [str(Path(spec.origin).parents[1]) for spec in found if spec and spec.origin]
    if len(places) < len(_PACKAGES):
        raise ToolError("no extractor is installed here", code=UNREADABLE)
    return ":".join(dict.fromkeys(places))
