"""The five descriptors of a deployment: YAML texts, their content, and the subset for a remote supervisor.

    assembly          settings of the whole deployment
    bundles           `bundles: {default_bundle_id, items: [{id, config}]}`, the properties of every bundle
    gateway           settings of the gateway before the deployment
    secrets           secrets of the whole deployment
    bundles.secrets   `bundles: {items: [{id, secrets}]}`

`props` is accepted in place of `config`. A missing descriptor is empty. Secrets are never shown: errors and
printed values contain names only.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from stepline.bundle.property import look_up
from stepline.errors import InputError, ToolError
from stepline.model.ids import DEFAULT_BUNDLE
from stepline.model.program.execution import DescriptorScope
from stepline.ports.descriptor import DEPLOYMENT, StageSecrets

Texts: TypeAlias = Mapping[str, str]
"""YAML texts by descriptor name. Secret: never log it."""

MAX_BYTES: Final = 1024 * 1024
OF_BUNDLE: Final = "b:"
_BUNDLES, _BUNDLE_SECRETS = "bundles", "bundles.secrets"


class _DescriptorForm(NamedTuple):
    """One descriptor: its name, its payload's variable, and the variable with its path once it is written."""

    name: str
    payload: str
    path: str

    @property
    def file(self) -> str:
        return f"{self.name}.yaml"


FORMS: Final = (
    _DescriptorForm("assembly", "STEPLINE_RUNTIME_ASSEMBLY_YAML_B64", "ASSEMBLY_YAML_DESCRIPTOR_PATH"),
    _DescriptorForm(_BUNDLES, "STEPLINE_RUNTIME_BUNDLES_YAML_B64", "BUNDLES_YAML_DESCRIPTOR_PATH"),
    _DescriptorForm("gateway", "STEPLINE_RUNTIME_GATEWAY_YAML_B64", "GATEWAY_YAML_PATH"),
    _DescriptorForm("secrets", "STEPLINE_RUNTIME_SECRETS_YAML_B64", "GLOBAL_SECRETS_YAML"),
    _DescriptorForm(_BUNDLE_SECRETS, "STEPLINE_RUNTIME_BUNDLES_SECRETS_YAML_B64", "BUNDLE_SECRETS_YAML"),
)
FOLDER_VARIABLE: Final = "PLATFORM_DESCRIPTORS_DIR"


@dataclass(frozen=True, kw_only=True, repr=False)
class Descriptors:
    """The parsed descriptors, for one active bundle. Implements `SettingsReader` and `SecretReader`.

    A secret that no descriptor has is read from `stored`, where the active bundle has its name on the stage, `bundle`.
    """

    bundle_id: str
    assembly: Mapping[str, Any]
    config: Mapping[str, Any]
    gateway: Mapping[str, Any]
    secrets: Mapping[str, Any]
    bundle_secrets: Mapping[str, Any]
    bundle: str = DEFAULT_BUNDLE
    stored: StageSecrets | None = None

    def __repr__(self) -> str:
        return f"Descriptors(bundle_id={self.bundle_id!r})"

    def get_settings(self) -> Mapping[str, Any]:
        return self.assembly

    def get_plain(self, path: str, default: Any = None) -> Any:
        root, rest = _split(path, self.assembly, self.config)
        found = look_up(root, rest)
        return default if found is None else found

    def get_secret(self, path: str) -> str:
        root, rest = _split(path, self.secrets, self.bundle_secrets)
        found = look_up(root, rest)
        if found is None and self.stored:
            owner = self.bundle if path.startswith(OF_BUNDLE) else DEPLOYMENT
            found = look_up(parse_stored(self.stored.read(owner)), rest)
        if not isinstance(found, str):
            raise ToolError(f"there is no secret {path[:80]!r} here", code="secret_missing")
        return found


def parse_descriptors(
    texts: Texts, *, bundle_id: str = "", stored: StageSecrets | None = None
) -> Descriptors:
    """Parse all descriptors. The active bundle is `bundle_id`, or else the default in `bundles` or in its secrets.

    Raises InputError `bad_descriptor`.
    """
    read = {form.name: parse_descriptor(form.name, texts.get(form.name, "")) for form in FORMS}
    defaults = (look_up(read[name], "bundles.default_bundle_id") for name in (_BUNDLES, _BUNDLE_SECRETS))
    active = bundle_id or next(filter(None, defaults), "")
    if not isinstance(active, str):
        raise _bad(f"{_BUNDLES}: bundles.default_bundle_id is not text")
    bundle = _items(_BUNDLES, read[_BUNDLES]).get(active, {})
    secret = _items(_BUNDLE_SECRETS, read[_BUNDLE_SECRETS]).get(active, {})
    return Descriptors(
        bundle_id=active,
        assembly=read["assembly"],
        config=_part(_BUNDLES, bundle, "config", "props"),
        gateway=read["gateway"],
        secrets=_texts_only("secrets", read["secrets"]),
        bundle_secrets=_texts_only(_BUNDLE_SECRETS, _part(_BUNDLE_SECRETS, secret, "secrets")),
        bundle=bundle_id or DEFAULT_BUNDLE,
        stored=stored,
    )


