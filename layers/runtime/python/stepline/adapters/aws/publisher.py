"""Frames to websocket connections, through API Gateway's callback."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from stepline.adapters.aws.client import connect
from stepline.adapters.aws.error import (
    AWS_ERRORS,
    CONNECTION_GONE,
    THROTTLED,
    error_code,
    map_error,
    mapped,
    tolerated,
)
from stepline.errors import DependencyError
from stepline.ports.channel import OVER_LIMIT

if TYPE_CHECKING:
    from mypy_boto3_apigatewaymanagementapi.client import ApiGatewayManagementApiClient

    from stepline.metering.ledger import Ledger


class GatewayPublisher:
    """One attempt per frame: the caller decides whether to wait for a slow client or to rely on its resume."""

    def __init__(self, endpoint: str, *, ledger: Ledger | None = None) -> None:
        """Post to `endpoint`, the URL of one stage of one websocket API; with a `ledger`, posts are counted there."""
        self._endpoint = endpoint
        self._ledger = ledger

    @cached_property
    def client(self) -> ApiGatewayManagementApiClient:
        """The client, created on first use."""
        client: ApiGatewayManagementApiClient = connect(
            "apigatewaymanagementapi",
            endpoint=self._endpoint,
            read_timeout_s=3,
            attempts=1,
            ledger=self._ledger,
        )
        return client

    def post(self, connection: str, frame: bytes) -> None:
        try:
            self.client.post_to_connection(ConnectionId=connection, Data=frame)
        except AWS_ERRORS as error:
            if error_code(error) not in THROTTLED:
                raise map_error(error) from error
            raise DependencyError("the gateway takes no more", code=OVER_LIMIT) from error

    def close(self, connection: str) -> None:
        with mapped(), tolerated(CONNECTION_GONE):
            self.client.delete_connection(ConnectionId=connection)
