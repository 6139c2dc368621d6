"""Maps AWS errors to ours: one table of codes, by how certain it is that nothing was written.

    throttled   rejected before any effect                     → DependencyError
    unsettled   contended, or lost by the service               → DependencyError, or UnknownOutcome for a fenced put
    refused     our error, or the deployment's: never retried   → SteplineError `internal`
    no answer   connection, timeout, broken body                → like unsettled

Answers about our data (a condition failed, an execution exists) are handled by the adapter that made the
call. A test checks every modelled exception of every operation that we use, and fails for one that is missing here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, Final, TypeAlias

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectionError,  # noqa: A004 -- botocore's own, the base of its connection errors
    CredentialRetrievalError,
    HTTPClientError,
    IncompleteReadError,
)

from stepline.errors import DependencyError, Gone, LimitError, NotFoundError, SteplineError, UnknownOutcome

AwsError: TypeAlias = ClientError | BotoCoreError
AWS_ERRORS: Final = (ClientError, BotoCoreError)

Item: TypeAlias = dict[str, Any]
"""Attributes by name, in DynamoDB's own notation: `{"n": {"N": "7"}}`."""

THROTTLED: Final = frozenset(
    {
        "ExecutionLimitExceeded",
        "KmsThrottlingException",
        "LimitExceededException",  # a post: the account's rate, or the buffer of one slow client
        "ModelNotReadyException",  # an embedding: Bedrock's own client has retried
        "ProvisionedThroughputExceeded",  # in the reasons of a cancelled transaction
        "ProvisionedThroughputExceededException",
        "RequestLimitExceeded",
        "ServiceQuotaExceededException",  # an embedding: retry later; a vector: raise the account's quota
        "SlowDown",
        "Throttling",
        "ThrottlingError",  # in the reasons of a cancelled transaction
        "ThrottlingException",
        "TooManyRequestsException",
    }
)
UNSETTLED: Final = frozenset(
    {
        "ConditionalRequestConflict",  # S3: another conditional put of this key is under way
        "InternalServerError",
        "InternalServerException",
        "InternalServiceError",
        "InvalidRequestException",  # a secret of this name is being deleted
        "ModelErrorException",
        "ModelTimeoutException",
        "ReplicatedWriteConflictException",
        "RequestTimeout",
        "RequestTimeoutException",
        "ServerException",
        "ServiceUnavailableException",
        "TransactionConflict",  # in the reasons of a cancelled transaction
        "TransactionConflictException",
        "TransactionInProgressException",
    }
)
REFUSED: Final = frozenset(
    {
        "AccessDeniedException",
        "ClientException",
        "ClusterNotFoundException",
        "DecryptionFailure",
        "EncryptionFailure",
        "EncryptionTypeMismatch",
        "ForbiddenException",
        "IdempotentParameterMismatchException",
        "InvalidArn",
        "InvalidExecutionInput",
        "InvalidName",
        "InvalidObjectState",
        "InvalidOutput",
        "InvalidParameterException",
        "InvalidRequest",
        "InvalidWriteOffset",
        "ItemCollectionSizeLimitExceededException",
        "KmsAccessDeniedException",
        "KmsDisabledException",
        "KmsInvalidKeyUsageException",
        "KmsInvalidStateException",
        "KmsNotFoundException",
        "MalformedPolicyDocumentException",
        "NoSuchBucket",
        "PreconditionNotMetException",
        "ResourceNotFound",  # of Step Functions: no such state machine
        "ResourceNotFoundException",
        "ServiceNotFoundException",
        "StateMachineDeleting",
        "StateMachineDoesNotExist",
        "StateMachineTypeNotSupported",
        "TooManyParts",
        "ValidationException",
    }
)
OURS: Final[Mapping[str, type[SteplineError]]] = {
    **dict.fromkeys(THROTTLED | UNSETTLED, DependencyError),
    **dict.fromkeys(REFUSED, SteplineError),
    "GoneException": Gone,
    "NoSuchKey": NotFoundError,
    "PayloadTooLargeException": LimitError,
}

