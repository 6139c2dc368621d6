"""Reasons why a row cannot be run: a right that this machine lacks, or a service that the stage does not have."""

from __future__ import annotations

from typing import Final

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    EndpointConnectionError,
    NoAuthTokenError,
    NoCredentialsError,
    PartialCredentialsError,
    SSOError,
    TokenRetrievalError,
    UnknownServiceError,
)

from stepline.errors import SteplineError
from stepline.local.cloud.account import aws_error_code, is_denied
from stepline.local.proof.proved_stage import NotRunError

_CREDENTIALS: Final = (
    CredentialRetrievalError,
    NoAuthTokenError,
    NoCredentialsError,
    PartialCredentialsError,
    SSOError,
    TokenRetrievalError,
)
_SERVICE: Final = (EndpointConnectionError, UnknownServiceError)
_REFUSED: Final = frozenset(
    {"ExpiredToken", "ExpiredTokenException", "InvalidClientTokenId", "UnrecognizedClientException"}
)
_ABSENT: Final = frozenset(
    {"400", "404", "501", "InvalidAction", "NotImplemented", "OptInRequired", "SubscriptionRequiredException"}
    | {"UnknownOperationException"}
)
"""Codes for a service or a call that is not there; a number is a response without a code, as of an emulator."""
ACCOUNT: Final = "cloud_account"
"""The code of our own errors for a profile or a region that does not exist."""


def find_obstacle(error: Exception) -> str:
    """Return the reason why a row cannot be run, "" if the error is a result of it."""
    if isinstance(error, NotRunError):
        return str(error)
    if isinstance(error, ClientError):
        return _find_refusal(error)
    if isinstance(error, _SERVICE):
        return f"the service does not answer: {error}"
    credentials = isinstance(error, BotoCoreError) and isinstance(error, _CREDENTIALS)
    if credentials or (isinstance(error, SteplineError) and error.reason == ACCOUNT):
        return f"this machine has no credentials of the account: {error}"
    return ""


def _find_refusal(error: ClientError) -> str:
    code, call = aws_error_code(error), error.operation_name
    if is_denied(error):
        return f"this machine's credentials may not call {call}"
    if code in _REFUSED:
        return f"this machine's credentials are refused: {code}"
    return f"the stage does not have {call}" if code in _ABSENT else ""
