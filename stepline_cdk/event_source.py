"""Access for services of the account: one role for the named principals, and its settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from constructs import Construct

from stepline_cdk.access import Resources, statements
from stepline_cdk.stage import Stage

PRINCIPAL: Final = "events"
"""Its row in the table of rights."""


class EventSource(Construct):
    """A role for submitting events, its ARN, and the settings for the library."""

    def __init__(
        self,
        scope: Construct,
        name: str,
        *,
        stage: Stage,
        resources: Resources,
        environment: Mapping[str, str],
    ) -> None:
        """Let the stage's `event_source_principals` assume it. `environment` are the library's settings."""
        super().__init__(scope, name)
        callers = [iam.ArnPrincipal(arn) for arn in stage.event_source_principals]
        self.role = iam.Role(
            self,
            "Role",
            description="Assumed by services that submit events to conversations.",
            assumed_by=iam.CompositePrincipal(*callers),
            max_session_duration=cdk.Duration.hours(1),
        )
        for statement in statements(PRINCIPAL, resources):
            self.role.add_to_policy(statement)
        text = cdk.Stack.of(self).to_json_string(dict(environment))
        cdk.CfnOutput(scope, "EventSourceRoleArn", value=self.role.role_arn)
        cdk.CfnOutput(scope, "EventSourceEnvironment", value=text)
