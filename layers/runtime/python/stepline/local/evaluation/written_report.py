"""Files written as a whole, or not at all."""

from __future__ import annotations

import tempfile
from pathlib import Path

from stepline.errors import InputError


def check_targets(*paths: Path | None) -> None:
    """Raise InputError `not_writable` if a file's folder does not exist."""
    for path in filter(None, paths):
        if not path.parent.is_dir():
            raise InputError(
                f"{path} cannot be written: there is no folder {path.parent}", code="not_writable"
            )


def write_report(path: Path, text: str) -> None:
    """Write a file, or replace it. Raises InputError `not_writable`."""
    try:
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=path.parent, prefix=f".{path.name}.", delete=False
        ) as file:
            try:
                file.write(text)
                file.close()
                Path(file.name).replace(path)
            except OSError:
                Path(file.name).unlink(missing_ok=True)
                raise
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}", code="not_writable") from error
