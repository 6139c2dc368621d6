"""Grants for objects of the memory store, valid only in this process."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit

from stepline.adapters.memory.artifacts import MemoryArtifacts
from stepline.adapters.memory.clock import MemoryClock
from stepline.errors import DependencyError
from stepline.model.file.served_form import ServedForm
from stepline.model.program.handover import ObjectGrant


class MemoryGrants:
    """Implements `Grants` and `GrantedObjects`: a grant's URL is `<method> <until, in seconds> <key>`.

    The URL of a served object is `memory:///<key>?until=…&type=…&disposition=…`; `fetch` acts as a client.
    """

    def __init__(self, artifacts: MemoryArtifacts, clock: MemoryClock) -> None:
        self._artifacts = artifacts
        self._clock = clock

    def read(self, key: str, *, ttl_s: int) -> ObjectGrant:
        return ObjectGrant(url=f"GET {self._until(ttl_s)} {key}")

    def serve(self, key: str, form: ServedForm, *, ttl_s: int) -> ObjectGrant:
        asked = {"until": self._until(ttl_s), "type": form.mime, "disposition": form.disposition}
        return ObjectGrant(url=f"memory:///{key}?{urlencode(asked)}")

    def fetch(self, grant: ObjectGrant) -> tuple[bytes, ServedForm]:
        """Return the bytes and headers of a served object. Raises NotFoundError; DependencyError if expired."""
        address = urlsplit(grant.url)
        asked = dict(parse_qsl(address.query))
        key = self._key(f"GET {asked['until']} {address.path[1:]}", "GET")
        return self._artifacts.get(key), ServedForm(mime=asked["type"], disposition=asked["disposition"])

    def write(self, key: str, *, mime: str, ttl_s: int) -> ObjectGrant:
        headers = {"Content-Type": mime, "If-None-Match": "*"}
        return ObjectGrant(url=f"PUT {self._until(ttl_s)} {key}", headers=headers)

    def rewrite(self, key: str, *, mime: str, ttl_s: int) -> ObjectGrant:
        return ObjectGrant(url=f"PUT {self._until(ttl_s)} {key}", headers={"Content-Type": mime})

    def get(self, grant: ObjectGrant) -> bytes:
        return self._artifacts.get(self._key(grant.url, "GET"))

    def put(self, grant: ObjectGrant, body: bytes | Path) -> bool:
        key = self._key(grant.url, "PUT")
        data = body if isinstance(body, bytes) else body.read_bytes()
        mime = grant.headers["Content-Type"]
        if "If-None-Match" in grant.headers:
            return self._artifacts.put(key, data, mime=mime)
        self._artifacts.replace(key, data, mime=mime)
        return True

    def _until(self, ttl_s: int) -> int:
        return int(self._clock.now().timestamp()) + ttl_s

    def _key(self, url: str, method: str) -> str:
        said, until, key = url.split(" ", 2)
        if said != method or int(until) < self._clock.now().timestamp():
            raise DependencyError("the right to this object has expired, or is another one", key=key)
        return key
