"""Secrets Manager: one text, read on first use; and the secrets of a stage's tools, read again after some minutes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepline.adapters.aws.client import connect
from stepline.adapters.aws.error import AWS_ERRORS, SECRET_ABSENT, SECRET_GOING
from stepline.errors import DependencyError

if TYPE_CHECKING:
    from stepline.ports.clock import Clock

FRESH_S: Final = 300.0
"""After this time a text is read again: a new secret is used within five minutes."""


def secret_text(arn: str) -> str:
    """Return the secret's text; "" for no ARN, or a secret without text. Raises DependencyError."""
    if not arn:
        return ""
    try:
        answer = connect("secretsmanager", read_timeout_s=5).get_secret_value(SecretId=arn)
    except AWS_ERRORS as error:
        raise DependencyError("a secret cannot be read", code="secret_unreadable") from error
    return str(answer.get("SecretString", ""))


class StoredSecrets:
    """The secrets of a stage's tools (`StageSecrets`). Any thread may use it."""

    def __init__(self, stage: str, clock: Clock) -> None:
        """Read the secrets of this stage; nothing is read yet."""
        self._stage, self._clock = stage, clock
        self._known: dict[str, tuple[str, float]] = {}

    def read(self, bundle: str) -> str:
        now = self._clock.monotonic_s()
        text, until = self._known.get(bundle, ("", now))
        if until <= now:
            from stepline.ports.descriptor import name_stage_secret  # noqa: PLC0415 - the authorizer reads none

            text = self._read(name_stage_secret(self._stage, bundle))
            self._known[bundle] = (text, now + FRESH_S)
        return text

    def _read(self, name: str) -> str:
        try:
            return secret_text(name)
        except DependencyError as error:
            if _is_absent(error.__cause__):
                return ""
            raise


def _is_absent(error: BaseException | None) -> bool:
    """Return True if no such secret exists, or it is being deleted."""
    code = getattr(error, "response", {}).get("Error", {}).get("Code", "")
    return code in (SECRET_ABSENT, SECRET_GOING)
