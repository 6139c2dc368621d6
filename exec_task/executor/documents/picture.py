"""The pictures of a document: files of the turn's own folders, opened, bounded, and in a common format.

Nothing is fetched, and nothing outside those folders is read: a picture is named by its path below the turn, and the
path may not contain links.
"""

from __future__ import annotations

import io
import os
import re
import stat
from typing import Final
from urllib.parse import unquote

from PIL import Image

from .markdown import Picture, clean

FOLDERS: Final = ("files", "outputs", "attachments")
PICTURES_MAX: Final = 100
BYTES_MAX: Final = 20 * 1024 * 1024
PIXELS_MAX: Final = 40_000_000
EDGE_MAX_PX: Final = 3_000
"""A larger picture is scaled down."""

_FORMATS: Final = ("PNG", "JPEG", "GIF", "WEBP")
_KEPT: Final = {"PNG": "image/png", "JPEG": "image/jpeg"}
_ADDRESS: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:|//")


class Pictures:
    """The pictures of one document; `lost` holds those that cannot be drawn, each with the reason."""

    def __init__(self, out: str, turn: str, internal: frozenset[str]) -> None:
        """Read below `<out>/<turn>`; `internal` are files hidden from the user, by their path below `out`."""
        self._out = os.path.realpath(out)
        self._turn = turn
        self._internal = internal
        self._loaded: dict[str, Picture | str] = {}
        self.lost: dict[str, str] = {}

    def load(self, src: str, alt: str) -> Picture | None:
        """Return a picture by its path in the text; None if it cannot be drawn."""
        if src not in self._loaded:
            full = len(self._loaded) >= PICTURES_MAX
            self._loaded[src] = "too_many" if full else self._read(unquote(src))
        found = self._loaded[src]
        if isinstance(found, str):
            self.lost[src[:200]] = found
            return None
        return Picture(clean(alt), found.data, found.mime, found.width_px, found.height_px)

    def _read(self, src: str) -> Picture | str:
        for prefix, folder in (
            (f"fi:{self._turn}.user.attachments/", "attachments/"),
            (f"fi:{self._turn}.", ""),
        ):
            if src.startswith(prefix):
                src = folder + src.removeprefix(prefix)
                break
        src = src.removeprefix(f"{self._turn}/")
        if _ADDRESS.match(src):
            return "not_a_file_of_this_turn"
        if "/" not in src:
            src = f"outputs/{src}"
        parts = src.split("/")
        if parts[0] not in FOLDERS or not {"", ".", ".."}.isdisjoint(parts) or "\\" in src or "\0" in src:
            return "not_a_file_of_this_turn"
        below = f"{self._turn}/{src}"
        if below in self._internal:
            return "internal"
        data = self._open(os.path.join(self._out, below))  # noqa: PTH118 - checked as text
        return data if isinstance(data, str) else _decode(data)

    def _open(self, path: str) -> bytes | str:
        try:
            if os.path.realpath(path) != path:
                return "not_a_file_of_this_turn"
            with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
                found = os.fstat(file.fileno())
                if not stat.S_ISREG(found.st_mode):
                    return "not_a_picture"
                return file.read() if found.st_size <= BYTES_MAX else "too_large"
        except FileNotFoundError:
            return "not_found"
        except OSError:
            return "not_a_picture"


def _decode(data: bytes) -> Picture | str:
    """Return the first frame of a picture, re-encoded unless every writer accepts its format."""
    try:
        with Image.open(io.BytesIO(data), formats=_FORMATS) as image:
            if image.width * image.height > PIXELS_MAX:
                return "too_large"
            small = max(image.size) <= EDGE_MAX_PX
            mime = _KEPT.get(image.format or "", "")
            image.load()
            if not (small and mime):
                image.thumbnail((EDGE_MAX_PX, EDGE_MAX_PX))
                buffer = io.BytesIO()
                image.convert("RGBA").save(buffer, "PNG")
                data, mime = buffer.getvalue(), "image/png"
            return Picture("", data, mime, *image.size)
    except Image.DecompressionBombError:
        return "too_large"
    except (OSError, SyntaxError, ValueError):
        return "not_a_picture"