def parse_stored(text: str) -> Mapping[str, Any]:
    """Parse stored secrets: a JSON object of texts and such objects; "" has none. Raises InputError `bad_descriptor`."""
    try:
        read = json.loads(text or "{}")
    except ValueError:
        read = None
    if not isinstance(read, dict):
        raise _bad("a stored secret is not a JSON object")
    return _texts_only("a stored secret", read)


def render_stored(stored: StageSecrets, ids: Mapping[str, str], active: str) -> dict[str, str]:
    """Return the descriptors of stored secrets: of the deployment, and of bundles, each id by the name on the stage.

    Raises DependencyError, InputError `bad_descriptor`. JSON is YAML, except for escaped characters.
    """
    items = [{"id": ids[bundle], "secrets": parse_stored(stored.read(bundle))} for bundle in ids]
    found = {
        "secrets": parse_stored(stored.read(DEPLOYMENT)),
        _BUNDLE_SECRETS: {
            "bundles": {
                "default_bundle_id": active,
                "items": [item for item in items if item["secrets"]],
            }
        },
    }
    return {name: json.dumps(read, ensure_ascii=False) for name, read in found.items()}


def parse_descriptor(name: str, text: str) -> Mapping[str, Any]:
    """Parse one descriptor: a mapping of at most `MAX_BYTES`. Raises InputError `bad_descriptor`."""
    if len(text.encode()) > MAX_BYTES:
        raise _bad(f"{name} has more than {MAX_BYTES} bytes")
    if not text.strip():
        return {}
    from stepline.bundle.document import parse_document  # noqa: PLC0415 - YAML only where there is a descriptor

    return parse_document(name, text)


def scope_texts(texts: Texts, scope: DescriptorScope, bundle_id: str) -> dict[str, str]:
    """Return the descriptors for a remote supervisor, with only the active bundle and its secrets.

    Without an active bundle both descriptors of bundles are left out; the other three are always sent whole.
    """
    if scope == "all":
        return dict(texts)
    scoped = {name: text for name, text in texts.items() if name not in (_BUNDLES, _BUNDLE_SECRETS)}
    if not bundle_id:
        return scoped
    from stepline.bundle.document import render_document  # noqa: PLC0415 - as above

    for name in (_BUNDLES, _BUNDLE_SECRETS):
        if name in texts:
            read = parse_descriptor(name, texts[name])
            item = _items(name, read).get(bundle_id)
            kept = {**(read.get("bundles") or {}), "items": [item] if item else []}
            scoped[name] = render_document({**read, "bundles": kept})
    return scoped


def encode_payload(texts: Texts) -> dict[str, str]:
    """Return the variables that carry the descriptors. Secret, like their content."""
    return {
        form.payload: base64.b64encode(texts[form.name].encode()).decode()
        for form in FORMS
        if form.name in texts
    }


def decode_payload(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the descriptors in variables. Raises InputError `bad_descriptor`."""
    texts = {}
    for form in FORMS:
        if payload := variables.get(form.payload):
            try:
                texts[form.name] = base64.b64decode(payload, validate=True).decode()
            except (binascii.Error, ValueError):
                raise _bad(f"{form.payload} is no base64 of UTF-8 text") from None
    return texts


def _split(path: str, whole: Mapping[str, Any], bundle: Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
    return (bundle, path.removeprefix(OF_BUNDLE)) if path.startswith(OF_BUNDLE) else (whole, path)


def _items(name: str, read: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the items of a bundles descriptor by id."""
    bundles = read.get("bundles") or {}
    items = (bundles.get("items") or []) if isinstance(bundles, Mapping) else None
    if not isinstance(items, list):
        raise _bad(f"{name}: bundles.items is not a list")
    found: dict[str, Mapping[str, Any]] = {}
    for at, item in enumerate(items):
        key = item.get("id") if isinstance(item, Mapping) else None
        if not isinstance(key, str) or not key or key in found:
            raise _bad(f"{name}: bundles.items[{at}] has no id of its own")
        found[key] = item
    return found


def _part(name: str, item: Mapping[str, Any], *keys: str) -> Mapping[str, Any]:
    """Return the mapping under the item's key among `keys`."""
    said = [key for key in keys if item.get(key) is not None]
    if not said:
        return {}
    part = item[said[0]]
    if len(said) > 1 or not isinstance(part, Mapping):
        raise _bad(f"{name}: {' or '.join(keys)} of {item['id']!r} is not one mapping")
    return part


def _texts_only(name: str, secrets: Mapping[str, Any], above: str = "") -> Mapping[str, Any]:
    """Return the secrets if each is a string.

    YAML reads 0123 as a number and `no` as false: such a secret is an error.
    """
    for key, value in secrets.items():
        if isinstance(value, Mapping):
            _texts_only(name, value, f"{above}{key}.")
        elif value is not None and not isinstance(value, str):
            raise _bad(f"{name}: {above}{key} is not text; put it into quotes")
    return secrets


def _bad(message: str) -> InputError:
    return InputError(message, code="bad_descriptor")
