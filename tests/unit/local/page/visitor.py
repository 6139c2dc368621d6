"""A browser that sends the page's server one request after the other."""

import gzip
import http.client
from dataclasses import dataclass


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self):
        packed = self.headers.get("content-encoding") == "gzip"
        return (gzip.decompress(self.body) if packed else self.body).decode()


@dataclass(frozen=True)
class Visitor:
    port: int

    def ask(self, path, *, method="GET", host=None, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        sent = {"Host": host or f"127.0.0.1:{self.port}"}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        for name, value in sent.items():
            connection.putheader(name, value)
        connection.endheaders()
        response = connection.getresponse()
        named = {name.lower(): value for name, value in response.getheaders()}
        answer = Answer(response.status, named, response.read())
        connection.close()
        return answer
