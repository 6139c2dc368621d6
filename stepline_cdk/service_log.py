"""Logs that AWS services write: of failed executions, and of requests to the gateways."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

import jsii
from aws_cdk import aws_apigateway
from aws_cdk import aws_apigatewayv2 as apigateway
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from stepline_cdk.log_group import add_log_group
from stepline_cdk.stage import Stage

_COMMON: Final = {
    "time": "$context.requestTime",
    "request": "$context.requestId",
    "route": "$context.routeKey",
    "status": "$context.status",
    "error": "$context.error.responseType",
    "refused": "$context.authorizer.error",
    "integration_ms": "$context.integrationLatency",
    "integration_error": "$context.integrationErrorMessage",
}
HTTP_FIELDS: Final = {
    **_COMMON,
    "ms": "$context.responseLatency",
    "bytes": "$context.responseLength",
}
SOCKET_FIELDS: Final = {**_COMMON, "event": "$context.eventType", "connection": "$context.connectionId"}
"""The fields of a line. None has a path, a query, a header or an address: names of files are users' text, tickets are in
queries, tokens in headers, and the address of a person who was erased would stay with the log."""


def log_executions(scope: Construct, stage: Stage) -> sfn.LogOptions | None:
    """Return the log of failures in executions, without their data; None on stage `local`."""
    if stage.is_local:
        return None
    return sfn.LogOptions(
        destination=add_log_group(scope, "MachineLogs", stage, "machine", delivered=True),
        level=sfn.LogLevel.ERROR,
        include_execution_data=False,
    )


@jsii.implements(apigateway.IAccessLogSettings)
class AccessLog:
    """The access log of a gateway's stage, with these fields as JSON."""

    def __init__(self, scope: Construct, stage: Stage, name: str, fields: Mapping[str, str]) -> None:
        """Add its log group."""
        self._destination = apigateway.LogGroupLogDestination(
            add_log_group(scope, f"{name.title()}AccessLogs", stage, name, delivered=True)
        )
        self._format = aws_apigateway.AccessLogFormat.custom(json.dumps(fields))

    @property
    def destination(self) -> apigateway.IAccessLogDestination:
        return self._destination

    @property
    def format(self) -> aws_apigateway.AccessLogFormat:
        return self._format
