"""The HTTP API on loopback with the bucket whose slots it grants: files posted there are judged at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from email.message import Message
from email.parser import BytesParser
from typing import Any

from stepline.adapters.memory.upload.quarantine import MemoryQuarantine, MemoryScanner
from stepline.errors import DependencyError
from stepline.ingress.upload import judge_upload
from stepline.log.bindings import Ports
from stepline.model.file.upload_slot import read_quarantine_key
from stepline.ports.upload.quarantine import PostGrant
from tests.support.api_caller import Caller
from tests.support.api_server import ApiServer, Start, served

BUCKET = "/bucket"


class UploadServer:
    """Answers the API, and accepts forms; `judges`: it judges posted files."""

    def __init__(self, ports: Ports) -> None:
        self.url, self.judges = "", True
        self.quarantine = _Bucket(self, ports.clock)
        caller = Caller(ports)
        self.desk = replace(caller.uploads, quarantine=self.quarantine, scanner=MemoryScanner())
        caller.services = replace(caller.services, uploads=self.desk)
        self.api = ApiServer(caller)

    def __call__(self, environ: dict[str, Any], start: Start) -> Any:
        if environ["REQUEST_URI"] != BUCKET:
            return self.api(environ, start)
        head = f"Content-Type: {environ['CONTENT_TYPE']}\r\n\r\n".encode()
        parts = _form(head + environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])))
        *fields, (_, file) = parts.items()
        grant = PostGrant(url=BUCKET, fields={name: value.decode() for name, value in fields})
        try:
            self.quarantine.post(grant, file)
        except DependencyError:
            start("403 Forbidden", [])
            return [b"<Error><Code>AccessDenied</Code></Error>"]
        if self.judges and (found := read_quarantine_key(grant.fields["key"])):
            judge_upload(self.desk, *found)
        start("204 No Content", [])
        return []


class _Bucket(MemoryQuarantine):
    def __init__(self, server: UploadServer, clock: Any) -> None:
        super().__init__(clock)
        self._server = server

    def allow(self, *args: Any, **fields: Any) -> PostGrant:
        return PostGrant(url=f"{self._server.url}{BUCKET}", fields=super().allow(*args, **fields).fields)


@contextmanager
def upload_server(ports: Ports) -> Iterator[UploadServer]:
    """Yield the server, which answers at its `url`."""
    server = UploadServer(ports)
    with served(server) as server.url:
        yield server


def _form(message: bytes) -> dict[str, bytes]:
    parts: list[Message] = BytesParser().parsebytes(message).get_payload()  # type: ignore[assignment]  # a form has parts
    return {
        str(part.get_param("name", header="content-disposition")): part.get_payload(decode=True)  # type: ignore[misc]  # bytes
        for part in parts
    }
