"""What the process that judges a file is told of it."""

from __future__ import annotations

from stepline.model.base import Value
from stepline.model.file.file_verdict import FileLimits


class Claim(Value):
    """Name, type and limits; the bytes come by standard input."""

    filename: str
    mime: str
    limits: FileLimits
