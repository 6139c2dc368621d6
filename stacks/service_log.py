"""Logs that services of AWS write by themselves: of executions that fail, and of requests to the gateways."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

import aws_cdk as cdk
import jsii
from aws_cdk import aws_apigateway
from aws_cdk import aws_apigatewayv2 as apigateway
from aws_cdk import aws_logs as logs
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from stacks.stage import Stage

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
queries, tokens in headers, and the address of a person who was erased would stay for a month."""


def log_executions(scope: Construct, stage: Stage) -> sfn.LogOptions | None:
    """Return the log of what fails in executions, without their data; None on stage `local`."""
    if stage.is_local:
        return None
    return sfn.LogOptions(
        destination=_group(scope, "MachineLogs", stage, "machine"),
        level=sfn.LogLevel.ERROR,
        include_execution_data=False,
    )


@jsii.implements(apigateway.IAccessLogSettings)
class AccessLog:
    """The access log of a gateway's stage, with these fields as JSON."""

    def __init__(self, scope: Construct, stage: Stage, name: str, fields: Mapping[str, str]) -> None:
        """Add its log group."""
        self._destination = apigateway.LogGroupLogDestination(
            _group(scope, f"{name.title()}AccessLogs", stage, name)
        )
        self._format = aws_apigateway.AccessLogFormat.custom(json.dumps(fields))

    @property
    def destination(self) -> apigateway.IAccessLogDestination:
        return self._destination

    @property
    def format(self) -> aws_apigateway.AccessLogFormat:
        return self._format


def _group(scope: Construct, construct: str, stage: Stage, name: str) -> logs.LogGroup:
    """Add a log group under the prefix of delivered logs.

    The policy by which services deliver into any other group names each of them, and is full after some tens.
    Source: docs.aws.amazon.com/AmazonCloudWatch, "Enable logging from AWS services".
    """
    return logs.LogGroup(
        scope,
        construct,
        log_group_name=f"/aws/vendedlogs/stepline/{stage.name}/{name}",
        retention=logs.RetentionDays.ONE_MONTH,
        removal_policy=cdk.RemovalPolicy.DESTROY,
    )
