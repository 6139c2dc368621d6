"""Descriptors as files: read from a deployment's folder, written for a supervisor's tools."""

from __future__ import annotations

import os
from pathlib import Path

from stepline.bundle.descriptor_set import FOLDER_VARIABLE, FORMS, MAX_BYTES, Texts
from stepline.errors import InputError, SandboxError


def read_folder(folder: Path) -> dict[str, str]:
    """Return the texts of the descriptors in a folder; a missing file is a missing descriptor.

    Raises InputError `bad_descriptor` if it is not a folder, or a file is too large, unreadable or not UTF-8.
    """
    if not folder.is_dir():
        raise InputError(f"there is no folder of descriptors at {folder}", code="bad_descriptor")
    texts = {}
    for form in FORMS:
        try:
            with (folder / form.file).open("rb") as file:
                body = file.read(MAX_BYTES + 1)
            texts[form.name] = body.decode()
        except FileNotFoundError:
            continue
        except UnicodeDecodeError:
            raise InputError(f"{form.file} is no UTF-8 text", code="bad_descriptor") from None
        except OSError as error:
            raise InputError(
                f"{form.file} cannot be read: {error.strerror}", code="bad_descriptor"
            ) from error
    return texts


def write_folder(texts: Texts, folder: Path) -> dict[str, str]:
    """Write descriptors into a new private folder, and return the variables that name the paths.

    Raises SandboxError `payload_unavailable`, also if the folder exists: another process could have created
    it.
    """
    try:
        folder.mkdir(mode=0o700)
        inside = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            for form in FORMS:
                if form.name in texts:
                    _write(form.file, texts[form.name].encode(), inside)
        finally:
            os.close(inside)
    except OSError as error:
        raise SandboxError(
            f"descriptors cannot be written: {error.strerror}", code="payload_unavailable"
        ) from error
    paths = {form.path: str(folder / form.file) for form in FORMS if form.name in texts}
    return {FOLDER_VARIABLE: str(folder), **paths}


def _write(name: str, body: bytes, folder: int) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(name, flags, 0o400, dir_fd=folder), "wb") as file:
        file.write(body)
