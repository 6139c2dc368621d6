"""A user of the stage over HTTP: the API through its gateway, and forms posted directly to the bucket."""

from __future__ import annotations

import hashlib

import requests

TIMEOUT_S = 60


class HttpUser:
    """Calls the HTTP API with one token."""

    def __init__(self, url, token):
        self._url, self.authorization = url, f"Bearer {token}"

    def ask(self, method, path, *, headers=None, **sent):
        """Return the answer, whatever it is."""
        named = {"Authorization": self.authorization, **(headers or {})}
        return requests.request(method, f"{self._url}{path}", headers=named, timeout=TIMEOUT_S, **sent)

    def get(self, path, **query):
        """Return what a good answer says."""
        return read(self.ask("GET", path, params=query))

    def put(self, path, body):
        return read(self.ask("PUT", path, json=body))

    def post(self, path, body, **headers):
        return read(self.ask("POST", path, json=body, headers=headers))

    def begin(self, conversation, data, filename, mime="", **headers):
        """Return the grant of a slot for a file."""
        file = {
            "filename": filename,
            "mime": mime,
            "size_bytes": len(data),
            "sha256": hashlib.sha256(data).hexdigest(),
        }
        return self.post(f"/v1/conversations/{conversation}/uploads", file, **headers)


def read(answer):
    assert answer.ok, f"{answer.status_code}: {answer.text}"
    return answer.json() if answer.content else None


def submit(grant, data):
    """Post a file to its slot, as a browser does; return the bucket's answer."""
    return requests.post(grant["url"], data=grant["fields"], files={"file": data}, timeout=TIMEOUT_S)
