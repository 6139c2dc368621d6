"""The way in for services of the account: one role that those who are named may take, and what they need to know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from constructs import Construct

from stacks.access import Resources, statements
from stacks.stage import Stage

PRINCIPAL: Final = "events"
"""Its row in the table of rights."""


class EventSource(Construct):
    """A role for submitting events, the role's ARN, and the settings that its takers hand to the library."""

    def __init__(
        self,
        scope: Construct,
        name: str,
        *,
        stage: Stage,
        resources: Resources,
        environment: Mapping[str, str],
    ) -> None:
        """Let the stage's `event_source_principals` take it. `environment` is what the library asks for."""
        super().__init__(scope, name)
        callers = [iam.ArnPrincipal(arn) for arn in stage.event_source_principals]
        self.role = iam.Role(
            self,
            "Role",
            description="Taken by services that tell conversations what happened.",
            assumed_by=iam.CompositePrincipal(*callers),
            max_session_duration=cdk.Duration.hours(1),
        )
        for statement in statements(PRINCIPAL, resources):
            self.role.add_to_policy(statement)
        stack = cdk.Stack.of(self)
        cdk.CfnOutput(stack, "EventSourceRoleArn", value=self.role.role_arn)
        cdk.CfnOutput(stack, "EventSourceEnvironment", value=stack.to_json_string(dict(environment)))
