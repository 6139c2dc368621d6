"""An AWS account under the current credentials, and checks that report a refusal as a result."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Final

from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, ProfileNotFound

from stepline.errors import AuthError, InputError
from stepline.local.check import Check, failed
from stepline.local.stage.deployed import install_environment

_DENIED: Final = frozenset(
    {"AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "NotAuthorizedException", "Forbidden"}
)
CREDENTIALS_REMEDY: Final = "sign in (`aws sso login --profile NAME`, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY) and add --profile NAME"


class AwsAccount:
    """One identity in one region."""

    def __init__(self, session: Any, profile: str = "") -> None:
        """Use a boto3 session; no request is sent yet."""
        self.session = session
        self.profile = profile
        self.region: str = session.region_name
        self._clients: dict[str, Any] = {}

    def client(self, service: str) -> Any:
        """Return the client of a service, with short timeouts; clients are cached."""
        if service not in self._clients:
            config = Config(connect_timeout=5, read_timeout=20, retries={"mode": "standard"})
            self._clients[service] = self.session.client(service, config=config)
        return self._clients[service]

    def environment(self) -> dict[str, str]:
        """Return the environment a child process needs to act in this account and region."""
        place = {"AWS_REGION": self.region, "AWS_DEFAULT_REGION": self.region}
        named = {"AWS_PROFILE": self.profile} if self.profile else {}
        return {**install_environment(), **place, **named, "CDK_DISABLE_CLI_TELEMETRY": "true"}


def open_account(profile: str = "", region: str = "") -> AwsAccount:
    """Return the account of a profile, or of the ambient credentials.

    Raises:
        AuthError: `cloud_account`, the profile does not exist.
        InputError: `cloud_account`, no region is configured.
    """
    import boto3

    # The CDK reads the first variable, boto3 the second: both must see the same region.
    region = region or os.environ.get("AWS_REGION", "")  # noqa: TID251 - AWS's own variable, not a setting of Stepline
    try:
        session = boto3.Session(profile_name=profile or None, region_name=region or None)
    except ProfileNotFound as error:
        raise AuthError(
            f"there is no profile {profile!r}: `aws configure list-profiles` lists them", code="cloud_account"
        ) from error
    if not session.region_name:
        raise InputError("a region is needed: add --region, for example eu-central-1", code="cloud_account")
    return AwsAccount(session, profile)


def look(name: str, action: str, question: Callable[[], Check], *, vital: bool = True) -> Check:
    """Run a check. A denied permission gives `unknown`, any other error of AWS a failure.

    `action` is the permission the check needs. For a check that is not `vital`, an error gives `unknown` too.
    """
    try:
        return question()
    except ClientError as error:
        if is_denied(error):
            return Check(
                name=name, ok=True, note="unknown", detail="permission denied", remedy=f"allow {action}"
            )
        return Check(
            name=name,
            ok=not vital,
            note="" if vital else "unknown",
            detail=str(error),
            remedy=f"check the answer of {action}",
        )
    except BotoCoreError as error:
        return failed(name, str(error), CREDENTIALS_REMEDY)


def is_denied(error: Any) -> bool:
    """Return True if AWS refuses a call for want of a permission."""
    return aws_error_code(error) in _DENIED


def aws_error_code(error: Any) -> str:
    """Return AWS's error code, "" for an error without a response."""
    return str(getattr(error, "response", {}).get("Error", {}).get("Code", ""))
