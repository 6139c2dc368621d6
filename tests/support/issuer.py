"""An issuer of tokens on loopback, and tokens of any kind."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Final

import jwt
import pytest

from stepline.local.stage.issuer import issuer_server
from stepline.local.stage.issuer import signing as issuer

REMOVED: Final = "left out"
OURS: Final = {"tenant": "acme", "project": "support", "sub": "ada"}


class Issuer:
    """The local runtime's issuer; `token` overrides any claim."""

    def __init__(self, home: Path, url: str) -> None:
        self.home = home
        self.url = url

    @cached_property
    def key(self) -> Any:
        return issuer.load_key(self.home)

    def claims(self, **claims: Any) -> dict[str, Any]:
        now = int(time.time())
        body = {"iss": self.url, "aud": issuer.AUDIENCE, "iat": now, "exp": now + 600, **OURS, **claims}
        return {name: value for name, value in body.items() if value is not REMOVED}

    def token(
        self,
        *,
        key: Any = None,
        algorithm: str = "RS256",
        header: dict[str, Any] | None = None,
        **claims: Any,
    ) -> str:
        """Return a signed token; a header of None keeps the issuer's own value."""
        named = {"kid": "local", **(header or {})}
        kept = {name: value for name, value in named.items() if value is not REMOVED}
        return jwt.encode(self.claims(**claims), key or self.key, algorithm=algorithm, headers=kept)


@contextmanager
def running_issuer(home: Path, *, page: str = "") -> Iterator[Issuer]:
    with pytest.MonkeyPatch.context() as patch:
        # It reads and checks its key for each request, which costs more than the rest of a test.
        patch.setattr(issuer_server, "load_key", cache(issuer.load_key))
        server = issuer_server.make_issuer_server(0, home, page=page)
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield Issuer(home, f"http://127.0.0.1:{server.server_address[1]}")
        server.shutdown()
        thread.join()
        server.server_close()
