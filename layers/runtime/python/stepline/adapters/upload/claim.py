"""The claim about a file: all the data that the process which judges it gets."""

from __future__ import annotations

from stepline.model.base import Value
from stepline.model.file.file_verdict import FileLimits


class Claim(Value):
    """Name, type and limits; the bytes arrive on standard input."""

    filename: str
    mime: str
    limits: FileLimits
