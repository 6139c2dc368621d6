"""Pages of the public web: one guarded GET per address, within limits of time, size, redirects and type.

Connections are made to the addresses that the guard pinned, never through a proxy, which would resolve the name
again. TLS and the header `Host` name the host. Requests carry no cookies, no referrer, and no identity.

Source: RFC 9110, "Redirection 3xx" and "Content-Encoding"; docs/concepts/sources.md#fetched-pages;
resiliparse.chatnoir.eu, "HTML2Text".
"""

from __future__ import annotations

import http.client
import importlib.util
import json
import logging
import os
import socket
import ssl
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from functools import cached_property
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urljoin

import msgspec

from stepline.adapters.http_pool import make_trust
from stepline.adapters.web.address_guard import HOST_UNREACHABLE, AddressGuard, IpAddress, Target
from stepline.adapters.web.page_reader import PAGE_TEXT_CHARS
from stepline.adapters.web.stated_time import read_time
from stepline.errors import DependencyError, ToolError
from stepline.model.base import Value
from stepline.model.file.mime import is_text
from stepline.ports.search import Page

TYPE_REFUSED: Final = "type_refused"
NO_TEXT: Final = "insufficient_content"
UNREADABLE: Final = "page_unreadable"
UNKNOWN_ENCODING: Final = "encoding_unknown"

HTML: Final = frozenset({"text/html", "application/xhtml+xml"})
READ_S: Final = 10.0
"""Timeout of the process that reads a page; its CPU time limit is half of this."""

_PROGRAM: Final = Path(__file__).with_name("page_reader.py")
WORD_CHARS: Final = 80
_PACKAGES: Final = ("stepline", "resiliparse")
_UNREADABLE: Final = "the page cannot be read within its limits"
_REFUSALS: Final = {
    TYPE_REFUSED: "the page says that it is {}, and is not",
    UNKNOWN_ENCODING: "the page's encoding cannot be determined: it names none of the web, and its bytes are not UTF-8",
}
_KEPT: Final = ("LD_LIBRARY_PATH",)
"""The variables that an interpreter needs to start."""


class _PageBody(NamedTuple):
    """The content of an answer, up to the limit of bytes; `cut` if there was more."""

    data: bytes
    mime: str
    charset: str
    cut: bool


class _Read(Value):
    """The result of the process, or the code of its failure."""

    title: str = ""
    text: str = ""
    author: str = ""
    published: str = ""
    refused: str = ""


def _read_page(body: _PageBody, *, url: str, final_url: str) -> Page:
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
        text=found.text[:PAGE_TEXT_CHARS],
        mime=body.mime,
        published_time_iso=read_time(found.published),
        author=found.author,
        truncated=body.cut or len(found.text) >= PAGE_TEXT_CHARS,
    )


