"""The readable text of an answer: HTML by an extractor in a process of its own, everything else as it is.

Source: resiliparse.chatnoir.eu, "HTML2Text".
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from stepline.adapters.web.html_reader import TEXT_CHARS
from stepline.adapters.web.stated_time import read_time
from stepline.errors import ToolError
from stepline.model.base import Value
from stepline.ports.search import Page

TYPE_REFUSED: Final = "type_refused"
NO_TEXT: Final = "insufficient_content"
UNREADABLE: Final = "page_unreadable"

HTML: Final = frozenset({"text/html", "application/xhtml+xml"})
READ_S: Final = 10.0
"""For the process that reads a page; of CPU time it has half as much."""

_PROGRAM: Final = Path(__file__).with_name("html_reader.py")
_KEPT: Final = ("LD_LIBRARY_PATH",)
"""The part of the environment that an interpreter needs to start."""


class Body(NamedTuple):
    """The content of an answer: at most as many bytes as the limit, `cut` if there were more."""

    data: bytes
    mime: str
    charset: str
    cut: bool


class _Read(Value):
    title: str = ""
    text: str = ""
    author: str = ""
    published: str = ""


def read_page(body: Body, *, url: str, final_url: str) -> Page:
    """Return a page. Raises ToolError `type_refused`, `insufficient_content`, `page_unreadable`."""
    found = _read_html(body) if body.mime in HTML else _Read(text=_read_text(body))
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


def _read_text(body: Body) -> str:
    try:
        text = body.data.decode(body.charset or "utf-8-sig", "replace")
    except LookupError:
        text = body.data.decode("utf-8-sig", "replace")
    if body.mime == "application/json" or body.mime.endswith("+json"):
        try:
            msgspec.json.decode(text)
        except msgspec.DecodeError as error:
            raise ToolError(f"the page says that it is {body.mime}, and is not", code=TYPE_REFUSED) from error
    return text


def _read_html(body: Body) -> _Read:
    """Return the text that the reader's process finds in a page. Raises ToolError `page_unreadable`."""
    command = [sys.executable, "-I", "-S", "-B", str(_PROGRAM), _library(), body.charset]
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}  # noqa: TID251 - no setting: see _KEPT
    try:
        done = subprocess.run(  # noqa: S603 - our own program; of the page it is given the bytes and a word
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
        raise ToolError("the page cannot be read within its limits", code=UNREADABLE) from error


def _library() -> str:
    """Return the folder in which the extractor is installed. Raises ToolError `page_unreadable`."""
    found = importlib.util.find_spec("resiliparse")
    if found is None or found.origin is None:
        raise ToolError("no extractor is installed here", code=UNREADABLE)
    return str(Path(found.origin).parents[1])