CONDITION_FAILED: Final = "ConditionalCheckFailedException"
CONNECTION_GONE: Final = "GoneException"
TRANSACTION_CANCELLED: Final = "TransactionCanceledException"
INDEX_EXISTS: Final = "ConflictException"
INDEX_ABSENT: Final = "NotFoundException"
CONDITION_CODE: Final = "ConditionalCheckFailed"
"""A failed condition, in the reasons of a cancelled transaction."""
EXECUTION_EXISTS: Final = "ExecutionAlreadyExists"
EXECUTION_ABSENT: Final = "ExecutionDoesNotExist"
OBJECT_EXISTS: Final = "PreconditionFailed"
OBJECT_ABSENT: Final = "404"  # of a HEAD, whose answer has no body with details
SECRET_EXISTS: Final = "ResourceExistsException"  # noqa: S105 - a code
SECRET_ABSENT: Final = "ResourceNotFoundException"  # noqa: S105 - a code
SECRET_GOING: Final = "InvalidRequestException"  # noqa: S105 - a code
NOBODY_WAITS: Final = ("TaskTimedOut", "TaskDoesNotExist", "InvalidToken")
"""For a task token: its state has moved on, has ended, or never existed."""

_NO_ANSWER: Final = (ConnectionError, CredentialRetrievalError, HTTPClientError, IncompleteReadError)


def error_code(error: AwsError) -> str:
    """Return the service's code, or the name of botocore's exception without an answer."""
    return str(error.response["Error"]["Code"]) if isinstance(error, ClientError) else type(error).__name__


def map_error(error: AwsError) -> SteplineError:
    """Map the failure of a read, or of a write that may be repeated."""
    code = error_code(error)
    kind = OURS.get(code) or (DependencyError if _is_passing(error) else SteplineError)
    return kind(f"AWS answered {code}", aws_code=code)


def map_fenced_error(error: AwsError) -> SteplineError:
    """Map the failure of a put that may have been applied.

    Only a throttle on the first attempt proves that nothing was written: before a later one, an attempt whose answer
    was lost may have been applied.
    """
    ours = map_error(error)
    if not isinstance(ours, DependencyError) or is_untouched(error):
        return ours
    return UnknownOutcome("the batch may have been written, or not", aws_code=error_code(error))


def is_untouched(error: AwsError) -> bool:
    """Return True if the service rejected the very first attempt."""
    if not isinstance(error, ClientError) or error.response["ResponseMetadata"].get("RetryAttempts", 0):
        return False
    return set(_codes(error)) <= THROTTLED


def failed_items(error: AwsError) -> list[Item | None]:
    """Return the items at failed conditions, one entry per action of the call; empty for another error.

    The calls must request them with `ReturnValuesOnConditionCheckFailure=ALL_OLD`.
    """
    if not isinstance(error, ClientError):
        return []
    response: Mapping[str, Any] = error.response
    if error_code(error) == CONDITION_FAILED:
        return [response.get("Item")]
    return [
        reason.get("Item") if reason.get("Code") == CONDITION_CODE else None
        for reason in response.get("CancellationReasons", [])
    ]


def cancelled_by(error: AwsError, code: str) -> frozenset[int]:
    """Return the positions of the actions that cancelled a transaction with this code."""
    if not isinstance(error, ClientError):
        return frozenset()
    response: Mapping[str, Any] = error.response
    reasons = enumerate(response.get("CancellationReasons", []))
    return frozenset(at for at, reason in reasons if reason.get("Code") == code)


def _is_passing(error: AwsError) -> bool:
    if not isinstance(error, ClientError):
        return isinstance(error, _NO_ANSWER)
    is_lost = error.response["ResponseMetadata"].get("HTTPStatusCode", 0) >= HTTPStatus.INTERNAL_SERVER_ERROR
    return is_lost or not THROTTLED.isdisjoint(_codes(error)) or not UNSETTLED.isdisjoint(_codes(error))


def _codes(error: ClientError) -> list[str]:
    """Return the error's code, or the codes of a cancelled transaction's reasons."""
    response: Mapping[str, Any] = error.response
    reasons = [reason.get("Code", "None") for reason in response.get("CancellationReasons", [])]
    return [code for code in reasons if code != "None"] or [error_code(error)]


@contextmanager
def mapped() -> Iterator[None]:
    """Raise AWS errors as ours."""
    try:
        yield
    except AWS_ERRORS as error:
        raise map_error(error) from error


class tolerated:  # noqa: N801 -- reads like contextlib.suppress, which it is for codes
    """Suppresses errors with these codes, which are expected answers in the block."""

    def __init__(self, *codes: str) -> None:
        self._codes = codes

    def __enter__(self) -> None:
        """Enter the block."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        """Return True for an error with one of the codes."""
        return isinstance(error, ClientError) and error_code(error) in self._codes