def _read(body: _PageBody) -> _Read:
    """Return the text that the reader process finds in a page. Raises ToolError `page_unreadable`."""
    about = {"html": body.mime in HTML, "mime": body.mime[:WORD_CHARS], "charset": body.charset[:WORD_CHARS]}
    command = [sys.executable, "-I", "-S", "-B", str(_PROGRAM), _folders(), json.dumps(about)]
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}  # noqa: TID251 - not a setting: see _KEPT
    try:
        done = subprocess.run(  # noqa: S603 - our own program; it gets the page's bytes and two words
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


logger = logging.getLogger(__name__)

TIMEOUT: Final = "timeout"
MALFORMED: Final = "answer_malformed"
TOO_LARGE: Final = "page_too_large"
REDIRECTS: Final = "too_many_redirects"

CHUNK_BYTES: Final = 64 * 1024
REDIRECT_STATUSES: Final = frozenset({301, 302, 303, 307, 308})
AGENT: Final = "stepline"

_WHOLE: Final = ("application/json", "application/xml")
"""Types that are invalid if their end is missing; also every `+json` and `+xml`."""
LINES: Final = frozenset(
    f"application/{name}" for name in ("ndjson", "jsonl", "x-jsonl", "jsonlines", "x-jsonlines", "json-lines")
)
"""JSON types with one value per line, in addition to `application/x-ndjson`."""
_ACCEPTED: Final = (
    "text/html, application/xhtml+xml, text/plain, text/*;q=0.9, application/json, application/xml;q=0.8"
)
_DECODED: Final = frozenset({"gzip", "x-gzip", "deflate"})
_MAGIC: Final = (b"%PDF-", b"PK\x03\x04", b"\x89PNG", b"GIF8", b"\xff\xd8\xff", b"\x1f\x8b")


class FetchLimits(Value):
    """Limits of one page: seconds in total and for one silence; redirects; bytes after decompression."""

    page_s: float = 20.0
    silence_s: float = 8.0
    redirects: int = 5
    body_bytes: int = 2 * 1024 * 1024


class _PageDeadline:
    """The deadline of a page."""

    def __init__(self, limits: FetchLimits, clock: Callable[[], float]) -> None:
        self._silence_s, self._clock = limits.silence_s, clock
        self._ends = clock() + limits.page_s

    def left_s(self) -> float:
        """Return the seconds left for the next operation. Raises TimeoutError if there are none."""
        left = self._ends - self._clock()
        if left <= 0:
            raise TimeoutError("the page's time is over")
        return min(left, self._silence_s)


class _Bounded:
    """A socket that limits every read by the page's deadline: a slow server gets no more time than one that stops."""

    deadline: _PageDeadline

    def recv_into(self, *args: Any, **named: Any) -> int:
        self.settimeout(self.deadline.left_s())  # type: ignore[attr-defined] # of the socket class mixed in
        return super().recv_into(*args, **named)  # type: ignore[misc,no-any-return] # as above


class _Socket(_Bounded, socket.socket):
    """A bounded socket."""


class _TlsSocket(_Bounded, ssl.SSLSocket):
    """A bounded socket with TLS."""


class _Connection(http.client.HTTPConnection):
    """A connection to a pinned address."""

    def __init__(
        self, target: Target, address: IpAddress, deadline: _PageDeadline, trust: Callable[[], ssl.SSLContext]
    ) -> None:
        super().__init__(target.host, target.port)
        self._target, self._address, self._deadline, self._trust = target, address, deadline, trust

    def connect(self) -> None:
        family = socket.AF_INET6 if self._address.version == 6 else socket.AF_INET
        plain = _Socket(family, socket.SOCK_STREAM)
        self.sock = plain
        plain.deadline = self._deadline
        plain.settimeout(self._deadline.left_s())
        plain.connect((str(self._address), self._target.port))
        if self._target.scheme == "https":
            context = self._trust()
            context.sslsocket_class = _TlsSocket
            plain.settimeout(self._deadline.left_s())
            secure = context.wrap_socket(plain, server_hostname=self._target.host)
            assert isinstance(secure, _TlsSocket)
            secure.deadline = self._deadline
            self.sock = secure


@dataclass(frozen=True, kw_only=True)
class PageFetcher:
    """Fetches pages (`WebPages`). Thread-safe: only the trusted certificates are kept between two pages."""

    guard: AddressGuard = field(default_factory=AddressGuard)
    limits: FetchLimits = field(default_factory=FetchLimits)
    trust: Callable[[], ssl.SSLContext] = make_trust
    clock: Callable[[], float] = time.monotonic

    @cached_property
    def _trusted(self) -> ssl.SSLContext:
        """Created once: it takes 30 ms of CPU."""
        return self.trust()

    def fetch(self, url: str) -> Page:
        try:
            return self._fetch(url)
        except (ToolError, DependencyError):
            raise
        except Exception as error:  # any failure caused by a page must only affect this page
            logger.exception("page not read")
            raise ToolError("the page cannot be read", code=UNREADABLE) from error

    def _fetch(self, url: str) -> Page:
        deadline = _PageDeadline(self.limits, self.clock)
        target = self.guard.read(url)
        asked = target.url
        for _ in range(self.limits.redirects + 1):
            answer = self._send(target, deadline)
            if isinstance(answer, _PageBody):
                return _read_page(answer, url=asked, final_url=target.url)
            target = self.guard.read(_join(target.url, answer))
        raise ToolError(f"more than {self.limits.redirects} redirects", code=REDIRECTS)

    def _send(self, target: Target, deadline: _PageDeadline) -> _PageBody | str:
        """Return the content of a page, or the target of its redirect. Raises ToolError."""
        with _mapped(target):
            connection, response = self._open(target, deadline)
            try:
                if response.status in REDIRECT_STATUSES and (place := response.headers.get("Location")):
                    return place
                if response.status != http.HTTPStatus.OK:
                    raise ToolError(
                        f"{target.host} answered {response.status}", code=f"http_{response.status}"
                    )
                return self._body(response)
            finally:
                response.close()
                connection.close()

    def _open(self, target: Target, deadline: _PageDeadline) -> tuple[_Connection, http.client.HTTPResponse]:
        """Send the request to the first of the pinned addresses that accepts a connection."""
        addresses = self.guard.pin(target)
        for address in addresses:
            connection = _Connection(target, address, deadline, lambda: self._trusted)
            try:
                connection.connect()
            except OSError:
                connection.close()
                if address is addresses[-1]:
                    raise
                continue
            headers = {
                "Host": target.netloc,
                "User-Agent": AGENT,
                "Accept": _ACCEPTED,
                "Accept-Encoding": "gzip",
                "Connection": "close",
            }
            try:
                connection.request("GET", target.path, headers=headers)
                return connection, connection.getresponse()
            except BaseException:
                connection.close()
                raise
        raise AssertionError("the guard pins an address, or refuses")

    def _body(self, response: http.client.HTTPResponse) -> _PageBody:
        """Read the content of an answer up to the limit. Raises ToolError, and the errors that `_mapped` maps."""
        mime, charset = _type_of(response.headers)
        whole = mime in _WHOLE or mime.endswith(("+json", "+xml"))
        if not (is_text(mime) or mime in LINES or mime in HTML or whole):
            raise ToolError(
                f"the page is {mime or 'of no stated type'}; text, HTML, JSON and XML are read",
                code=TYPE_REFUSED,
            )
        encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
        if encoding not in ("identity", *_DECODED):
            raise ToolError(f"the page is encoded as {encoding[:40]}", code=TYPE_REFUSED)
        limit = self.limits.body_bytes
        data, cut = bytearray(), False
        for piece in _pieces(response, encoding, limit):
            data += piece
            if len(data) > limit:
                cut = True
                break
        if cut and whole and mime not in HTML:
            raise ToolError(f"the page has more than {limit} bytes", code=TOO_LARGE)
        if data.startswith(_MAGIC):
            raise ToolError(f"the page says that it is {mime}, and is not", code=TYPE_REFUSED)
        return _PageBody(bytes(data[:limit]), mime, charset, cut)


def _pieces(response: http.client.HTTPResponse, encoding: str, limit: int) -> Iterator[bytes]:
    """Yield the decompressed content as it arrives; each piece exceeds the limit by at most one byte."""
    unpack = zlib.decompressobj(zlib.MAX_WBITS | 32) if encoding in _DECODED else None
    while raw := response.read1(CHUNK_BYTES):
        yield unpack.decompress(raw, limit + 1) if unpack else raw
    if response.length:
        raise http.client.IncompleteRead(b"", response.length)


def _join(base: str, place: str) -> str:
    """Return the address of a redirect; "" if it cannot be read, which the guard refuses."""
    try:
        return urljoin(base, place)
    except ValueError:
        return ""


def _type_of(headers: Message) -> tuple[str, str]:
    """Return the type in lower case ("" if none is stated) and the character set."""
    stated = headers.get("Content-Type", "")
    mime = headers.get_content_type() if stated else ""
    return mime, str(headers.get_content_charset() or "")


@contextmanager
def _mapped(target: Target) -> Iterator[None]:
    """Raise errors of the network and of the answer's format as a ToolError."""
    try:
        yield
    except TimeoutError as error:
        raise ToolError(f"{target.host} does not answer in time", code=TIMEOUT) from error
    except (http.client.HTTPException, zlib.error, UnicodeError) as error:
        if isinstance(error, ConnectionError):  # closed before the first byte of an answer
            raise ToolError(f"{target.host} closed the connection", code=HOST_UNREACHABLE) from error
        raise ToolError(f"{target.host} did not answer with HTTP", code=MALFORMED) from error
    except OSError as error:
        words = "has no certificate that is trusted" if isinstance(error, ssl.SSLError) else "does not answer"
        raise ToolError(f"{target.host} {words}", code=HOST_UNREACHABLE) from error
