"""The model with a word of the bundle's in its ear: what is announced stands behind everything else of a round's request.

It is never stored and never cached, and a request of another role than the agent's goes through as it is.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from stepline.ports.model import ModelClient, ModelRequest, ModelStream, Part


class AsideModel:
    """Asks `model`; `said` is read once a request and returns the text to add, or nothing."""

    def __init__(self, model: ModelClient, said: Callable[[], str], *, role: str) -> None:
        """Add to requests of `role` only."""
        self._model = model
        self._said = said
        self._role = role

    def stream(self, request: ModelRequest) -> ModelStream:
        text = self._said() if request.role == self._role else ""
        if not text:
            return self._model.stream(request)
        return self._model.stream(replace(request, content=(*request.content, Part(text=text))))
