"""The refusal of a document, which the model can correct."""

from __future__ import annotations


class DocumentError(Exception):
    """A document cannot be drawn as requested. `code` is stable, the message is for the model."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
