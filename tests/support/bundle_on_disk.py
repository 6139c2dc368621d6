"""A bundle's package on this machine's disk: files that its programs may read, and others that they may not."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from stepline.programs.bundle_files import read_bundle_files

BUNDLE = "roses"
READABLE = {"__init__.py": b"PETALS = 5\n", "guide/de/rosen.md": b"Dornen\n", "guide/roses.md": b"Thorns\n"}
CLOSED = (
    ".env",
    "prod.env",
    ".git/config",
    "secrets.yaml",
    "bundles.secrets.yaml",
    "assembly.yaml",
    "guide/server.PEM",
    "guide/credentials.json",
    "id_ed25519",
    "__pycache__/tools.pyc",
)


@contextmanager
def bundle_on_disk(secret: str = "hunter2") -> Iterator[Path]:
    """Put the package `roses` on the path, with the secret in each file that no program may read, and next to it."""
    with tempfile.TemporaryDirectory(prefix="bundle-") as folder, pytest.MonkeyPatch.context() as patch:
        package = Path(folder, BUNDLE)
        for name, body in {**READABLE, **dict.fromkeys(CLOSED, secret.encode())}.items():
            (package / name).parent.mkdir(parents=True, exist_ok=True)
            (package / name).write_bytes(body)
        Path(folder, "beside").mkdir()
        Path(folder, "beside/plain.txt").write_text(secret)
        (package / "link.txt").symlink_to(Path(folder, "beside/plain.txt"))
        (package / "linked").symlink_to(Path(folder, "beside"))
        patch.delitem(sys.modules, BUNDLE, raising=False)
        patch.syspath_prepend(folder)
        read_bundle_files.cache_clear()
        yield package
        sys.modules.pop(BUNDLE, None)
        read_bundle_files.cache_clear()
