"""The secrets of a stage's tools, as an operator sets and lists them: values go in, names and dates come out.

A name is a dotted path, such as `crm.token`. The date of each is a tag of its secret, so that a list reads no value.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from botocore.exceptions import BotoCoreError, ClientError

from stepline.bundle.descriptor_set import parse_stored
from stepline.bundle.property import look_up
from stepline.errors import DependencyError, InputError
from stepline.model.base import Value
from stepline.model.ids import DEFAULT_BUNDLE, FURTHER_BUNDLE, utc
from stepline.ports.descriptor import DEPLOYMENT, name_stage_secret, stage_secret_prefix

if TYPE_CHECKING:
    from stepline.ports.clock import Clock

NAMES_MAX: Final = 50
"""The most tags of a secret. Source: docs.aws.amazon.com/secretsmanager, "Tag secrets"."""
STORED_MAX_BYTES: Final = 65_536
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}(\.[A-Za-z0-9_-]{1,64}){0,5}")
_ABSENT: Final = "ResourceNotFoundException"


class SecretRow(Value):
    """A secret of a stage: its bundle ("" for the deployment), its name, and when it was set."""

    bundle: str
    name: str
    set_at: str


class SecretDesk:
    """The secrets of one stage, by a client of Secrets Manager."""

    def __init__(self, client: Any, stage: str, clock: Clock) -> None:
        """Use a boto3 client; no request is sent yet."""
        self._client, self._stage, self._clock = client, stage, clock

    def put(self, bundle: str, values: Mapping[str, str]) -> list[str]:
        """Set secrets of a bundle, or of the deployment; the others stay. Return the names whose value changed.

        Raises InputError `bad_secret`, DependencyError `secrets_refused`.
        """
        before = self._read(bundle)
        after = json.loads(json.dumps(before or {}))
        for name, value in values.items():
            _put_in(after, check_secret_name(name), value)
        changed = [name for name, value in values.items() if look_up(before or {}, name) != value]
        if changed:
            self._write(bundle, after, changed, is_new=before is None)
        return changed

    def remove(self, bundle: str, name: str) -> None:
        """Remove a secret; a bundle without any has none that costs. Raises as `put`, also if there is no such secret."""
        stored = self._read(bundle) or {}
        if not isinstance(look_up(stored, check_secret_name(name)), str):
            raise InputError(f"there is no secret {name} {render_owner(bundle)}", code="bad_secret")
        kept = {one: look_up(stored, one) for one in list_secret_names(stored) if one != name}
        after: dict[str, Any] = {}
        for one, value in kept.items():
            _put_in(after, one, value)
        secret = name_stage_secret(self._stage, check_secret_owner(bundle))
        with _refused():
            if not after:
                self._client.delete_secret(SecretId=secret, ForceDeleteWithoutRecovery=True)
                return
            self._client.put_secret_value(SecretId=secret, SecretString=_render(after))
            self._client.untag_resource(SecretId=secret, TagKeys=[name])

    def rows(self) -> list[SecretRow]:
        """Return all secrets of the stage, without their values. Raises DependencyError `secrets_refused`."""
        prefix = stage_secret_prefix(self._stage)
        with _refused():
            pages = self._client.get_paginator("list_secrets").paginate(
                Filters=[{"Key": "name", "Values": [prefix]}]
            )
            found = [one for page in pages for one in page["SecretList"] if one["Name"].startswith(prefix)]
        rows = [
            SecretRow(
                bundle=_owner_of(one["Name"].removeprefix(prefix)), name=tag["Key"], set_at=tag["Value"]
            )
            for one in found
            for tag in one.get("Tags", [])
            if _NAME.fullmatch(tag["Key"])
        ]
        return sorted(rows, key=lambda row: (row.bundle, row.name))

    def _read(self, bundle: str) -> Mapping[str, Any] | None:
        """Return the stored secrets of an owner; None without a secret."""
        with _refused():
            try:
                answer = self._client.get_secret_value(
                    SecretId=name_stage_secret(self._stage, check_secret_owner(bundle))
                )
            except ClientError as error:
                if error.response["Error"]["Code"] == _ABSENT:
                    return None
                raise
        return parse_stored(answer["SecretString"])

    def _write(self, bundle: str, secrets: Mapping[str, Any], names: list[str], *, is_new: bool) -> None:
        if len(list_secret_names(secrets)) > NAMES_MAX:
            raise InputError(f"{render_owner(bundle)} there can be {NAMES_MAX} secrets", code="bad_secret")
        secret, text = name_stage_secret(self._stage, bundle), _render(secrets)
        tags = [{"Key": name, "Value": utc(self._clock.now())} for name in names]
        with _refused():
            if is_new:
                self._client.create_secret(Name=secret, SecretString=text, Tags=tags)
                return
            self._client.put_secret_value(SecretId=secret, SecretString=text)
            self._client.tag_resource(SecretId=secret, Tags=tags)


def check_secret_name(name: str) -> str:
    """Return the name of a secret. Raises InputError `bad_secret`."""
    if not _NAME.fullmatch(name):
        raise InputError(
            f"{name[:80]!r} is no name of a secret: letters, digits, _ and -, in parts that dots separate, like crm.token",
            code="bad_secret",
        )
    return name


def check_secret_owner(bundle: str) -> str:
    """Return the name of a bundle, or of the deployment. Raises InputError `bad_secret`."""
    if bundle not in (DEPLOYMENT, DEFAULT_BUNDLE) and not FURTHER_BUNDLE.fullmatch(bundle):
        raise InputError(f"{bundle[:80]!r} is no name of a bundle of a stage", code="bad_secret")
    return bundle


def list_secret_names(secrets: Mapping[str, Any], above: str = "") -> list[str]:
    """Return the dotted names of secrets."""
    found = []
    for key, value in secrets.items():
        found += (
            list_secret_names(value, f"{above}{key}.") if isinstance(value, Mapping) else [f"{above}{key}"]
        )
    return found


def render_owner(bundle: str) -> str:
    """Return whose secrets these are, for a message."""
    return f"of bundle {bundle}" if bundle else "of the deployment"


def _owner_of(path: str) -> str:
    return path.removeprefix("bundle/") if path.startswith("bundle/") else DEPLOYMENT


def _put_in(secrets: dict[str, Any], name: str, value: str) -> None:
    *parts, last = name.split(".")
    for part in parts:
        secrets = secrets.setdefault(part, {})
        if not isinstance(secrets, dict):
            raise InputError(f"{name}: {part} is a secret itself; remove it first", code="bad_secret")
    if isinstance(secrets.get(last), dict):
        raise InputError(f"{name} has secrets below it; remove them first", code="bad_secret")
    secrets[last] = value


def _render(secrets: Mapping[str, Any]) -> str:
    text = json.dumps(secrets, ensure_ascii=False)
    if len(text.encode()) > STORED_MAX_BYTES:
        raise InputError(f"the secrets together have more than {STORED_MAX_BYTES} bytes", code="bad_secret")
    return text


@contextmanager
def _refused() -> Iterator[None]:
    """Raise errors of AWS as ours, without the value that was sent."""
    try:
        yield
    except ClientError as error:
        raise DependencyError(
            f"Secrets Manager refused {error.operation_name}: {error.response['Error']['Code']}",
            code="secrets_refused",
        ) from None
    except BotoCoreError as error:
        raise DependencyError(
            f"Secrets Manager does not answer: {type(error).__name__}", code="secrets_refused"
        ) from None
