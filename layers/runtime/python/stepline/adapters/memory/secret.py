"""In-memory twin of the stored secrets."""

from __future__ import annotations

from collections.abc import Mapping


class MemorySecrets:
    """Texts by the name of their bundle, and the deployment's by `DEPLOYMENT`."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        """Serve these texts."""
        self._texts = texts

    def read(self, bundle: str) -> str:
        return self._texts.get(bundle, "")
