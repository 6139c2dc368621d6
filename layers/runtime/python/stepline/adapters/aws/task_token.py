"""The task's calls to AWS: heartbeats and the end by its task token, and reading and deleting its secret."""

from __future__ import annotations

import logging
from functools import cached_property
from typing import TYPE_CHECKING

from stepline.adapters.aws.client import connect
from stepline.adapters.aws.error import (
    AWS_ERRORS,
    NOBODY_WAITS,
    SECRET_ABSENT,
    SECRET_GOING,
    error_code,
    mapped,
    tolerated,
)
from stepline.errors import NotFoundError

if TYPE_CHECKING:
    from mypy_boto3_secretsmanager.client import SecretsManagerClient
    from mypy_boto3_stepfunctions.client import SFNClient

logger = logging.getLogger(__name__)


class AwsTaskToken:
    """Needs only the permissions of the task's own role, the only permissions in the task."""

    @cached_property
    def secrets(self) -> SecretsManagerClient:
        """The client for the handover's secret, created on first use."""
        client: SecretsManagerClient = connect("secretsmanager", read_timeout_s=5)
        return client

    @cached_property
    def states(self) -> SFNClient:
        """The client for the task token, created on first use."""
        client: SFNClient = connect("stepfunctions", read_timeout_s=10)
        return client

    def take(self, secret: str) -> str:
        with mapped(), tolerated(SECRET_ABSENT, SECRET_GOING):
            text = self.secrets.get_secret_value(SecretId=secret)["SecretString"]
            self._delete(secret)
            return text
        raise NotFoundError("the handover is gone")

    def beat(self, token: str) -> bool:
        with mapped(), tolerated(*NOBODY_WAITS):
            self.states.send_task_heartbeat(taskToken=token)
            return True
        return False

    def end(self, token: str) -> bool:
        with mapped(), tolerated(*NOBODY_WAITS):
            self.states.send_task_success(taskToken=token, output="{}")
            return True
        return False

    def _delete(self, secret: str) -> None:
        """Delete the secret after reading it.

        Two other processes delete it later, so a failure does not stop the run.
        """
        try:
            self.secrets.delete_secret(SecretId=secret, ForceDeleteWithoutRecovery=True)
        except AWS_ERRORS as error:
            logger.warning("handover not deleted", extra={"aws_code": error_code(error)})
