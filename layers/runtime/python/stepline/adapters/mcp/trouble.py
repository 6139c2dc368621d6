"""The first thing that went wrong on the way to a server, as the transport saw it.

The client tells a failure of its transport in many ways, and tries another era of the protocol after some of them; the
transport knows the cause.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

BYTES_MAX: Final = 8 * 1024 * 1024
"""All that a server may say while it is asked one question."""


@dataclass
class Trouble:
    """A code if the transport failed, the status of the last HTTP answer, and the bytes that came."""

    code: str = ""
    status: int = 0
    size_bytes: int = 0

    def note(self, code: str) -> None:
        """Keep the first code."""
        self.code = self.code or code

    def count(self, size_bytes: int) -> bool:
        """Count bytes that came; return True if they are too many."""
        self.size_bytes += size_bytes
        return self.size_bytes > BYTES_MAX
