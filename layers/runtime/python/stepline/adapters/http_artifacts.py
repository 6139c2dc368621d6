"""The artifact store over HTTP, for a holder of grants: each grant allows one request, and no others are made.

Possession of a grant's URL is the right, so no error, log or exception contains one.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import random
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any, BinaryIO, Final, TypeVar

from stepline.errors import DependencyError, NotFoundError, SteplineError
from stepline.model.program.handover import ObjectGrant
from stepline.ports.task import GrantedObjects

TIMEOUT_S: Final = 20.0
"""Timeout of the connection, and of each read of an answer."""

TRIES: Final = 5
PAUSE_S: Final = 0.2
PAUSE_MAX_S: Final = 5.0
LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})

_AGAIN: Final = frozenset({HTTPStatus.CONFLICT, HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.REQUEST_TIMEOUT})
"""Retried like the service's own failures; a conflict means another unsettled put of the same key."""

_T = TypeVar("_T")


class _Connection(http.client.HTTPConnection):
    """Reads an answer that arrives before a large body is completely sent, and then closes the connection."""

    def send(self, data: Any) -> None:
        if not self.sock:
            self.connect()
        with contextlib.suppress(
            BrokenPipeError, ConnectionResetError
        ):  # without an answer, reading it raises
            super().send(data)


class _SafeConnection(_Connection, http.client.HTTPSConnection):
    """The same connection over TLS."""


class _Http(urllib.request.HTTPHandler):
    def http_open(self, req: urllib.request.Request) -> Any:
        return self.do_open(_Connection, req)


class _Https(urllib.request.HTTPSHandler):
    def https_open(self, req: urllib.request.Request) -> Any:
        return self.do_open(_SafeConnection, req)


class _Unavailable(Exception):  # noqa: N818 - not an error: it ends one attempt
    """No answer, or an inconclusive one."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Treats a redirect as a refusal: a grant is for one host."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None


class HttpArtifacts:
    """Objects by presigned URLs, over https, or http on this machine. Thread-safe.

    A put whose answer was lost is reported as written by another process.
    """

    def __init__(self, *, sleep: Callable[[float], None] = time.sleep) -> None:
        """Start without a connection; `sleep` waits between attempts."""
        self._sleep = sleep
        self._jitter = random.SystemRandom()
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), _Http(), _Https(), _NoRedirect()
        )

    def get(self, grant: ObjectGrant) -> bytes:
        status, body = self._retry(lambda: self._exchange(grant, "GET", None, {}))
        if status == HTTPStatus.NOT_FOUND:
            raise NotFoundError("no such object")
        if status != HTTPStatus.OK:
            raise _refused(status)
        return body

    def put(self, grant: ObjectGrant, body: bytes | Path) -> bool:
        status, _ = self._retry(lambda: self._put(grant, body))
        if status == HTTPStatus.PRECONDITION_FAILED:
            return False
        if status not in (HTTPStatus.OK, HTTPStatus.CREATED, HTTPStatus.NO_CONTENT):
            raise _refused(status)
        return True

    def _put(self, grant: ObjectGrant, body: bytes | Path) -> tuple[int, bytes]:
        if isinstance(body, bytes):
            return self._exchange(grant, "PUT", body, {"Content-Length": str(len(body))})
        with body.open("rb") as file:
            size = {"Content-Length": str(os.fstat(file.fileno()).st_size)}
            return self._exchange(grant, "PUT", file, size)

    def _retry(self, attempt: Callable[[], _T]) -> _T:
        """Retry until there is an answer. Raises DependencyError."""
        last = ""
        for number in range(TRIES):
            if number:
                self._sleep(self._jitter.uniform(0, min(PAUSE_MAX_S, PAUSE_S * 2**number)))
            try:
                return attempt()
            except _Unavailable as error:
                last = str(error)
        raise DependencyError(f"the artifact store is not to be reached: {last}")

    def _exchange(
        self, grant: ObjectGrant, method: str, data: bytes | BinaryIO | None, headers: Mapping[str, str]
    ) -> tuple[int, bytes]:
        """Return status and body of a conclusive answer. Raises _Unavailable, DependencyError."""
        _check(grant.url)
        request = urllib.request.Request(  # noqa: S310 - the scheme is checked
            grant.url, data=data, headers={**headers, **grant.headers}, method=method
        )
        try:
            with self._opener.open(request, timeout=TIMEOUT_S) as response:
                return response.status, response.read()
        except urllib.error.HTTPError as error:
            status = error.code
            error.close()
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "reason", error)
            raise _Unavailable(f"no answer ({type(reason).__name__})") from None
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in _AGAIN:
            raise _Unavailable(f"it answered {status}")
        return status, b""


class GrantedArtifacts:
    """Read-only artifacts of a run, limited to its grants."""

    def __init__(self, reads: Mapping[str, ObjectGrant], objects: GrantedObjects) -> None:
        """Read `objects` by these grants, keyed by object."""
        self._reads = reads
        self._objects = objects

    def put(self, key: str, body: bytes, *, mime: str) -> bool:
        raise SteplineError("a task has no right to put this object", code="not_granted")

    def replace(self, key: str, body: bytes, *, mime: str) -> None:
        self.put(key, body, mime=mime)

    def get(self, key: str) -> bytes:
        grant = self._reads.get(key)
        if grant is None:
            raise NotFoundError("no such object, or no right to it", key=key)
        return self._objects.get(grant)

    def stream(self, key: str) -> Iterator[bytes]:
        yield self.get(key)

    def heads(self, keys: Sequence[str], *, max_bytes: int) -> Iterator[bytes]:
        return (self.get(key)[:max_bytes] for key in keys)

    def size(self, key: str) -> int | None:
        return len(self.get(key)) if key in self._reads else None


def _check(url: str) -> None:
    """Refuse a URL that would send a grant in plain text. Raises DependencyError."""
    try:
        parts = urllib.parse.urlsplit(url)
        host = parts.hostname
    except ValueError:
        host = None
    else:
        if host and (parts.scheme == "https" or (parts.scheme == "http" and host in LOOPBACK)):
            return
    raise DependencyError("a grant is to an https URL, or to one on this machine", code="grant_refused")


def _refused(status: int) -> DependencyError:
    return DependencyError(f"the artifact store refused a grant with {status}", code="grant_refused")
