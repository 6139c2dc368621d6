"""An index of packages in a folder that replaces every other one: wheels that a test makes, and no network."""

from __future__ import annotations

import io
import tarfile
import zipfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pytest


class LocalIndex:
    """The packages that pip and uv find while the fixture's test runs."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
        monkeypatch.setenv("PIP_NO_INDEX", "1")
        monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
        for name in ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX"):
            monkeypatch.delenv(name, raising=False)

    def add(
        self, name: str, version: str, *, requires: Sequence[str] = (), tag: str = "py3-none-any"
    ) -> None:
        """Add a wheel whose module holds its version and whose command `NAME` prints it."""
        info = f"{name}-{version}.dist-info"
        files = {
            f"{name}/__init__.py": f"VERSION = {version!r}\n\n\ndef main():\n    print(VERSION)\n",
            f"{info}/METADATA": _metadata(name, version, requires),
            f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: {tag}\n",
            f"{info}/entry_points.txt": f"[console_scripts]\n{name} = {name}:main\n",
        }
        rows = [*(f"{path},," for path in files), f"{info}/RECORD,,"]
        with zipfile.ZipFile(self.folder / f"{name}-{version}-{tag}.whl", "w") as wheel:
            for path, text in {**files, f"{info}/RECORD": "\n".join(rows)}.items():
                wheel.writestr(zipfile.ZipInfo(path), text)

    def add_source(self, name: str, version: str) -> None:
        """Add a package that has to be built."""
        with tarfile.open(self.folder / f"{name}-{version}.tar.gz", "w:gz") as archive:
            body = _metadata(name, version, ()).encode()
            entry = tarfile.TarInfo(f"{name}-{version}/PKG-INFO")
            entry.size = len(body)
            archive.addfile(entry, io.BytesIO(body))


def _metadata(name: str, version: str, requires: Sequence[str]) -> str:
    needed = "".join(f"Requires-Dist: {one}\n" for one in requires)
    return f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needed}"
