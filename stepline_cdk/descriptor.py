"""The descriptors of a stage: those without secrets are files of the functions' package."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from stepline.bundle.descriptor_set import FORMS, parse_descriptors
from stepline.errors import InputError
from stepline.settings import PACKAGED_DESCRIPTORS

SECRET_FORMS: Final = ("secrets", "bundles.secrets")


def read_descriptors(folder: Path, stage: str) -> dict[str, bytes]:
    """Return the files of a folder of descriptors, by their paths in the package.

    Raises InputError: `descriptor_secret`, a file with secrets, which no package may hold; `bad_descriptor`.
    """
    if not folder.is_dir():
        raise InputError(
            f"descriptors_dir: there is no folder of descriptors at {folder.resolve()}", code="bad_descriptor"
        )
    there = [form for form in FORMS if (folder / form.file).is_file()]
    if secret := next((form.file for form in there if form.name in SECRET_FORMS), ""):
        raise InputError(
            f"descriptors_dir: {folder / secret} holds secrets, which would be in a package of code: set each of them with"
            f" `stepline secrets set NAME --stage {stage}`, or for a bundle `stepline secrets set NAME --bundle BUNDLE --stage"
            f" {stage}`, and take the file out of the folder",
            code="descriptor_secret",
        )
    bodies = {form: (folder / form.file).read_bytes() for form in there}
    try:
        parse_descriptors({form.name: body.decode() for form, body in bodies.items()})
    except UnicodeDecodeError:
        raise InputError(
            f"descriptors_dir: a file of {folder} is no UTF-8 text", code="bad_descriptor"
        ) from None
    return {f"{PACKAGED_DESCRIPTORS}/{form.file}": body for form, body in bodies.items()}
