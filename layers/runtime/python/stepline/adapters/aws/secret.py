"""Secrets Manager: one text, read on first use."""

from __future__ import annotations

from stepline.adapters.aws.client import connect
from stepline.adapters.aws.error import AWS_ERRORS
from stepline.errors import DependencyError


def secret_text(arn: str) -> str:
    """Return the secret's text; "" for no ARN. Raises DependencyError."""
    if not arn:
        return ""
    try:
        answer = connect("secretsmanager", read_timeout_s=5).get_secret_value(SecretId=arn)
    except AWS_ERRORS as error:
        raise DependencyError("a secret cannot be read", code="secret_unreadable") from error
    return str(answer["SecretString"])
