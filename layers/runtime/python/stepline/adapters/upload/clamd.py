"""ClamAV's daemon over a socket: a file is sent in pieces, and the answer is one line.

Source: docs.clamav.net/manual/Usage/Scanning.html, and `man clamd`, INSTREAM.
"""

from __future__ import annotations

import logging
import socket
import struct
from pathlib import Path
from typing import Final

from stepline.ports.upload.quarantine import Infection

logger = logging.getLogger(__name__)

PIECE_BYTES: Final = 64 * 1024
ANSWER_MAX_BYTES: Final = 4 * 1024
_INSTREAM: Final = b"zINSTREAM\0"


class ClamdScanner:
    """Implements `Scanner`. `host` is a name, or the path of a unix socket. Each file has its own connection."""

    def __init__(self, host: str, port: int, *, timeout_s: float) -> None:
        """Use the daemon at `host`; each step of a scan takes at most `timeout_s`."""
        self._host, self._port, self._timeout_s = host, port, timeout_s

    def scan(self, path: Path, key: str) -> Infection:
        try:
            with self._connect() as daemon, path.open("rb") as file:
                daemon.sendall(_INSTREAM)
                while piece := file.read(PIECE_BYTES):
                    daemon.sendall(struct.pack(">I", len(piece)) + piece)
                daemon.sendall(struct.pack(">I", 0))
                return _finding(_answer(daemon))
        except OSError as error:  # from the daemon: a file without an answer is not clean
            logger.warning(
                "file not scanned", extra={"code": "av_unavailable", "error": type(error).__name__}
            )
            return "unknown"

    def _connect(self) -> socket.socket:
        if not self._host.startswith("/"):
            return socket.create_connection((self._host, self._port), self._timeout_s)
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        made.settimeout(self._timeout_s)
        try:
            made.connect(self._host)
        except OSError:
            made.close()
            raise
        return made


def _answer(daemon: socket.socket) -> bytes:
    answer = b""
    while len(answer) < ANSWER_MAX_BYTES and (piece := daemon.recv(ANSWER_MAX_BYTES)):
        answer += piece
        if piece.endswith(b"\0"):
            break
    return answer.rstrip(b"\0\n")


def _finding(answer: bytes) -> Infection:
    if answer == b"stream: OK":
        return "clean"
    if answer.startswith(b"stream: ") and answer.endswith(b" FOUND"):
        return "infected"
    logger.warning(
        "file not scanned", extra={"code": "av_unavailable", "answer": answer[:80].decode("ascii", "replace")}
    )
    return "unknown"
