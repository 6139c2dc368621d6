"""The descriptors of the caller's folder, for the local stage: as in AWS, settings by its package, secrets by the emulator."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from stepline.adapters.descriptor_file import read_folder
from stepline.adapters.system import SystemClock
from stepline.bundle.descriptor_set import parse_descriptor, parse_descriptors
from stepline.bundle.property import look_up
from stepline.model.base import Value
from stepline.model.ids import DEFAULT_BUNDLE
from stepline.ports.descriptor import DEPLOYMENT

if TYPE_CHECKING:
    from stepline.local.stage.deployed import LocalStage

DESCRIPTORS: Final = "PLATFORM_DESCRIPTORS_DIR"
_OF_BUNDLES: Final = "bundles.secrets"
_PLAIN: Final = ("assembly", "bundles", "gateway")


class LocalDescriptors(Value):
    """A folder with copies of the files without secrets, "" without any; and secrets by bundle and name."""

    folder: str = ""
    secrets: Mapping[str, Mapping[str, str]] = {}

    def context(self) -> dict[str, str]:
        """Return the folder as a context key of the app."""
        return {"descriptors_dir": self.folder} if self.folder else {}


def take_descriptors(variables: Mapping[str, str], home: Path) -> LocalDescriptors:
    """Copy the descriptors of the folder that a variable names into `home`, without the secrets, and return both.

    The copy is named by its content, so that a change is deployed. Raises InputError `bad_descriptor`.
    """
    copies = home / "descriptors"
    shutil.rmtree(copies, ignore_errors=True)
    if not (folder := variables.get(DESCRIPTORS, "")):
        return LocalDescriptors()
    texts = read_folder(Path(folder))
    parse_descriptors(texts)  # whole and readable, before anything is deployed
    plain = {name: texts[name] for name in _PLAIN if name in texts}
    copy = copies / hashlib.sha256(repr(sorted(plain.items())).encode()).hexdigest()[:16]
    copy.mkdir(parents=True)
    for name, text in plain.items():
        (copy / f"{name}.yaml").write_text(text, encoding="utf-8")
    return LocalDescriptors(folder=str(copy), secrets=_secrets_of(texts))


def store_secrets(stage: LocalStage, descriptors: LocalDescriptors) -> None:
    """Put the secrets of the descriptors into the emulator. Raises InputError `bad_secret`, DependencyError."""
    if not descriptors.secrets:
        return
    from stepline.local.secret_desk import SecretDesk  # loads boto3, which `stepline status` does not need
    from stepline.local.stage.deployed import LOCAL_STAGE, client

    desk = SecretDesk(client("secretsmanager", stage), LOCAL_STAGE, SystemClock())
    for bundle, secrets in descriptors.secrets.items():
        desk.put(bundle, secrets)


def _secrets_of(texts: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Return the secrets of descriptors by dotted name, and these by the name of their bundle on the stage."""
    read = parse_descriptors(texts)
    items = look_up(parse_descriptor(_OF_BUNDLES, texts.get(_OF_BUNDLES, "")), "bundles.items") or []
    found = {DEPLOYMENT: _flat(read.secrets)}
    for item in items:
        name = DEFAULT_BUNDLE if item["id"] == read.bundle_id else item["id"]
        found[name] = _flat(parse_descriptors(texts, bundle_id=item["id"]).bundle_secrets)
    return {name: secrets for name, secrets in found.items() if secrets}


def _flat(secrets: Mapping[str, object], above: str = "") -> dict[str, str]:
    found: dict[str, str] = {}
    for key, value in secrets.items():
        if isinstance(value, Mapping):
            found |= _flat(value, f"{above}{key}.")
        elif isinstance(value, str):
            found[f"{above}{key}"] = value
    return found
