"""The verdict about an uploaded file, from the bucket's event on, beside reading and hashing the same file.

The ports are the memory twins; the judge is the real one, in its own process.
"""

from __future__ import annotations

import hashlib
import io
import os
import tempfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Final

from PIL import Image

from bench.conversation import LANE, USER
from bench.row import Limit, MeasureError, Row
from bench.timing import interleave
from bench.web import wall_ms
from stepline.adapters.memory.upload.quarantine import MemoryQuarantine
from stepline.adapters.upload.preflight import JailedPreflight
from stepline.bootstrap.memory_wiring import in_memory
from stepline.ingress.upload import UploadPorts, UploadRequest, judge_upload, start_upload
from stepline.model.file.attachment import ATTACHMENT_MAX_BYTES, attachment_key
from stepline.model.file.mime import guess_mime
from stepline.model.file.upload_slot import quarantine_key
from stepline.ports.channel import Principal
from stepline.settings import Settings

ROUNDS: Final = 9
PAGES: Final = 500
PHOTO_PX: Final = (4_000, 3_000)
ME: Final = Principal(tenant=LANE.tenant, project=LANE.project, user=USER, expires_at=4_000_000_000)


def rows() -> list[Row]:
    """Return `upload_verdict_ms_<file>`."""
    files = {"picture": ("a.jpg", photo()), "office": ("a.docx", office()), "pdf": ("a.pdf", pdf())}
    return [_row(kind, filename, data) for kind, (filename, data) in files.items()]


def _row(kind: str, filename: str, data: bytes) -> Row:
    desk = Desk(filename, data)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / filename
        path.write_bytes(data)
        samples: dict[str, Callable[[], float]] = {
            "ours": desk.judge_ms,
            "judge": lambda: wall_ms(lambda: desk.inspect(path)),
            "bare": lambda: wall_ms(lambda: hashlib.sha256(path.read_bytes()).hexdigest()),
        }
        found = interleave(samples, ROUNDS)
    return Row(
        metric=f"upload_verdict_ms_{kind}",
        value=found["ours"],
        unit="ms",
        peers={"the judge's process": found["judge"]},
        limit=Limit("read and hash", found["bare"]),
        note=f"{len(data)} bytes; without the way to the bucket and its event",
    )


class Desk:
    """Repeated uploads of one file to a conversation that has not begun."""

    def __init__(self, filename: str, data: bytes) -> None:
        """Use memory twins, and the real judge."""
        self._data = data
        sha256 = hashlib.sha256(data).hexdigest()
        self._request = UploadRequest(filename=filename, size_bytes=len(data), sha256=sha256)
        self._ports = in_memory(Settings.from_env({})).ports
        self._quarantine = MemoryQuarantine(self._ports.clock)
        self._desk = UploadPorts(
            ports=self._ports,
            quarantine=self._quarantine,
            preflight=JailedPreflight(),
        )

    def judge_ms(self) -> float:
        """Return the time of a verdict about a new upload, which accepts the file."""
        upload = start_upload(self._desk, ME, LANE.conversation, self._request).upload
        self._quarantine.objects[quarantine_key(LANE, upload)] = self._data
        spent_ms = wall_ms(lambda: judge_upload(self._desk, LANE, upload))
        if self._ports.artifacts.get(attachment_key(LANE, self._request.sha256)) != self._data:
            raise MeasureError(f"{self._request.filename} is not taken")
        return spent_ms

    def inspect(self, path: Path) -> None:
        """Judge the bytes alone."""
        mime = guess_mime(path.name)
        verdict = self._desk.preflight.judge(path, filename=path.name, mime=mime, limits=self._desk.limits)
        if not verdict.accepted:
            raise MeasureError(verdict.message)


def photo() -> bytes:
    """Return a photo of 12 million pixels and about 1 MB."""
    out = io.BytesIO()
    grain = Image.effect_noise((PHOTO_PX[0] // 8, PHOTO_PX[1] // 8), 40).convert("RGB")
    grain.resize(PHOTO_PX).save(out, "JPEG", quality=60)
    return out.getvalue()


def office() -> bytes:
    """Return a DOCX as large as a file may be, most of it a film that is not packed."""
    main = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
    parts = {
        "[Content_Types].xml": f'<Types><Override PartName="/word/document.xml" ContentType="{main}"/></Types>',
        "word/document.xml": f"<w>{os.urandom(200_000).hex()}</w>",
        "word/media/film.bin": b"\1" + os.urandom(ATTACHMENT_MAX_BYTES - 256 * 1024),
    }
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as book:
        for name, content in parts.items():
            kind = zipfile.ZIP_STORED if isinstance(content, bytes) else zipfile.ZIP_DEFLATED
            book.writestr(name, content, kind)
    return out.getvalue()


def pdf() -> bytes:
    """Return a PDF of as many pages as one may have, each with text of its own."""
    kids = " ".join(f"{2 * at + 3} 0 R" for at in range(PAGES))
    out = [b"%PDF-1.7", b"1 0 obj\n<< /Type /Catalog /Pages 2 0 R >>\nendobj"]
    out.append(f"2 0 obj\n<< /Type /Pages /Kids [{kids}] /Count {PAGES} >>\nendobj".encode())
    for at in range(PAGES):
        text = zlib.compress(os.urandom(1_500).hex().encode())
        page = f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents {2 * at + 4} 0 R >>"
        head = f"<< /Length {len(text)} /Filter /FlateDecode >>\nstream\n".encode()
        out.append(f"{2 * at + 3} 0 obj\n{page}\nendobj".encode())
        out.append(f"{2 * at + 4} 0 obj\n".encode() + head + text + b"\nendstream\nendobj")
    return b"\n".join([*out, b"trailer\n<< /Root 1 0 R >>\nstartxref\n9\n%%EOF\n"])
